"""What is known about a node's clock, and what is decided from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

NO_SERVERS = "NoServers"
STARTING = "Starting"
STALE = "Stale"
QUORUM = "Quorum"
NO_QUORUM = "NoQuorum"
DISAGREE = "Disagree"
UNREACHABLE = "Unreachable"
OFFSET_TOO_LARGE = "OffsetTooLarge"
ERROR_TOO_LARGE = "ErrorBoundTooLarge"
KERNEL = "KernelSynchronised"
KERNEL_UNSYNCHRONISED = "KernelUnsynchronised"
KERNEL_ERROR_TOO_LARGE = "KernelErrorTooLarge"
CHRONY = "ChronySynchronised"
CHRONY_UNSYNCHRONISED = "ChronyUnsynchronised"
CHRONY_ERROR_TOO_LARGE = "ChronyErrorTooLarge"
LEAP_SECOND = "LeapSecond"
"""Off by no more than a second while a leap second is near: trusted with a bound that holds the second."""

# A server's own reasons; those of a packet stand in parsing.ntp.
SERVER_VALID = "Valid"
SERVER_DISAGREES = "Disagrees"
SERVER_DUPLICATE = "Duplicate"
SERVER_EXPIRED = "Expired"
SERVER_STARTING = "Starting"
TIMEOUT = "Timeout"
UNRESOLVED = "Unresolved"
REFUSED = "Refused"
NETWORK_ERROR = "NetworkError"
CLOCK_STEPPED = "ClockStepped"
RATE_LIMITED = "KissRATE"
STEP_TOLERANCE_SECONDS = 0.001
"""CLOCK_REALTIME and CLOCK_MONOTONIC are slewed alike: only a step parts them, or a thread preempted between reads."""
UNREACHABLES = frozenset({TIMEOUT, UNRESOLVED, REFUSED, NETWORK_ERROR})
SILENCES = UNREACHABLES | {CLOCK_STEPPED, RATE_LIMITED}
"""Reasons that say nothing against the server's time: its last samples may still be used while they are fresh."""
LEAP_SECONDS = 1.0


Moment = tuple[float, float]
"""Wall and monotonic seconds of one instant."""


def step_seconds(earlier: Moment, later: Moment) -> float:
    """By how much the wall clock was set between the two; 0 where it was only slewed."""
    step = (later[0] - earlier[0]) - (later[1] - earlier[1])
    return step if abs(step) > STEP_TOLERANCE_SECONDS else 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One believable answer of a server.

    offset_seconds: the server's clock minus this node's. error_bound_seconds: the largest error that the answer admits
    (half the round trip and the server's own root distance). address: who answered, to tell one server with two names.
    leap_is_announced: the server says that this day ends with a leap second.
    """

    offset_seconds: float
    delay_seconds: float
    error_bound_seconds: float
    stratum: int
    address: str
    leap_is_announced: bool = False


@dataclass(frozen=True, slots=True)
class ServerState:
    """A configured server after a round: its newest sample, age_seconds old at the round's end, and how the round went.

    sample is None where there is none to use; reason is SERVER_VALID where this round gave the sample.
    """

    server: str
    reason: str
    sample: Sample | None = None
    age_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class KernelClock:
    """What adjtimex(2) says. offset_seconds is None where the kernel's number cannot be true.

    error_bound_seconds: max_error_seconds, or less where an earlier answer proves less (parsing.kernel.with_history).
    leap_is_announced: the kernel is about to insert or delete a second, or has just done so.
    """

    is_synchronised: bool
    max_error_seconds: float
    estimated_error_seconds: float
    offset_seconds: float | None
    error_bound_seconds: float
    leap_is_announced: bool = False


@dataclass(frozen=True, slots=True)
class ChronyClock:
    """What the node's chronyd says of the clock that it disciplines; reason is empty where it has a reference.

    offset_seconds: true time minus the clock's; error_bound_seconds: root dispersion and half the root delay.
    """

    reason: str
    offset_seconds: float
    error_bound_seconds: float
    stratum: int
    leap_is_announced: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """All that one round found; kernel and chrony are None where they could not be read. Ages count from here.

    leap_is_near: within a day of an announcement, by more than half of the servers, the kernel or chrony.
    """

    servers: tuple[ServerState, ...] = ()
    kernel: KernelClock | None = None
    chrony: ChronyClock | None = None
    leap_is_near: bool = False


def after_step(observation: Observation, by_seconds: float) -> Observation:
    """What the observation says once this node's wall clock was set forward by by_seconds: offsets shrink by as much.

    The words of kernel and chrony were given before the step and say nothing now.
    """
    servers = tuple(replace(state, sample=sample_after_step(state.sample, by_seconds)) for state in observation.servers)
    return Observation(servers, leap_is_near=observation.leap_is_near)


def sample_after_step(sample: Sample | None, by_seconds: float) -> Sample | None:
    """The sample, its offset as it is after the step."""
    return None if sample is None else replace(sample, offset_seconds=sample.offset_seconds - by_seconds)


@dataclass(frozen=True, slots=True)
class ClockLimits:
    """Up to where a clock is trusted. fresh_seconds: how old a sample or an observation may be."""

    offset_seconds: float = 0.05
    error_bound_seconds: float = 0.1
    fresh_seconds: float = 108.0


@dataclass(frozen=True, slots=True)
class ServerVerdict:
    """Whether a server took part in the quorum, or why not."""

    server: str
    is_valid: bool
    reason: str
    sample: Sample | None = None


@dataclass(frozen=True, slots=True)
class ClockVerdict:
    """Whether the node's clock is trusted, by what (sntp, chrony, kernel, None) and why; unknown figures are None.

    The true time lies within offset_seconds plus or minus error_bound_seconds of this node's clock.
    """

    is_trusted: bool
    reason: str
    source: str | None = None
    offset_seconds: float | None = None
    error_bound_seconds: float | None = None
    servers: tuple[ServerVerdict, ...] = ()


def clock_object(verdict: ClockVerdict) -> dict[str, object]:
    """The `clock` object of the wire (ARCHITECTURE.md, "Clock -> collector")."""
    return {
        "trusted": verdict.is_trusted,
        "reason": verdict.reason,
        "source": verdict.source,
        "offset_seconds": verdict.offset_seconds,
        "error_bound_seconds": verdict.error_bound_seconds,
    }
