"""Prints a Rankbeat ring file: header, state, last records. usage: read_ring.py FILE [RECORDS]. See docs/ring.md."""

import json
import struct
import sys
import zlib

PHASES = "init_comm build load train callbacks checkpoint eval between recovering done failed".split()
HEADER = "magic version record_bytes capacity pid attempt local_rank - claimed_mono_ns claimed_wall_ns started_wall_ns "
HEADER += "run_id"
STATE = (
    "sequence written rank world_size segment names phase flags - step entered_step phase_since_mono_ns step_mono_ns "
    "entered_mono_ns updated_mono_ns longest_interval_ns agent_errors total_steps cpu_seconds exception refused"
)
RECORD = "kind flags name_id segment sequence step mono_ns layer head value value2 value3"


def part(data, offset, size, layout, names):
    """The fields of a part, None if its CRC32 does not check: it is being written, or never was."""
    body = data[offset + 4 : offset + size]
    if data[offset : offset + 4] != struct.pack("<I", zlib.crc32(body)):
        return None
    values = struct.unpack_from(layout, body)
    plain = (value.rstrip(b"\0").decode("ascii", "replace") if isinstance(value, bytes) else value for value in values)
    return {name: value for name, value in zip(names.split(), plain) if name != "-"}


def state(data):
    """The valid slot with the larger sequence, then what the marks know better; None if there is none."""
    slots = [part(data, offset, 256, "<QQiiiIBBHqqQQQQQIId64sI76x", STATE) for offset in (128, 384)]
    valid = [slot for slot in slots if slot and slot["phase"] < len(PHASES)]
    if not valid:
        return None
    now = max(valid, key=lambda slot: slot["sequence"])
    words = struct.unpack_from("<10Q", data, 640)
    marks = [word if word ^ check == 2**64 - 1 else None for word, check in zip(words[::2], words[1::2])]
    for name, nanoseconds, number in (("entered_step", *marks[0:2]), ("step", *marks[2:4])):
        if nanoseconds is not None and number is not None:
            now[name] = number - (number >> 63 << 64)
            now[name.replace("_step", "") + "_mono_ns"] = nanoseconds
    if marks[4] is not None and marks[4] >> 59 < len(PHASES):
        now.update(phase=marks[4] >> 59, phase_since_mono_ns=marks[4] & (1 << 59) - 1)
    now["updated_mono_ns"] = max(value for name, value in now.items() if name.endswith("_mono_ns"))
    return {**now, "phase": PHASES[now["phase"]]}


def records(data, capacity, written, count):
    """The newest records that their slots still hold, oldest first, each with its name."""
    for sequence in range(max(0, written - min(count, capacity)), written):
        record = part(data, 13312 + sequence % capacity * 64, 64, "<BBHIQqQhhddd", RECORD)
        if record and record["sequence"] == sequence:
            name = part(data, 1024 + record["name_id"] * 96, 96, "<64s16sB", "name unit is_counter")
            yield {**record, "name": "step" if record["kind"] == 1 else name and name["name"]}


with open(sys.argv[1], "rb") as file:
    content = file.read()
header = part(content, 0, 128, "<8sHHIIIiIQQQ32s", HEADER)
if not header or (header["magic"], header["version"]) != ("RANKBEAT", 1):
    sys.exit(f"{sys.argv[1]!r} is no ring of version 1, or is not claimed yet")
found = state(content)
print("header", json.dumps(header))
print("state", json.dumps(found))
for line in records(content, header["capacity"], found["written"], int((*sys.argv, 10)[2])) if found else ():
    print("record", json.dumps(line))
