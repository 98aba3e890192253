"""When a node's clock is trusted."""

from __future__ import annotations

import pytest

from rankbeat_exporter.model.clock import (
    ChronyClock,
    ClockLimits,
    ClockVerdict,
    KernelClock,
    Observation,
    Sample,
    ServerState,
    clock_object,
)
from rankbeat_exporter.parsing import trust

LIMITS = ClockLimits(offset_seconds=0.05, error_bound_seconds=0.1, fresh_seconds=48.0)


def a_server(name="a", offset=0.0, bound=0.001, age=0.0, address=None, *, leap=False):
    return ServerState(name, "Valid", Sample(offset, 0.001, bound, 2, address or name, leap), age)


def a_silent(name="a", reason="Timeout"):
    return ServerState(name, reason)


def a_kernel(*, synchronised=True, max_error=0.01, offset=0.0, leap=False):
    return KernelClock(synchronised, max_error, 0.0, offset, max_error, leap)


def a_chrony(reason="", offset=0.0, bound=0.01, *, leap=False):
    return ChronyClock(reason, offset, bound, 3, leap)


def verdict(servers=(), kernel=None, age=0.0, **more):
    return trust.clock_verdict(Observation(tuple(servers), kernel, **more), age, LIMITS)


def summary(found):
    return found.is_trusted, found.reason, found.source


NO, YES = False, True


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        pytest.param([a_server()], (YES, "Quorum", "sntp"), id="one of one"),
        pytest.param([a_silent()], (NO, "Unreachable", None), id="none of one"),
        pytest.param([a_server("a"), a_silent("b")], (NO, "NoQuorum", None), id="one of two is no majority"),
        pytest.param([a_server("a"), a_server("b")], (YES, "Quorum", "sntp"), id="two of two"),
        pytest.param([a_server("a"), a_server("b"), a_silent("c")], (YES, "Quorum", "sntp"), id="two of three"),
        pytest.param([a_server("a"), a_silent("b"), a_silent("c")], (NO, "NoQuorum", None), id="one of three"),
        pytest.param(
            [a_server("a"), a_server("b"), a_server("c", 0.2)], (YES, "Quorum", "sntp"), id="one of three lies"
        ),
        pytest.param([a_server("a"), a_server("b", 0.2)], (NO, "Disagree", None), id="two that disagree"),
        pytest.param(
            [a_server("a"), a_server("b", 0.2), a_server("c", -0.2)], (NO, "Disagree", None), id="three that disagree"
        ),
        pytest.param(
            [a_server("a"), a_server("b"), a_server("c", 0.2), a_server("d", 0.2)],
            (NO, "Disagree", None),
            id="two against two",
        ),
        pytest.param(
            [a_server("a"), a_server("b", 0.2), a_silent("c")], (NO, "Disagree", None), id="two of three disagree"
        ),
        pytest.param(
            [a_server("a", 0.2), a_server("b", 0.2), a_server("c")],
            (NO, "OffsetTooLarge", "sntp"),
            id="two say we are off",
        ),
        pytest.param([a_server(offset=0.0501)], (NO, "OffsetTooLarge", "sntp"), id="just above the limit"),
        pytest.param([a_server(offset=-0.05)], (YES, "Quorum", "sntp"), id="at the limit"),
        pytest.param([a_server(bound=0.2)], (NO, "ErrorBoundTooLarge", "sntp"), id="too uncertain"),
        pytest.param(
            [a_silent("a", "Unsynchronised"), a_silent("b", "Timeout")],
            (NO, "NoQuorum", None),
            id="answers, but useless",
        ),
        pytest.param(
            [a_server("a", address="x"), a_server("b", address="x"), a_silent("c")],
            (NO, "NoQuorum", None),
            id="one server under two names has one vote",
        ),
        pytest.param([a_server(age=47.0)], (YES, "Quorum", "sntp"), id="a sample of three rounds ago"),
        pytest.param(
            [ServerState("a", "Timeout", a_server().sample, 49.0)], (NO, "Unreachable", None), id="a sample too old"
        ),
    ],
)
def test_servers_decide_by_more_than_half_of_those_configured(servers, expected):
    assert summary(verdict(servers)) == expected


@pytest.mark.parametrize(
    ("servers", "kernel", "expected"),
    [
        pytest.param([], None, (NO, "NoServers", None), id="nothing to go by"),
        pytest.param([], a_kernel(), (YES, "KernelSynchronised", "kernel"), id="kernel alone"),
        pytest.param([], a_kernel(synchronised=False), (NO, "KernelUnsynchronised", None), id="kernel unsynchronised"),
        pytest.param([], a_kernel(max_error=16.0), (NO, "KernelErrorTooLarge", "kernel"), id="kernel too uncertain"),
        pytest.param([], a_kernel(offset=0.3), (NO, "OffsetTooLarge", "kernel"), id="kernel slews a lot"),
        pytest.param([], a_kernel(offset=None), (YES, "KernelSynchronised", "kernel"), id="C8 glitch is no offset"),
        pytest.param([a_silent()], a_kernel(), (YES, "KernelSynchronised", "kernel"), id="air-gapped"),
        pytest.param([a_silent()], a_kernel(synchronised=False), (NO, "Unreachable", None), id="C11 neither"),
        pytest.param(
            [a_server(offset=0.2)], a_kernel(), (NO, "OffsetTooLarge", "sntp"), id="a quorum outweighs the kernel"
        ),
        pytest.param(
            [a_server(bound=0.2)], a_kernel(), (YES, "KernelSynchronised", "kernel"), id="far servers, near kernel"
        ),
        pytest.param([a_server()], a_kernel(synchronised=False), (YES, "Quorum", "sntp"), id="C7 no rtcsync"),
        pytest.param(
            [a_server("a"), a_server("b", 0.2)], a_kernel(synchronised=False), (NO, "Disagree", None), id="disagree"
        ),
    ],
)
def test_without_a_quorum_the_kernel_decides_and_is_named(servers, kernel, expected):
    assert summary(verdict(servers, kernel)) == expected


@pytest.mark.parametrize(
    ("servers", "chrony", "kernel", "expected"),
    [
        pytest.param(
            [], a_chrony(), a_kernel(synchronised=False), (YES, "ChronySynchronised", "chrony"), id="C7 no rtcsync"
        ),
        pytest.param([], a_chrony(), a_kernel(), (YES, "ChronySynchronised", "chrony"), id="both"),
        pytest.param([], a_chrony(), None, (YES, "ChronySynchronised", "chrony"), id="no kernel to ask"),
        pytest.param(
            [], a_chrony("LocalReference"), a_kernel(synchronised=False), (NO, "ChronyUnsynchronised", None), id="local"
        ),
        pytest.param(
            [], a_chrony("Unsynchronised"), a_kernel(), (YES, "KernelSynchronised", "kernel"), id="another service"
        ),
        pytest.param([], a_chrony(offset=0.2), a_kernel(), (NO, "OffsetTooLarge", "chrony"), id="chrony: we are off"),
        pytest.param([], a_chrony(bound=0.2), None, (NO, "ChronyErrorTooLarge", "chrony"), id="chrony too uncertain"),
        pytest.param([a_silent()], a_chrony(), None, (YES, "ChronySynchronised", "chrony"), id="servers unreachable"),
        pytest.param([a_silent()], a_chrony("Unsynchronised"), None, (NO, "Unreachable", None), id="neither"),
        pytest.param([a_server()], a_chrony(offset=0.2), None, (YES, "Quorum", "sntp"), id="a quorum outweighs it"),
        pytest.param(
            [a_server(offset=0.2)], a_chrony(), None, (NO, "OffsetTooLarge", "sntp"), id="a quorum says we are off"
        ),
    ],
)
def test_the_chronyd_that_disciplines_the_clock_is_asked_before_the_kernel(servers, chrony, kernel, expected):
    assert summary(verdict(servers, kernel, chrony=chrony)) == expected


@pytest.mark.parametrize(
    ("servers", "expected", "reasons"),
    [
        pytest.param(
            [a_server("a", 1.0), a_server("b", 1.0)],
            (YES, "LeapSecond", "sntp"),
            ["Valid", "Valid"],
            id="we have not stepped yet",
        ),
        pytest.param(
            [a_server("a", 0.5), a_server("b", 0.4999)],
            (YES, "LeapSecond", "sntp"),
            ["Valid", "Valid"],
            id="they smear, we do not",
        ),
        pytest.param(
            [a_server("a"), a_server("b", -0.4)],
            (YES, "LeapSecond", "sntp"),
            ["LeapSecond", "LeapSecond"],
            id="one of them smears",
        ),
        pytest.param(
            [a_server("a"), a_server("b"), a_server("c", -0.4)],
            (YES, "Quorum", "sntp"),
            ["Valid", "Valid", "Disagrees"],
            id="a majority agrees without the second",
        ),
        pytest.param(
            [a_server("a", 1.2), a_server("b", 1.2)],
            (NO, "OffsetTooLarge", "sntp"),
            ["Valid", "Valid"],
            id="more than a second is no leap second",
        ),
        pytest.param(
            [a_server("a"), a_server("b", 3.0)],
            (NO, "Disagree", None),
            ["Disagrees", "Disagrees"],
            id="three seconds are none either",
        ),
    ],
)
def test_near_a_leap_second_a_second_more_or_less_is_tolerated(servers, expected, reasons):
    found = verdict(servers, leap_is_near=True)

    assert summary(found) == expected
    assert [one.reason for one in found.servers] == reasons


def test_what_is_tolerated_stands_in_the_bound():
    found = verdict([a_server("a", 1.0)], leap_is_near=True)

    assert found.error_bound_seconds == pytest.approx(1.001)


def test_a_second_off_at_any_other_time_is_a_fault():
    assert summary(verdict([a_server("a", 1.0)])) == (NO, "OffsetTooLarge", "sntp")


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        pytest.param(Observation((a_server("a"), a_server("b"))), NO, id="nobody"),
        pytest.param(Observation((a_server("a", leap=True), a_server("b"), a_server("c"))), NO, id="one liar"),
        pytest.param(Observation((a_server("a", leap=True), a_server("b"))), NO, id="half"),
        pytest.param(Observation((a_server("a", leap=True), a_server("b", leap=True), a_silent("c"))), YES, id="two"),
        pytest.param(Observation((), a_kernel(leap=True)), YES, id="kernel"),
        pytest.param(Observation((), a_kernel(), a_chrony(leap=True)), YES, id="chrony"),
    ],
)
def test_a_leap_second_is_announced_by_a_majority_or_by_this_node(observation, expected):
    assert trust.leap_is_announced(observation) is expected


def test_before_the_first_round_nothing_is_trusted():
    assert trust.clock_verdict(None, 0.0, LIMITS) == ClockVerdict(False, "Starting")


def test_an_observation_of_more_than_three_rounds_ago_trusts_nobody():
    found = verdict([a_server()], a_kernel(), age=48.1)

    assert summary(found) == (NO, "Stale", None)
    assert [(one.server, one.is_valid, one.reason) for one in found.servers] == [("a", False, "Expired")]


def test_the_server_that_disagrees_is_named():
    found = verdict([a_server("a"), a_server("liar", 0.2), a_server("c", 0.0005)])

    assert {one.server: (one.is_valid, one.reason) for one in found.servers} == {
        "a": (True, "Valid"),
        "liar": (False, "Disagrees"),
        "c": (True, "Valid"),
    }


def test_where_no_group_has_the_majority_all_are_named():
    found = verdict([a_server("a"), a_server("b", 0.2)])

    assert [one.reason for one in found.servers] == ["Disagrees", "Disagrees"]


def test_servers_agree_when_their_bounds_share_a_point_and_the_surest_is_quoted():
    found = verdict([a_server("near", 0.010, 0.002), a_server("far", 0.030, 0.019), a_server("c", 0.012, 0.004)])

    assert (found.reason, found.offset_seconds, found.error_bound_seconds) == ("Quorum", 0.010, 0.002)


def test_a_bound_grows_by_15_microseconds_a_second():
    found = verdict([a_server(bound=0.001, age=10.0)], age=20.0)

    assert found.error_bound_seconds == pytest.approx(0.001 + 30 * 15e-6)


def test_the_wire_object_is_the_one_that_the_collector_sends_on():
    assert clock_object(verdict([a_server(offset=0.0001)])) == {
        "trusted": True,
        "reason": "Quorum",
        "source": "sntp",
        "offset_seconds": 0.0001,
        "error_bound_seconds": 0.001,
    }


def test_unknown_is_null_on_the_wire():
    assert clock_object(verdict([a_silent()])) == {
        "trusted": False,
        "reason": "Unreachable",
        "source": None,
        "offset_seconds": None,
        "error_bound_seconds": None,
    }
