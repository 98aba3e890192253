"""A shell's text cut into its simple commands, as far as that can be done without running it."""

import re
from typing import List, NamedTuple, Optional, Tuple

UNKNOWN = "\0"
"""Stands in a word's value for what only the running shell, or the kubelet, knows."""

_KUBELET = re.compile(r"\$\$|\$\([-._A-Za-z0-9]+\)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[-0-9@*#?$!]")
_ENDS = frozenset(" \t\n;&|()<>")


class Part(NamedTuple):
    """One word: text[start:end], and its value after the removal of quotes."""

    start: int
    end: int
    value: str


class _BeyondUsError(ValueError):
    """What this reader does not read: a here document, an open quote."""


def expanded_by_kubelet(text: str) -> str:
    """An element of command or args with UNKNOWN for each $(VARIABLE); the kubelet writes $$ as $."""
    return _KUBELET.sub(lambda found: "$" if found[0] == "$$" else UNKNOWN, text)


def commands(text: str) -> Optional[Tuple[Tuple[Part, ...], ...]]:
    """The simple commands of a text without their redirections; None where it is beyond this reader."""
    found: List[List[Part]] = [[]]
    place = 0
    is_target = False
    try:
        while place < len(text):
            character = text[place]
            if character in " \t" or text.startswith("\\\n", place):
                place += 1 if character in " \t" else 2
            elif character == "#":
                place = _line_end(text, place)
            elif character in "<>" or text.startswith("&>", place):
                place, is_target = _after_redirection(text, place), True
            elif character in _ENDS:
                found.append([])
                place += 1
            else:
                part = _word(text, place)
                is_number = part.value.isdigit() and text[part.end : part.end + 1] in {"<", ">"}
                if not is_target and not is_number:
                    found[-1].append(part)
                place, is_target = part.end, False
    except _BeyondUsError:
        return None
    return tuple(tuple(each) for each in found if each)


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _after_redirection(text: str, place: int) -> int:
    if text.startswith("<<", place):
        raise _BeyondUsError
    while place < len(text) and text[place] in "<>&|":
        place += 1
    return place


def _word(text: str, start: int) -> Part:
    place, value = start, ""
    while place < len(text) and text[place] not in _ENDS:
        character = text[place]
        if character == "'":
            end = _closing(text, place + 1, "'")
            value += text[place + 1 : end]
            place = end + 1
        elif character == '"':
            place, inner = _double_quoted(text, place + 1)
            value += inner
        elif character == "\\":
            value += "" if text.startswith("\\\n", place) else text[place + 1 : place + 2]
            place += 2
        elif character in "$`":
            place, inner = _expansion(text, place)
            value += inner
        else:
            value += character
            place += 1
    return Part(start, min(place, len(text)), value)


def _closing(text: str, place: int, quote: str) -> int:
    end = text.find(quote, place)
    if end < 0:
        raise _BeyondUsError
    return end


def _double_quoted(text: str, place: int) -> Tuple[int, str]:
    value = ""
    while place < len(text):
        character = text[place]
        if character == '"':
            return place + 1, value
        if character == "\\" and text[place + 1 : place + 2] in {"$", "`", '"', "\\", "\n"}:
            value += text[place + 1].replace("\n", "")
            place += 2
        elif character in "$`":
            place, inner = _expansion(text, place)
            value += inner
        else:
            value += character
            place += 1
    raise _BeyondUsError


def _expansion(text: str, place: int) -> Tuple[int, str]:
    """The end of $NAME, ${...}, $(...) or `...`, and UNKNOWN; a $ that begins none of them stands for itself."""
    if text[place] == "`":
        return _closing(text, place + 1, "`") + 1, UNKNOWN
    opening = text[place + 1 : place + 2]
    if opening in {"(", "{"}:
        return _balanced(text, place + 1), UNKNOWN
    name = _NAME.match(text, place + 1)
    return (name.end(), UNKNOWN) if name else (place + 1, "$")


def _balanced(text: str, place: int) -> int:
    """The place behind the bracket that closes the one at place."""
    opening, closing = text[place], {"(": ")", "{": "}"}[text[place]]
    depth = 0
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 1
        elif character == "'":
            place = _closing(text, place + 1, "'")
        elif character == '"':
            place = _double_quoted(text, place + 1)[0] - 1
        depth += (character == opening) - (character == closing)
        place += 1
        if depth == 0:
            return place
    raise _BeyondUsError
