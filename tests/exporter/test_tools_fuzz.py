"""10,000 mutated outputs of npu-smi and hccn_tool: no parser falls, and none says what the text does not hold."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from rankbeat_exporter.parsing import hccn, npu_smi

OUTPUTS = 10_000
FIXTURES = tuple(path.read_text() for path in sorted((Path(__file__).parent / "fixtures/ascend").glob("*.txt")))
WORDS = (
    "-",
    "NA",
    "N/A",
    "Failed",
    "|",
    "/",
    ":",
    "+",
    "",
    "0x7ffd",
    "4294967295",
    "-1",
    "nan",
    "inf",
    "1e9",
    "\u0662",
    "9" * 40,
)


def cut(text, rng):
    return text[: rng.randrange(len(text) + 1)]


def flipped(text, rng):
    """Up to eight characters become others."""
    changed = list(text)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] = chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x250))))
    return "".join(changed)


def reworded(text, rng):
    """A word, a number as a rule, becomes another."""
    words = re.split(r"(\s+)", text)
    words[rng.randrange(len(words))] = rng.choice(WORDS)
    return "".join(words)


def relined(text, rng):
    """A line is lost, comes twice, or two change places."""
    lines = text.splitlines(keepends=True)
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    rng.choice((lambda: lines.pop(one), lambda: lines.insert(other, lines[one]), lines.reverse))()
    return "".join(lines)


def shifted(text, rng):
    """Blanks come or go within a line: a column moves."""
    at = rng.randrange(len(text))
    return text[:at] + " " * rng.randrange(1, 9) + text[at:].lstrip(" ")


MUTATIONS = (cut, flipped, reworded, relined, shifted)


def mutants():
    rng = random.Random(20261130)
    for number in range(OUTPUTS):
        text = FIXTURES[number % len(FIXTURES)]
        for _ in range(rng.randint(1, 3)):
            text = rng.choice(MUTATIONS)(text, rng) if text else text
        yield text


def numbers_in(text):
    """Every number that stands in the text, with and without what may be its sign."""
    found = {float(one) for one in re.findall(r"[0-9]+(?:\.[0-9]+)?", text)}
    return found | {-one for one in found} | {float(one) for one in re.findall(r"[0-9]+", text)}


def texts_of(text):
    """Every text that the npu-smi parsers take out of it."""
    found = npu_smi.table(text)
    rows = [*found.chips, *npu_smi.mapping(text), npu_smi.single(text)]
    rows += [section.lines for first in (True, False) for section in npu_smi.sections(text, is_id_first=first)]
    return [value for row in rows for value in row.values()]


def numbers_of(text):
    """Every number that the parsers of both tools make of it, but for scales of units."""
    table = npu_smi.table(text)
    found = [number for process in table.processes for number in (process.npu, process.chip, process.pid)]
    found += [process.memory_megabytes for process in table.processes]
    found += [*hccn.link_changes(text).values(), *hccn.counters(text).values()]
    return [number for number in found if number is not None]


@pytest.mark.slow
def test_no_mutant_makes_a_parser_fall_or_say_what_is_not_there():
    assert len(FIXTURES) >= 10
    for text in mutants():
        for value in texts_of(text):
            assert value in text or " ".join(value.split()) in " ".join(text.split()), (value, text)
        written = numbers_in(text)
        for number in numbers_of(text):
            assert float(number) in written, (number, text)
