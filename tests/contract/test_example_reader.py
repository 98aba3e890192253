"""examples/read_ring.py, which knows nothing but docs/ring.md, sees what our own functions see."""

import json
import math
import subprocess
import sys
from pathlib import Path

import ring_support as support
from rankbeat_contract import ring

READER = Path(__file__).resolve().parents[2] / "examples/read_ring.py"
CAPACITY = 8


def read(path, *arguments):
    """Exit status, the printed parts by kind, and what was said on stderr."""
    command = [sys.executable, "-I", READER, path, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    parts = {}
    for line in found.stdout.splitlines():
        kind, text = line.split(" ", 1)
        parts.setdefault(kind, []).append(json.loads(text))
    return found.returncode, parts, found.stderr


def text(*parts):
    """Values as text, in which NaN equals NaN."""
    return json.dumps(parts, sort_keys=True)


def as_ours(path):
    """Header, state and records, by rankbeat_contract.ring, in the words of the example."""
    content = path.read_bytes()
    header = ring.unpack_header(content[: ring.HEADER_BYTES])
    state = ring.newest_state(content[ring.STATE_OFFSET : ring.NAMES_OFFSET])
    records = []
    for sequence in range(max(0, state.written - header.capacity), state.written):
        start = ring.record_offset(sequence, header.capacity)
        record = ring.unpack_record(content[start : start + ring.RECORD_BYTES], sequence)
        if record is not None:
            start = ring.name_offset(record.name_id)
            name = ring.unpack_name(content[start : start + ring.NAME_BYTES])
            label = "step" if record.kind == ring.KIND_STEP else name and name.name
            records.append({**record._asdict(), "name": label})
    fixed = {"magic": ring.MAGIC.decode(), "version": ring.VERSION, "record_bytes": ring.RECORD_BYTES}
    return {**header._asdict(), **fixed}, {**state._asdict(), "phase": ring.PHASES[state.phase]}, records


def test_a_ring_that_has_gone_round_is_read_as_by_our_own_functions(tmp_path):
    writer = support.RingWriter(tmp_path / "run7.ring", capacity=CAPACITY)
    for step in range(1, 9):
        writer.step(step, interval=step / 8, gap=math.nan)
        writer.scalar(step, "loss" if step % 2 else "learning_rate", math.nan if step == 7 else 1 / step)
    writer.put(b"torn", ring.record_offset(writer.latest.written - 3, CAPACITY))
    now = writer.latest._replace(step=9, entered_step=10, step_mono_ns=2**62, entered_mono_ns=2**62 + 1, phase=4)
    writer.put(ring.pack_marks(now), ring.MARKS_OFFSET)

    status, parts, _ = read(writer.path, str(CAPACITY))

    header, state, records = as_ours(writer.path)
    assert (status, state["step"], state["phase"], len(records)) == (0, 9, "callbacks", CAPACITY - 1)
    assert text(parts["header"], parts["state"], parts["record"]) == text([header], [state], records)


def test_a_rank_before_its_first_step_has_no_record(tmp_path):
    writer = support.RingWriter(tmp_path / "run8.ring", capacity=CAPACITY)
    writer.put(ring.pack_marks(ring.State(step=-1, entered_step=-1)), ring.MARKS_OFFSET)

    status, parts, _ = read(writer.path)

    header, state, records = as_ours(writer.path)
    assert (status, parts.get("record", []), records) == (0, [], [])
    assert text(parts["header"], parts["state"]) == text([header], [state])


def test_a_file_that_is_no_ring_is_refused(tmp_path):
    path = tmp_path / "other.ring"
    path.write_bytes(bytes(ring.RECORDS_OFFSET + ring.RECORD_BYTES))

    status, parts, error = read(path)

    assert (status, parts) == (1, {})
    assert "is no ring of version 1" in error


def test_a_reader_is_fifty_lines():
    assert len(READER.read_text().splitlines()) <= 50
