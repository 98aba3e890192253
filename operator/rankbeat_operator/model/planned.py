"""The sampling that a monitor's ConfigMap holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampling:
    """interval_steps: 0 is auto."""

    interval_steps: int
    dense_first_steps: int


@dataclass(frozen=True, slots=True)
class Change:
    """From from_step on the new sampling holds, before it previous.

    run: the attempt of the job whose steps these are; those of another attempt begin anew.
    """

    from_step: int
    previous: Sampling
    run: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What the ConfigMap holds, or is to hold."""

    sampling: Sampling
    change: Change | None = None
