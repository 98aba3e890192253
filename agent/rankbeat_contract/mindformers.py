"""MindFormers' own monitor_config: its keys with their types, checked before a wrong one can end a job.

MindFormers ends the job at an unexpected key (KeyError) and at most wrong types (TypeError, ValueError in
TrainingStateMonitor). Source: class MonitorConfig of mindformers 2.1.0, tools/register/template.py; checks of
core/callback/callback.py there. 1.9.0 and 2.0.0 have the same keys.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Tuple

from rankbeat_contract import words

FORMATS = ("log", "tensorboard")


class Problem(NamedTuple):
    """What is wrong with one key."""

    key: str
    message: str


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return value is None or (isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value))


def _is_format(value: object) -> bool:
    if value is None or value in FORMATS:
        return True
    return isinstance(value, list) and bool(value) and all(each in FORMATS for each in value)


def _is_threshold(value: object) -> bool:
    return value is None or _is_number(value)


def _is_section(value: object) -> bool:
    return value is None or isinstance(value, dict)


Check = Tuple[Callable[[object], bool], str]
_BOOL: Check = (_is_bool, "true or false")
_COUNT: Check = (_is_count, "a whole number from 1")
_TEXTS: Check = (_is_texts, "a list of regular expressions, for example ['.*']")
_FORMAT: Check = (_is_format, "log, tensorboard or a list of both")
_THRESHOLD: Check = (_is_threshold, "a number")
_SECTION: Check = (_is_section, "an object")

KEYS: Mapping[str, Check] = {
    "monitor_on": _BOOL,
    "dump_path": (lambda value: isinstance(value, str) and value != "", "a folder, for example ./dump"),
    "target": _TEXTS,
    "invert": _BOOL,
    "step_interval": _COUNT,
    "local_loss_format": _FORMAT,
    "local_norm_format": _FORMAT,
    "device_local_norm_format": _FORMAT,
    "device_local_loss_format": _FORMAT,
    "optimizer_state_format": _FORMAT,
    "weight_state_format": _FORMAT,
    "max_attention_logit_format": _FORMAT,
    "throughput_baseline": (
        lambda value: value is None or (_is_number(value) and value > 0),  # type: ignore[operator]
        "a number above 0",
    ),
    "print_struct": _BOOL,
    "check_for_global_norm": _BOOL,
    "global_norm_spike_threshold": (_is_number, "a number"),
    "global_norm_spike_count_threshold": _COUNT,
    "stable_rank_config": _SECTION,
    "health_checkpoint": _SECTION,
}
SECTIONS: Mapping[str, Mapping[str, Check]] = {
    "stable_rank_config": {
        "format": _FORMAT,
        "step_interval": _COUNT,
        "target": _TEXTS,
        "do_aggregation": _BOOL,
        "moe_show_mode": (lambda value: value in ("all", "full", "statistics"), "all, full or statistics"),
        "power_iteration_num": _COUNT,
    },
    "health_checkpoint": {
        "global_norm_spike_threshold": _THRESHOLD,
        "embedding_local_norm_threshold": _THRESHOLD,
    },
}


def problems(config: Mapping[str, Any]) -> Tuple[Problem, ...]:
    """What MindFormers would refuse in a monitor_config, or silently not heed."""
    return tuple(_problems(config, KEYS, ""))


def _problems(config: Mapping[str, Any], known: Mapping[str, Check], prefix: str) -> List[Problem]:
    found: List[Problem] = []
    for key, value in config.items():
        path = f"{prefix}{key}"
        if key not in known:
            found.append(Problem(path, f"MindFormers' monitor_config has no key {path!r}{words.nearest(key, known)}"))
        elif not known[key][0](value):
            found.append(Problem(path, f"{path} is {value!r:.80}, write {known[key][1]}"))
        elif isinstance(value, dict):
            found += _problems(value, SECTIONS[key], f"{path}.")
    return found


def accepted(config: Mapping[str, Any]) -> Dict[str, Any]:
    """The whole config, or nothing if any of it would be refused: half of it could mean something else."""
    return {} if problems(config) else dict(config)
