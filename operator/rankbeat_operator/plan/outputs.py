"""Condition OutputsWritten: whether what spec.outputs asks for is written, and what to do where it is not.

A pod's own collector says it in one of a few words (rankbeat_contract.outputs.TROUBLES); places come from spec alone.
"""

from collections.abc import Iterator, Mapping, Sequence

from rankbeat_contract import names
from rankbeat_contract import outputs as contract
from rankbeat_operator.model.condition import Condition
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.pods import Pod
from rankbeat_operator.model.verdicts import Outputs

SPEAKS_SECONDS = 60.0
"""The sidecar starts before the job and writes its status every 5 s; a poll, a report and a verdict come to it."""
_SHOWN = 3

_LOG = f"kubectl logs POD -c {names.SIDECAR}"
_REASONS = {
    "key_missing": "KeyMissing",
    "key_invalid": "KeyInvalid",
    "settings": "SettingsRefused",
    "unwritable": "Unwritable",
    "full": "VolumeFull",
    "vanished": "DirectoryGone",
    "io": "WriteFailed",
    "http": "NotPosted",
    "silent": "CollectorSilent",
    "rows_lost": "RowsLost",
    "audit": "AuditIncomplete",
    "monitor": "MonitorDisabled",
}
_KEY_MISSING = """nothing is written, since the key is not there: make the Secret of {secrets}; a running pod finds it \
within three minutes"""
_KEY_INVALID = "nothing is written, since the Secret of {secrets} holds no key: make one with openssl rand -hex 32"
_SETTINGS = f"""the collector cannot follow spec.outputs; what it followed before stays, if there was anything: {_LOG} \
names the field"""
_UNWRITABLE = """{place} cannot be written by the user that the pod runs as: mount it writable, and give the folder to \
that user or to the pod's fsGroup"""
_VANISHED = """{place} was deleted while it was written, and is made anew where it can be: look at who cleans up the \
volume, and whether it is still mounted"""
_HTTP = """spec.outputs.http.url does not take the rows, which wait and are tried again: look at that server, and at \
network policies of this namespace"""
_NO_PLACE = """{signals} of spec.signals are no series, and are lost with the pod: write collector: {{mode: sidecar}} \
and outputs.files (docs/outputs.md), and recreate the pods"""
_SILENT = f"the collector has said nothing of its outputs for a minute: see condition Sidecar, and {_LOG}"
_ROWS_LOST = f"""rows were lost in the last five minutes: where they go is slower than they come, or was not there; \
sample more rarely or ask for fewer signals; {_LOG} says which"""
_MONITOR = f"""a class of spec.monitors raised an exception and runs no longer: {_LOG} names it; mend it and recreate \
the pod"""
_TEXTS = {
    "key_missing": _KEY_MISSING,
    "key_invalid": _KEY_INVALID,
    "settings": _SETTINGS,
    "unwritable": _UNWRITABLE,
    "full": "{place} is full: make room, or write smaller maxTotalSize and maxAge into spec.outputs.files",
    "vanished": _VANISHED,
    "io": f"{{place}} answers with errors: look at the volume; {_LOG} says which",
    "http": _HTTP,
    "silent": _SILENT,
    "rows_lost": _ROWS_LOST,
    "audit": f"entries of the audit log in {{place}} could not be written; {_LOG} says which",
    "monitor": _MONITOR,
}


def conditions(monitor: Monitor, observed: Observed) -> Iterator[Condition]:
    """OutputsWritten where outputs are asked for, or signals that need one."""
    if signals := monitor.settings.signals_without_place:
        yield Condition("OutputsWritten", "False", "NoOutput", _NO_PLACE.format(signals=", ".join(signals)))
    elif monitor.settings.outputs.needs_collector:
        yield _written(monitor, observed)


def _written(monitor: Monitor, observed: Observed) -> Condition:
    pods = [pod for pod in observed.counted_pods if pod.injection and pod.injection.sidecar == names.INJECTED]
    if not pods:
        return _unknown("NoSidecar", "no pod has the collector that writes them: see condition Sidecar")
    if observed.verdict is None:
        return _unknown("NoReports", "nothing is known of these pods: see conditions Reporting and AggregatorReachable")
    said = observed.verdict.outputs
    found = {pod.name: said[pod.name] for pod in pods if pod.name in said}
    if any(one.troubles for one in found.values()):
        return _troubled(monitor, found, len(pods))
    mute = [pod for pod in pods if pod.name not in found]
    if mute:
        return _unknown("NoReports", _mute(mute, len(pods), observed.now))
    if not any(one.rows_written for one in found.values()):
        return _unknown("NoRows", f"nothing had to be written to {_places(monitor)} yet, and nothing is in the way")
    has_lost = any(one.rows_lost for one in found.values())
    earlier = f"; rows were lost earlier, {_LOG} says why" if has_lost else ""
    return Condition("OutputsWritten", "True", "Written", f"rows are written to {_places(monitor)}{earlier}")


def _mute(mute: Sequence[Pod], pods: int, now: float) -> str:
    shown = ", ".join(pod.name for pod in mute[:_SHOWN])
    is_late = any(pod.is_alive and now - (pod.running_since or now) > SPEAKS_SECONDS for pod in mute)
    advice = f": see condition Sidecar, and {_LOG}; pods of an older version never do, recreate them" if is_late else ""
    return f"{len(mute)} of {pods} pods ({shown}) have said nothing of their outputs yet{advice}"


def _troubled(monitor: Monitor, found: Mapping[str, Outputs], pods: int) -> Condition:
    fields = {"place": _directory(monitor), "secrets": _secrets(monitor)}
    texts = {}
    for trouble in contract.TROUBLES:
        of_pods = [name for name, one in found.items() if trouble in one.troubles]
        if of_pods:
            whose = f"{len(of_pods)} of {pods} pods ({', '.join(of_pods[:_SHOWN])})"
            texts[trouble] = f"{whose}: {_TEXTS[trouble].format(**fields)}"
    message = "; ".join(texts.values())
    return Condition("OutputsWritten", "False", _REASONS[next(iter(texts))], f"training goes on; {message}")


def _directory(monitor: Monitor) -> str:
    """Where files go, as spec says it: nothing of it comes from a pod."""
    outputs = monitor.settings.outputs
    volume = outputs.volume or {}
    if "persistentVolumeClaim" in volume:
        what = f"PersistentVolumeClaim {volume['persistentVolumeClaim'].get('claimName')}"
    elif "hostPath" in volume:
        what = f"the node's {volume['hostPath'].get('path')}"
    else:
        what = f"the pod's volume {volume.get('name')}"
    path = f"{names.OUTPUT_PATH}/{outputs.directory}".rstrip("/")
    return f"{path} ({outputs.directory or 'the top'} of {what})"


def _places(monitor: Monitor) -> str:
    outputs = monitor.settings.outputs
    files = [_directory(monitor)] if outputs.files or outputs.is_audited else []
    return " and ".join([*files, *([outputs.http.url] if outputs.http else [])])


def _secrets(monitor: Monitor) -> str:
    outputs = monitor.settings.outputs
    asked = (("encryption", outputs.encryption), ("masking", outputs.masking))
    return " or ".join(
        f"spec.outputs.{field} ({each.get('secretName')}, key {each.get('key')})" for field, each in asked if each
    )


def _unknown(reason: str, message: str) -> Condition:
    return Condition("OutputsWritten", "Unknown", reason, message)
