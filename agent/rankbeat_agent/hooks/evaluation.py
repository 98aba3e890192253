"""Names and values of an evaluation's metrics."""

import re
from typing import Any, Iterator, Tuple

from rankbeat_contract import names

_NAME = re.compile(names.METRIC_NAME_PATTERN)
_OTHER = re.compile(r"[^a-z0-9]+")


def normalised(name: object, prefix: str) -> str:
    """The metric's name in the ring, empty where nothing of it is left: `Top1 accuracy` is `eval_top1_accuracy`."""
    words = _OTHER.sub("_", str(name).lower()).strip("_")
    words = words.removeprefix(prefix)
    made = (prefix + words)[:64]
    return made if words and _NAME.fullmatch(made) else ""


def metrics(results: Any) -> Iterator[Tuple[str, float]]:
    """Names and values of those results that are one number."""
    for key, result in results.items() if isinstance(results, dict) else ():
        name = normalised(key, names.EVALUATION_PREFIX)
        if not name:
            continue
        try:
            yield name, float(result.item() if hasattr(result, "item") else result)
        except (TypeError, ValueError):  # a list of classes, a confusion matrix
            continue
