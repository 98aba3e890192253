"""Whether a node's clock is trusted: the one decision, as a pure function of an observation and its age.

Who is believed, in order: more than half of the configured servers; the chronyd that disciplines the clock; the kernel,
which only repeats what some time service told it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rankbeat_exporter.model import clock
from rankbeat_exporter.model.clock import (
    LEAP_SECONDS,
    ChronyClock,
    ClockLimits,
    ClockVerdict,
    KernelClock,
    Observation,
    Sample,
    ServerState,
    ServerVerdict,
)
from rankbeat_exporter.parsing.ntp import PHI


class _Quorum(NamedTuple):
    """What the servers say together: reason is QUORUM where sample holds."""

    reason: str
    servers: tuple[ServerVerdict, ...]
    sample: Sample | None = None


LEAP_NEAR_SECONDS = 86400.0
"""A leap second is announced for a day before, and smeared over at most a day."""


def clock_verdict(observation: Observation | None, age_seconds: float, limits: ClockLimits) -> ClockVerdict:
    """Trusted by a quorum of servers, else by a synchronised chronyd, else by the kernel, else not, with the reason.

    observation: None before the first round; age_seconds: how long ago its round ended, by the monotonic clock.
    A quorum that finds the clock off is final: no kernel's word stands against it.
    """
    if observation is None:
        return ClockVerdict(is_trusted=False, reason=clock.STARTING)
    if age_seconds > limits.fresh_seconds:
        servers = tuple(
            ServerVerdict(one.server, is_valid=False, reason=clock.SERVER_EXPIRED) for one in observation.servers
        )
        return ClockVerdict(is_trusted=False, reason=clock.STALE, servers=servers)
    found = _verdict(observation, age_seconds, limits)
    if observation.leap_is_near and found.reason in {clock.OFFSET_TOO_LARGE, clock.DISAGREE}:
        within = _with_leap_second(observation, age_seconds, limits)
        return found if within is None else _naming_the_second(found, within)
    return found


def leap_is_announced(observation: Observation) -> bool:
    """By the kernel, by chrony, or by more than half of the configured servers: one liar announces nothing."""
    announcing = sum(
        state.reason == clock.SERVER_VALID and state.sample is not None and state.sample.leap_is_announced
        for state in observation.servers
    )
    local = (observation.kernel, observation.chrony)
    return announcing > len(observation.servers) / 2 or any(one is not None and one.leap_is_announced for one in local)


def _with_leap_second(observation: Observation, age_seconds: float, limits: ClockLimits) -> ClockVerdict | None:
    """The verdict where a second more or less explains everything: one side smears, or has not stepped yet, or we have.

    Its bound holds the second, so that no order of events within it is claimed. None where a second explains nothing.
    """
    servers = tuple(
        replace(state, sample=_wider(state.sample, LEAP_SECONDS) if state.sample else None)
        for state in observation.servers
    )
    within = replace(
        limits,
        offset_seconds=limits.offset_seconds + LEAP_SECONDS,
        error_bound_seconds=limits.error_bound_seconds + LEAP_SECONDS,
    )
    found = _by_servers(_quorum(servers, age_seconds, within), within)
    return replace(found, reason=clock.LEAP_SECOND) if found.is_trusted else None


def _naming_the_second(without: ClockVerdict, within: ClockVerdict) -> ClockVerdict:
    """The verdict within a second, which says of the servers that disagree without it that they are that far off."""
    servers = tuple(
        replace(wide, reason=clock.LEAP_SECOND) if wide.is_valid and narrow.reason == clock.SERVER_DISAGREES else wide
        for narrow, wide in zip(without.servers, within.servers, strict=True)
    )
    return replace(within, servers=servers)


def _wider(sample: Sample, by_seconds: float) -> Sample:
    return replace(sample, error_bound_seconds=sample.error_bound_seconds + by_seconds)


def _verdict(observation: Observation, age_seconds: float, limits: ClockLimits) -> ClockVerdict:
    quorum = _quorum(observation.servers, age_seconds, limits)
    by_servers = _by_servers(quorum, limits)
    if by_servers.is_trusted or by_servers.reason == clock.OFFSET_TOO_LARGE:
        return by_servers
    local = _by_local(observation, age_seconds, limits)
    if local.is_trusted or not observation.servers:
        return replace(local, servers=quorum.servers)
    return by_servers


def _by_local(observation: Observation, age_seconds: float, limits: ClockLimits) -> ClockVerdict:
    """chrony's word, unless it knows nothing and the kernel does: then another service disciplines the clock."""
    by_chrony = _by_chrony(observation.chrony, age_seconds, limits)
    by_kernel = _by_kernel(observation.kernel, age_seconds, limits)
    if by_chrony is None:
        return by_kernel
    is_final = by_chrony.is_trusted or by_chrony.reason == clock.OFFSET_TOO_LARGE
    return by_kernel if by_kernel.is_trusted and not is_final else by_chrony


def _by_servers(quorum: _Quorum, limits: ClockLimits) -> ClockVerdict:
    found = quorum.sample
    if found is None:
        return ClockVerdict(is_trusted=False, reason=quorum.reason, servers=quorum.servers)
    reason = clock.QUORUM
    if abs(found.offset_seconds) > limits.offset_seconds:
        reason = clock.OFFSET_TOO_LARGE
    elif found.error_bound_seconds > limits.error_bound_seconds:
        reason = clock.ERROR_TOO_LARGE
    figures = ("sntp", found.offset_seconds, found.error_bound_seconds, quorum.servers)
    return ClockVerdict(reason == clock.QUORUM, reason, *figures)


def _by_chrony(chrony: ChronyClock | None, age_seconds: float, limits: ClockLimits) -> ClockVerdict | None:
    """None where chronyd was not asked, or did not answer."""
    if chrony is None:
        return None
    if chrony.reason:
        return ClockVerdict(is_trusted=False, reason=clock.CHRONY_UNSYNCHRONISED)
    bound = chrony.error_bound_seconds + PHI * age_seconds
    reason = clock.CHRONY
    if abs(chrony.offset_seconds) > limits.offset_seconds:
        reason = clock.OFFSET_TOO_LARGE
    elif bound > limits.error_bound_seconds:
        reason = clock.CHRONY_ERROR_TOO_LARGE
    return ClockVerdict(reason == clock.CHRONY, reason, "chrony", chrony.offset_seconds, bound)


def _by_kernel(kernel: KernelClock | None, age_seconds: float, limits: ClockLimits) -> ClockVerdict:
    if kernel is None:
        return ClockVerdict(is_trusted=False, reason=clock.NO_SERVERS)
    if not kernel.is_synchronised:
        return ClockVerdict(is_trusted=False, reason=clock.KERNEL_UNSYNCHRONISED)
    bound = kernel.error_bound_seconds + PHI * age_seconds
    reason = clock.KERNEL
    if kernel.offset_seconds is not None and abs(kernel.offset_seconds) > limits.offset_seconds:
        reason = clock.OFFSET_TOO_LARGE
    elif bound > limits.error_bound_seconds:
        reason = clock.KERNEL_ERROR_TOO_LARGE
    return ClockVerdict(reason == clock.KERNEL, reason, "kernel", kernel.offset_seconds, bound)


def _quorum(states: tuple[ServerState, ...], age_seconds: float, limits: ClockLimits) -> _Quorum:
    """More than half of the configured servers, by the sample with the smallest bound among those that agree."""
    usable = _usable(states, age_seconds, limits)
    group = _largest_agreeing(usable)
    need = len(states) // 2 + 1
    verdicts = tuple(_server_verdict(state, usable, group) for state in states)
    if len(group) >= need:
        best = min((usable[server] for server in group), key=lambda sample: sample.error_bound_seconds)
        return _Quorum(clock.QUORUM, verdicts, best)
    if len(usable) >= need:
        nobody = tuple(_server_verdict(state, usable, frozenset()) for state in states)
        return _Quorum(clock.DISAGREE, nobody)
    if states and not usable and all(state.reason in clock.UNREACHABLES for state in states):
        return _Quorum(clock.UNREACHABLE, verdicts)
    return _Quorum(clock.NO_QUORUM if states else clock.NO_SERVERS, verdicts)


def _usable(states: tuple[ServerState, ...], age_seconds: float, limits: ClockLimits) -> dict[str, Sample]:
    """Fresh samples by server, bounds grown with their age; one per address: two names of one server are one vote."""
    usable: dict[str, Sample] = {}
    addresses: set[str] = set()
    for state in states:
        age = state.age_seconds + age_seconds
        if state.sample is None or age > limits.fresh_seconds or state.sample.address in addresses:
            continue
        addresses.add(state.sample.address)
        usable[state.server] = replace(state.sample, error_bound_seconds=state.sample.error_bound_seconds + PHI * age)
    return usable


def _largest_agreeing(samples: dict[str, Sample]) -> frozenset[str]:
    """Servers of the largest group whose intervals share a point; of equal groups the one with the smallest bound.

    The most crowded point of a set of closed intervals is the lower end of one of them.
    """
    groups = []
    for one in samples.values():
        point = one.offset_seconds - one.error_bound_seconds
        group = frozenset(
            server
            for server, other in samples.items()
            if other.offset_seconds - other.error_bound_seconds
            <= point
            <= other.offset_seconds + other.error_bound_seconds
        )
        groups.append((len(group), -min(samples[server].error_bound_seconds for server in group), group))
    return max(groups, key=lambda entry: entry[:2])[2] if groups else frozenset()


def _server_verdict(state: ServerState, usable: dict[str, Sample], group: frozenset[str]) -> ServerVerdict:
    if state.server in group:
        return ServerVerdict(state.server, is_valid=True, reason=clock.SERVER_VALID, sample=usable[state.server])
    if state.server in usable:
        return ServerVerdict(state.server, is_valid=False, reason=clock.SERVER_DISAGREES, sample=usable[state.server])
    reason = clock.SERVER_DUPLICATE if state.sample is not None and state.reason == clock.SERVER_VALID else state.reason
    return ServerVerdict(state.server, is_valid=False, reason=reason)
