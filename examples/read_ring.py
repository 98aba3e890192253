"""Prints a Rankbeat ring file: header, state, last records. usage: read_ring.py FILE [RECORDS]. See docs/ring.md."""

import json
import struct
import sys
import zlib

PHASES = "init_comm build load train callbacks checkpoint eval between recovering done failed".split()
HEADER = "magic version record_bytes capacity pid attempt local_rank claimed_mono_ns claimed_wall_ns started_wall_ns "
HEADER += "run_id"
STATE = "sequence written rank world_size segment names phase flags step entered_step phase_since_mono_ns "
STATE += "step_mono_ns entered_mono_ns updated_mono_ns longest_interval_ns agent_errors total_steps cpu_seconds "
STATE += "exception refused"
RECORD = "kind flags name_id segment sequence step mono_ns layer head value value2 value3"


def part(offset, size, layout, names):  # its fields, {} if its CRC32 does not check: it is being written, or never was
    body = data[offset + 4 : offset + size]
    if data[offset : offset + 4] != struct.pack("<I", zlib.crc32(body)):
        return {}
    fields = zip(names.split(), struct.unpack_from(layout, body))
    return {name: value.rstrip(b"\0").decode() if isinstance(value, bytes) else value for name, value in fields}


with open(sys.argv[1], "rb") as file:
    data = file.read()
header = part(0, 128, "<8sHHIIIi4xQQQ32s", HEADER)
if (header.get("magic"), header.get("version")) != ("RANKBEAT", 1):
    sys.exit(f"{sys.argv[1]!r} is no ring of version 1, or is not claimed yet")
print("header", json.dumps(header))
slots = [part(offset, 256, "<QQiiiIBB2xqqQQQQQIId64sI76x", STATE) for offset in (128, 384)]
valid = [slot for slot in slots if slot and slot["phase"] < len(PHASES)]
if not valid:
    sys.exit(f"{sys.argv[1]!r} has no valid state yet")
state = max(valid, key=lambda slot: slot["sequence"])  # what the marks know better comes on top
words = struct.unpack_from("<10Q", data, 640)
marks = [word if word ^ check == 2**64 - 1 else None for word, check in zip(words[::2], words[1::2])]
for name, nanoseconds, number in (("entered", *marks[0:2]), ("step", *marks[2:4])):
    if nanoseconds is not None and number is not None:
        state[name.replace("entered", "entered_step")] = number - (number >> 63 << 64)
        state[f"{name}_mono_ns"] = nanoseconds
if marks[4] is not None and marks[4] >> 59 < len(PHASES):
    state.update(phase=marks[4] >> 59, phase_since_mono_ns=marks[4] & (1 << 59) - 1)
state["updated_mono_ns"] = max(value for name, value in state.items() if name.endswith("_mono_ns"))
print("state", json.dumps({**state, "phase": PHASES[state["phase"]]}))
for sequence in range(max(0, state["written"] - min(int((*sys.argv, 10)[2]), header["capacity"])), state["written"]):
    record = part(13312 + sequence % header["capacity"] * 64, 64, "<BBHIQqQhhddd", RECORD)
    if record and record["sequence"] == sequence:
        label = part(1024 + record["name_id"] * 96, 96, "<64s16sB", "name").get("name")
        print("record", json.dumps({**record, "name": "step" if record["kind"] == 1 else label}))
