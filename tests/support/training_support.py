"""Starts real MindSpore training with the agent injected as in a pod, and reads the rings that it leaves."""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from rankbeat_contract import names, ring

REPO = Path(__file__).resolve().parents[2]
AGENT_PACKAGES = ("rankbeat_agent", "rankbeat_contract")
_FLOCK = struct.Struct("hhqqi4x")
LIMIT_SECONDS = 240.0


def mindspore_python() -> Path:
    """The interpreter of the MindSpore environment: RANKBEAT_MINDSPORE_PYTHON, or what `make setup` built."""
    return Path(os.environ.get("RANKBEAT_MINDSPORE_PYTHON") or REPO / "build/mindspore/bin/python")


def mindformers_python() -> Path:
    """The interpreter of the MindFormers environment, which has a MindSpore of its own."""
    return REPO / "build/mindformers/bin/python"


def _trains(python: Path, remedy: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.training, pytest.mark.skipif(not python.exists(), reason=f"no {python}: run `{remedy}`")]


TRAINS = _trains(mindspore_python(), "python3 dev/setup.py --only uv mindspore")
"""Marks of what trains with MindSpore."""
TRAINS_MINDFORMERS = _trains(mindformers_python(), "python3 dev/setup.py --only uv mindformers")
"""Marks of what trains with MindFormers."""


def pod_folder(folder: Path) -> Path:
    """The agent in folder as a pod's ConfigMap lays it out: sitecustomize.py at the top, the packages beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in AGENT_PACKAGES:
        shutil.copytree(REPO / "agent" / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPO / "agent/rankbeat_agent/autoload/sitecustomize.py", folder)
    return folder


def environment(agent: Path | None, rings: Path | None, **more: str) -> dict[str, str]:
    """A training container's environment; agent is a pod_folder, put first on PYTHONPATH as the webhook does."""
    variables = {
        "HOME": os.environ.get("HOME", "/root"),
        "PATH": f"{mindspore_python().parent}:/usr/local/bin:/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
        "GLOG_v": "2",
    }
    if agent is not None:
        variables["PYTHONPATH"] = str(agent)
    if rings is not None:
        variables[names.ENV_RING_DIR] = str(rings)
    return {**variables, **more}


def run(command: list[str], variables: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The finished command with its output, run in folder."""
    return subprocess.run(
        command, env=dict(variables), cwd=folder, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )


@dataclass(frozen=True, slots=True)
class Launched:
    """A finished msrun."""

    exit_code: int
    output: str
    logs: Mapping[str, str]
    """Text by file name: scheduler.log, worker_RANK.log."""


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _msrun_command(workers: int, script: list[str], logs: Path, python: Path | None = None) -> list[str]:
    # Not the environment's own msrun script: its first line may name another place.
    program = "import sys; from mindspore.parallel.cluster.run import main; sys.exit(main())"
    options = [f"--worker_num={workers}", f"--local_worker_num={workers}", f"--master_port={free_port()}"]
    interpreter = str(python or mindspore_python())
    return [interpreter, "-c", program, *options, "--join=True", f"--log_dir={logs}", *script]


def msrun(
    workers: int, script: list[str], variables: Mapping[str, str], folder: Path, python: Path | None = None
) -> Launched:
    """A whole job of workers ranks on loopback; python: of another environment than MindSpore's."""
    logs = folder / "logs"
    done = run(_msrun_command(workers, script, logs, python), variables, folder)
    texts = {path.name: path.read_text(errors="replace") for path in sorted(logs.glob("*.log"))}
    return Launched(done.returncode, done.stdout + done.stderr, texts)


@contextlib.contextmanager
def running_msrun(
    workers: int, script: list[str], variables: Mapping[str, str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A job of workers ranks, ended with all its processes when the caller has seen enough."""
    command = _msrun_command(workers, script, folder / "logs")
    with subprocess.Popen(
        command, env=dict(variables), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as job:
        try:
            yield job
        finally:
            job.send_signal(signal.SIGINT)  # the one signal by which msrun takes scheduler and workers with it
            try:
                job.wait(timeout=60)
            except subprocess.TimeoutExpired:
                job.kill()


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring as a reader finds it."""

    header: ring.Header
    state: ring.State
    names: tuple[ring.Name, ...]
    records: tuple[ring.Record, ...]
    refused: int
    """Records that the state counts and that do not check."""

    @property
    def phase(self) -> str:
        return ring.PHASES[self.state.phase]

    def steps(self) -> list[ring.Record]:
        """Records of finished steps, oldest first."""
        return [record for record in self.records if record.kind == ring.KIND_STEP]

    def scalars(self, name: str) -> dict[int, float]:
        """Value by step."""
        return {
            record.step: record.value
            for record in self.records
            if record.kind == ring.KIND_SCALAR and self.names[record.name_id].name == name
        }


def read_ring(path: Path) -> Ring:
    """What a ring holds, by one read, as the collector sees it.

    Raises: ValueError if it has no valid header or state.
    """
    content = path.read_bytes()
    header = ring.unpack_header(content[: ring.HEADER_BYTES])
    state = ring.newest_state(content[ring.STATE_OFFSET : ring.NAMES_OFFSET])
    if state is None:
        raise ValueError(f"{path} has no valid state")
    interned = []
    for name_id in range(state.names):
        start = ring.name_offset(name_id)
        name = ring.unpack_name(content[start : start + ring.NAME_BYTES])
        if name is None:
            raise ValueError(f"{path} has no valid name {name_id}")
        interned.append(name)
    found = []
    for sequence in range(max(0, state.written - header.capacity), state.written):
        start = ring.record_offset(sequence, header.capacity)
        found.append(ring.unpack_record(content[start : start + ring.RECORD_BYTES], sequence))
    whole = tuple(record for record in found if record is not None)
    return Ring(header, state, tuple(interned), whole, len(found) - len(whole))


def read_rings(folder: Path) -> list[Ring]:
    """All rings of a folder, by rank."""
    return sorted((read_ring(path) for path in folder.glob(f"*{ring.SUFFIX}")), key=lambda found: found.state.rank)


def lock_holder(path: Path) -> int:
    """Process id that holds the ring's lock, 0 if none does."""
    with path.open("rb") as file:
        answer = fcntl.fcntl(file, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0))
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def wait_for_ring(folder: Path, seconds: float = 60.0) -> Path:
    """The first ring that appears in folder.

    Raises: TimeoutError if none does.
    """
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        for path in folder.glob(f"*{ring.SUFFIX}"):
            return path
        time.sleep(0.005)
    raise TimeoutError(f"no ring in {folder} after {seconds} s")
