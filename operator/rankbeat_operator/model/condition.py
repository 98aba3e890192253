"""One condition of a monitor."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. status: True, False or Unknown, as the API writes it."""

    type: str
    status: str
    reason: str
    message: str
