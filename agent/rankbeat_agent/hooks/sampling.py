"""Which steps are sampled: a rule of the global step alone, so that all ranks sample the same ones."""

from typing import NamedTuple, Optional

POINTS = 200
"""Samples of a whole run where the monitor leaves the interval to us (sampling, `interval: auto`)."""
AUTO = 0


class Sampling(NamedTuple):
    """Every interval_steps-th global step, and all of the first dense_first_steps."""

    interval_steps: int = AUTO
    """AUTO until settled()."""
    dense_first_steps: int = 100

    def settled(self, total_steps: int) -> "Sampling":
        """With AUTO replaced by what gives about POINTS samples of total_steps; 1 where the length is unknown."""
        return self if self.interval_steps else Sampling(max(1, total_steps // POINTS), self.dense_first_steps)

    def next_step(self, step: int) -> int:
        """The first sampled step after step: where floor(step / interval) changes, the same on all ranks."""
        if step < self.dense_first_steps:
            return step + 1
        return (step // self.interval_steps + 1) * self.interval_steps


class Change(NamedTuple):
    """Another sampling from a global step on."""

    from_step: int
    previous: Sampling


class Rule(NamedTuple):
    """A settled sampling, and what holds before its first step."""

    sampling: Sampling
    change: Optional[Change] = None

    def next_step(self, step: int) -> int:
        """The first sampled step after step."""
        if self.change is not None and step + 1 < self.change.from_step:
            following = self.change.previous.next_step(step)
            if following < self.change.from_step:
                return following
            step = self.change.from_step - 1
        return self.sampling.next_step(step)


def rule(wanted: Sampling, change: Optional[Change], total_steps: int) -> Rule:
    """What the configuration asks for, for a train() call of total_steps (0: unknown)."""
    if change is not None:
        change = Change(change.from_step, change.previous.settled(total_steps))
    return Rule(wanted.settled(total_steps), change)
