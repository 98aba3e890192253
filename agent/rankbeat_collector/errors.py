"""What can go wrong in the collector, as values."""


class SettingsError(ValueError):
    """A setting that the collector cannot start with."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class RefusedError(ValueError):
    """A file or folder of a pod that is not read. reason: one of model.ranks.REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WatchEndedError(ConnectionError):
    """The API server ended a watch with an error, for example because its resource version is too old."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"watch of pods ended with {code}: {message}")
        self.code = code


class RejectedError(ConnectionError):
    """The aggregator answered a report with something other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"aggregator answered {status}: {message}")
        self.status = status
