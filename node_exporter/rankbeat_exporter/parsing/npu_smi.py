"""What `npu-smi` prints, by names and separators: never by column offset, row number or order of lines.

Layouts A to E of the main table are those of 310, 910, 910_93, and of 950 with two generations of the tool. Whatever is
not understood is left out: a cell whose words are not one for each of its header's labels, a section with a line twice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LABELS = (
    "NPU Util(%)", "NPU ID", "NPU", "Name", "Health", "Power(W)", "Temp(C)", "Hugepages-Usage(page)", "Chip", "Device",
    "Phy-ID", "Bus-Id", "AICore(%)", "Memory-Usage(MB)", "HBM-Usage(MB)", "Process id", "Process name",
    "Process memory(MB)",
)  # fmt: skip
_LABEL = re.compile("|".join(map(re.escape, _LABELS)), re.IGNORECASE)
_SAME = {"npu id": "npu", "npu util(%)": "utilization", "aicore(%)": "utilization"}
_PAIRS = frozenset({"hugepages-usage(page)", "memory-usage(mb)", "hbm-usage(mb)"})
_WORD = re.compile(r"[^\s/]+\s*/\s*[^\s/]+|\S+")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,9})?")
_SPACE_BEFORE_UNIT = re.compile(r"\s+\(")
_FAILURES = (
    (re.compile(r"ret is (-[0-9]{1,9})"), None),
    (re.compile(r"Invalid card id", re.IGNORECASE), "invalid_card"),
    (re.compile(r"Error parameter|^usage", re.IGNORECASE | re.MULTILINE), "usage"),
    (re.compile(r"does not support", re.IGNORECASE), "not_supported"),
)


HEALTH_WORDS = frozenset({"ok", "warning", "alarm", "critical", "unknown", "na", "-"})
BUS_ID = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]|NA|N/A|-")
"""By these two cells a chip's first row and its second are known."""


class Process(NamedTuple):
    """One process of the table. chip is None where the table has no chips."""

    npu: int
    chip: int | None
    pid: int
    name: str
    memory_megabytes: float | None


class Table(NamedTuple):
    """`npu-smi info`: each chip's cells by lower-case label, a usage as its two numbers under label and `... total`."""

    chips: tuple[dict[str, str], ...]
    processes: tuple[Process, ...]


def number(text: str | None) -> float | None:
    """The number, or None for `-`, `NA`, `N/A`, `Failed` and whatever else is none."""
    return float(text) if text is not None and _NUMBER.fullmatch(text) else None


def whole(text: str | None) -> int | None:
    """A number from 0, as numbers are printed: no fraction, no zero before it."""
    return int(text) if text is not None and re.fullmatch(r"0|[1-9][0-9]{0,8}", text, re.ASCII) else None


def failure(text: str) -> str:
    """Why the tool says that it cannot answer: the library's code, or a word; empty where it does not say so."""
    for pattern, word in _FAILURES:
        if found := pattern.search(text):
            return word or found[1]
    return ""


def table(text: str) -> Table:
    """The main table's chips and processes; empty where there is no such table."""
    reader = _TableReader()
    for line in text.splitlines():
        reader.take(line)
    return Table(tuple(reader.chips), tuple(reader.processes))


class _TableReader:
    def __init__(self) -> None:
        self.chips: list[dict[str, str]] = []
        self.processes: list[Process] = []
        self._headers: list[list[tuple[str, ...]]] = []
        self._is_processes = False
        self._first: dict[str, str] | None = None

    def take(self, line: str) -> None:
        stripped = line.strip()
        if not (stripped.startswith("|") and stripped.endswith("|") and len(stripped) > 1):
            self._first = None  # a ruled line ends a chip's two rows
            return
        cells = [cell.strip() for cell in stripped[1:-1].split("|")]
        labels = [_header(cell) for cell in cells]
        is_header = all(label or not cell for label, cell in zip(labels, cells, strict=True))
        known = {label for cell in labels for label in cell} if is_header else set[str]()
        if "health" in known or "process id" in known:
            self._headers, self._is_processes, self._first = [labels], "process id" in known, None
        elif len(self._headers) == 1 and not self._is_processes and "bus-id" in known:
            first = {_SAME.get(label, label) for cell in self._headers[0] for label in cell}
            if not first & {_SAME.get(label, label) for label in known}:
                self._headers.append(labels)
        else:
            self._take_row(cells)

    def _take_row(self, cells: list[str]) -> None:
        if self._is_processes:
            self._take_process(_named(self._headers[0], cells))
            return
        first, self._first = self._first, None
        if len(self._headers) == 2 and first is None:
            row = _named(self._headers[0], cells)
            is_first = whole(row.get("npu")) is not None and row.get("health", "").lower() in HEALTH_WORDS
            self._first = row if is_first else None
        elif first is not None:
            row = _named(self._headers[1], cells)
            if BUS_ID.fullmatch(row.get("bus-id", "")):
                self.chips.append(first | row)

    def _take_process(self, row: dict[str, str]) -> None:
        npu, pid = whole(row.get("npu")), whole(row.get("process id"))
        has_chips = any("chip" in cell for cell in self._headers[0])
        chip = whole(row.get("chip"))
        if npu is not None and pid is not None and (chip is not None or not has_chips):
            memory = number(row.get("process memory(mb)"))
            self.processes.append(Process(npu, chip, pid, row.get("process name", ""), memory))


def _header(cell: str) -> tuple[str, ...]:
    """The cell's labels; none where anything in it is no label, or it is a value."""
    found = tuple(label.lower() for label in _LABEL.findall(cell))
    return found if not _LABEL.sub("", cell).replace("/", "").strip() else ()


def _named(header: list[tuple[str, ...]], cells: list[str]) -> dict[str, str]:
    """Label -> text of a row. Nothing where the row has another number of cells than the header."""
    row: dict[str, str] = {}
    if len(header) != len(cells):
        return row
    for labels, cell in zip(header, cells, strict=True):
        words = [cell] if len(labels) == 1 else _WORD.findall(cell)
        if labels and labels[0] == "npu" and labels[-1] == "name":
            words = cell.split(None, 1)
        if len(words) != len(labels) or len(set(labels)) != len(labels):
            continue
        for label, word in zip(labels, words, strict=True):
            parts = [part.strip() for part in word.split("/")]
            if label in _PAIRS and len(parts) == 2:
                row[label], row[label + " total"] = parts
            elif label not in _PAIRS and ("/" not in word or word.upper() == "N/A" or label == "process name"):
                row[_SAME.get(label, label)] = word
    return row


def mapping(text: str) -> tuple[dict[str, str], ...]:
    """`npu-smi info -m`: a row of label -> word for each chip; the last label may have words with spaces.

    Rows of controllers (`Mcu`) have `-` for a logical id and are kept: who asks for a number does not get one.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    start = next((place for place, line in enumerate(lines) if {"NPU ID", "Chip ID"} <= set(_columns(line))), None)
    if start is None:
        return ()
    header = _columns(lines[start])
    if len(set(header)) != len(header):
        return ()
    rows = []
    for line in lines[start + 1 :]:
        words = line.split(None, len(header) - 1)
        if len(words) == len(header) and whole(words[0]) is not None:
            rows.append({label.lower(): word.strip() for label, word in zip(header, words, strict=True)})
    return tuple(rows)


def _columns(line: str) -> list[str]:
    return re.findall(r"(?:NPU|Chip|Slot) (?:Logic |Phy-)?(?:ID|Name)", line)


class Section(NamedTuple):
    """One chip's lines of a `-t` sub-command, label in lower case -> text. chip is None for the controller's block."""

    npu: int | None
    chip: int | None
    lines: dict[str, str]


def sections(text: str, *, is_id_first: bool) -> tuple[Section, ...]:
    """Of `npu-smi info -t common` or board (the chip's id stands first), or usages, memory, health, ecc ... (last).

    A section in which a label stands twice is two sections whose border was lost: it is left out.
    """
    reader = _SectionReader(is_id_first)
    for label, value in _pairs(text):
        reader.take(label, value)
    if is_id_first:
        reader.close()
    return tuple(reader.found)


class _SectionReader:
    def __init__(self, is_id_first: bool) -> None:  # noqa: FBT001
        self.found: list[Section] = []
        self._is_id_first = is_id_first
        self._npu: int | None = None
        self._chip: int | None = None
        self._lines: dict[str, str] = {}
        self._is_sound = True

    def take(self, label: str, value: str) -> None:
        if label == "npu id":
            self._npu = whole(value)
            if not self._is_id_first:
                self._lines.clear()
        elif label == "chip id":
            self._take_id(whole(value))
        elif label == "chip name" and value.lower() == "mcu":
            self._take_controller()
        elif label in self._lines:
            self._is_sound = False
        elif label not in ("chip count", "npu name"):
            self._lines[label] = value

    def close(self) -> None:
        """Ends a section."""
        if self._lines and self._is_sound:
            self.found.append(Section(self._npu, self._chip, dict(self._lines)))
        self._lines.clear()

    def _take_id(self, chip: int | None) -> None:
        if self._is_id_first:
            self.close()
            self._chip, self._is_sound = chip, chip is not None
        else:
            self._chip, self._is_sound = chip, self._is_sound and chip is not None
            self.close()
            self._is_sound = True

    def _take_controller(self) -> None:
        if self._is_id_first:
            self.close()
        self._lines.clear()
        self._chip, self._is_sound = None, self._is_id_first


def single(text: str) -> dict[str, str]:
    """Label -> text of an output that speaks of one chip or card, as with -c; without labels that stand twice."""
    counts: dict[str, int] = {}
    lines: dict[str, str] = {}
    for label, value in _pairs(text):
        counts[label] = counts.get(label, 0) + 1
        lines[label] = value
    return {label: value for label, value in lines.items() if counts[label] == 1}


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = []
    for line in text.splitlines():
        label, colon, value = line.partition(":")
        if colon and label.strip():
            pairs.append((_SPACE_BEFORE_UNIT.sub("(", " ".join(label.split())).lower(), value.strip()))
    return pairs


def error_codes(text: str | None) -> tuple[int, ...] | None:
    """Hex codes without doubles, in order; () for NA, which means none; None where one of them is no code.

    Codes of more than 32 bits exist.
    """
    if text is None or not text.strip():
        return None
    if text.strip().upper() == "NA":
        return ()
    words = text.split()
    if not all(re.fullmatch(r"(0[xX])?[0-9A-Fa-f]{6,16}", word) for word in words):
        return None
    return tuple(sorted({int(word, 16) for word in words}))
