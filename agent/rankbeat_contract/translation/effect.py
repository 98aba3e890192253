"""The spec that is in force: what is written, and below it what the bare configuration means."""

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from rankbeat_contract import mindformers
from rankbeat_contract.translation import keys
from rankbeat_contract.translation.outcomes import REFUSED, Outcome

MOST_CHARACTERS = 16384
"""Of a monitorConfig and of a mindformers.monitorConfig as JSON: the file must fit a ConfigMap many times over."""
Spec = Mapping[str, Any]


class Effective(NamedTuple):
    """spec: as if all had been written there. refused: what of the configuration is not heeded, and why."""

    spec: Spec
    refused: Tuple[Outcome, ...]


def effective(spec: Spec) -> Effective:
    """The spec in force. An explicit field wins over a translated one; the values of a list are never mixed."""
    refused: List[Outcome] = []
    config = spec.get("monitorConfig")
    whole: Spec = spec
    if config and _fits("spec.monitorConfig", config, refused):
        translation = keys.translated(config)
        refused += translation.refused
        whole = _merged(translation.spec, {key: value for key, value in spec.items() if key != "monitorConfig"})
    real = (whole.get("mindformers") or {}).get("monitorConfig")
    if real and _fits("spec.mindformers.monitorConfig", real, refused):
        problems = mindformers.problems(real)
        refused += (Outcome(f"mindformers.monitorConfig.{each.key}", REFUSED, each.message) for each in problems)
    elif real:
        whole = {**whole, "mindformers": {}}
    return Effective(_placed(spec, whole, refused), tuple(refused))


def _fits(field: str, config: object, refused: List[Outcome]) -> bool:
    size = len(json.dumps(config))
    if size > MOST_CHARACTERS:
        refused.append(Outcome(field, REFUSED, f"{size} characters, write at most {MOST_CHARACTERS}"))
    return size <= MOST_CHARACTERS


def _merged(below: Spec, above: Spec) -> Dict[str, Any]:
    merged = {**below, **above}
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            merged[key] = _merged(below[key], value)
    return merged


def _placed(spec: Spec, whole: Spec, refused: List[Outcome]) -> Spec:
    """Without translated files that have no place: nothing refuses them elsewhere, and nothing could write them."""
    outputs = whole.get("outputs") or {}
    if outputs.get("files") and not outputs.get("volume") and not (spec.get("outputs") or {}).get("files"):
        text = "files need a volume of the pod or a claim: write spec.outputs.volume"
        refused.append(Outcome("outputs.files", REFUSED, text))
        outputs = {key: value for key, value in outputs.items() if key != "files"}
        whole = {**whole, "outputs": outputs}
        if not _needs_sidecar(whole):
            whole = {**whole, "collector": spec.get("collector") or {}}
    mode = (whole.get("collector") or {}).get("mode", "node")
    if mode == "node" and whole is not spec and _needs_sidecar(whole):
        text = "spec.collector.mode is node; files, HTTP and custom monitors need mode: sidecar"
        refused.append(Outcome("collector.mode", REFUSED, text))
    return whole


def _needs_sidecar(spec: Spec) -> bool:
    outputs, monitors = spec.get("outputs") or {}, spec.get("monitors") or ()
    return bool(
        outputs.get("files")
        or outputs.get("http")
        or any(monitor.get("where", "collector") == "collector" for monitor in monitors)
    )
