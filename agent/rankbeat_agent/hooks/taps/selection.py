"""Which parameters and cells the monitor means, by their names."""

import fnmatch
import re
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

_LAYER = re.compile(r"(?:^|\.)(\d+)(?=\.|$)")
MAX_PARAMETERS = 2048
"""Parameters with a norm of their own: each is a few operations of the compiled graph."""


class Selected(NamedTuple):
    """A parameter that the monitor means."""

    place: int
    """Among the optimizer's parameters, as among the gradients."""
    parameter: Any
    name: str
    layer: Optional[int]


def layer_of(name: str) -> Optional[int]:
    """The layer that a name of MindSpore's speaks of: its first component that is a number."""
    found = _LAYER.search(name)
    return None if found is None else int(found.group(1))


def selected(parameters: Sequence[Any], patterns: Sequence[str]) -> List[Selected]:
    """Those of parameters that one of patterns, regular expressions, finds at the start of their names.

    Raises: ValueError on a pattern that is no regular expression.
    """
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise ValueError(f"spec.parameters: {error.pattern!r} is no regular expression: {error}") from error
    return [
        Selected(place, parameter, parameter.name, layer_of(parameter.name))
        for place, parameter in enumerate(parameters)
        if any(pattern.match(parameter.name) for pattern in compiled)
    ][:MAX_PARAMETERS]


def cells(network: Any, patterns: Sequence[str]) -> Tuple[List[Tuple[str, Any]], List[int]]:
    """Cells whose path one of patterns fits (fnmatch), each once; and how many each pattern fits.

    A path may be written as the training cell says it (`network._backbone.layers.0...`), as its network does, or
    without the `_backbone.` or `network.` that wrappers put before what the model's author knows; `backbone.` means
    `_backbone.` too.
    """
    found: List[Tuple[str, Any]] = []
    counts = [0] * len(patterns)
    for path, cell in network.cells_and_names():
        spellings = _spellings(path)
        fitting = [
            place
            for place, pattern in enumerate(patterns)
            if any(fnmatch.fnmatchcase(spelling, pattern) for spelling in spellings)
        ]
        for place in fitting:
            counts[place] += 1
        if fitting and not any(cell is other for _, other in found):
            found.append((path, cell))
    return found, counts


def _spellings(path: str) -> List[str]:
    spellings = ["network." + path, path]
    while True:
        first, _, rest = spellings[-1].partition(".")
        if not rest or first not in ("network", "_backbone"):
            return spellings
        if first == "_backbone":
            spellings.append("backbone." + rest)
        spellings.append(rest)
