"""What can go wrong in the collector, as values."""


class SettingsError(ValueError):
    """A setting that the collector cannot start with. trouble: one of rankbeat_contract.outputs.TROUBLES."""

    def __init__(self, field: str, reason: str, trouble: str = "settings") -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
        self.trouble = trouble


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


class DecryptionError(ValueError):
    """An encrypted file that cannot be read with this key, or was changed."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason


class AuditError(ValueError):
    """An audit log whose chain is broken. line: number of the first line that does not follow, from 1."""

    def __init__(self, name: str, line: int, reason: str) -> None:
        super().__init__(f"{name}:{line} {reason}")
        self.name = name
        self.line = line
        self.reason = reason


class MonitorError(RuntimeError):
    """A custom monitor gave back something other than numbers by name."""
