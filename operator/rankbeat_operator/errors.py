"""Errors of the operator."""


class InvalidFleetError(ValueError):
    """fleet.yaml does not say what to install."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} of fleet.yaml {reason}")
        self.field = field
        self.reason = reason


class ApiError(OSError):
    """The API server refused a request, or did not answer it.

    status: HTTP status, 0 if there was no answer.
    """

    def __init__(self, request: str, status: int, reason: str) -> None:
        super().__init__(f"{request}: {status or 'no answer'}: {reason}")
        self.request = request
        self.status = status
        self.reason = reason


class AggregatorError(ConnectionError):
    """The aggregator gave no verdicts."""
