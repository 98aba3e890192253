"""This process's ring: claimed once, written in place, let go by the kernel when the process ends."""

import fcntl
import mmap
import os
from time import monotonic_ns, time_ns

from rankbeat_contract import ring

_MASK = ring.WORD_MASK
_ENTERED_NS, _ENTERED_STEP, _STEP_NS, _STEP, _PHASE = (
    ring.MARKS_OFFSET // 8 + 2 * mark
    for mark in (
        ring.MARK_ENTERED_NS,
        ring.MARK_ENTERED_STEP,
        ring.MARK_STEP_NS,
        ring.MARK_STEP,
        ring.MARK_PHASE,
    )
)
"""Indices in the file as 8-byte words; a mark's complement follows it."""


class Writer:
    """A claimed ring and the state that publish() writes to it.

    The descriptor and the mapping are held for life, and the file is never opened again: closing any descriptor of it
    would drop the lock that tells the collector that this process lives (fcntl(2), POSIX record locks).
    """

    __slots__ = (
        "agent_errors",
        "capacity",
        "cpu_seconds",
        "descriptor",
        "entered_mono_ns",
        "entered_step",
        "exception",
        "flags",
        "longest_interval_ns",
        "marks",
        "memory",
        "names",
        "phase",
        "phase_since_mono_ns",
        "rank",
        "segment",
        "sequence",
        "step",
        "step_mono_ns",
        "total_steps",
        "world_size",
        "written",
    )

    def __init__(self, descriptor: int, memory: mmap.mmap, capacity: int) -> None:
        self.descriptor = descriptor
        self.memory = memory
        self.marks = memoryview(memory).cast("Q")
        """The file as 8-byte words: an item is written by one store."""
        self.capacity = capacity
        self.sequence = self.written = self.segment = self.names = self.phase = self.flags = 0
        self.rank = self.world_size = self.step = self.entered_step = ring.UNKNOWN
        self.phase_since_mono_ns = monotonic_ns()
        self.step_mono_ns = self.entered_mono_ns = self.longest_interval_ns = 0
        self.agent_errors = self.total_steps = 0
        self.cpu_seconds = float("nan")
        self.exception = b""

    def mark_entered(self, step: int, now_ns: int) -> None:
        """A step has begun."""
        self.entered_step = step
        self.entered_mono_ns = now_ns
        marks = self.marks
        marks[_ENTERED_NS] = now_ns
        marks[_ENTERED_NS + 1] = now_ns ^ _MASK
        marks[_ENTERED_STEP] = step
        marks[_ENTERED_STEP + 1] = step ^ _MASK

    def mark_finished(self, step: int, now_ns: int) -> None:
        """A step has ended."""
        self.step = step
        self.step_mono_ns = now_ns
        marks = self.marks
        marks[_STEP_NS] = now_ns
        marks[_STEP_NS + 1] = now_ns ^ _MASK
        marks[_STEP] = step
        marks[_STEP + 1] = step ^ _MASK

    def mark_phase(self, phase: int, now_ns: int) -> None:
        """A phase has begun."""
        self.phase = phase
        self.phase_since_mono_ns = now_ns
        word = now_ns & ~15 | phase
        self.marks[_PHASE] = word
        self.marks[_PHASE + 1] = word ^ _MASK

    def publish(self, now_ns: int) -> None:
        """Write the state to the slot that the reader does not trust yet."""
        self.sequence = sequence = self.sequence + 1
        start = ring.state_offset(sequence)
        self.memory[start : start + 256] = ring.pack_state_fields(
            sequence,
            self.written,
            self.rank,
            self.world_size,
            self.segment,
            self.names,
            self.phase,
            self.flags,
            0,
            self.step,
            self.entered_step,
            self.phase_since_mono_ns,
            self.step_mono_ns,
            self.entered_mono_ns,
            now_ns,
            self.longest_interval_ns,
            self.agent_errors,
            self.total_steps,
            self.cpu_seconds,
            self.exception,
        )

    def enter_phase(self, phase: int) -> None:
        """Announce a phase, begun now, and publish the state."""
        now = monotonic_ns()
        self.mark_phase(phase, now)
        self.publish(now)

    def note(self, kind: int, name_id: int, step: int, now_ns: int, *values: float) -> None:
        """Write one record of this segment; values are the record's three, the next publish() makes it visible."""
        sequence = self.written
        start = ring.record_offset(sequence, self.capacity)
        self.memory[start : start + 64] = ring.pack_record_fields(
            kind, self.flags & ring.TIMING_SYNCED, name_id, self.segment, sequence, step, now_ns, -1, -1, *values
        )
        self.written = sequence + 1

    def intern(self, name: str, unit: str = "") -> int:
        """The id of a name that is new to this ring.

        Raises: ValueError when all NAME_SLOTS are taken.
        """
        name_id = self.names
        if name_id >= ring.NAME_SLOTS:
            raise ValueError(f"no slot left for metric {name!r}, a ring holds {ring.NAME_SLOTS}")
        start = ring.name_offset(name_id)
        self.memory[start : start + ring.NAME_BYTES] = ring.pack_name(ring.Name(name, unit))
        self.names = name_id + 1
        return name_id

    def let_go(self) -> None:
        """Unmap and close, in a forked child: the parent's lock and file stay as they are."""
        self.marks.release()
        self.memory.close()
        os.close(self.descriptor)


def claim(directory: str, file_bytes: int, attempt: int, local_rank: int, started_wall_ns: int) -> Writer:
    """A new ring in directory, locked, in phase `init_comm`.

    Raises: OSError where the file cannot be made whole; ValueError on a file_bytes that holds no record.
    """
    capacity = ring.records_capacity(file_bytes)
    run_id = os.urandom(12).hex()
    path = os.path.join(directory, run_id)  # noqa: PTH118 - no pathlib in a training process
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        # A store into a hole of a full tmpfs is SIGBUS; this fails with ENOSPC instead (docs/sources.md, Injection).
        os.posix_fallocate(descriptor, 0, file_bytes)
        os.fchmod(descriptor, 0o644)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        memory = mmap.mmap(descriptor, file_bytes)
        header = ring.Header(
            capacity, os.getpid(), attempt, local_rank, monotonic_ns(), time_ns(), started_wall_ns, run_id
        )
        memory[: ring.HEADER_BYTES] = ring.pack_header(header)
        writer = Writer(descriptor, memory, capacity)
        writer.publish(monotonic_ns())
        # Under its name only when whole, so that no reader ever meets a ring without a header.
        os.rename(path, path + ring.SUFFIX)  # noqa: PTH104
    except BaseException:
        os.close(descriptor)
        os.unlink(path)  # noqa: PTH108
        raise
    return writer
