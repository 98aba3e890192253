"""Snapshots as JSON: what the vendor part sends and the serving part reads. Whatever is no snapshot is refused."""

from __future__ import annotations

import json

from rankbeat_exporter.errors import InvalidSnapshot
from rankbeat_exporter.model.accelerator import Answer, RawChip, Snapshot

MAX_BYTES = 1 << 20
"""16 chips take 12 KiB."""


def snapshot_bytes(snapshot: Snapshot) -> bytes:
    """One line of JSON."""
    chips = [
        {
            "card": chip.card,
            "device": chip.device,
            "answers": {call: [answer.code, *answer.values] for call, answer in chip.answers.items()},
        }
        for chip in snapshot.chips
    ]
    text = json.dumps(
        {
            "reason": snapshot.reason,
            "detail": snapshot.detail,
            "chips": chips,
            "restarts": snapshot.restarts,
        },
        separators=(",", ":"),
    )
    return text.encode() + b"\n"


def snapshot(line: bytes) -> Snapshot:
    """The snapshot that the line holds.

    Raises: InvalidSnapshot.
    """
    if len(line) > MAX_BYTES:
        raise InvalidSnapshot("line", f"of {len(line)} bytes is too long")
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidSnapshot("line", f"is no JSON: {error}") from error
    given = _object(given, "line")
    chips = given.get("chips")
    if not isinstance(chips, list):
        raise InvalidSnapshot("chips", "is no list")
    return Snapshot(
        reason=_text(given.get("reason"), "reason"),
        detail=_text(given.get("detail"), "detail"),
        chips=tuple(_chip(chip) for chip in chips),
        restarts=_integer(given.get("restarts"), "restarts"),
    )


def _chip(given: object) -> RawChip:
    chip = _object(given, "chips")
    answers = {}
    for call, row in _object(chip.get("answers"), "answers").items():
        if not isinstance(row, list) or not row or not all(_is_scalar(entry) for entry in row):
            raise InvalidSnapshot(f"answers.{call}", "is no list of numbers and texts")
        answers[call] = Answer(_integer(row[0], f"answers.{call}"), tuple(row[1:]))
    return RawChip(_integer(chip.get("card"), "card"), _integer(chip.get("device"), "device"), answers)


def _is_scalar(entry: object) -> bool:
    return isinstance(entry, int | str) and not isinstance(entry, bool)


def _object(given: object, field: str) -> dict[str, object]:
    if not isinstance(given, dict):
        raise InvalidSnapshot(field, "is no object")
    return given


def _integer(given: object, field: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidSnapshot(field, "is no integer")
    return given


def _text(given: object, field: str) -> str:
    if not isinstance(given, str):
        raise InvalidSnapshot(field, "is no text")
    return given
