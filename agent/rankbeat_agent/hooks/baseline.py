"""Mean and standard deviation of the first numbers of a run, in constant memory."""

import math

COUNT = 100
"""Numbers that a baseline is taken over."""


class Baseline:
    """A running mean and deviation (Welford) of the first COUNT finite numbers."""

    __slots__ = ("count", "mean", "squares")

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = 0.0

    @property
    def is_whole(self) -> bool:
        return self.count >= COUNT

    @property
    def deviation(self) -> float:
        """Standard deviation of the population so far."""
        return math.sqrt(self.squares / self.count) if self.count else math.nan

    def take(self, value: float) -> bool:
        """Take one more number unless the baseline is whole; whether this one made it so."""
        if self.count >= COUNT or not math.isfinite(value):
            return False
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)
        return self.count == COUNT
