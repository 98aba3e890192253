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
STEP_TOLERANCE_SECONDS = 0.001
"""CLOCK_REALTIME and CLOCK_MONOTONIC are slewed alike: only a step parts them, or a thread preempted between reads."""
SILENCES = frozenset({TIMEOUT, UNRESOLVED, REFUSED, NETWORK_ERROR, CLOCK_STEPPED})
"""Reasons that say nothing against the server's time: its last sample may still be used while it is fresh."""
UNREACHABLES = SILENCES - {CLOCK_STEPPED}


@dataclass(frozen=True, slots=True)
class Sample:
    """One believable answer of a server.

    offset_seconds: the server's clock minus this node's. error_bound_seconds: the largest error that the answer admits
    (half the round trip and the server's own root distance). address: who answered, to tell one server with two names.
    """

    offset_seconds: float
    delay_seconds: float
    error_bound_seconds: float
    stratum: int
    address: str


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
    """What adjtimex(2) says. offset_seconds is None where the kernel's number cannot be true."""

    is_synchronised: bool
    max_error_seconds: float
    estimated_error_seconds: float
    offset_seconds: float | None


@dataclass(frozen=True, slots=True)
class Observation:
    """All that one round found; kernel is None where it could not be read. Ages count from here."""

    servers: tuple[ServerState, ...] = ()
    kernel: KernelClock | None = None


def after_step(observation: Observation, step_seconds: float) -> Observation:
    """What the observation says once this node's wall clock was set forward by step_seconds: offsets shrink by as much.

    The kernel's word was given before the step and says nothing now.
    """
    servers = tuple(
        replace(state, sample=sample_after_step(state.sample, step_seconds)) for state in observation.servers
    )
    return Observation(servers)


def sample_after_step(sample: Sample | None, step_seconds: float) -> Sample | None:
    """The sample, its offset as it is after the step."""
    return None if sample is None else replace(sample, offset_seconds=sample.offset_seconds - step_seconds)


@dataclass(frozen=True, slots=True)
class ClockLimits:
    """Up to where a clock is trusted. fresh_seconds: how old a sample or an observation may be."""

    offset_seconds: float = 0.05
    error_bound_seconds: float = 0.1
    fresh_seconds: float = 48.0


@dataclass(frozen=True, slots=True)
class ServerVerdict:
    """Whether a server took part in the quorum, or why not."""

    server: str
    is_valid: bool
    reason: str
    sample: Sample | None = None


@dataclass(frozen=True, slots=True)
class ClockVerdict:
    """Whether the node's clock is trusted, by what (sntp, kernel, None) and why; figures are None where unknown.

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
