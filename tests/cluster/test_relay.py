"""The relay passes ends on as they come, without a cluster: its target lies in this network namespace."""

import os
import socket
import struct
import subprocess
import sys

import pytest

from rankbeat_cluster import ports, relay, servers

RESET = struct.pack("ii", 1, 0)  # SO_LINGER for no time: close() sends a reset


@pytest.fixture
def ends(tmp_path):
    """A client's socket, and the far one that the relay has connected it to."""
    with ports.block() as port, socket.create_server(("127.0.0.1", port + 1)) as listener:
        listener.settimeout(20)
        holder = subprocess.Popen(["sleep", "infinity"])
        command = [sys.executable, relay.__file__, str(port), str(holder.pid), f"127.0.0.1:{port + 1}"]
        log = tmp_path / "relay.log"
        running = servers.start(command, log, dies_with_us=True)
        servers.wait("relay", lambda: not ports.is_free(port), 20, {log: running})
        with socket.create_connection(("127.0.0.1", port), timeout=20) as near, listener.accept()[0] as far:
            far.settimeout(20)
            yield near, far
        holder.kill()
        holder.wait()
        servers.wait("relay's end with its holder", lambda: not servers.is_running(running), 20)


@pytest.mark.skipif(os.geteuid() != 0, reason="setns needs root")
def test_one_direction_may_end_before_the_other(ends):
    near, far = ends

    near.sendall(b"question")
    near.shutdown(socket.SHUT_WR)
    question = far.makefile("rb").read()
    far.sendall(b"answer")
    far.close()

    assert (question, near.makefile("rb").read()) == (b"question", b"answer")


@pytest.mark.skipif(os.geteuid() != 0, reason="setns needs root")
def test_a_reset_on_the_far_side_ends_the_near_side(ends):
    near, far = ends

    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    far.close()

    assert near.recv(1) == b""
