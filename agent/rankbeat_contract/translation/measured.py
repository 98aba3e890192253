"""metrics, monitored_metrics, hardware_metrics: which signals they mean."""

import re
from typing import Any, Dict, List, Mapping

from rankbeat_contract import names, words
from rankbeat_contract.translation.outcomes import REFUSED, TRANSLATED, Draft, Refused, count, fields, shown, text
from rankbeat_contract.translation.refusals import DEVICE_METRICS, REFUSALS

SIGNALS: Mapping[str, str] = {
    "loss": "loss",
    "train_loss": "loss",
    "learning_rate": "learningRate",
    "lr": "learningRate",
    "optimizer.learning_rate": "learningRate",
    "grad_norm": "gradNorm",
    "gradient_norm": "gradNorm",
    "global_norm": "gradNorm",
    "local_norm": "localNorms",
    "param_update_ratio": "updateRatio",
    "update_ratio": "updateRatio",
    "attention_entropy": "attentionEntropy",
    "attention_sparsity": "attentionSparsity",
    "throughput": "throughput",
    "samples_per_second": "throughput",
    "memory": "memory",
    "memory_usage": "memory",
    **dict.fromkeys(("histogram", "histograms", "weights"), "histograms"),
    **dict.fromkeys(("images", "input_images"), "images"),
    "perplexity": "perplexity",
    "expert_load": "expertLoad",
    "class_loss": "classLoss",
    "per_class_loss": "classLoss",
    "input_shape": "inputShapes",
    "accuracy": "evaluation",
    "eval_loss": "evaluation",
    "checkpoint": "checkpoint",
}
"""By the names that people write."""
ALWAYS: Mapping[str, str] = {
    "step_time": names.RANK_STEP_INTERVAL,
    "per_step_time": names.RANK_STEP_INTERVAL,
    "train_per_step_time": names.RANK_STEP_INTERVAL,
    "iteration_time": names.RANK_STEP_INTERVAL,
    "data_time": names.RANK_GAP,
    "overflow": names.RANK_OVERFLOW_STEPS,
    "loss_scale": names.RANK_LOSS_SCALE,
    "cpu_utilization": names.RANK_CPU_SECONDS,
}
"""What is there without any signal, where the job has it."""
IN_RING: Mapping[str, str] = {
    "loss": names.SCALAR_LOSS,
    "learningRate": names.SCALAR_LEARNING_RATE,
    "gradNorm": names.SCALAR_GRAD_NORM,
    "memory": names.SCALAR_RESIDENT_MEMORY,
    "perplexity": names.SCALAR_PERPLEXITY,
}
"""Names in the ring of the signals that are one value: these can have an interval and a filter of their own."""
ONE_IMAGE = "signal images writes the first image of each input, every 10 s at most"
_KINDS = {
    "image": ("images", f"{ONE_IMAGE}; nothing else is drawn: leave type out, or write name: images"),
    "histogram": ("histograms", "signal histograms is of the weights: leave type out, or write name: weights"),
}
"""By type: the one signal that has it, and what becomes of another."""
_ATTENTION = re.compile(r"attn|attention|softmax|prob", re.IGNORECASE)
_FIELDS = ("name", "type", "source", "interval", "filter", "max_images")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_FILTER = re.compile(r"[A-Za-z0-9_.<>=!() +-]{1,256}")
_SPOKEN = re.compile(r"(?P<number>\d+\.?\d*[eE][+-]?\d+)|(?P<word>[A-Za-z_][A-Za-z0-9_.]*)")


def metrics(draft: Draft, key: str, value: object) -> None:
    """A list of names or of objects, or an object by name."""
    if isinstance(value, dict):
        value = [{"name": name, **(entry if isinstance(entry, dict) else {})} for name, entry in value.items() if entry]
    if not isinstance(value, list):
        raise Refused(f"{shown(value)!r} is no list, write for example [loss, learning_rate]")
    for place, entry in enumerate(value):
        _guarded(draft, f"{key}[{place}]", entry)


def _guarded(draft: Draft, key: str, entry: object) -> None:
    try:
        if isinstance(entry, dict):
            _entry(draft, key, entry)
        else:
            named(draft, key, text(entry))
    except Refused as refused:
        draft.note(key, "refused", str(refused))


def named(draft: Draft, key: str, name: str) -> str:
    """The signal that name means, "" where it needs none."""
    if name in SIGNALS:
        draft.signal(key, SIGNALS[name])
        return SIGNALS[name]
    if name in ALWAYS:
        draft.keeps(key, f"{name} is always there: {ALWAYS[name]}")
        return ""
    if name in DEVICE_METRICS or name in REFUSALS:
        raise Refused(DEVICE_METRICS.get(name) or REFUSALS[name])
    if "." in name:
        return _cell(draft, key, name)
    known = (*SIGNALS, *ALWAYS, *DEVICE_METRICS)
    raise Refused(f"there is no metric {name!r}{words.nearest(name, known)}")


def _cell(draft: Draft, key: str, path: str) -> str:
    """A path in the network: of a cell that gives out attention's probabilities, anything else cannot be reached."""
    if not _ATTENTION.search(path.rsplit(".", 1)[-1]):
        raise Refused(
            f"{path!r} names no value that can be read; gradients, weights (signals gradNorm, localNorms, histograms)"
            " and the output of an attention's softmax cell (spec.attention.cells) can be"
        )
    draft.spec.setdefault("attention", {}).setdefault("cells", []).append(path)
    draft.signal(key, "attentionEntropy")
    draft.note(key, TRANSLATED, f"spec.attention.cells: {path}; it must name a Cell whose output is the probabilities")
    return "attentionEntropy"


def _entry(draft: Draft, key: str, entry: Dict[str, Any]) -> None:
    for field in entry:
        if field not in _FIELDS:
            raise Refused(f"a metric has no field {field!r}{words.nearest(field, _FIELDS)}")
    kind = str(entry.get("type", "scalar"))
    if kind not in ("scalar", *_KINDS):
        raise Refused(f"there is no type {kind!r}, write scalar, image or histogram")
    signal = named(draft, key, text(entry.get("source") or entry.get("name")))
    if kind in _KINDS and signal != _KINDS[kind][0]:
        draft.note(f"{key}.type", REFUSED, _KINDS[kind][1])
    if "max_images" in entry:
        draft.keeps(f"{key}.max_images", ONE_IMAGE)
    own: Dict[str, Any] = {}
    if "interval" in entry:
        own["interval"] = count(entry["interval"])
    if "filter" in entry:
        own["filter"] = filter_text(text(entry["filter"]))
    if own:
        _own(draft, key, signal, own)


def _own(draft: Draft, key: str, signal: str, own: Dict[str, Any]) -> None:
    if signal not in IN_RING:
        raise Refused(f"only {', '.join(IN_RING)} can have an interval or a filter of their own; write spec.sampling")
    wanted: List[Dict[str, Any]] = draft.spec.setdefault("metrics", [])
    name = IN_RING[signal]
    if any(metric["name"] == name for metric in wanted):
        raise Refused(f"{name} is there twice: write it once")
    wanted.append({"name": name, **own})
    draft.note(key, TRANSLATED, f"spec.metrics: {shown(wanted[-1])}")


def filter_text(wanted: str) -> str:
    """A filter in our words: the value is called `value`.

    Raises: Refused if it is no comparison.
    """
    plain = wanted.replace("&&", " and ").replace("||", " or ")
    spoken = _SPOKEN.sub(_spoken, plain)
    if not _FILTER.fullmatch(spoken) or not re.search(r"[<>=]", spoken):
        raise Refused(f"{wanted!r} is no comparison, write for example value > 1e-3")
    return " ".join(spoken.split())


def _spoken(found: "re.Match[str]") -> str:
    word = found["word"]
    return found[0] if word is None or word in ("and", "or", "not", "value") else "value"


def hardware(draft: Draft, key: str, value: object) -> None:
    """hardware_metrics: a list of names, or an object of switches."""
    wanted = value if isinstance(value, list) else [name for name, on in fields(value).items() if on]
    for entry in wanted:
        name = text(entry)
        try:
            named(draft, f"{key}.{name}", name)
        except Refused as refused:
            draft.note(f"{key}.{name}", "refused", str(refused))
    if not wanted:
        draft.keeps(key, "nothing is asked for")
