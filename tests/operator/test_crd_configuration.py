"""What a TrainingMonitor may ask the agent and the collector for, asked of a real API server."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException

import crd_support
from crd_support import created, refusal
from rankbeat_contract import monitor as contract

if TYPE_CHECKING:
    from kube import Kube

pytestmark = pytest.mark.controlplane

KUBECTL = Path(__file__).resolve().parents[2] / "build" / "bin" / "kubectl"
SIDECAR = {"mode": "sidecar"}
VOLUME = {"persistentVolumeClaim": {"claimName": "runs"}}
SECRET = {"secretName": "keys", "key": "files"}
EVERYTHING: dict[str, Any] = {
    "sampling": {"interval": "auto", "denseFirstSteps": 0},
    "signals": ["loss", "gradNorm", "attentionEntropy"],
    "metrics": [{"name": "loss", "interval": 10, "filter": "value > 1e-3 and not (value >= 7)"}],
    "samplesPerStep": 512,
    "attention": {"cells": ["backbone.*.attention.softmax", "layers.[0-3].core_attention"]},
    "parameters": [".*", "attention.*weight$"],
    "collector": SIDECAR,
    "outputs": {
        "console": {"ranks": "0,3"},
        "volume": VOLUME,
        "directory": "team/runs.v1",
        "ranks": "all",
        "files": [
            {"format": "jsonl"},
            {
                "format": "csv",
                "path": "{experiment}/{node}/rank-{rank}",
                "maxFileSize": "256Mi",
                "maxTotalSize": "1Ti",
                "maxAge": "720h",
                "flushInterval": "500ms",
            },
        ],
        "http": {"url": "http://metrics.team-a:8080/push?x=1", "batch": 100, "flushInterval": "1m"},
        "encryption": SECRET,
        "masking": SECRET,
        "audit": True,
    },
    "monitors": [{"name": "mine", "class": "pkg.mod:Class", "where": "process", "options": {"deep": {"er": [1]}}}],
    "msrun": {"fix": ["join", "signals", "exitCode", "nodeRank"]},
    "tiers": ["perfFile", "logTail"],
    "mindformers": {"monitorConfig": {"monitor_on": True, "weight_state_format": ["log"], "made_up": 1}},
    "monitorConfig": {"step_interval": 10, "metrics": ["loss", {"name": "x"}]},
}


@pytest.fixture(scope="module")
def monitors(kube: Kube) -> Any:
    return crd_support.established(kube)


def files(**entry: Any) -> dict[str, Any]:
    """A spec with one kind of files."""
    return {"collector": SIDECAR, "outputs": {"volume": VOLUME, "files": [{"format": "jsonl", **entry}]}}


def volume(**kind: Any) -> dict[str, Any]:
    return {"outputs": {"volume": kind}}


def test_every_field_is_kept_as_written(monitors):
    spec = created(monitors, **EVERYTHING)["spec"]

    assert {key: spec[key] for key in EVERYTHING} == EVERYTHING


def test_what_the_schema_takes_can_be_read(monitors):
    settings = contract.settings(created(monitors, **EVERYTHING)["spec"])

    assert settings.outputs.files[1].max_total_bytes == 1 << 40
    assert settings.mindformers == {}


def test_nothing_is_filled_in_that_would_hide_what_monitorConfig_says(monitors):  # noqa: N802
    spec = created(monitors, sampling={"denseFirstSteps": 5}, outputs={"console": {}})["spec"]

    assert (spec["sampling"], spec["outputs"]) == ({"denseFirstSteps": 5}, {"console": {}})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"signals": ["gradnorm"]}, 'supported values: \\"loss\\", \\"learningRate\\"', id="unknown signal"
        ),
        pytest.param({"signals": ["loss", "loss"]}, "Duplicate value", id="signal twice"),
        pytest.param(
            {"metrics": [{"name": "loss", "interval": 1}, {"name": "loss", "interval": 2}]},
            "Duplicate value",
            id="metric twice",
        ),
        pytest.param({"metrics": [{"name": "loss"}]}, "an interval, a filter or both", id="metric without a wish"),
        pytest.param({"metrics": [{"name": "gradNorm", "interval": 1}]}, "for example grad_norm", id="metric name"),
        pytest.param(
            {"metrics": [{"name": "loss", "interval": 0}]}, "greater than or equal to 1", id="metric interval"
        ),
        pytest.param(
            {"metrics": [{"name": "loss", "filter": "value"}]}, "a comparison of value", id="filter of nothing"
        ),
        pytest.param(
            {"metrics": [{"name": "loss", "filter": "__import__('os') > 1"}]}, "a comparison of value", id="filter code"
        ),
        pytest.param({"samplesPerStep": 0}, "greater than or equal to 1", id="samples per step"),
        pytest.param({"attention": {"cells": ["a b"]}}, "write the path of a cell", id="cell path"),
        pytest.param({"parameters": ["layers.(*"]}, "regular expression", id="parameter pattern"),
        pytest.param(
            {"collector": {"mode": "pod"}}, 'supported values: \\"node\\", \\"sidecar\\"', id="collector mode"
        ),
        pytest.param({"outputs": {"console": {"ranks": "0, 3"}}}, 'for example \\"0,3\\"', id="console ranks"),
        pytest.param({"outputs": {"console": {"ranks": "first"}}}, "write auto, all, or ranks", id="console word"),
        pytest.param(volume(), "write exactly one of", id="no volume kind"),
        pytest.param(
            volume(name="a", hostPath={"path": "/mnt/runs"}),
            "exactly one of persistentVolumeClaim, name and hostPath",
            id="two volume kinds",
        ),
        pytest.param(volume(name="A_b"), "a volume of the pod template", id="volume name"),
        pytest.param(volume(persistentVolumeClaim={"claimName": "A"}), "a PersistentVolumeClaim", id="claim name"),
        pytest.param(volume(hostPath={"path": "mnt"}), "absolute path of a folder", id="relative host path"),
        pytest.param(volume(hostPath={"path": "/mnt/../etc"}), "without . and ..", id="host path with dots"),
        pytest.param(volume(hostPath={"path": "/"}), "absolute path of a folder", id="whole host"),
        pytest.param({"outputs": {"directory": "/runs"}}, "a path inside the volume", id="absolute directory"),
        pytest.param({"outputs": {"directory": "a/../../b"}}, "without . and ..", id="directory with dots"),
        pytest.param({"outputs": {"ranks": "two"}}, 'supported values: \\"one\\", \\"all\\"', id="output ranks"),
        pytest.param(
            {"collector": SIDECAR, "outputs": {"files": [{"format": "jsonl"}]}},
            "files need a place: write outputs.volume",
            id="files without a volume",
        ),
        pytest.param(
            {"outputs": {"volume": VOLUME, "files": [{"format": "jsonl"}]}},
            "write collector: {mode: sidecar}",
            id="files without a sidecar",
        ),
        pytest.param(
            {"outputs": {"http": {"url": "http://a"}}, "collector": {"mode": "node"}},
            "write collector: {mode: sidecar}",
            id="http without a sidecar",
        ),
        pytest.param(
            {"monitors": [{"name": "mine", "class": "a:B"}]},
            "write collector: {mode: sidecar}",
            id="custom monitor without a sidecar",
        ),
        pytest.param(files(format="parquet"), 'supported values: \\"jsonl\\"', id="format"),
        pytest.param(files(path="/a"), "without a / at its begin", id="absolute path"),
        pytest.param(files(path="a/../b"), "without . and ..", id="path with dots"),
        pytest.param(files(path="{rank"), "stand in braces", id="open brace"),
        pytest.param(files(path="{host}"), "only {experiment}, {rank}, {node} and {attempt}", id="unknown placeholder"),
        pytest.param(files(maxFileSize="63Ki"), "write a size from 64Ki", id="file too small"),
        pytest.param(files(maxFileSize="64MB"), "write a size from 64Ki", id="size in another unit"),
        pytest.param(files(maxTotalSize="0Gi"), "for example 512Mi, 10Gi", id="total size of nothing"),
        pytest.param(files(maxTotalSize="32Mi"), "write a larger maxTotalSize", id="total less than the default file"),
        pytest.param(
            files(maxFileSize="2Gi", maxTotalSize="2047Mi"),
            "write a larger maxTotalSize",
            id="total less than one file",
        ),
        pytest.param(files(maxFileSize="2Gi"), "write a larger maxTotalSize", id="file more than the default total"),
        pytest.param(files(maxAge="59s"), "a duration from 1m", id="age too short"),
        pytest.param(files(maxAge="30d"), "a duration from 1m", id="age no duration"),
        pytest.param(files(flushInterval="10ms"), "a duration from 100ms to 1h", id="flush too often"),
        pytest.param(
            {"collector": SIDECAR, "outputs": {"http": {"url": "ftp://a"}}}, "with http:// or https://", id="no http"
        ),
        pytest.param(
            {"collector": SIDECAR, "outputs": {"http": {"url": "http://a b"}}}, "with http:// or https://", id="blank"
        ),
        pytest.param(
            {"collector": SIDECAR, "outputs": {"http": {"url": "http://a", "batch": 0}}},
            "greater than or equal to 1",
            id="batch",
        ),
        pytest.param(
            {"outputs": {"volume": VOLUME, "encryption": SECRET}}, "encryption is of files", id="encryption of nothing"
        ),
        pytest.param({"outputs": {"audit": True}}, "the audit log is a file", id="audit without a volume"),
        pytest.param(
            {"outputs": {"masking": {"secretName": "Keys", "key": "a"}}}, "the name of a Secret", id="secret name"
        ),
        pytest.param({"outputs": {"masking": {"secretName": "keys", "key": "a/b"}}}, "a key of the Secret", id="key"),
        pytest.param(
            {"monitors": [{"name": "a", "class": "pkg.mod.Class", "where": "process"}]},
            "for example pkg.mod:Class",
            id="class without a colon",
        ),
        pytest.param(
            {"monitors": [{"name": "a-b", "class": "a:B", "where": "process"}]}, "for example mine", id="monitor name"
        ),
        pytest.param(
            {
                "monitors": [
                    {"name": "a", "class": "a:B", "where": "process"},
                    {"name": "a", "class": "a:C", "where": "process"},
                ]
            },
            "Duplicate value",
            id="two monitors of one name",
        ),
        pytest.param({"msrun": {"fix": ["everything"]}}, 'supported values: \\"join\\"', id="fix"),
        pytest.param({"tiers": ["perf"]}, 'supported values: \\"perfFile\\", \\"logTail\\"', id="tier"),
        pytest.param({"mindformers": {"monitorConfig": {"monitor_on": "yes"}}}, "must be of type boolean", id="type"),
        pytest.param({"mindformers": {"monitorConfig": {"step_interval": 0}}}, "greater than or equal to 1", id="step"),
        pytest.param({"monitorConfig": ["loss"]}, "must be of type object", id="bare configuration that is a list"),
        pytest.param(
            {"monitorConfig": {str(key): 1 for key in range(65)}}, "must have at most 64 items", id="too many keys"
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_write(monitors, spec, message):
    assert message in refusal(monitors, **spec)


def test_a_monitor_in_the_process_needs_no_sidecar(monitors):
    assert created(monitors, monitors=[{"name": "mine", "class": "a:B", "where": "process"}])


def test_a_total_size_may_equal_one_file_in_another_unit(monitors):
    assert created(monitors, **files(maxFileSize="2048Mi", maxTotalSize="2Gi"))


def test_all_of_it_may_change_while_a_job_runs(monitors):
    made = created(monitors)
    changed = {**made, "spec": {**made["spec"], **EVERYTHING}}

    assert monitors.replace(body=changed, namespace="default").spec.samplesPerStep == 512


def test_a_field_that_nobody_knows_is_refused_where_the_client_asks_for_it(kube, monitors):
    body = {**created(monitors), "metadata": {"name": next(crd_support.names), "namespace": "default"}}
    body["spec"] = {**body["spec"], "signal": ["loss"]}

    with pytest.raises(ApiException) as refused:
        kube.dynamic.request(
            "post",
            "/apis/rankbeat.io/v1alpha1/namespaces/default/trainingmonitors",
            body=body,
            query_params=[("fieldValidation", "Strict")],
        )

    assert 'unknown field \\"spec.signal\\"' in refused.value.body


def test_kubectl_explain_is_a_manual(kube, monitors):
    command = [KUBECTL, "--kubeconfig", kube.kubeconfig, "explain", "tmon.spec.outputs.files.path"]

    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert 'Example: "{experiment}/{node}/rank-{rank}"' in told
