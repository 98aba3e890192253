"""chronyd's own view: its tracking report, against real chronyd processes that leave the machine's clock alone (-x)."""

from __future__ import annotations

import csv
import os
import pwd
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_exporter.collectors.clock import ClockCollector, LocalSources
from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.clock import ChronyClock, ClockLimits
from rankbeat_exporter.parsing import chrony
from rankbeat_exporter.parsing.kernel import Timex
from rankbeat_exporter.sources.chrony import Chronyd

real = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("chronyd"), reason="needs root and chronyd: apt-get install chrony"
)
SYNCHRONISED = bytes.fromhex(
    "060200000021000500000000000000000000004d00000000000000007f0000017f0000010000000000000000000000000001000000030000"
    "000000006b0d56d034617ac4fecccfffdeb0fb58dc9ec9d405584a8806f7036f0aa528d5f28a32b1f083d3a0fc815120"
)
"""Captured from chronyd 4.3, 2026-11-30, whose server was 0.2 s ahead; chronyc's figures are the expected ones."""
UNSYNCHRONISED = bytes.fromhex(
    "060200000021000500000000000000000000004d000000000000000000000000000000000000000000000000000000000000000000000003"
    "000000000000000000000000000000000000000000000000000000000000000000000000048000000480000000000000"
)


def a_report(**changes):
    return chrony.tracking(SYNCHRONISED)._replace(**changes)


def test_a_captured_report_gives_chronycs_figures():
    assert chrony.tracking(SYNCHRONISED) == pytest.approx(
        (0x7F000001, 3, 0, 1796036304.878803652, 0.200012162, 0.002108734, 0.001005459), abs=5e-7
    )


def test_the_question_is_as_long_as_its_answer():
    """chronyd drops a shorter one."""
    assert len(chrony.tracking_request(77)) == len(SYNCHRONISED) == 104
    assert chrony.tracking_request(77)[:12] == struct.pack("!BBHHHI", 6, 1, 0, 33, 0, 77)


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        pytest.param(SYNCHRONISED, True, id="an answer"),
        pytest.param(SYNCHRONISED[:16] + b"\0\0\0\1" + SYNCHRONISED[20:], False, id="to another question"),
        pytest.param(SYNCHRONISED[:5] + b"\x0e" + SYNCHRONISED[6:], False, id="to another command"),
        pytest.param(chrony.tracking_request(77), False, id="our own question"),
        pytest.param(b"", False, id="nothing"),
    ],
)
def test_an_answer_is_known_by_its_sequence_number(packet, expected):
    assert chrony.is_reply(packet, 77) is expected


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        pytest.param(SYNCHRONISED[:8] + b"\0\2" + SYNCHRONISED[10:], "NotPermitted", id="unauthorised"),
        pytest.param(SYNCHRONISED[:8] + b"\0\x12" + SYNCHRONISED[10:], "BadReply", id="protocol version refused"),
        pytest.param(b"\7" + SYNCHRONISED[1:], "BadReply", id="another protocol version"),
        pytest.param(SYNCHRONISED[:-1], "BadReply", id="cut short"),
        pytest.param(SYNCHRONISED[:7] + b"\3" + SYNCHRONISED[8:], "BadReply", id="another report"),
    ],
)
def test_a_bad_answer_is_no_report(packet, reason):
    with pytest.raises(CannotMeasure) as found:
        chrony.tracking(packet)

    assert found.value.reason == reason


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        pytest.param(a_report(), "", id="a good one"),
        pytest.param(chrony.tracking(UNSYNCHRONISED), "Unsynchronised", id="captured before the first source"),
        pytest.param(a_report(leap=3), "Unsynchronised", id="leap"),
        pytest.param(a_report(stratum=16), "Unsynchronised", id="stratum 16"),
        pytest.param(a_report(reference_id=0x7F7F0101), "LocalReference", id="local stratum 10 looks synchronised"),
        pytest.param(a_report(reference_unix=1796036304.0 - 90_000), "StaleReference", id="a day without an update"),
        pytest.param(a_report(root_dispersion_seconds=-1.0), "StaleReference", id="no bound"),
    ],
)
def test_chrony_is_believed_where_it_has_a_reference(report, reason):
    assert chrony.chrony_clock(report, 1796036304.9).reason == reason


def test_the_bound_is_the_one_of_chronycs_manual():
    report = a_report(correction_seconds=0.001, root_delay_seconds=0.02, root_dispersion_seconds=0.003, leap=1)

    assert chrony.chrony_clock(report, 1796036304.9) == ChronyClock("", 0.001, pytest.approx(0.013), 3, True)


@given(st.floats(-1e9, 1e9))
def test_chronys_floats_hold_seven_digits(number):
    assert chrony.chrony_float(chrony_word(number)) == pytest.approx(number, rel=1e-6, abs=1e-18)


def chrony_word(number):
    """The float of chrony that is nearest: what UTI_FloatHostToNetwork of its util.c writes."""
    exponent, coefficient = 0, number
    if number:
        while abs(coefficient) >= 2**24 - 1:
            coefficient, exponent = coefficient / 2, exponent + 1
        while abs(coefficient) < 2**22 and exponent > -80:
            coefficient, exponent = coefficient * 2, exponent - 1
    return ((exponent + 25) & 0x7F) << 25 | (round(coefficient) & 0x1FFFFFF)


@given(st.binary(max_size=120), st.booleans())
def test_noise_is_refused_or_gives_finite_figures(noise, is_headed):
    packet = SYNCHRONISED[:28] + noise if is_headed else noise
    if not chrony.is_reply(packet, 77):
        return

    try:
        found = chrony.chrony_clock(chrony.tracking(packet), 1796036304.9)
    except CannotMeasure:
        return

    assert found.reason or 0 <= found.error_bound_seconds < float("inf")


@pytest.fixture
def folder():
    """A short one: a socket's path has 107 characters at most."""
    path = Path(tempfile.mkdtemp(prefix="rb"))
    path.chmod(0o750)
    yield path
    shutil.rmtree(path)


@contextmanager
def chronyd(folder, *settings, command_port=0, user="root"):
    """A chronyd with its command socket in the folder."""
    lines = ("port 0", f"cmdport {command_port}", f"pidfile {folder}/pid", f"bindcmdaddress {folder}/chronyd.sock")
    bind = ("bindcmdaddress 127.0.0.1",) if command_port else ()
    (folder / "chrony.conf").write_text("\n".join((*lines, *bind, *settings)) + "\n")
    command = ("chronyd", "-x", "-d", "-u", user, "-f", str(folder / "chrony.conf"))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield str(folder / "chronyd.sock")
    finally:
        process.terminate()
        process.wait(10)


def reason(place, report=None):
    """Why there is no report, or what is wrong with it."""
    try:
        return chrony.chrony_clock(Chronyd(place).tracking(), time.time()).reason
    except CannotMeasure as error:
        return error.reason


def is_settled(place):
    """Whether chronyd has its server, and a bound by which a clock is trusted."""
    return (
        reason(place) == "" and chrony.chrony_clock(Chronyd(place).tracking(), time.time()).error_bound_seconds < 0.05
    )


def chronyc(place):
    """chronyc's own figures of the same report."""
    shown = subprocess.run(("chronyc", "-h", place, "-c", "tracking"), check=True, capture_output=True, text=True)
    row = next(csv.reader([shown.stdout]))
    return int(row[0], 16), int(row[2]), float(row[3]), float(row[4]), float(row[10]), float(row[11])


@real
def test_a_chronyd_without_a_source_says_so(folder, eventually):
    with chronyd(folder) as place:
        eventually(lambda: reason(place) == "Unsynchronised")

    assert not list(folder.glob("rankbeat*"))


@real
def test_a_chronyd_whose_reference_is_its_own_clock_is_not_believed(folder, eventually):
    with chronyd(folder, "local stratum 10") as place:
        eventually(lambda: reason(place) == "LocalReference")


@real
def test_a_synchronised_chronyd_gives_the_same_figures_as_to_chronyc(folder, liar, a_packet, eventually):
    server = liar(lambda question, now: [a_packet(question, now=now + 0.2)])
    with chronyd(folder, f"server 127.0.0.1 port {server.port} iburst minpoll -4 maxpoll -4") as place:
        eventually(lambda: is_settled(place))
        report, theirs = Chronyd(place).tracking(), chronyc(place)

    identity, stratum, _, reference, correction, delay, dispersion = report
    assert (identity, stratum) == theirs[:2]
    assert reference == pytest.approx(theirs[2], abs=2)
    assert correction == pytest.approx(theirs[3], abs=1e-3)
    assert correction == pytest.approx(0.2, abs=0.02)
    assert delay == pytest.approx(theirs[4], abs=1e-3)
    assert dispersion == pytest.approx(theirs[5], abs=0.02)  # it grows between the two, fast while chronyd is young


def outcome_as(uid, function):
    """What function gives in a process of that user, as a word."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(uid)
        os.write(writing, function().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as words:
        found = words.read()
    os.waitpid(child, 0)
    return found


@real
def test_chronyds_own_user_may_ask_and_another_may_not(folder, eventually):
    """What the container clock runs as (install value clock.chrony.user), without a capability."""
    user, group = pwd.getpwnam("_chrony")[2:4]
    os.chown(folder, user, group)
    with chronyd(folder, user="_chrony") as place:
        eventually(lambda: reason(place) == "Unsynchronised")

        assert outcome_as(user, lambda: reason(place)) == "Unsynchronised"
        assert outcome_as(65532, lambda: reason(place)) == "NotPermitted"


@real
def test_the_command_port_gives_the_report_as_well(folder, eventually):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    with chronyd(folder, command_port=port):
        eventually(lambda: reason(f"127.0.0.1:{port}") == "Unsynchronised")


@real
def test_chronyd_is_trusted_where_the_kernel_says_unsynchronised_for_want_of_rtcsync(folder, liar, eventually):
    """C7. No server is configured: what this node says of itself is all there is."""
    server = liar()
    kernel = lambda: Timex(5, 0x40, 0, 16000000, 16000000)  # noqa: E731
    with chronyd(folder, f"server 127.0.0.1 port {server.port} iburst minpoll -4 maxpoll -4") as place:
        eventually(lambda: is_settled(place))
        collector = ClockCollector((), ClockLimits(), LocalSources(kernel, Chronyd(place).tracking))
        collector.collect()

    verdict = collector.view().verdict
    assert (verdict.is_trusted, verdict.reason, verdict.source) == (True, "ChronySynchronised", "chrony")
    assert abs(verdict.offset_seconds) <= verdict.error_bound_seconds


def test_without_a_socket_there_is_no_report(folder):
    assert reason(str(folder / "chronyd.sock")) == "SocketNotFound"


def test_a_socket_that_nobody_listens_on_is_refused(folder):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left_over:
        left_over.bind(str(folder / "chronyd.sock"))

    assert reason(str(folder / "chronyd.sock")) == "Refused"


@pytest.fixture
def impostor(folder):
    """A socket in chronyd's place that gives the answers of `answers` to the first question."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(folder / "chronyd.sock"))
        threads = []

        def start(answers):
            def serve():
                question, client = channel.recvfrom(1024)
                for answer in answers(question):
                    channel.sendto(answer, client)

            threads.append(threading.Thread(target=serve))
            threads[0].start()
            return str(folder / "chronyd.sock")

        yield start
        threads[0].join()


def test_answers_to_other_questions_are_passed_over(impostor):
    place = impostor(lambda question: [SYNCHRONISED, b"x", SYNCHRONISED[:16] + question[8:12] + SYNCHRONISED[20:]])

    assert Chronyd(place).tracking() == chrony.tracking(SYNCHRONISED)


def test_a_chronyd_that_does_not_answer_costs_a_second(impostor):
    place = impostor(lambda question: [])
    begin = time.monotonic()

    assert reason(place) == "Timeout"

    assert time.monotonic() - begin < 1.5


def test_a_chronyd_that_cannot_be_asked_is_a_collector_without_success(folder):
    kernel = lambda: Timex(0, 0x2000, 0, 9000, 20)  # noqa: E731
    tracking = Chronyd(str(folder / "chronyd.sock")).tracking
    collector = ClockCollector((), ClockLimits(), LocalSources(kernel, tracking))

    collector.collect()

    view = collector.view()
    assert [(one.collector, one.reason) for one in view.collections] == [
        ("kernel_clock", ""),
        ("chrony", "SocketNotFound"),
    ]
    assert (view.chrony, view.verdict.reason) == (None, "KernelSynchronised")
