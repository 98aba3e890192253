"""Every key that is known, and who translates it."""

import re
from typing import Any, Callable, Dict, Mapping

from rankbeat_contract import mindformers, words
from rankbeat_contract.translation import measured, written
from rankbeat_contract.translation.outcomes import (
    REFUSED,
    TRANSLATED,
    Draft,
    Refused,
    Translation,
    count,
    fields,
    shown,
    switch,
    text,
)
from rankbeat_contract.translation.refusals import CALLBACKS, REFUSALS

Handler = Callable[[Draft, str, Any], None]
_EXPERIMENT = re.compile(r"[a-zA-Z_-][a-zA-Z0-9_-]{0,63}")
_CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")


def _enable(draft: Draft, key: str, value: object) -> None:
    if not switch(value):
        raise Refused(
            "to keep the agent out, label the pod template rankbeat.io/inject: disabled;"
            " to be paged no more, write spec.paused: true"
        )
    draft.keeps(key, "a TrainingMonitor observes as long as it is there")


def _experiment(draft: Draft, key: str, value: object) -> None:
    name = text(value)
    if not _EXPERIMENT.fullmatch(name):
        raise Refused(f"{shown(name)!r}: write 1 to 64 letters, digits, - and _, the first no digit")
    draft.sets(key, "experiment", name)


def _interval(draft: Draft, key: str, value: object) -> None:
    draft.sets(key, "sampling.interval", "auto" if value == "auto" else count(value))


def _dense(draft: Draft, key: str, value: object) -> None:
    draft.sets(key, "sampling.denseFirstSteps", 0 if value == 0 else count(value))


def _samples(draft: Draft, key: str, value: object) -> None:
    draft.sets(key, "samplesPerStep", count(value))


def _always(reason: str) -> Handler:
    def handle(draft: Draft, key: str, _: object) -> None:
        draft.keeps(key, reason)

    return handle


def _signal(signal: str) -> Handler:
    def handle(draft: Draft, key: str, value: object) -> None:
        if switch(value):
            draft.signal(key, signal)
        else:
            draft.keeps(key, "not asked for")

    return handle


def _export_options(draft: Draft, key: str, value: object) -> None:
    _sections(draft, key, value, {"include_grad": _signal("gradNorm"), "include_input_shape": _signal("inputShapes")})


def _memory_stats(draft: Draft, key: str, value: object) -> None:
    wanted = {
        "enable": _signal("memory"),
        "dump_on_oom": _signal("forensics"),
        "track_allocations": _refused("track_allocations"),
    }
    _sections(draft, key, value, wanted)


def _alert_config(draft: Draft, key: str, value: object) -> None:
    wanted = {
        "enable_alert": _enable_alert,
        "loss_threshold": _refused("loss_threshold"),
        "alert_interval": _always("how often a page is repeated is Alertmanager's repeat_interval"),
    }
    _sections(draft, key, value, wanted)


def _enable_alert(draft: Draft, key: str, value: object) -> None:
    if switch(value):
        draft.keeps(key, "alerts are raised unless spec.paused is true")
    else:
        draft.sets(key, "paused", True)


def _audit(draft: Draft, key: str, value: object) -> None:
    if value is False:
        draft.keeps(key, "not asked for")
    else:
        draft.sets(key, "outputs.audit", True)


def _custom(draft: Draft, key: str, value: object) -> None:
    path = text(value)
    if not _CLASS.fullmatch(path):
        raise Refused(f"{shown(path)!r} is no dotted path of a class, write for example package.module:Class")
    module, name = re.split(r"[.:](?=[A-Za-z_]\w*$)", path)
    entry = {"name": _monitor_name(name), "class": f"{module}:{name}"}
    draft.spec.setdefault("monitors", []).append(entry)
    draft.spec["collector"] = {"mode": "sidecar"}
    draft.note(key, TRANSLATED, f"spec.monitors: {shown(entry)}; its class follows the protocol of custom monitors")


def _callbacks(draft: Draft, key: str, value: object) -> None:
    """A list of callbacks, by `name` or `type`: each is answered, none of them is ours to add."""
    entries = value if isinstance(value, list) and value else [value]
    for place, entry in enumerate(entries):
        path = f"{key}[{place}]" if isinstance(value, list) else key
        name = entry.get("name") or entry.get("type") if isinstance(entry, dict) else entry
        draft.note(path, REFUSED, REFUSALS.get(str(name), CALLBACKS))


def _monitor_name(class_name: str) -> str:
    """ClassName as class_name: part of the names of metrics."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower().lstrip("_0123456789")[:32] or "monitor"


def _refused(name: str) -> Handler:
    def handle(_: Draft, __: str, value: object) -> None:
        if value is False:
            raise Refused(f"{REFUSALS[name]}; leave it out")
        raise Refused(REFUSALS[name])

    return handle


def _sections(draft: Draft, key: str, value: object, known: Mapping[str, Handler]) -> None:
    for field, entry in fields(value).items():
        _one(draft, f"{key}.{field}", field, entry, known)


KEYS: Dict[str, Handler] = {
    "enable": _enable,
    "enabled": _enable,
    **dict.fromkeys(("experiment", "experiment_id", "experiment_name", "name"), _experiment),
    **dict.fromkeys(("interval", "step_interval", "collect_interval", "collect_freq"), _interval),
    **dict.fromkeys(("dense_first_steps", "dense_steps"), _dense),
    **dict.fromkeys(("global_batch_size", "samples_per_step"), _samples),
    **dict.fromkeys(("metrics", "monitored_metrics"), measured.metrics),
    "hardware_metrics": measured.hardware,
    "grad_monitor": _signal("gradNorm"),
    **dict.fromkeys(("class_loss", "per_class_loss"), _signal("classLoss")),
    "output": written.output,
    **dict.fromkeys(("output_type", "export_format"), written.output_type),
    **dict.fromkeys(("export_dir", "log_dir", "output_dir"), written.directory),
    **dict.fromkeys(("file_path", "log_to_file"), written.file_path),
    **dict.fromkeys(("tensorboard_path", "tensorboard_dir"), written.of_format("tensorboard")),
    "json_log_path": written.of_format("jsonl"),
    "log_rank": written.log_rank,
    "max_file_size": written.max_file_size,
    "flush_interval_ms": written.flush_interval("ms"),
    "flush_interval": written.flush_interval("s"),
    "write_strategy": written.write_strategy,
    "batch_size": written.batch_size,
    **dict.fromkeys(("http_url", "push_url", "remote_url"), written.http_url),
    "export_options": _export_options,
    "advanced_memory_stats": _memory_stats,
    "alert_config": _alert_config,
    "custom_monitor_callback": _custom,
    "callbacks": _callbacks,
    "audit_log": _audit,
    "timestamp_precision": _always("times are in nanoseconds"),
    "buffer_size": _always("the ring has a fixed size; what a reader misses is counted"),
    "queue_size": _always("there is no queue in the training process"),
    "num_workers": _always("there is no thread in the training process"),
    **dict.fromkeys(("check_nan", "nan_detection"), _always("a loss that is no number is an incident, always")),
    "max_images": _always(measured.ONE_IMAGE),
}
"""Keys of ours to be; MindFormers' own go on to spec.mindformers.monitorConfig."""


def translated(config: Mapping[str, Any]) -> Translation:
    """What a bare monitor_config means, key by key. A key monitor_config around it is taken off."""
    inner = config.get("monitor_config")
    if isinstance(inner, dict):
        config = inner
    draft = Draft()
    for key, value in config.items():
        if key in mindformers.KEYS and key not in KEYS:
            draft.mindformers[key] = value
        else:
            _one(draft, key, key, value, KEYS)
    written.finish(draft)
    _mindformers(draft, config)
    return Translation(draft.spec, tuple(draft.outcomes))


def _one(draft: Draft, path: str, key: str, value: object, known: Mapping[str, Handler]) -> None:
    try:
        if key in known:
            known[key](draft, path, value)
        elif key in REFUSALS:
            _refused(key)(draft, path, value)
        else:
            every = (*known, *mindformers.KEYS) if known is KEYS else tuple(known)
            raise Refused(f"there is no key {key!r}{words.nearest(key, every)}")  # noqa: TRY301 - one door for all
    except Refused as refused:
        draft.note(path, REFUSED, str(refused))


def _mindformers(draft: Draft, config: Mapping[str, Any]) -> None:
    """MindFormers' own keys, all or none: with one of them wrong MindFormers would end the job."""
    if not draft.mindformers:
        return
    whole = {**draft.mindformers, **{key: config[key] for key in ("step_interval",) if key in config}}
    wrong = {problem.key.split(".")[0]: problem.message for problem in mindformers.problems(whole)}
    for key in draft.mindformers:
        if key in wrong:
            draft.note(key, REFUSED, wrong[key])
        else:
            draft.note(key, TRANSLATED, f"spec.mindformers.monitorConfig.{key}: {shown(config[key])}")
    if not wrong:
        draft.spec["mindformers"] = {"monitorConfig": whole}
