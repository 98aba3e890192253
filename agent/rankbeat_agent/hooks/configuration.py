"""What the monitor asks of this process: its mounted file, under what the environment says.

The file is read when the agent first needs it and again at a flush after it changed (its inode or time: the kubelet
replaces it whole). A file that is no configuration leaves what was read before in force.
"""

import json
import os
import re
from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

from rankbeat_agent.hooks import patches, rank
from rankbeat_agent.hooks.sampling import AUTO, Change, Sampling
from rankbeat_contract import names

DEFAULT_SIGNALS = frozenset(("loss", "learningRate", "throughput", "memory", "evaluation", "checkpoint"))
TAPS = frozenset(patches.TAPS)
IN_SIDE_FILE = frozenset(("run", "histograms", "images", "forensics", "inputShapes"))
_PREFIX = "RANKBEAT_"
_OF_SERVICE = re.compile(r"_(?:SERVICE_HOST|SERVICE_PORT|PORT)(?:_|$)")
Content = Dict[str, Any]


class Metric(NamedTuple):
    """What the monitor says of one metric, by its name in the ring."""

    name: str
    interval_steps: int = 0
    """0: the sampling's."""
    filter: str = ""
    """Expression of filters.py, empty: all values."""


class Configuration(NamedTuple):
    """monitor.json, version 2, with the defaults filled in."""

    experiment: str = ""
    sampling: Sampling = Sampling()
    change: Optional[Change] = None
    """There for a while after the sampling was changed while the job runs."""
    signals: FrozenSet[str] = DEFAULT_SIGNALS
    metrics: Tuple[Metric, ...] = ()
    samples_per_step: int = 0
    """Global batch as the monitor says it, 0 if it does not."""
    attention_cells: Tuple[str, ...] = ()
    parameters: Tuple[str, ...] = (".*",)
    console_ranks: str = ""
    """`auto`, `all`, or ranks with commas; empty: no console line."""
    monitors: Tuple[Content, ...] = ()
    """Objects with name, class, where and options."""
    mindformers_monitor_config: Optional[Content] = None

    @property
    def has_taps(self) -> bool:
        """Whether a signal is asked for that taps give."""
        return not self.signals.isdisjoint(TAPS)

    @property
    def has_side_file(self) -> bool:
        """Whether a signal is asked for that does not fit the ring's records."""
        return not self.signals.isdisjoint(IN_SIDE_FILE)


def _count(content: Content, key: str, default: int) -> int:
    value = content.get(key, default)
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} is {value!r}, not a number of steps")
    return value


def _of(content: Content, key: str, kind: Any, default: Any) -> Any:
    value = content.get(key, default)
    if not isinstance(value, kind):
        raise ValueError(f"{key} is {value!r}, not a {kind.__name__}")  # noqa: TRY004 - one error for all
    return value


def _texts(content: Content, key: str, default: Tuple[str, ...]) -> Tuple[str, ...]:
    return tuple(str(each) for each in _of(content, key, list, list(default)))


def _sampling(content: Content) -> Sampling:
    defaults = Sampling()
    return Sampling(
        _count(content, "intervalSteps", defaults.interval_steps),
        _count(content, "denseFirstSteps", defaults.dense_first_steps),
    )


def _change(content: Content) -> Optional[Change]:
    change = _of(content, "change", dict, {})
    if "fromStep" not in change:
        return None
    return Change(_count(change, "fromStep", 0), _sampling(_of(change, "previous", dict, {})))


def _metrics(rows: List[Any]) -> Tuple[Metric, ...]:
    objects = [row for row in rows if isinstance(row, dict)]
    return tuple(
        Metric(_of(row, "name", str, ""), _count(row, "intervalSteps", 0), _of(row, "filter", str, ""))
        for row in objects
    )


def parsed(text: str, environment: Dict[str, str]) -> Configuration:
    """What text and environment ask for; text is empty where there is no file yet.

    Raises: ValueError where either is no configuration.
    """
    content = json.loads(text) if text else {}
    if not isinstance(content, dict):
        raise ValueError(  # noqa: TRY004 - one error for all that is no configuration
            f"configuration is a {type(content).__name__}, not an object"
        )
    content = _overridden(content, environment)
    mindformers = _of(content, "mindformers", dict, {}).get("monitorConfig")
    return Configuration(
        experiment=_of(content, "experiment", str, ""),
        sampling=_sampling(_of(content, "sampling", dict, {})),
        change=_change(content),
        signals=frozenset(_texts(content, "signals", tuple(DEFAULT_SIGNALS))),
        metrics=_metrics(_of(content, "metrics", list, [])),
        samples_per_step=_count(content, "samplesPerStep", 0),
        attention_cells=_texts(_of(content, "attention", dict, {}), "cells", ()),
        parameters=_texts(content, "parameters", (".*",)),
        console_ranks=str(_of(content, "console", dict, {}).get("ranks", "")),
        monitors=tuple(each for each in _of(content, "monitors", list, []) if isinstance(each, dict)),
        mindformers_monitor_config=mindformers if isinstance(mindformers, dict) and mindformers else None,
    )


def _steps(text: str, name: str) -> int:
    if text == "auto":
        return AUTO
    if not text.isdigit():
        raise ValueError(f"{name} is {text!r}, not a number of steps")
    return int(text)


def _overridden(content: Content, environment: Dict[str, str]) -> Content:
    """content under the environment's RANKBEAT_SECTION_FIELD."""
    for name, key in (
        (names.ENV_SAMPLING_INTERVAL, "intervalSteps"),
        (names.ENV_SAMPLING_DENSE_FIRST_STEPS, "denseFirstSteps"),
    ):
        if name in environment:
            fields = {**_of(content, "sampling", dict, {}), key: _steps(environment[name], name)}
            # What the environment says holds before and after a change of the file.
            change = _of(content, "change", dict, {})
            previous = {**_of(change, "previous", dict, {}), key: fields[key]}
            content = {**content, "sampling": fields, "change": {**change, "previous": previous}}
    if names.ENV_SAMPLES_PER_STEP in environment:
        samples = _steps(environment[names.ENV_SAMPLES_PER_STEP], names.ENV_SAMPLES_PER_STEP)
        content = {**content, "samplesPerStep": samples}
    if names.ENV_CONSOLE_RANKS in environment:
        content = {**content, "console": {"ranks": environment[names.ENV_CONSOLE_RANKS]}}
    if names.ENV_SIGNALS in environment:
        signals = [signal.strip() for signal in environment[names.ENV_SIGNALS].split(",")]
        content = {**content, "signals": [signal for signal in signals if signal]}
    return content


def _text(path: str) -> str:
    """The file's text, empty where there is none: a pod may start before its monitor exists.

    Raises: OSError if the file is there but cannot be read; ValueError if it is no UTF-8.
    """
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - no pathlib in a training process
            return file.read()
    except FileNotFoundError:
        return ""


def _mark(path: str) -> Tuple[int, int]:
    """What changes when the file does, zeros where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - no pathlib in a training process
    except OSError:
        return (0, 0)
    return (found.st_ino, found.st_mtime_ns)


def unknown_variables(environment: Iterable[str]) -> str:
    """What to say of variables that begin as ours do and are none, empty where there is none of them.

    Kubernetes puts the address of each Service of the namespace there too: of `rankbeat-x` as RANKBEAT_X_SERVICE_HOST,
    RANKBEAT_X_PORT_443_TCP and the like.
    """
    known = [value for name, value in vars(names).items() if name.startswith("ENV_") and value.startswith(_PREFIX)]
    ours = [name for name in sorted(environment) if name.startswith(_PREFIX) and not _OF_SERVICE.search(name)]
    unknown = [name for name in ours if name not in known]
    if not unknown:
        return ""
    from rankbeat_contract import words  # noqa: PLC0415 - only where something is wrong

    return "not heeded: " + "; ".join(f"there is no variable {name}{words.nearest(name, known)}" for name in unknown)


class Source:
    """The configuration as last read."""

    __slots__ = ("mark", "present")

    def __init__(self) -> None:
        self.present = Configuration()
        self.mark: Optional[Tuple[int, int]] = None

    def refresh(self, process: rank.Rank) -> bool:
        """Read the file if it changed since; whether the configuration is another now. Errors are counted."""
        path = os.environ.get(names.ENV_CONFIG, "")
        mark = _mark(path)
        if mark == self.mark:
            return False
        unknown = unknown_variables(os.environ) if self.mark is None else ""
        if unknown:
            process.count("environment", ValueError(unknown))
        self.mark = mark
        before = self.present
        try:
            self.present = parsed(_text(path), dict(os.environ))
        except (OSError, ValueError) as error:
            process.count("configuration", error)
        return self.present != before


SOURCE = Source()


def present(process: rank.Rank = rank.RANK) -> Configuration:
    """What holds now; read once, again where refresh() finds the file changed."""
    if SOURCE.mark is None:
        SOURCE.refresh(process)
    return SOURCE.present
