"""This process's ring: claimed once, written in place, let go by the kernel when the process ends."""

import fcntl
import mmap
import os
import struct
import zlib
from operator import attrgetter
from time import monotonic_ns, time_ns

from rankbeat_contract import ring

# No typing, no module that a rank seldom needs: all this is compiled at the start of each training process.

_NAN = float("nan")
UNFIT = (struct.error, ValueError, OverflowError, TypeError)
"""What struct, memoryview and float() say of a value that does not fit."""
FIELDS = (
    "sequence",
    "written",
    "rank",
    "world_size",
    "segment",
    "names",
    "phase",
    "flags",
    "step",
    "entered_step",
    "phase_since_mono_ns",
    "step_mono_ns",
    "entered_mono_ns",
    "updated_mono_ns",
    "longest_interval_ns",
    "agent_errors",
    "total_steps",
    "cpu_seconds",
    "exception",
    "refused",
)
"""What a state holds, in the order of ring.STATE."""
_fields_of = attrgetter(*FIELDS)
_pack_state = ring.STATE.pack
_put_crc = ring.CRC.pack_into
_crc32 = zlib.crc32


class Writer:
    """A claimed ring and the state that publish() writes to it.

    No method raises: what does not fit is counted in `refused`. One thread writes.
    The descriptor and the mapping are held for life, and the file is never opened again: closing any descriptor of it
    would drop the lock that tells the collector that this process lives (fcntl(2), POSIX record locks).
    """

    __slots__ = (*FIELDS, "capacity", "descriptor", "ids", "marks", "memory", "run_id")

    def __init__(self, descriptor: int, memory: mmap.mmap, capacity: int, run_id: str) -> None:
        self.descriptor = descriptor
        self.memory = memory
        self.marks = memoryview(memory).cast("q")
        """The file as 8-byte words: an item is written by one store."""
        self.capacity = capacity
        self.run_id = run_id
        self.ids: "dict[str, int]" = {}
        """Interned names."""
        self.sequence = self.written = self.segment = self.names = self.phase = self.flags = 0
        self.rank = self.world_size = self.step = self.entered_step = ring.UNKNOWN
        self.step_mono_ns = self.entered_mono_ns = self.updated_mono_ns = self.longest_interval_ns = 0
        self.phase_since_mono_ns = monotonic_ns()
        self.agent_errors = self.total_steps = self.refused = 0
        self.cpu_seconds = _NAN
        self.exception = b""

    def mark_phase(self, phase: int, now_ns: int) -> None:
        """A phase has begun."""
        self.phase = phase
        self.phase_since_mono_ns = now_ns
        word = now_ns + (phase << 59)  # ring.PHASE_SHIFT
        marks = self.marks
        marks[88] = word
        marks[89] = ~word

    def publish(self, now_ns: int) -> None:
        """Write the state to the slot that the reader does not trust yet."""
        self.sequence = sequence = self.sequence + 1
        self.updated_mono_ns = now_ns
        try:
            body = _pack_state(*_fields_of(self))
        except UNFIT:
            from rankbeat_agent.wire import fitting  # noqa: PLC0415 - compiled only where it is needed

            body = fitting.state(self)
        start = 128 + (sequence & 1) * 256  # ring.state_offset
        memory = self.memory
        _put_crc(memory, start, _crc32(body))
        memory[start + 4 : start + 256] = body

    def enter_phase(self, phase: int) -> None:
        """Announce a phase, begun now, and publish the state."""
        now = monotonic_ns()
        self.mark_phase(phase, now)
        self.publish(now)

    def let_go(self) -> None:
        """Unmap and close, in a forked child: the parent's lock and file stay as they are."""
        self.marks.release()
        self.memory.close()
        os.close(self.descriptor)


def claim(directory: str, file_bytes: int, attempt: int, local_rank: int, started_wall_ns: int) -> Writer:
    """A new ring in directory, locked, in phase `init_comm`; once in a process.

    Where the volume is full, what dead processes of the same local rank have left is deleted first, oldest first.
    Raises: OSError where the file cannot be made whole; ValueError on a file_bytes that holds no record.
    """
    tried = 0
    while True:
        try:
            return _claimed(directory, file_bytes, attempt, local_rank, started_wall_ns)
        except OSError as error:  # noqa: PERF203 - ends: each round but the first few has deleted a file
            from rankbeat_agent.wire import room  # noqa: PLC0415 - compiled only where it is needed

            if not room.made(error, directory, local_rank, tried):
                raise
            tried += 1


def _claimed(directory: str, file_bytes: int, attempt: int, local_rank: int, started_wall_ns: int) -> Writer:
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
        fixed = ring.MAGIC, ring.VERSION, ring.RECORD_BYTES, capacity, os.getpid(), attempt, local_rank
        header = ring.HEADER.pack(*fixed, monotonic_ns(), time_ns(), started_wall_ns, run_id.encode())
        memory[: ring.HEADER_BYTES] = ring.sealed(header, ring.HEADER_BYTES)
        writer = Writer(descriptor, memory, capacity, run_id)
        writer.publish(monotonic_ns())
        # Under its name only when whole, so that no reader ever meets a ring without a header.
        os.rename(path, path + ring.SUFFIX)  # noqa: PTH104
    except BaseException:
        os.close(descriptor)
        os.unlink(path)  # noqa: PTH108
        raise
    return writer
