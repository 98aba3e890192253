"""The ring file: how one rank's observations lie in shared memory. What its writer needs; parts.py holds the rest.

One file per rank process in the pod's `rankbeat` emptyDir (a tmpfs), allocated whole before it is mapped, never grown.
The training process writes it by mmap, the collector reads it by pread; nobody locks and nobody waits.

    offset      bytes               content
    0           128                 HEADER, written once when the ring is claimed
    128         2 x 256             two STATE slots, written alternately; the valid one with the larger sequence counts
    640         5 x 16              MARKS, what changes with each step: an aligned 8-byte word and its complement
    1024        128 x 96            NAMES, metric names interned once (id = slot number)
    13312       capacity x 64       RECORDS, circular; record n lies in slot n % capacity

Header, states, names and records each carry a CRC32 over all their other bytes (their sequence number included). The
reader trusts nothing but the CRC: a part that does not check was being written, or never was. A mark is two aligned
words, each written by one store; where it checks it is newer than the state, which is published a few times a second
only: packing and summing it costs 30 us in a process whose caches hold a training step, a mark 2 us (measured
2026-11-30 on x86-64 with evicted caches). All integers are little-endian.
Times are nanoseconds. `*_mono_ns` is CLOCK_MONOTONIC, which all processes of a node share; `*_wall_ns` is the epoch.
"""

import struct
import zlib

TYPE_CHECKING = False  # typing and named tuples cost a training process milliseconds
if TYPE_CHECKING:
    from typing import Any

    from rankbeat_contract.parts import *  # noqa: F403 - what __getattr__ finds

MAGIC = b"RANKBEAT"
VERSION = 1
SUFFIX = ".ring"

HEADER_BYTES = 128
STATE_BYTES = 256
STATE_OFFSET = 128
MARKS_OFFSET = 640
MARK_ENTERED_NS, MARK_ENTERED_STEP, MARK_STEP_NS, MARK_STEP, MARK_PHASE = range(5)
"""Order of the marks. A step's time is written before the step."""
PHASE_SHIFT = 59
"""MARK_PHASE is the phase, so many bits to the left, plus since when: one addition costs the step path less cold memory
than masks do (5.9 against 7.7 us, 2026-11-30), and 2^59 ns are 18 years."""
WORD_MASK = (1 << 64) - 1
SINCE_MASK = (1 << PHASE_SHIFT) - 1
NAMES_OFFSET = 1024
NAME_BYTES = 96
NAME_SLOTS = 128
NAME_LETTERS = 64
UNIT_LETTERS = 16
RECORDS_OFFSET = NAMES_OFFSET + NAME_SLOTS * NAME_BYTES
RECORD_BYTES = 64
DEFAULT_BYTES = 1 << 20
MAX_BYTES = 16 << 20

UNKNOWN = -1
"""Rank, world size or step that is not known yet."""

PHASES = (
    "init_comm",
    "build",
    "load",
    "train",
    "callbacks",
    "checkpoint",
    "eval",
    "between",
    "recovering",
    "done",
    "failed",
)
"""Phases in the order of their codes: PHASES[code]."""

KIND_STEP = 1
"""A finished step: value = step interval, value2 = gap, value3 = in_step, all seconds; NaN where there is none."""
KIND_SCALAR = 2
"""A sampled number: value, named by name_id."""

TIMING_SYNCED = 1
"""State and record flag: durations were taken where the device was synchronised; without it they are dispatch times."""
LOSS_INVALID = 2
"""State flag: this rank holds no valid loss (a pipeline stage that is not the last)."""
AGENT_OFF = 4
"""State flag: the agent turned itself off after too many errors; training goes on, this state is the last one kept."""
HEARTBEAT = 8
"""State flag: a loop of the job's own, seen by its optimizer's calls alone: steps and dispatch times, no values."""

STATE_FORMAT = "<QQiiiIBB2xqqQQQQQIId64sI76x"
# Each part behind its CRC32.
HEADER = struct.Struct("<8sHHIIIi4xQQQ32s")
STATE = struct.Struct(STATE_FORMAT)
NAME = struct.Struct("<64s16sB")
RECORD = struct.Struct("<BBHIQqQhhddd")
CRC = struct.Struct("<I")
MARKS = struct.Struct("<10Q")


def records_capacity(file_bytes: int) -> int:
    """Records that fit a ring file of file_bytes.

    Raises: ValueError if not even one fits, or the file is larger than MAX_BYTES.
    """
    capacity = (file_bytes - RECORDS_OFFSET) // RECORD_BYTES
    if capacity < 1 or file_bytes > MAX_BYTES:
        raise ValueError(f"ring of {file_bytes} bytes, {RECORDS_OFFSET + RECORD_BYTES} to {MAX_BYTES} are possible")
    return capacity


def sealed(payload: bytes, size: int) -> bytes:
    """payload padded to size, its CRC32 in front."""
    body = payload.ljust(size - CRC.size, b"\0")
    return CRC.pack(zlib.crc32(body)) + body


def __getattr__(name: str) -> "Any":
    # What only readers need is compiled where somebody reads: 2 ms less at each start of a training process.
    from rankbeat_contract import parts  # noqa: PLC0415

    value = globals()[name] = getattr(parts, name)
    return value
