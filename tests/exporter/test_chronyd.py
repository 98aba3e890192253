"""The clock program against real chronyd servers in namespaces of our own. Nobody touches the host's clock: -x."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("chronyd") or not shutil.which("ip"),
        reason="needs root, chronyd and ip: apt-get install chrony iproute2",
    ),
]
PORT, LOOPBACK_PORT = 9411, 9413


def ip(*arguments):
    subprocess.run(("ip", *arguments), check=True, capture_output=True)


@pytest.fixture
def namespaces():
    """Two namespaces joined by a veth pair: servers (10.99.0.2 to .4) and client (10.99.0.1)."""
    mark = uuid.uuid4().hex[:6]
    servers, client = f"rb-servers-{mark}", f"rb-client-{mark}"
    try:
        for name in (servers, client):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", servers, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", client)
        for last in (2, 3, 4):
            ip("-n", servers, "address", "add", f"10.99.0.{last}/24", "dev", "veth0")
        ip("-n", client, "address", "add", "10.99.0.1/24", "dev", "veth0")
        for name in (servers, client):
            ip("-n", name, "link", "set", "veth0", "up")
        yield servers, client
    finally:
        for name in (servers, client):
            subprocess.run(("ip", "netns", "delete", name), check=False, capture_output=True)


@pytest.fixture
def chronyd(namespaces, tmp_path):
    """Starts a chronyd in the servers' namespace; without local it has no source and says so."""
    started = []

    def start(last, settings="local stratum 5"):
        folder = tmp_path / str(last)
        folder.mkdir()
        configuration = folder / "chrony.conf"
        configuration.write_text(
            f"bindaddress 10.99.0.{last}\nallow\ncmdport 0\npidfile {folder}/pid\nbindcmdaddress /\n{settings}\n"
        )
        command = ["chronyd", "-x", "-d", "-u", "root", "-f", str(configuration)]
        started.append(
            subprocess.Popen(
                ["ip", "netns", "exec", namespaces[0], *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
        return started[-1]

    yield start
    for one in started:
        one.terminate()
    for one in started:
        one.wait(10)


@pytest.fixture
def clock_program(namespaces, program, inside, get, eventually):
    """The program in the client's namespace with these servers; its JSON by eventually(reason)."""

    class Clock:
        def __init__(self, *servers, chrony=None, inside_of=()):
            arguments = [part for server in servers for part in ("--server", server)]
            arguments += ["--chrony", chrony] if chrony else []
            self.running = program(
                "clock",
                "--round-interval",
                "2s",
                "--node",
                "n1",
                "--loopback-port",
                str(LOOPBACK_PORT),
                *arguments,
                prefix=("ip", "netns", "exec", namespaces[1], *inside_of),
            )

        def read(self, path, port=PORT):
            return inside(namespaces[1], lambda: get(port, path))

        def said(self, reason):
            def now():
                body = self.read("/v1/clock", LOOPBACK_PORT)
                found = json.loads(body) if body else {}
                return found if found.get("reason") == reason else None

            return eventually(now, 30)

    return Clock


def test_a_quorum_of_real_servers_is_trusted_on_the_default_port(chronyd, clock_program):
    for last in (2, 3, 4):
        chronyd(last)
    clock = clock_program("10.99.0.2", "10.99.0.3", "10.99.0.4")

    with clock.running:
        found = clock.said("Quorum")
        metrics = clock.read("/metrics")

    assert (found["trusted"], found["source"]) == (True, "sntp")
    assert abs(found["offset_seconds"]) <= found["error_bound_seconds"] < 0.05
    assert 'rankbeat_node_clock_server_stratum{node="n1",server="10.99.0.2"} 5.0' in metrics


def test_one_server_of_three_without_a_source_and_one_gone_end_the_quorum(chronyd, clock_program):
    chronyd(2)
    chronyd(3, settings="")
    leaving = chronyd(4)
    clock = clock_program("10.99.0.2", "10.99.0.3", "10.99.0.4")

    with clock.running:
        clock.said("Quorum")
        metrics = clock.read("/metrics")
        leaving.terminate()
        leaving.wait(10)
        clock.said("NoQuorum")

    assert 'server_valid{node="n1",reason="Unsynchronised",server="10.99.0.3"} 0.0' in metrics


def test_two_names_of_one_server_are_no_quorum_of_two(chronyd, clock_program):
    chronyd(2)
    clock = clock_program("10.99.0.2", "10.99.0.2:123")

    with clock.running:
        clock.said("NoQuorum")
        metrics = clock.read("/metrics")

    assert 'reason="Duplicate",server="10.99.0.2:123"} 0.0' in metrics


def test_no_server_at_all_is_unreachable(clock_program):
    clock = clock_program("10.99.0.2", "10.99.0.3")

    with clock.running:
        found = clock.said("Unreachable")

    assert found["offset_seconds"] is None


NO_SERVICES = ("unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /etc/services && exec "$@"', "sh")


def test_the_default_port_needs_no_etc_services(chronyd, clock_program):
    """C1: slim images lack the file, and ntplib's client asks for the service by its name."""
    chronyd(2)
    known = "import socket; socket.getaddrinfo('10.99.0.2', 'ntp')"
    assert subprocess.run((*NO_SERVICES, "python3", "-c", known), capture_output=True, check=False).returncode != 0
    clock = clock_program("10.99.0.2", inside_of=NO_SERVICES)

    with clock.running:
        found = clock.said("Quorum")

    assert found["trusted"] is True


def following(port):
    """Settings of a chronyd that follows a server on its own loopback, at once."""
    return f"server 127.0.0.1 port {port} iburst minpoll -4 maxpoll -4"


@pytest.fixture
def ahead(liar, a_packet, namespaces, inside):
    """The port of a server 0.2 s ahead, on the loopback of the servers' namespace."""
    return inside(
        namespaces[0], lambda: liar(lambda question, now: [a_packet(question, now=now + 0.2, reference=now - 30)])
    ).port


def test_a_clock_that_is_200_milliseconds_behind_its_servers_is_off(chronyd, clock_program, ahead):
    """Real servers that follow one 0.2 s ahead: nobody touches this machine's clock."""
    for last in (2, 3, 4):
        chronyd(last, following(ahead))
    clock = clock_program("10.99.0.2", "10.99.0.3", "10.99.0.4")

    with clock.running:
        found = clock.said("OffsetTooLarge")

    assert (found["trusted"], found["source"]) == (False, "sntp")
    assert found["offset_seconds"] == pytest.approx(0.2, abs=0.02)


def test_a_server_that_follows_a_wrong_one_is_outvoted_and_named(chronyd, clock_program, ahead, eventually):
    chronyd(2)
    chronyd(3, following(ahead))
    chronyd(4)
    clock = clock_program("10.99.0.2", "10.99.0.3", "10.99.0.4")

    with clock.running:
        clock.said("Quorum")
        named = 'server_valid{node="n1",reason="Disagrees",server="10.99.0.3"} 0.0'
        eventually(lambda: named in clock.read("/metrics"), 30)
        found = clock.said("Quorum")

    assert abs(found["offset_seconds"]) < 0.02


def test_an_air_gapped_node_is_judged_by_its_own_chronyd_where_its_socket_is_mounted(
    chronyd, clock_program, liar, namespaces, inside
):
    """The kernel of this machine may say what it will: chrony knows better."""
    server = inside(namespaces[0], liar)
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        Path(folder).chmod(0o750)
        chronyd(2, f"{following(server.port)}\nbindcmdaddress {folder}/chronyd.sock")
        clock = clock_program(chrony=f"{folder}/chronyd.sock")

        with clock.running:
            found = clock.said("ChronySynchronised")
            metrics = clock.read("/metrics")

    assert (found["trusted"], found["source"]) == (True, "chrony")
    assert abs(found["offset_seconds"]) <= found["error_bound_seconds"]
    assert 'rankbeat_node_clock_chrony_synchronised{node="n1",reason="Valid"} 1.0' in metrics
    assert 'rankbeat_node_clock_servers{node="n1"} 0.0' in metrics
