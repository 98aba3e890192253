"""One ring between polls: what is new in it, and where its rank stands. Holds no descriptor."""

import fcntl
import math
import os
import re
import struct
from collections import deque
from typing import Callable, Deque, Dict, Optional, Tuple

from rankbeat_collector.errors import RefusedError
from rankbeat_collector.model import ranks
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Numbers, Rank, Scalar, Step
from rankbeat_collector.ring import sides
from rankbeat_contract import names, ring

_METRIC = re.compile(names.METRIC_NAME_PATTERN)
_FLOCK = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid."""
_UNSEEN = 4
"""Newest records that may lag behind the state that counts them, where stores become visible in any order (aarch64)."""


def is_locked(fd: int) -> bool:
    """Whether a process holds a lock on the first byte of a ring: the process that claimed it lives."""
    probe = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    held = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, probe))
    return bool(held[0] != fcntl.F_UNLCK)


def _order(state: ring.State) -> Tuple[int, int]:
    """What grows with time: a rank that hangs publishes no further state, only its marks have moved since."""
    return (state.sequence, state.updated_mono_ns)


Observe = Callable[[ring.Header, ring.State, ring.Record, str], None]
"""Takes a record with its ring's header and state, and its name: of a scalar, empty for a step."""


class Ring:
    """A ring file as read so far."""

    def __init__(self, file: str, kept_rows: int, observe: Optional[Observe] = None) -> None:
        """kept_rows: newest steps, and newest scalars, that are kept. observe: told of every record, once."""
        self._file = file
        self._kept_rows = kept_rows
        self._observe = observe
        self._header: Optional[ring.Header] = None
        self._side: Optional[sides.SideFile] = None
        self._reset()

    def _reset(self) -> None:
        self._state: Optional[ring.State] = None
        self._next = 0
        self._late: Optional[int] = None
        self._names: Dict[int, str] = {}
        self._steps: Deque[Step] = deque(maxlen=self._kept_rows)
        self._scalars: Deque[Scalar] = deque(maxlen=self._kept_rows)
        self._read = (0, 0)
        self._latest: Dict[str, Numbers] = {}
        self._layers: Dict[Tuple[str, int], Numbers] = {}
        self.records_lost = 0
        self.names_refused = 0

    def read(self, fd: int, size: int, budget: int) -> Optional[bool]:
        """Reads what is new, budget records at most; whether the process lives, None while the ring is not claimed yet.

        Raises: RefusedError, OSError.
        """
        is_alive = is_locked(fd)  # first: what a process that is dead by now wrote is all there
        head = os.pread(fd, ring.NAMES_OFFSET, 0)
        if not any(head):
            return None
        self._claim(head[: ring.HEADER_BYTES], size)
        state = ring.newest_state(head[ring.STATE_OFFSET :])
        if state is not None and (self._state is None or _order(state) > _order(self._state)):
            self._advance(fd, state, budget)
        elif self._late is not None:
            self._advance(fd, self._known_state(), budget)
        if self._state is None:
            raise RefusedError("state")
        return is_alive

    def read_side(self, fd: int, size: int, take: sides.TakeEntry) -> None:
        """Gives the new entries of the side file beside this ring, which was read before.

        Raises: RefusedError, OSError.
        """
        header, state = self._known_header(), self._known_state()
        if self._side is None:
            self._side = sides.SideFile()
        for entry in self._side.read(fd, size, header.run_id):
            take(header, state, entry)

    def _claim(self, part: bytes, size: int) -> None:
        try:
            header = ring.unpack_header(part)
            capacity = ring.records_capacity(size)
        except ValueError as error:
            raise RefusedError("header") from error
        refusal = ranks.header_refusal(header, capacity)
        if refusal is not None:
            raise RefusedError(refusal)
        if header != self._header:
            self._reset()
            self._header = header

    def _known_state(self) -> ring.State:
        if self._state is None:
            raise RefusedError("state")
        return self._state

    def _known_header(self) -> ring.Header:
        if self._header is None:
            raise RefusedError("header")
        return self._header

    def _advance(self, fd: int, state: ring.State, budget: int) -> None:
        refusal = ranks.state_refusal(state)
        if refusal is not None:
            raise RefusedError(refusal)
        is_first = self._state is None
        self._state = state
        last = state.written
        first = max(last - min(self._known_header().capacity, budget), 0)
        if is_first:
            self._next = first
        elif first > self._next:
            self.records_lost += first - self._next
            self._next = first
        if self._next < last:
            self._take(fd, last)

    def _take(self, fd: int, last: int) -> None:
        """Reads records up to last, not included; stops once at one of the newest that is not whole yet."""
        capacity = self._known_header().capacity
        part, offset = b"", 0
        for sequence in range(self._next, last):
            if offset >= len(part):
                run = min(last - sequence, capacity - sequence % capacity)
                part = os.pread(fd, run * ring.RECORD_BYTES, ring.record_offset(sequence, capacity))
                offset = 0
            record = ring.unpack_record(part[offset : offset + ring.RECORD_BYTES], sequence)
            offset += ring.RECORD_BYTES
            if record is not None:
                self._accept(fd, record)
            elif last - sequence <= _UNSEEN and self._late != sequence:
                self._late = self._next = sequence
                return
            else:
                self.records_lost += 1
        self._late = None
        self._next = last

    def _accept(self, fd: int, record: ring.Record) -> None:
        if self._observe is not None:
            self._show(fd, record, self._observe)
        steps, scalars = self._read
        if record.kind == ring.KIND_STEP and record.step >= 0:
            values = (_seconds(record.value), _seconds(record.value2), _seconds(record.value3))
            self._steps.append(Step(record.step, *values, record.segment))
            self._read = (steps + 1, scalars)
        elif record.kind == ring.KIND_SCALAR and record.layer == record.head == ring.UNKNOWN and record.step >= 0:
            name = self._name(fd, record.name_id)
            if name is None:
                self.names_refused += 1
                return
            self._scalars.append(Scalar(record.step, name, record.value))
            self._latest[name] = Numbers(record.value, record.value2, record.value3)
            self._read = (steps, scalars + 1)
        elif record.kind == ring.KIND_SCALAR and record.layer >= 0 and record.head == ring.UNKNOWN:
            name = self._name(fd, record.name_id)
            key = (name or "", record.layer)
            if name is not None and (key in self._layers or len(self._layers) < ranks.MAX_LAYER_VALUES):
                self._layers[key] = Numbers(record.value, record.value2, record.value3)

    def _show(self, fd: int, record: ring.Record, observe: Observe) -> None:
        name = self._name(fd, record.name_id) if record.kind == ring.KIND_SCALAR else ""
        if record.step >= 0 and name is not None and record.kind in (ring.KIND_STEP, ring.KIND_SCALAR):
            observe(self._known_header(), self._known_state(), record, name)

    def _name(self, fd: int, name_id: int) -> Optional[str]:
        if name_id not in self._names and name_id < ring.NAME_SLOTS:
            found = ring.unpack_name(os.pread(fd, ring.NAME_BYTES, ring.name_offset(name_id)))
            if found is not None and _METRIC.fullmatch(found.name):
                self._names[name_id] = found.name
        return self._names.get(name_id)

    def rank(self, pod: Pod, *, is_alive: bool) -> Rank:
        """The rank as last read, of this pod."""
        resident = self._latest.get(names.SCALAR_RESIDENT_MEMORY)
        loss = self._latest.get(names.SCALAR_LOSS)
        return Rank(
            pod=pod,
            file=self._file,
            header=self._known_header(),
            state=self._known_state(),
            is_alive=is_alive,
            steps=tuple(self._steps),
            steps_read=self._read[0],
            scalars=tuple(self._scalars),
            scalars_read=self._read[1],
            loss=None if loss is None else loss.value,
            resident_memory_bytes=None if resident is None else _seconds(resident.value),
            latest=dict(self._latest),
            layers=dict(self._layers),
            records_lost=self.records_lost,
            side_lost=0 if self._side is None else self._side.lost,
            side_dropped={} if self._side is None else self._side.dropped,
        )


def _seconds(value: float) -> Optional[float]:
    """value where it can be a duration or a size, None where it is unknown or none; nanoseconds are enough."""
    return round(value, 9) if math.isfinite(value) and value >= 0 else None


Identity = Tuple[str, Tuple[int, int]]
"""File's name and its device and inode: what a pod deletes and makes anew is another ring."""
