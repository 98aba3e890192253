"""What can go wrong at the aggregator's edge."""


class InvalidReport(ValueError):  # noqa: N818 - a noun, as the project names its errors
    """A report that breaks the interface."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class ReviewUnavailable(ConnectionError):  # noqa: N818 - a noun, as the project names its errors
    """The API server did not answer a TokenReview in time, and no cached identity is young enough."""


class Forbidden(PermissionError):  # noqa: N818 - a noun, as the project names its errors
    """A caller that is known, or cannot be known, and may not do what it asked for."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
