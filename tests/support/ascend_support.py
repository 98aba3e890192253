"""Texts of npu-smi and hccn_tool of our own making, and what a fuzzer does to them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "exporter/fixtures/ascend"
MUTATIONS = 10_000


def fixture(name):
    return (FIXTURES / f"{name}.txt").read_text()


def mutated(text, chance):
    """The text with some characters, spans or lines changed, lost, doubled or moved."""
    for _ in range(chance.randint(1, 6)):
        kind = chance.randrange(7)
        lines = text.splitlines(keepends=True) or [""]
        at = chance.randrange(len(lines))
        place = chance.randrange(len(text) + 1)
        end = min(len(text), place + chance.randint(1, 12))
        if kind == 0:
            text = text[:place] + chance.choice("0123456789|+-=:/.NAx \t\n\r\0é") + text[place + 1 :]
        elif kind == 1:
            text = text[:place] + text[end:]
        elif kind == 2:
            text = text[:end] + text[place:]
        elif kind == 3:
            del lines[at]
            text = "".join(lines)
        elif kind == 4:
            lines.insert(chance.randrange(len(lines)), lines[at])
            text = "".join(lines)
        elif kind == 5:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            text = "".join(lines)
        else:
            text = text[:place]
    return text


@lru_cache(maxsize=64)
def said(text):
    """All numbers in a text, as they stand there."""
    return {float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", text) if len(word) < 25}
