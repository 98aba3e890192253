"""This process's ring: claimed once, written in place, let go by the kernel when the process ends."""

import fcntl
import mmap
import os
import struct
import zlib
from time import monotonic_ns, time_ns

from rankbeat_contract import ring

# No typing, no module that a rank seldom needs: all this is compiled at the start of each training process.

_NAN = float("nan")
UNFIT = (struct.error, ValueError, OverflowError, TypeError)
"""What struct, memoryview and float() say of a value that does not fit."""
_PHASE_WORDS = tuple(ring.phase_word(phase, 0) for phase in range(len(ring.PHASES)))
_pack_record = ring.RECORD.pack
_pack_state = ring.STATE.pack
_put_crc = ring.CRC.pack_into
_crc32 = zlib.crc32


class Writer:
    """A claimed ring and the state that publish() writes to it.

    No method raises: what does not fit is counted in `refused`. One thread writes.
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
        "ids",
        "longest_interval_ns",
        "marks",
        "memory",
        "names",
        "phase",
        "phase_since_mono_ns",
        "rank",
        "refused",
        "run_id",
        "segment",
        "sequence",
        "step",
        "step_mono_ns",
        "total_steps",
        "world_size",
        "written",
    )

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
        self.phase_since_mono_ns = monotonic_ns()
        self.step_mono_ns = self.entered_mono_ns = self.longest_interval_ns = 0
        self.agent_errors = self.total_steps = self.refused = 0
        self.cpu_seconds = _NAN
        self.exception = b""

    # Each mark is a word and its complement. The numbers are ring.MARKS_OFFSET // 8 and so on, spelled out: each
    # name that a step looks up is a cache line that training has thrown out.

    def mark_entered(self, step: int, now_ns: int) -> None:
        """A step has begun."""
        self.entered_step = step
        self.entered_mono_ns = now_ns
        marks = self.marks
        try:
            marks[80] = now_ns
            marks[81] = ~now_ns
            marks[82] = step
            marks[83] = ~step
        except UNFIT:
            self.refused += 1

    def mark_finished(self, step: int, now_ns: int) -> None:
        """A step has ended."""
        self.step = step
        self.step_mono_ns = now_ns
        marks = self.marks
        try:
            marks[84] = now_ns
            marks[85] = ~now_ns
            marks[86] = step
            marks[87] = ~step
        except UNFIT:
            self.refused += 1

    def mark_phase(self, phase: int, now_ns: int) -> None:
        """A phase has begun."""
        self.phase = phase
        self.phase_since_mono_ns = now_ns
        word = now_ns + _PHASE_WORDS[phase]
        marks = self.marks
        marks[88] = word
        marks[89] = ~word

    def mark_ended(self, step: int, now_ns: int, phase: int) -> None:
        """A step has ended and a phase begun: mark_finished() and mark_phase() by one call."""
        self.step = step
        self.step_mono_ns = self.phase_since_mono_ns = now_ns
        self.phase = phase
        marks = self.marks
        try:
            marks[84] = now_ns
            marks[85] = ~now_ns
            marks[86] = step
            marks[87] = ~step
            word = now_ns + _PHASE_WORDS[phase]
            marks[88] = word
            marks[89] = ~word
        except UNFIT:
            self.refused += 1

    def publish(self, now_ns: int) -> None:
        """Write the state to the slot that the reader does not trust yet."""
        self.sequence = sequence = self.sequence + 1
        try:
            body = _pack_state(
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
                self.refused,
            )
        except UNFIT:
            from rankbeat_agent.wire import fitting  # noqa: PLC0415 - compiled only where it is needed

            body = fitting.state(self, now_ns)
        start = 128 + (sequence & 1) * 256  # ring.state_offset
        memory = self.memory
        _put_crc(memory, start, _crc32(body))
        memory[start + 4 : start + 256] = body

    def enter_phase(self, phase: int) -> None:
        """Announce a phase, begun now, and publish the state."""
        now = monotonic_ns()
        self.mark_phase(phase, now)
        self.publish(now)

    def note(  # noqa: PLR0913, PLR0917 - a record's fields; a tuple of them would be made only to be unpacked
        self,
        kind: int,
        name_id: int,
        step: int,
        now_ns: int,
        value: float,
        value2: float = _NAN,
        value3: float = _NAN,
        layer: int = -1,
        head: int = -1,
    ) -> None:
        """Write one record of this segment; the next publish() makes it visible. One that does not fit is refused."""
        sequence = self.written
        try:
            body = _pack_record(
                kind,
                self.flags & 1,  # ring.TIMING_SYNCED
                name_id,
                self.segment,
                sequence,
                step,
                now_ns,
                layer,
                head,
                value,
                value2,
                value3,
            )
        except UNFIT:
            self.refused += 1
            return
        start = 13312 + sequence % self.capacity * 64  # ring.record_offset
        memory = self.memory
        _put_crc(memory, start, _crc32(body))
        memory[start + 4 : start + 64] = body
        self.written = sequence + 1

    def intern(self, name: str, unit: str = "", is_counter: bool = False) -> int:  # noqa: FBT001, FBT002
        """The id of a name, for good; ring.UNKNOWN, which note() refuses, for one that does not fit or is too many."""
        known = self.ids.get(name)
        if known is not None:
            return known
        name_id = self.names
        try:
            part = ring.pack_name_fields(name.encode("ascii"), unit.encode("ascii"), is_counter)
            fits = name_id < ring.NAME_SLOTS and 0 < len(name) <= ring.NAME_LETTERS
        except (AttributeError, *UNFIT):
            fits = False
        if not fits:
            self.refused += 1
            return ring.UNKNOWN
        start = ring.name_offset(name_id)
        self.memory[start : start + ring.NAME_BYTES] = part
        self.ids[name] = name_id
        self.names = name_id + 1
        return name_id

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
        times = monotonic_ns(), time_ns(), started_wall_ns
        header = ring.pack_header_fields(capacity, os.getpid(), attempt, local_rank, 0, *times, run_id.encode())
        memory[: ring.HEADER_BYTES] = header
        writer = Writer(descriptor, memory, capacity, run_id)
        writer.publish(monotonic_ns())
        # Under its name only when whole, so that no reader ever meets a ring without a header.
        os.rename(path, path + ring.SUFFIX)  # noqa: PTH104
    except BaseException:
        os.close(descriptor)
        os.unlink(path)  # noqa: PTH108
        raise
    return writer
