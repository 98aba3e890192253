"""The program itself: started, scraped, stopped."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import report_receiver as receiver
import ring_support as support
from rankbeat_collector import __main__ as program
from rankbeat_collector.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
import sys
from rankbeat_collector import __main__ as program
from rankbeat_collector.model.pods import Pod
pod = Pod("team-a", "llm-0", "uid-llm-0", "llm", "llm", "job-1", False, "Running")
sys.exit(program.main(sys.argv[1:], lambda: (pod,)))
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    command = [sys.executable, "-c", PROGRAM, "--node", "n1", "--host", "127.0.0.1", "--port", str(port), *arguments]
    with subprocess.Popen(command) as child:
        try:
            yield child, port
        finally:
            child.kill()


def scraped(port: int, until: str) -> str:
    """The /metrics text once it holds until."""
    deadline = time.monotonic() + 15
    text = ""
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),
            contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection,
        ):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            if until in text:
                return text
        time.sleep(0.05)
    raise AssertionError(text)


def test_the_program_serves_ranks_reports_them_and_ends_with_a_last_report_within_two_seconds(tmp_path: Path) -> None:
    certificate = receiver.a_certificate()
    (tmp_path / "ca.crt").write_bytes(certificate.certificate)
    (tmp_path / "token").write_text("t", encoding="ascii")
    writer = support.RingWriter(support.ring_folder(tmp_path, support.a_pod()) / "x.ring")
    writer.step(41)
    with receiver.receiving(certificate, tmp_path) as aggregator:
        files = ("--ca-file", str(tmp_path / "ca.crt"), "--token-file", str(tmp_path / "token"))
        url = ("--kubelet-root", str(tmp_path), "--aggregator-url", aggregator.url, "--push-interval", "60")
        with running(*files, *url) as (child, port):
            text = scraped(port, "rankbeat_step{")
            aggregator.wait_for_reports(1)
            writer.step(42)
            started = time.monotonic()
            child.send_signal(signal.SIGTERM)
            code = child.wait(10)
            took = time.monotonic() - started

    assert 'rankbeat_step{monitor="llm",namespace="team-a",node="n1",rank="0"} 41.0' in text
    assert [report["ranks"][0]["step"] for report in aggregator.reports] == [41, 42]
    assert (code, took < 2) == (0, True)


def test_the_clock_beside_it_is_asked_on_the_loopback_while_both_serve_over_tls_alone(tmp_path: Path) -> None:
    certificate = receiver.a_certificate()
    for name, content in (("ca.crt", certificate.certificate), ("tls.key", certificate.key), ("token", b"t")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "pods").mkdir()
    over_tls = ("--tls-cert", str(tmp_path / "ca.crt"), "--tls-key", str(tmp_path / "tls.key"))
    clock_port, loopback_port = free_port(), free_port()
    asked = ("--loopback-port", str(loopback_port), "--port", str(clock_port), "--address", "127.0.0.1", "--node", "n1")
    clock = [sys.executable, "-m", "rankbeat_exporter", "clock", *asked, *over_tls]
    with receiver.receiving(certificate, tmp_path) as aggregator, subprocess.Popen(clock) as beside:
        files = ("--ca-file", str(tmp_path / "ca.crt"), "--token-file", str(tmp_path / "token"))
        url = ("--kubelet-root", str(tmp_path), "--aggregator-url", aggregator.url, "--push-interval", "0.5")
        with running(*files, *url, "--clock-port", str(loopback_port), *over_tls) as (_, port):
            aggregator.wait(lambda: any(report["clock"] for report in aggregator.reports))
            plain = [answers_plainly(one) for one in (port, clock_port)]
        beside.terminate()

    assert {"trusted", "source", "error_bound_seconds"} <= aggregator.reports[-1]["clock"].keys()
    assert plain == [False, False]


def answers_plainly(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/metrics")
            connection.getresponse()
        except (OSError, http.client.HTTPException):
            return False
    return True


def test_an_aggregator_that_hangs_does_not_delay_the_end(tmp_path: Path) -> None:
    certificate = receiver.a_certificate()
    (tmp_path / "ca.crt").write_bytes(certificate.certificate)
    (tmp_path / "token").write_text("t", encoding="ascii")
    (tmp_path / "pods").mkdir()
    with receiver.receiving(certificate, tmp_path) as aggregator:
        aggregator.pause_seconds = 8.0
        files = ("--ca-file", str(tmp_path / "ca.crt"), "--token-file", str(tmp_path / "token"))
        url = ("--kubelet-root", str(tmp_path), "--aggregator-url", aggregator.url, "--push-interval", "0.5")
        with running(*files, *url) as (child, _):
            aggregator.wait(lambda: len(aggregator.connections) > 0)
            started = time.monotonic()
            child.send_signal(signal.SIGTERM)
            code = child.wait(10)
            took = time.monotonic() - started

    assert (code, took < 4) == (0, True)


def test_a_kubelets_root_that_is_not_there_is_visible_on_a_running_collector(tmp_path: Path) -> None:
    with running("--kubelet-root", str(tmp_path / "nowhere")) as (_, port):
        text = scraped(port, "rankbeat_collector_polls_total")

    assert 'rankbeat_collector_kubelet_root_readable{node="n1"} 0.0' in text


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--node", ""], "--node"),
        (["--node", "n1", "--poll-interval", "0"], "--poll-interval"),
        (["--node", "n1", "--push-interval", "nan"], "--push-interval"),
    ],
    ids=["node", "poll", "push"],
)
def test_settings_that_make_no_sense_are_refused(arguments: list[str], field: str) -> None:
    with pytest.raises(SettingsError, match=field):
        program.settings(arguments)


def test_outside_of_a_cluster_the_program_says_so_and_ends() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    ended = subprocess.run(
        [sys.executable, "-m", "rankbeat_collector", "--node", "n1"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ended.returncode == 2
    assert "no access to the API server" in ended.stderr
