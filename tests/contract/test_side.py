"""The side file's format: what is written is read back, what is torn or forged is refused."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_contract import ring, side

WORD = 8
unsigned32 = st.integers(0, 2**32 - 1)
unsigned64 = st.integers(0, 2**64 - 1)

headers = st.builds(
    side.Header,
    file_bytes=unsigned32,
    pid=unsigned32,
    claimed_mono_ns=unsigned64,
    run_id=st.text("0123456789abcdef", max_size=32),
)
states = st.builds(
    side.State,
    sequence=st.integers(1, 2**64 - 1),
    kept=unsigned64,
    stream=unsigned64,
    updated_mono_ns=unsigned64,
    dropped=st.tuples(*[unsigned32] * side.KIND_SLOTS),
)
slots = st.builds(
    side.Slot,
    kind=st.sampled_from(sorted(side.KINDS)),
    number=unsigned64,
    step=st.integers(-(2**63), 2**63 - 1),
    mono_ns=unsigned64,
    offset=unsigned32,
    length=unsigned32,
    crc=unsigned32,
    name=st.from_regex(r"[a-z][a-z0-9_.]{0,63}", fullmatch=True),
)
payloads = st.binary(max_size=64)


def arrivals(old, new, order):
    """old after each store of new, 8 bytes at a time in this order; the first is old, the last new."""
    part = bytearray(old)
    yield bytes(part)
    for word in order:
        part[word * WORD : (word + 1) * WORD] = new[word * WORD : (word + 1) * WORD]
        yield bytes(part)


@given(headers)
def test_a_header_is_read_as_it_was_written(header):
    assert side.unpack_header(side.pack_header(header)) == header


@given(states)
def test_a_state_is_read_as_it_was_written(state):
    assert side.newest_state(side.pack_state(state) + bytes(side.STATE_BYTES)) == state


@given(slots, unsigned64)
def test_a_slot_is_read_as_it_was_written_and_only_under_its_own_number(slot, other):
    part = side.pack_slot(slot)

    assert side.unpack_slot(part, slot.number) == slot
    assert side.unpack_slot(part, other) == (slot if other == slot.number else None)


@given(states, states, st.permutations(range(side.STATE_BYTES // WORD)))
def test_in_any_order_of_its_stores_a_state_is_the_one_before_or_the_new_one(before, new, order):
    before, new = before._replace(sequence=3), new._replace(sequence=4)
    oldest = side.pack_state(before._replace(sequence=2))

    found = {
        side.newest_state(part + side.pack_state(before)) for part in arrivals(oldest, side.pack_state(new), order)
    }

    assert found <= {before, new}


@given(slots, slots, payloads, payloads, st.permutations(range((side.SLOT_BYTES + 64) // WORD)))
def test_in_any_order_of_its_stores_an_entry_is_whole_or_refused(old, new, first, second, order):
    """Slot and payload lie apart in the file and are written over those of an older entry."""
    old, new = (
        slot._replace(length=len(payload), crc=zlib.crc32(payload)) for slot, payload in ((old, first), (new, second))
    )
    before, after = (side.pack_slot(slot) + payload.ljust(64, b"\0") for slot, payload in ((old, first), (new, second)))
    whole = {(old.kind, old.number, first), (new.kind, new.number, second)}

    for part in arrivals(before, after, order):
        for number in (old.number, new.number):
            slot = side.unpack_slot(part[: side.SLOT_BYTES], number)
            payload = part[side.SLOT_BYTES :]
            entry = None if slot is None else side.entry(slot, payload[: slot.length])
            assert entry is None or (entry.kind, entry.number, entry.payload) in whole


@given(st.binary(max_size=2 * side.STATE_BYTES))
def test_arbitrary_bytes_are_refused_everywhere(noise):
    assert side.newest_state(noise) is None
    assert side.unpack_slot(noise[: side.SLOT_BYTES], 0) is None
    with pytest.raises(ValueError, match="header"):
        side.unpack_header(noise[: side.HEADER_BYTES])


def test_a_header_of_another_version_is_refused():
    part = ring.sealed(b"RANKSIDE\x02\x00", side.HEADER_BYTES)

    with pytest.raises(ValueError, match="no side file of version 1"):
        side.unpack_header(part)


@given(st.integers(side.MIN_BYTES, side.MAX_BYTES))
def test_the_areas_lie_behind_each_other_inside_the_file(file_bytes):
    kept, stream = side.areas(file_bytes)

    assert kept.slots_offset == side.INDEX_OFFSET
    assert stream.slots_offset == kept.slots_offset + kept.slots * side.SLOT_BYTES
    assert kept.data == stream.slots_offset + stream.slots * side.SLOT_BYTES
    assert stream.data == kept.data + kept.size
    assert file_bytes - 8 < stream.data + stream.size <= file_bytes
    assert {offset % WORD for area in (kept, stream) for offset in (area.slots_offset, area.data, area.size)} == {0}


@pytest.mark.parametrize("file_bytes", [0, side.MIN_BYTES - 1, side.MAX_BYTES + 1])
def test_a_size_that_is_not_possible_is_refused(file_bytes):
    with pytest.raises(ValueError, match="side file of"):
        side.areas(file_bytes)


@pytest.mark.parametrize("kind", side.KINDS, ids=side.KINDS.values())
def test_what_must_not_be_lost_is_kept_apart_from_what_comes_again_and_again(kind):
    expected = side.STREAM if side.KINDS[kind] in ("histogram", "image") else side.KEPT

    assert side.area_of(kind) == expected


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.lists(unsigned32, min_size=64, max_size=64))
def test_a_histogram_is_read_as_it_was_written(low, high, counts):
    assert side.unpack_histogram(side.pack_histogram(low, high, counts)) == (low, high, tuple(counts))


@given(st.integers(0, 5), st.integers(0, 5), st.sampled_from([1, 3, 4]))
def test_a_raw_image_is_read_as_it_was_written(height, width, channels):
    pixels = bytes(range(height * width * channels))

    assert side.unpack_image(side.pack_image((height, width, channels), pixels)) == ((height, width, channels), pixels)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(side.PNG + bytes(20), id="PNG"),
        pytest.param(b"\1\0\1\0\2\0xx", id="two channels"),
        pytest.param(b"\1\0\1\0\1\0", id="no pixel"),
    ],
)
def test_what_is_no_raw_image_is_refused(payload):
    with pytest.raises(ValueError, match="image"):
        side.unpack_image(payload)


def test_an_image_whose_shape_and_pixels_disagree_is_refused():
    with pytest.raises(ValueError, match="image of shape"):
        side.pack_image((2, 2, 1), b"123")


def test_bytes_that_are_no_histogram_are_refused():
    with pytest.raises(ValueError, match="histogram of 3 bytes, not 272"):
        side.unpack_histogram(b"abc")
