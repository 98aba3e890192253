"""Condition OutputsWritten: what a pod's own collector says becomes a reason, a place and a remedy."""

from typing import Any

import pytest

from operator_builders import AGENT, NOW, a_monitor, a_pod, a_verdict, seen
from rankbeat_contract import monitor as contract
from rankbeat_contract import outputs as contract_outputs
from rankbeat_operator.model.condition import Condition
from rankbeat_operator.model.pods import Injection
from rankbeat_operator.model.verdicts import Outputs
from rankbeat_operator.plan import outputs, status

CLAIM = {"persistentVolumeClaim": {"claimName": "shared"}}
ASKED = {"volume": CLAIM, "directory": "runs", "files": [{"format": "jsonl"}]}
BESIDE = Injection("Injected", "", AGENT, "train", sidecar="Injected")
PODS = (a_pod("llm-0-x", injection=BESIDE), a_pod("llm-1-y", injection=BESIDE))
WELL = Outputs((), 12)
PLACE = "/rankbeat/outputs/runs (runs of PersistentVolumeClaim shared)"


def monitor(**changes: Any):
    spec = {"collector": {"mode": "sidecar"}, "outputs": {**ASKED, **changes}}
    return a_monitor(settings=contract.settings(spec))


def written(said: dict[str, Outputs] | None, asked=None, **changes: Any) -> Condition:
    verdict = None if said is None else a_verdict(outputs=said)
    (found,) = outputs.conditions(asked or monitor(), seen(**{"pods": PODS, "verdict": verdict, **changes}))
    return found


def test_it_is_not_there_where_no_output_is_asked_for():
    console = a_monitor(settings=contract.settings({"outputs": {"console": {}}}))

    assert list(outputs.conditions(a_monitor(), seen())) == []
    assert list(outputs.conditions(console, seen())) == []


@pytest.mark.parametrize("outputs_asked", [{}, {"console": {}}])
def test_signals_that_only_files_hold_need_an_output(outputs_asked: dict[str, Any]):
    asked = contract.settings({"signals": ["loss", "forensics", "images"], "outputs": outputs_asked})
    (found,) = outputs.conditions(a_monitor(settings=asked), seen())

    assert (found.status, found.reason) == ("False", "NoOutput")
    assert found.message.startswith("forensics, images of spec.signals")
    assert "collector: {mode: sidecar}" in found.message


def test_signals_that_only_files_hold_are_written_with_the_rows():
    asked = {"signals": ["run"], "collector": {"mode": "sidecar"}, "outputs": ASKED}
    found = written({"llm-0-x": WELL, "llm-1-y": WELL}, a_monitor(settings=contract.settings(asked)))

    assert found.reason == "Written"


def test_rows_that_are_written_are_said_with_their_place():
    found = written({"llm-0-x": WELL, "llm-1-y": Outputs()})

    assert found == Condition("OutputsWritten", "True", "Written", f"rows are written to {PLACE}")


def test_rows_that_were_lost_earlier_are_no_trouble_any_longer_and_not_forgotten():
    found = written({"llm-0-x": WELL, "llm-1-y": Outputs((), 12, rows_lost=3)})

    assert (found.status, found.reason) == ("True", "Written")
    assert "rows were lost earlier" in found.message


@pytest.mark.parametrize(
    ("said", "changes", "reason"),
    [
        ({"llm-0-x": WELL, "llm-1-y": WELL}, {"pods": (a_pod(),)}, "NoSidecar"),
        (None, {}, "NoReports"),
        ({"llm-0-x": WELL}, {}, "NoReports"),
        ({"llm-0-x": Outputs(), "llm-1-y": Outputs()}, {}, "NoRows"),
    ],
    ids=["no sidecar", "no verdict", "one pod is mute", "nothing to write yet"],
)
def test_what_is_not_known_is_unknown(said: dict[str, Outputs] | None, changes: dict[str, Any], reason: str):
    found = written(said, **changes)

    assert (found.status, found.reason) == ("Unknown", reason)


def test_a_pod_that_stays_mute_is_to_be_looked_at():
    young, old = (a_pod("llm-0-x", injection=BESIDE, running_since=NOW - age) for age in (59.0, 61.0))

    assert "kubectl logs" not in written({}, pods=(young,)).message
    assert "kubectl logs POD -c rankbeat-collector" in written({}, pods=(old,)).message


@pytest.mark.parametrize(
    ("trouble", "reason", "remedy"),
    [
        ("key_missing", "KeyMissing", "make the Secret of spec.outputs.encryption (keys, key files)"),
        ("key_invalid", "KeyInvalid", "make one with openssl rand -hex 32"),
        ("settings", "SettingsRefused", "names the field"),
        ("unwritable", "Unwritable", f"{PLACE} cannot be written by the user that the pod runs as"),
        ("full", "VolumeFull", f"{PLACE} is full: make room"),
        ("vanished", "DirectoryGone", f"{PLACE} was deleted"),
        ("io", "WriteFailed", f"{PLACE} answers with errors"),
        ("http", "NotPosted", "look at that server"),
        ("silent", "CollectorSilent", "see condition Sidecar"),
        ("rows_lost", "RowsLost", "sample more rarely"),
        ("audit", "AuditIncomplete", PLACE),
        ("monitor", "MonitorDisabled", "mend it and recreate the pod"),
    ],
)
def test_each_trouble_has_a_reason_and_a_remedy(trouble: str, reason: str, remedy: str):
    asked = monitor(encryption={"secretName": "keys", "key": "files"})
    found = written({"llm-0-x": Outputs((trouble,)), "llm-1-y": WELL}, asked)

    assert (found.status, found.reason) == ("False", reason)
    assert found.message.startswith("training goes on; 1 of 2 pods (llm-0-x): ")
    assert remedy in found.message


def test_every_word_of_the_contract_is_known():
    for trouble in contract_outputs.TROUBLES:
        assert written({"llm-0-x": Outputs((trouble,))}).status == "False"


def test_of_several_troubles_the_worst_gives_the_reason_and_all_are_told():
    said = {"llm-0-x": Outputs(("rows_lost",)), "llm-1-y": Outputs(("full", "rows_lost"))}

    found = written(said)

    assert found.reason == "VolumeFull"
    assert found.message.count("pods (") == 2


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"directory": ""}, "/rankbeat/outputs (the top of PersistentVolumeClaim shared)"),
        ({"volume": {"name": "scratch"}}, "/rankbeat/outputs/runs (runs of the pod's volume scratch)"),
        ({"volume": {"hostPath": {"path": "/mnt/x"}}}, "/rankbeat/outputs/runs (runs of the node's /mnt/x)"),
        ({"http": {"url": "http://x/rows"}}, f"{PLACE} and http://x/rows"),
        ({"files": [], "http": {"url": "http://x/rows"}}, "rows are written to http://x/rows"),
    ],
)
def test_the_place_is_what_the_spec_says(changes: dict[str, Any], place: str):
    assert place in written({"llm-0-x": WELL, "llm-1-y": WELL}, monitor(**changes)).message


def test_a_trouble_makes_one_event():
    observed = seen(pods=PODS, verdict=a_verdict(outputs={"llm-0-x": Outputs(("full",)), "llm-1-y": WELL}))
    first = status.reconciled(monitor(), observed)

    again = status.notices(first.status, tuple(outputs.conditions(monitor(), observed)))

    assert "VolumeFull" in [notice.reason for notice in first.notices]
    assert again == ()
