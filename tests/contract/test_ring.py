"""The ring's format: what is written is read back, and what was torn is refused."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankbeat_contract import ring

WORD = 8
signed32 = st.integers(-(2**31), 2**31 - 1)
unsigned32 = st.integers(0, 2**32 - 1)
unsigned64 = st.integers(0, 2**64 - 1)
signed64 = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats()
ascii_names = st.from_regex(r"[a-z][a-z0-9_]{0,63}", fullmatch=True)

headers = st.builds(
    ring.Header,
    capacity=unsigned32,
    pid=unsigned32,
    attempt=unsigned32,
    local_rank=signed32,
    claimed_mono_ns=unsigned64,
    claimed_wall_ns=unsigned64,
    started_wall_ns=unsigned64,
    run_id=st.text("0123456789abcdef", max_size=32),
)
states = st.builds(
    ring.State,
    sequence=st.integers(1, 2**64 - 1),
    written=unsigned64,
    rank=signed32,
    world_size=signed32,
    segment=signed32,
    names=st.integers(0, ring.NAME_SLOTS),
    phase=st.integers(0, len(ring.PHASES) - 1),
    flags=st.integers(0, 255),
    step=signed64,
    entered_step=signed64,
    phase_since_mono_ns=unsigned64,
    step_mono_ns=unsigned64,
    entered_mono_ns=unsigned64,
    updated_mono_ns=unsigned64,
    longest_interval_ns=unsigned64,
    agent_errors=unsigned32,
    total_steps=unsigned32,
    cpu_seconds=doubles,
    exception=st.from_regex(r"[A-Za-z_]{0,64}", fullmatch=True),
    refused=unsigned32,
)
records = st.builds(
    ring.Record,
    kind=st.integers(1, 255),
    sequence=unsigned64,
    step=signed64,
    mono_ns=unsigned64,
    value=doubles,
    value2=doubles,
    value3=doubles,
    name_id=st.integers(0, 2**16 - 1),
    flags=st.integers(0, 255),
    segment=unsigned32,
    layer=st.integers(-(2**15), 2**15 - 1),
    head=st.integers(-(2**15), 2**15 - 1),
)


def comparable(value):
    """A named tuple with each NaN replaced, so that equal means equal."""
    return tuple("nan" if isinstance(field, float) and math.isnan(field) else field for field in value)


def arrivals(old, new, order):
    """old after each 8-byte store of new, in this order; the first is old, the last new."""
    part = bytearray(old)
    yield bytes(part)
    for word in order:
        part[word * WORD : (word + 1) * WORD] = new[word * WORD : (word + 1) * WORD]
        yield bytes(part)


def orders(part_bytes):
    """All orders in which another processor may see the 8-byte stores of a part."""
    return st.permutations(range(part_bytes // WORD))


@given(headers)
def test_a_header_is_read_as_it_was_written(header):
    assert ring.unpack_header(ring.pack_header(header)) == header


@given(states)
def test_a_state_is_read_as_it_was_written(state):
    slots = ring.pack_state(state) + bytes(ring.STATE_BYTES)

    assert comparable(ring.newest_state(slots)) == comparable(state)


@given(ascii_names, st.from_regex(r"[a-z]{0,16}", fullmatch=True), st.booleans())
def test_a_name_is_read_as_it_was_written(name, unit, is_counter):
    written = ring.Name(name, unit, is_counter)

    assert ring.unpack_name(ring.pack_name(written)) == written


@given(records)
def test_a_record_is_read_as_it_was_written(record):
    assert comparable(ring.unpack_record(ring.pack_record(record), record.sequence)) == comparable(record)


@given(records, unsigned64)
def test_a_record_is_read_only_under_its_own_number(record, other):
    expected = comparable(record) if other == record.sequence else None

    found = ring.unpack_record(ring.pack_record(record), other)

    assert (None if found is None else comparable(found)) == expected


@given(records, records, orders(ring.RECORD_BYTES))
def test_in_any_order_of_its_stores_a_record_is_refused_or_whole(old, new, order):
    for part in arrivals(ring.pack_record(old), ring.pack_record(new), order):
        found = ring.unpack_record(part, new.sequence)

        assert found is None or comparable(found) in (comparable(new), comparable(old))


@given(states, states, states, orders(ring.STATE_BYTES))
def test_in_any_order_of_its_stores_a_state_is_the_one_before_or_the_new_one(oldest, before, new, order):
    oldest, before, new = (state._replace(sequence=number) for number, state in ((2, oldest), (3, before), (4, new)))
    for part in arrivals(ring.pack_state(oldest), ring.pack_state(new), order):
        found = ring.newest_state(part + ring.pack_state(before))

        assert comparable(found) in (comparable(before), comparable(new))


def area(slots, marks):
    """The file from STATE_OFFSET to NAMES_OFFSET."""
    return (slots.ljust(2 * ring.STATE_BYTES, b"\0") + marks).ljust(ring.NAMES_OFFSET - ring.STATE_OFFSET, b"\0")


def stepped(state):
    """What the marks hold of a state."""
    steps = state.entered_mono_ns, state.entered_step, state.step_mono_ns, state.step
    return (*steps, state.phase, state.phase_since_mono_ns & ring.SINCE_MASK)


@given(states, states)
def test_marks_are_newer_than_the_state_beside_them(published, now):
    found = ring.newest_state(area(ring.pack_state(published), ring.pack_marks(now)))

    assert stepped(found) == stepped(now)
    assert comparable(found._replace(**dict.fromkeys(MARKED, 0))) == comparable(
        published._replace(**dict.fromkeys(MARKED, 0))
    )


MARKED = (
    "entered_mono_ns",
    "entered_step",
    "step_mono_ns",
    "step",
    "phase",
    "phase_since_mono_ns",
    "updated_mono_ns",
)


@given(states)
def test_marks_that_were_never_set_change_nothing(published):
    found = ring.newest_state(area(ring.pack_state(published), b""))

    newest = max(getattr(published, field) for field in MARKED if field.endswith("mono_ns"))
    assert comparable(found) == comparable(published._replace(updated_mono_ns=newest))


@given(states, states, orders(80))
def test_in_any_order_of_its_stores_a_mark_is_the_old_one_the_new_one_or_the_published_one(before, after, order):
    published = ring.State(sequence=1)
    for marks in arrivals(ring.pack_marks(before), ring.pack_marks(after), order):
        found = ring.newest_state(area(ring.pack_state(published), marks))

        for old, new, none, value in zip(*map(stepped, (before, after, published, found)), strict=True):
            assert value in (old, new, none)


@given(
    st.from_regex(r"[a-z]{1,64}", fullmatch=True),
    st.from_regex(r"[a-z]{1,64}", fullmatch=True),
    orders(ring.NAME_BYTES),
)
def test_in_any_order_of_its_stores_a_name_is_refused_or_whole(old, new, order):
    for part in arrivals(ring.pack_name(ring.Name(old)), ring.pack_name(ring.Name(new)), order):
        assert ring.unpack_name(part) in (None, ring.Name(old), ring.Name(new))


@given(headers, st.integers(0, ring.HEADER_BYTES * 8 - 1))
def test_a_header_with_one_wrong_bit_is_refused(header, bit):
    part = bytearray(ring.pack_header(header))
    part[bit // 8] ^= 1 << bit % 8

    with pytest.raises(ValueError, match=r"header's checksum does not match"):
        ring.unpack_header(bytes(part))


@given(st.binary(max_size=ring.NAMES_OFFSET - ring.STATE_OFFSET))
@example(bytes(ring.STATE_BYTES))
@example(bytes(2 * ring.STATE_BYTES))
def test_arbitrary_bytes_are_refused_everywhere(noise):
    assert ring.newest_state(noise) is None
    assert ring.unpack_name(noise[: ring.NAME_BYTES]) is None
    assert ring.unpack_record(noise[: ring.RECORD_BYTES], 0) is None
    with pytest.raises(ValueError, match="header"):
        ring.unpack_header(noise[: ring.HEADER_BYTES])


def test_a_phase_that_this_reader_does_not_know_is_no_state():
    part = ring.pack_state(ring.State(sequence=1, phase=len(ring.PHASES)))

    assert ring.newest_state(part + bytes(ring.STATE_BYTES)) is None


@pytest.mark.parametrize(
    ("file_bytes", "capacity"),
    [
        pytest.param(ring.RECORDS_OFFSET + ring.RECORD_BYTES, 1, id="least"),
        pytest.param(ring.DEFAULT_BYTES, 16176, id="default"),
        pytest.param(ring.MAX_BYTES, 261936, id="largest"),
    ],
)
def test_capacity_is_what_fits_behind_the_fixed_parts(file_bytes, capacity):
    assert ring.records_capacity(file_bytes) == capacity
    assert ring.record_offset(capacity - 1, capacity) + ring.RECORD_BYTES <= file_bytes


@pytest.mark.parametrize("file_bytes", [0, ring.RECORDS_OFFSET + ring.RECORD_BYTES - 1, ring.MAX_BYTES + 1])
def test_a_size_without_room_or_beyond_the_limit_is_refused(file_bytes):
    with pytest.raises(ValueError, match="ring of"):
        ring.records_capacity(file_bytes)


def test_a_record_needs_no_tuple():
    record = ring.Record(kind=1, sequence=5, step=6, mono_ns=7, value=1.0, value2=2.0, value3=3.0, segment=4)

    assert ring.pack_record_fields(1, 0, 0, 4, 5, 6, 7, -1, -1, 1.0, 2.0, 3.0) == ring.pack_record(record)


def test_the_parts_lie_where_the_table_says():
    assert ring.HEADER.size + ring.CRC.size <= ring.HEADER_BYTES
    assert [ring.state_offset(number) for number in (1, 2, 3)] == [384, 128, 384]
    assert ring.MARKS_OFFSET == ring.STATE_OFFSET + 2 * ring.STATE_BYTES
    assert ring.MARKS_OFFSET % 8 == 0
    assert ring.MARKS_OFFSET + len(ring.pack_marks(ring.State())) <= ring.NAMES_OFFSET
    assert ring.name_offset(ring.NAME_SLOTS) == ring.RECORDS_OFFSET
