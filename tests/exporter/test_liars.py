"""The public reports of clients that believed what they should not (docs/sources.md, NTP), each as a server that lies.

Every server is a UDP server of its own; what the clock says of it is read from its metrics, as an operator would.
"""

from __future__ import annotations

import time

import pytest

from rankbeat_exporter.collectors.clock import ClockCollector, LocalSources
from rankbeat_exporter.collectors.clock_series import ClockSeries
from rankbeat_exporter.model.clock import ClockLimits
from rankbeat_exporter.parsing.kernel import Timex
from rankbeat_exporter.sources import sntp

PACE = sntp.Pace(samples=4, spacing_seconds=0.005, timeout_seconds=0.2, total_seconds=4.0)
UNDISCIPLINED = Timex(5, 0x40, 0, 16000000, 16000000)
"""A kernel that nobody ever told the time."""
INIT, RATE = (int.from_bytes(code, "big") for code in (b"INIT", b"RATE"))


class Clock:
    """What the clock of a node says after one round over these servers."""

    def __init__(self, *servers, kernel=UNDISCIPLINED):
        names = [getattr(server, "address", server) for server in servers]
        self.collector = ClockCollector(
            tuple(sntp.SntpServer(name, PACE) for name in names), ClockLimits(), LocalSources(lambda: kernel)
        )
        self.series = ClockSeries("n1", self.collector.view)
        self.collector.collect()

    def trusted(self):
        """(0 or 1, reason)."""
        return self._one("rankbeat_node_clock_trusted")

    def valid(self):
        """(0 or 1, reason) of each server, in their order."""
        rows = self._rows("rankbeat_node_clock_server_valid")
        return [(value, labels["reason"]) for labels, value in rows]

    def figure(self, name):
        """A series without a reason, None where it is absent."""
        rows = self._rows(f"rankbeat_node_clock_{name}")
        return rows[0][1] if rows else None

    def _one(self, name):
        ((labels, value),) = self._rows(name)
        return value, labels["reason"]

    def _rows(self, name):
        families = (family for family in self.series.collect() if family.metric.name == name)
        return [(dict(zip(one.metric.labels, row[0], strict=True)), row[1]) for one in families for row in one.rows]


def test_c2_an_unsynchronised_server_that_is_microseconds_off_is_not_perfect(liar, a_packet):
    clock = Clock(liar(lambda question, now: [a_packet(question, now=now, leap=3, stratum=0, ref_id=INIT)]))

    assert clock.valid() == [(0, "KissINIT")]
    assert clock.trusted() == (0, "NoQuorum")
    assert clock.figure("server_offset_seconds") is None


@pytest.mark.parametrize(
    ("code", "reason"), [(b"RATE", "KissRATE"), (b"DENY", "KissDENY"), (b"RSTR", "KissRSTR"), (b"ACST", "KissOther")]
)
def test_c4_the_kiss_code_is_shown_not_hidden_behind_stratum_16(liar, code, reason):
    clock = Clock(liar(stratum=0, ref_id=int.from_bytes(code, "big"), leap=3))

    assert clock.valid() == [(0, reason)]
    assert clock.figure("server_stratum") is None


def test_c5_stratum_16_is_unsynchronised_whatever_the_offset(liar):
    clock = Clock(liar(stratum=16), liar(stratum=16), liar())

    assert clock.valid() == [(0, "Unsynchronised"), (0, "Unsynchronised"), (1, "Valid")]
    assert clock.trusted() == (0, "NoQuorum")


def test_c7_a_kernel_that_says_unsynchronised_for_want_of_rtcsync_is_outweighed_by_a_quorum(liar):
    clock = Clock(liar(), liar(), liar(), kernel=Timex(0, 0x40, 1500, 9000, 20))

    assert clock.figure("kernel_synchronised") == 0
    assert clock.trusted() == (1, "Quorum")


def test_c8_the_kernels_4_294967296_seconds_are_no_offset(liar):
    glitch = Timex(0, 0x2000, 2**32, 9000, 20)

    alone, with_servers = Clock(kernel=glitch), Clock(liar(), kernel=glitch)

    assert alone.figure("kernel_offset_seconds") is None
    assert alone.figure("offset_seconds") is None
    assert (alone.trusted(), with_servers.trusted()) == ((1, "KernelSynchronised"), (1, "Quorum"))


def test_c10_an_offset_of_nearly_nothing_is_an_offset(liar):
    """A perfect LAN. Exactly 0.0 is a case of test_ntp.py: no server can know when its question was sent."""
    clock = Clock(liar())

    assert abs(clock.figure("offset_seconds")) < 0.05
    assert clock.trusted() == (1, "Quorum")


def test_c11_a_node_on_which_no_time_service_was_ever_started_and_whose_servers_are_out_of_reach(free_port):
    clock = Clock(f"127.0.0.1:{free_port}")

    assert clock.valid() == [(0, "Refused")]
    assert clock.trusted() == (0, "Unreachable")
    assert clock.figure("kernel_max_error_seconds") == 16


def test_an_air_gapped_node_is_judged_by_its_kernel_alone_and_says_so():
    good, bad = Clock(kernel=Timex(0, 0x2000, 1500, 9000, 20)), Clock()

    assert [clock.figure("servers") for clock in (good, bad)] == [0, 0]
    assert good.trusted() == (1, "KernelSynchronised")
    assert good.figure("error_bound_seconds") == pytest.approx(0.009, abs=1e-4)
    assert bad.trusted() == (0, "KernelUnsynchronised")


def a_stepping(liar, a_packet, offset, **changes):
    """A server whose clock is off by so much."""
    return liar(lambda question, now: [a_packet(question, now=now + offset, **changes)])


def test_a_clock_that_was_set_200_milliseconds_back_is_off_by_the_word_of_all_servers(liar, a_packet):
    """Nobody touches the host's clock: the servers are ahead."""
    clock = Clock(*(a_stepping(liar, a_packet, 0.2) for _ in range(3)))

    assert clock.trusted() == (0, "OffsetTooLarge")
    assert clock.figure("offset_seconds") == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("second", [1.0, -1.0, 0.5])
def test_servers_that_announce_a_leap_second_and_are_up_to_a_second_off_are_tolerated_with_a_wider_bound(
    liar, a_packet, second
):
    clock = Clock(*(a_stepping(liar, a_packet, second, leap=1) for _ in range(3)))

    assert clock.trusted() == (1, "LeapSecond")
    assert clock.figure("offset_seconds") == pytest.approx(second, abs=0.04)
    assert clock.figure("error_bound_seconds") > 1


def test_a_smearing_server_among_others_is_named_and_outvoted(liar, a_packet):
    clock = Clock(liar(leap=1), a_stepping(liar, a_packet, -0.4), liar(leap=1))

    assert clock.valid() == [(1, "Valid"), (0, "Disagrees"), (1, "Valid")]
    assert clock.trusted() == (1, "Quorum")


def test_one_server_that_announces_a_leap_second_excuses_nobody(liar, a_packet):
    clock = Clock(*(a_stepping(liar, a_packet, 1.0, leap=leap) for leap in (1, 0, 0)))

    assert clock.trusted() == (0, "OffsetTooLarge")


def test_the_second_is_tolerated_for_a_day_after_its_announcement_ended(liar, a_packet):
    """Servers drop their announcement at midnight; those that smear are off for hours more."""
    said = {"leap": 1}
    server = liar(lambda question, now: [a_packet(question, now=now + said.get("offset", 0), leap=said["leap"])])
    later = [0.0]
    collector = ClockCollector(
        (sntp.SntpServer(server.address, PACE),),
        ClockLimits(),
        LocalSources(lambda: UNDISCIPLINED),
        lambda: (time.time() + later[0], time.monotonic() + later[0]),
    )
    collector.collect()
    said |= {"leap": 0, "offset": 0.5}

    found = []
    for later[0] in (80_000.0, 90_000.0):
        collector.collect()
        found.append(collector.view().verdict.reason)

    assert found == ["LeapSecond", "OffsetTooLarge"]


def test_a_server_with_the_answers_of_another_question_is_no_server(liar, a_packet):
    """A late one, or one forged by somebody who cannot see our questions."""
    clock = Clock(liar(lambda question, now: [a_packet(origin=b"\1" * 8)] * 3))

    assert clock.valid() == [(0, "OriginMismatch")]
