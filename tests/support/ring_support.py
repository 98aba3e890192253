"""Rings as the agent writes them, and the pods they lie in."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Poll, Rank
from rankbeat_collector.ring import polling
from rankbeat_contract import ring

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOLD_LOCK = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


def a_pod(name: str = "llm-0", **changes: object) -> Pod:
    """A running pod of monitor `llm` in team-a."""
    fields: dict[str, object] = {
        "namespace": "team-a",
        "name": name,
        "uid": f"uid-{name}",
        "monitor": "llm",
        "job": "llm",
        "job_uid": "job-1",
        "phase": "Running",
    }
    return Pod(**{**fields, **changes})  # type: ignore[arg-type]


def a_header(**changes: object) -> ring.Header:
    header = ring.Header(
        capacity=100,
        pid=17,
        attempt=0,
        local_rank=0,
        claimed_mono_ns=1_000_000_000,
        claimed_wall_ns=1_796_000_000_000_000_000,
        started_wall_ns=1_796_000_000_000_000_000,
        run_id="run0",
    )
    return header._replace(**changes)  # type: ignore[arg-type]


def a_state(**changes: object) -> ring.State:
    """Rank 0 of 2 in phase train, claimed at 1 s, now in step 1."""
    state = ring.State(
        sequence=1,
        rank=0,
        world_size=2,
        segment=1,
        phase=ring.PHASES.index("train"),
        flags=ring.TIMING_SYNCED,
        phase_since_mono_ns=2_000_000_000,
        updated_mono_ns=3_000_000_000,
        cpu_seconds=12.5,
    )
    return state._replace(**changes)  # type: ignore[arg-type]


def a_rank(pod: Pod | None = None, *, is_alive: bool = True, **changes: object) -> Rank:
    """A rank as the collector sees it; header, state and the rest by name."""
    fields: dict[str, object] = {"file": "run0.ring", "header": a_header(), "state": a_state()}
    return Rank(pod=pod or a_pod(), is_alive=is_alive, **{**fields, **changes})  # type: ignore[arg-type]


def a_poll(*ranks: Rank, **changes: object) -> Poll:
    """A poll at 10 s after boot, epoch 1,796,000,010."""
    fields: dict[str, object] = {
        "mono_ns": 10_000_000_000,
        "wall_ns": 1_796_000_010_000_000_000,
        "has_pods": True,
        "is_readable": True,
    }
    return Poll(ranks=ranks, **{**fields, **changes})  # type: ignore[arg-type]


class RingWriter:
    """A ring file, written by pwrite in the agent's order: name, record, state."""

    def __init__(self, path: Path, *, capacity: int = 100, header: ring.Header | None = None) -> None:
        self.path = path
        self.header = header or a_header(capacity=capacity, claimed_mono_ns=time.monotonic_ns(), run_id=path.stem)
        self.latest = a_state(sequence=0)
        self._names: list[str] = []
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        os.posix_fallocate(self._fd, 0, ring.RECORDS_OFFSET + capacity * ring.RECORD_BYTES)
        self.put(ring.pack_header(self.header), 0)
        self.state()

    def put(self, part: bytes, offset: int) -> None:
        os.pwrite(self._fd, part, offset)

    def state(self, **changes: object) -> None:
        """Writes the next state."""
        fields = {"sequence": self.latest.sequence + 1, "updated_mono_ns": time.monotonic_ns(), **changes}
        self.latest = self.latest._replace(**fields)  # type: ignore[arg-type]
        self.put(ring.pack_state(self.latest), ring.state_offset(self.latest.sequence))

    def record(self, **fields: object) -> None:
        """Writes a record; the state that counts it comes later."""
        sequence = self.latest.written
        record = ring.Record(**{"sequence": sequence, "mono_ns": time.monotonic_ns(), "segment": 1, **fields})  # type: ignore[arg-type]
        self.put(ring.pack_record(record), ring.record_offset(sequence, self.header.capacity))
        self.latest = self.latest._replace(written=sequence + 1)

    def step(self, step: int, interval: float = 0.02, gap: float = 0.001, in_step: float = 0.019) -> None:
        self.record(kind=ring.KIND_STEP, step=step, value=interval, value2=gap, value3=in_step)
        self.state(step=step, entered_step=step + 1, step_mono_ns=time.monotonic_ns())

    def name_id(self, name: str) -> int:
        if name not in self._names:
            self.put(ring.pack_name(ring.Name(name)), ring.name_offset(len(self._names)))
            self._names.append(name)
        return self._names.index(name)

    def scalar(self, step: int, name: str, value: float) -> None:
        self.record(kind=ring.KIND_SCALAR, step=step, value=value, name_id=self.name_id(name))
        self.state(names=len(self._names))

    def close(self) -> None:
        os.close(self._fd)


def ring_folder(root: Path, pod: Pod) -> Path:
    """The folder of a pod's rings below the kubelet's root, made."""
    folder = root / "pods" / Path(*polling.kubelet_folder(pod))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def a_poller(root: Path, *pods: Pod) -> polling.Poller:
    """A poller of these pods."""
    return polling.Poller(polling.kubelet_source(str(root), lambda: pods))


@contextlib.contextmanager
def a_living_process(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds a ring's lock as its training process does."""
    command = [sys.executable, "-S", "-c", _HOLD_LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield holder
        finally:
            holder.kill()
