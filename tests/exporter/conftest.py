"""Servers, namespaces and libraries that the exporter's tests share."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_support import Gpus
from rankbeat_exporter.parsing import dcmi as meaning
from rankbeat_exporter.sources import dcmi, dcmi_places

REPOSITORY = Path(__file__).parents[2]

NTP_EPOCH = 2208988800
CLONE_NEWNET = 0x40000000


def ntp_time(unix):
    """64 bits of NTP time; 0 stays the unknown time."""
    return 0 if unix == 0 else int((unix + NTP_EPOCH) * 2**32) % 2**64


def packet(question=b"\0" * 48, **changes):
    """A good server's answer to the question, with changes by field; times are Unix times."""
    now = changes.pop("now", None) or time.time()
    good = {
        "leap": 0, "version": 4, "mode": 4, "stratum": 2, "poll": 6, "precision": -23, "root_delay": 0.002,
        "root_dispersion": 0.001, "ref_id": 0x0A000001, "reference": now - 30, "origin": question[40:48],
        "receive": now, "transmit": now,
    }  # fmt: skip
    unknown = set(changes) - set(good)
    assert not unknown, unknown
    p = good | changes
    return struct.pack(
        "!BBBbIIIQ8sQQ",
        p["leap"] << 6 | p["version"] << 3 | p["mode"],
        p["stratum"], p["poll"], p["precision"],
        int(p["root_delay"] * 65536), int(p["root_dispersion"] * 65536), p["ref_id"],
        ntp_time(p["reference"]), p["origin"], ntp_time(p["receive"]), ntp_time(p["transmit"]),
    )  # fmt: skip


class Liar:
    """A UDP server on the loopback that answers as told: answers(question, now) gives the packets to send, in order.

    A number among them is a pause in seconds. questions counts what arrived.
    """

    def __init__(self, answers):
        self._answers = answers
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.questions = 0
        self._wake, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            ready, _, _ = select.select([self._socket, self._wake], [], [])
            if self._wake in ready:
                return
            question, client = self._socket.recvfrom(1024)
            now = time.time()
            self.questions += 1
            for answer in self._answers(question, now):
                if isinstance(answer, float):
                    select.select([self._wake], [], [], answer)
                elif isinstance(answer, tuple):
                    answer[0].sendto(answer[1], client)
                else:
                    self._socket.sendto(answer, client)

    def close(self):
        os.write(self._waker, b"x")
        self._thread.join()
        for number in (self._wake, self._waker):
            os.close(number)
        self._socket.close()


@pytest.fixture
def a_packet():
    return packet


@pytest.fixture
def liar():
    """Starts liars: liar(answers), or liar(field=value, ...) for a good answer with changes."""
    started = []

    def start(answers=None, **changes):
        started.append(Liar(answers or (lambda question, now: [packet(question, now=now, **changes)])))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture(scope="session")
def doubles():
    """dev/doubles/build.py."""
    spec = importlib.util.spec_from_file_location("rankbeat_doubles", REPOSITORY / "dev/doubles/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def driver_root(doubles, tmp_path_factory):
    """A driver root with the double of libdcmi.so."""
    root = tmp_path_factory.mktemp("driver")
    doubles.build_dcmi(root)
    return root


@pytest.fixture
def script(tmp_path):
    """Writes the double's script, live; script.path goes into DCMI_DOUBLE_SCRIPT."""

    def write(text):
        fresh = tmp_path / "double.new"
        fresh.write_text(text)
        fresh.replace(write.path)

    write.path = tmp_path / "double.txt"
    write("")
    return write


@pytest.fixture
def npu_library(driver_root, script, monkeypatch):
    """The code that calls libdcmi.so, over the double."""
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    return dcmi.Dcmi(dcmi_places.library_paths(driver_root))


@pytest.fixture
def read_npus(driver_root, script, monkeypatch):
    """What the double of libdcmi.so gives under a script, by the code that loads the real one.

    (accelerator, failures) of each chip. root: a driver root with another library than driver_root's.
    """
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))

    def read(text="", root=driver_root):
        script(text)
        library = dcmi.Dcmi(dcmi_places.library_paths(root))
        return [meaning.accelerator(chip) for chip in library.chips()]

    return read


@pytest.fixture(scope="module")
def start_gpus(doubles, tmp_path_factory):
    """Starts Gpus over a library that lacks the symbols named; all end with the module."""
    started, libraries = [], {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(str(REPOSITORY / part) for part in ("node_exporter", "agent")))

        def start(*without):
            folder = tmp_path_factory.mktemp("nvml")
            patch.setenv("NVML_DOUBLE_SCRIPT", str(folder / "script.txt"))
            if without not in libraries:
                libraries[without] = doubles.build_nvml(folder, without)
            started.append(Gpus(libraries[without], folder / "script.txt"))
            started[-1].snapshot()  # the child takes the environment as it is now
            return started[-1]

        yield start
    for one in started:
        one.child.close()


@pytest.fixture(scope="module")
def gpus(start_gpus):
    return start_gpus()


def in_namespace(name, function):
    """What function gives when a thread of its own calls it inside the network namespace."""
    outcome = []

    def run():
        try:
            number = os.open(f"/run/netns/{name}", os.O_RDONLY)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(number, CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            finally:
                os.close(number)
            outcome.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - carried to the caller
            outcome.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    found, error = outcome[0]
    if error is not None:
        raise error
    return found


@pytest.fixture
def inside():
    return in_namespace


def eventually(question, seconds=10.0):
    """The first true answer of question within the seconds."""
    deadline = time.monotonic() + seconds
    while True:
        found = question()
        if found or time.monotonic() > deadline:
            assert found, "not within the time"
            return found
        time.sleep(0.02)


@pytest.fixture(name="eventually")
def _eventually():
    return eventually


@contextmanager
def running(*arguments, prefix=(), environment=None):
    """A program of the exporter as a process; ended by SIGTERM, which it must obey at once."""
    paths = os.pathsep.join(map(str, (REPOSITORY / "node_exporter", REPOSITORY / "agent")))
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "rankbeat_exporter", *arguments],
        env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            _, log = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        assert process.returncode == 0, log.decode()


@pytest.fixture
def program():
    return running


@pytest.fixture
def get():
    """The body of an HTTP answer, or its status where it is no 200."""

    def read(port, path, address="127.0.0.1"):
        try:
            with urllib.request.urlopen(f"http://{address}:{port}{path}", timeout=5) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return None

    return read


def a_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def free_port():
    return a_free_port()


@pytest.fixture
def loopback_port(free_port):
    del free_port  # drawn before: another
    return a_free_port()
