"""Snapshots as JSON: what the vendor part sends and the serving part reads. Whatever is no snapshot is refused."""

from __future__ import annotations

import json
import math

from rankbeat_exporter.errors import InvalidSnapshot
from rankbeat_exporter.model.accelerator import VENDOR_NONE, VENDORS, Answer, Event, RawChip, Snapshot, ToolText

MAX_BYTES = 1 << 20
"""16 NPUs take 20 KiB, with 18 ports each (950) 64, 16 GPUs 60."""
_SCALARS = frozenset((int, str))


class Writer:
    """Snapshots as lines of JSON. An answer that is the very one of the snapshot before is not written out anew."""

    def __init__(self) -> None:
        self._written: dict[tuple[int, int, str], tuple[Answer, str]] = {}

    def line(self, snapshot: Snapshot) -> bytes:
        """One, with the newline."""
        events = [[one.device, one.uuid, one.model, one.code, one.count, one.last_seconds] for one in snapshot.events]
        head = _json(
            {
                "vendor": snapshot.vendor,
                "reason": snapshot.reason,
                "detail": snapshot.detail,
                "restarts": snapshot.restarts,
                "events": events,
                "unkillable": snapshot.unkillable,
                "hung": snapshot.hung,
                "texts": snapshot.texts,
                "repeated_texts": snapshot.repeated_texts,
            }
        )
        chips = snapshot.chips_json or f"[{','.join(map(self._chip, snapshot.chips))}]"
        return f"{head[:-1]}{_CHIPS}{chips}}}\n".encode()

    def _chip(self, chip: RawChip) -> str:
        answers = ",".join(self._answer(chip, call, answer) for call, answer in chip.answers.items())
        repeated = _json(chip.repeated)
        return f'{{"card":{chip.card},"device":{chip.device},"repeated":{repeated},"answers":{{{answers}}}}}'

    def _answer(self, chip: RawChip, call: str, answer: Answer) -> str:
        place = (chip.card, chip.device, call)
        before = self._written.get(place)
        if before is not None and before[0] is answer:
            return before[1]
        text = f"{_json(call)}:{_json((answer.code, *answer.values))}"
        self._written[place] = (answer, text)
        return text


_CHIPS = ',"chips":'
"""The last key: what follows it is passed on as it came. In a text its quotes would be escaped."""


_json = json.JSONEncoder(separators=(",", ":")).encode


def snapshot_bytes(snapshot: Snapshot) -> bytes:
    """One line of JSON."""
    return Writer().line(snapshot)


class Reader:
    """Snapshots from lines of JSON, one after the other. An answer that says the same as before is the very same one.

    Whatever is no snapshot is refused with InvalidSnapshot.
    """

    def __init__(self) -> None:
        self._read: dict[str, dict[tuple[int, int, str], tuple[list[int | str], Answer]]] = {}
        """By vendor: rows of the last snapshot, and what they said."""

    def snapshots(self, text: bytes) -> tuple[Snapshot, ...]:
        """Those that an answer of the vendor part holds, one a line and one a vendor at most."""
        if len(text) > MAX_BYTES:
            raise InvalidSnapshot("text", f"of {len(text)} bytes is too long")
        found = tuple(self.snapshot(line) for line in text.splitlines())
        if not found or len({one.vendor for one in found}) < len(found):
            raise InvalidSnapshot("text", "holds no snapshot, or two of one vendor")
        return found

    def snapshot(self, line: bytes) -> Snapshot:
        if len(line) > MAX_BYTES:
            raise InvalidSnapshot("line", f"of {len(line)} bytes is too long")
        try:
            text = line.decode()
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidSnapshot("line", f"is no JSON: {error}") from error
        given = _object(given, "line")
        vendor = given.get("vendor")
        if vendor not in (*VENDORS, VENDOR_NONE):
            raise InvalidSnapshot("vendor", "is none")
        return Snapshot(
            reason=_text(given.get("reason"), "reason"),
            detail=_text(given.get("detail"), "detail"),
            chips=self._chips(vendor, _list(given, "chips")),
            chips_json=_chips_json(text) if list(given)[-1] == "chips" else "",
            restarts=_integer(given.get("restarts"), "restarts"),
            vendor=vendor,
            events=tuple(_event(event) for event in _list(given, "events")),
            unkillable=_integer(given.get("unkillable", 0), "unkillable"),
            hung=_text(given.get("hung", ""), "hung"),
            texts=tuple(_tool_text(text) for text in _list(given, "texts")),
            repeated_texts=tuple(_text(command, "repeated_texts") for command in _list(given, "repeated_texts")),
        )

    def _chips(self, vendor: str, given: list[object]) -> tuple[RawChip, ...]:
        before = self._read.get(vendor, {})
        now = self._read[vendor] = {}
        chips = []
        for each in given:
            chip = _object(each, "chips")
            card, device = (_integer(chip.get(field), field) for field in ("card", "device"))
            answers = {}
            for call, row in _object(chip.get("answers"), "answers").items():
                place = (card, device, call)
                known = before.get(place)
                if known is None or known[0] != row:
                    known = _row(call, row)
                now[place] = known
                answers[call] = known[1]
            repeated = tuple(_text(key, "repeated") for key in _list(chip, "repeated"))
            chips.append(RawChip(card, device, answers, repeated))
        return tuple(chips)


def _row(call: str, given: object) -> tuple[list[int | str], Answer]:
    if (
        not isinstance(given, list)
        or not given
        or type(given[0]) is not int
        or not _SCALARS.issuperset(map(type, given))
    ):
        raise InvalidSnapshot(f"answers.{call}", "is no list of a code, numbers and texts")
    return given, Answer(given[0], tuple(given[1:]))


def _chips_json(text: str) -> str:
    return text.rstrip().removesuffix("}").partition(_CHIPS)[2]


def _event(given: object) -> Event:
    if not isinstance(given, list) or len(given) != 6:
        raise InvalidSnapshot("events", "is no list of six")
    seconds = given[5]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidSnapshot("events", "has no time")
    device, uuid, model = (_text(entry, "events") for entry in given[:3])
    code, count = (_integer(entry, "events") for entry in given[3:5])
    return Event(device, uuid, model, code, count, float(seconds))


def _tool_text(given: object) -> ToolText:
    if not isinstance(given, list) or len(given) != 3:
        raise InvalidSnapshot("texts", "is no list of three")
    return ToolText(*(_text(entry, "texts") for entry in given))


def _object(given: object, field: str) -> dict[str, object]:
    if not isinstance(given, dict):
        raise InvalidSnapshot(field, "is no object")
    return given


def _list(given: dict[str, object], field: str) -> list[object]:
    found = given.get(field)
    if not isinstance(found, list):
        raise InvalidSnapshot(field, "is no list")
    return found


def _integer(given: object, field: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidSnapshot(field, "is no integer")
    return given


def _text(given: object, field: str) -> str:
    if not isinstance(given, str):
        raise InvalidSnapshot(field, "is no text")
    return given
