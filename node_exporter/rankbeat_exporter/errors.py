"""What can go wrong in the exporter, with its data as attributes."""

from __future__ import annotations


class CannotMeasure(RuntimeError):  # noqa: N818
    """A source gave no measurement; reason is a short CamelCase word for a label, detail is for the log."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class InvalidPacket(ValueError):  # noqa: N818
    """An NTP answer that must not be believed; reason as for CannotMeasure."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class InvalidSnapshot(ValueError):  # noqa: N818
    """What the vendor part sent is no snapshot; field says where."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"vendor snapshot: {field} {reason}")
        self.field = field
        self.reason = reason


class InvalidConfiguration(ValueError):  # noqa: N818
    """A configuration that cannot be followed; field says where, reason what is wrong and what to write."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"configuration: {field} {reason}")
        self.field = field
        self.reason = reason
