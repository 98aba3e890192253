"""Sealed files: any change is found, a missing end is said, keys come as people make them."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import files_support as support
from rankbeat_collector.errors import DecryptionError, SettingsError
from rankbeat_collector.files import encryption, keys
from rankbeat_collector.files.encryption import Opened, Sealer

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = (b"first", b"second", b"third")


def sealed(*texts: bytes, has_end: bool = True) -> bytes:
    made = Sealer(support.KEY)
    return made.header + b"".join(made.sealed(text) for text in texts) + (made.end() if has_end else b"")


def opened(content: bytes, key: keys.Key = support.KEY) -> tuple[list[bytes], bool]:
    """Chunks, and whether the file was cut."""
    made = Opened(io.BytesIO(content), key, "x.enc")
    return list(made.chunks()), made.was_cut


@given(texts=st.lists(st.binary(min_size=1, max_size=200), max_size=5))
def test_what_is_sealed_is_opened(texts: list[bytes]) -> None:
    assert opened(sealed(*texts)) == (texts, False)


def test_a_long_text_takes_several_chunks() -> None:
    text = bytes(2 * encryption.MAX_TEXT_BYTES + 5)

    chunks, was_cut = opened(sealed(text))

    assert [len(chunk) for chunk in chunks] == [encryption.MAX_TEXT_BYTES, encryption.MAX_TEXT_BYTES, 5]
    assert (b"".join(chunks), was_cut) == (text, False)


def test_two_files_of_the_same_text_have_nothing_in_common() -> None:
    one, other = sealed(b"text" * 100), sealed(b"text" * 100)

    assert one[16:32] != other[16:32]
    assert one[encryption.HEADER_BYTES + 16 :] != other[encryption.HEADER_BYTES + 16 :]


def test_every_changed_byte_is_found() -> None:
    content = sealed(*TEXTS)

    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        try:
            chunks, was_cut = opened(bytes(changed))
        except DecryptionError:
            continue
        # Only a length that now reaches beyond the end may pass for a cut, and then the chunk is not given out.
        assert was_cut
        assert len(chunks) < len(TEXTS) + 1
        assert chunks == list(TEXTS[: len(chunks)])


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: (parts[0], parts[2], parts[1], parts[3], parts[4]),
        lambda parts: (parts[0], parts[1], parts[3], parts[4]),
        lambda parts: (parts[0], parts[1], parts[1], parts[2], parts[3], parts[4]),
        lambda parts: (*parts, b"more"),
        lambda parts: (sealed()[:32], *parts[1:]),
    ],
    ids=["moved", "dropped", "doubled", "added", "header of another file"],
)
def test_chunks_cannot_be_moved_dropped_doubled_or_added(change: object) -> None:
    made = Sealer(support.KEY)
    parts = (made.header, *(made.sealed(text) for text in TEXTS), made.end())

    with pytest.raises(DecryptionError, match="changed"):
        opened(b"".join(change(parts)))  # type: ignore[operator]


def test_a_cut_file_gives_its_whole_chunks_and_says_that_it_was_cut() -> None:
    content = sealed(*TEXTS)

    for length in range(len(content)):
        chunks, was_cut = opened(content[:length])
        assert was_cut
        assert chunks == list(TEXTS[: len(chunks)])


def test_another_key_is_named() -> None:
    with pytest.raises(DecryptionError, match=f"written with the key {support.KEY.key_id.hex()}, the given key is"):
        opened(sealed(b"x"), keys.Key(bytes(32)))


def test_what_is_no_sealed_file_is_said() -> None:
    with pytest.raises(DecryptionError, match="no encrypted file"):
        opened(b"step,time,rank,attempt,run,segment")


@pytest.mark.parametrize(
    "content",
    [
        support.KEY.secret,
        support.KEY.secret.hex().encode() + b"\n",
        base64.b64encode(support.KEY.secret) + b"\n",
    ],
    ids=["bytes", "hexadecimal", "base64"],
)
def test_a_key_file_holds_a_key_as_people_make_them(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)

    assert keys.key_from(tmp_path / "key") == support.KEY


def test_a_file_that_is_no_key_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"secret")

    with pytest.raises(SettingsError, match="openssl rand -hex 32"):
        keys.key_from(tmp_path / "key")
    with pytest.raises(SettingsError, match="mount the Secret"):
        keys.key_from(tmp_path / "nowhere")
