"""The chart, rendered by the real Helm and taken by the real API server."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/helm/rankbeat"
HELM = ROOT / "build/bin/helm"

pytestmark = pytest.mark.controlplane


def helm(*arguments: str) -> str:
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def rendered(*arguments: str) -> dict[tuple[str, str], dict]:
    text = helm("template", "rankbeat", str(CHART), "--namespace", "rankbeat-system", *arguments)
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}


def pod_specs(objects: dict) -> dict[str, dict]:
    return {name: one["spec"]["template"]["spec"] for (kind, name), one in objects.items() if kind == "Deployment"}


@pytest.mark.parametrize("values", [[], ["--values", str(CHART / "values-demo.yaml")]], ids=["defaults", "demo"])
def test_two_renders_are_equal(values):
    first = helm("template", "rankbeat", str(CHART), *values)

    assert helm("template", "rankbeat", str(CHART), *values) == first


def test_lint_finds_nothing():
    assert "0 chart(s) failed" in helm("lint", str(CHART), "--strict")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("injection=off", "/injection"),
        ("node.pushInterval=fast", "/node/pushInterval"),
        ("webhook.timeoutSeconds=30", "/webhook/timeoutSeconds"),
        ("nodes.pushInterval=5s", "nodes"),
    ],
)
def test_a_wrong_value_is_refused_by_name(setting, said):
    done = subprocess.run(
        [HELM, "template", "x", CHART, "--set", setting], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode != 0
    assert said in done.stderr


def test_every_container_is_restricted():
    specs = pod_specs(rendered("--values", str(CHART / "values-demo.yaml")))

    contexts = {
        f"{name}/{container['name']}": container["securityContext"]
        for name, spec in specs.items()
        for container in spec["containers"]
    }
    restricted = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert len(contexts) == 4
    assert contexts == dict.fromkeys(contexts, restricted)


def test_nobody_may_read_secrets_beyond_the_release_namespace():
    objects = rendered("--values", str(CHART / "values-demo.yaml"))

    rules = [rule for (kind, _), one in objects.items() if kind == "ClusterRole" for rule in one["rules"]]
    assert [rule for rule in rules if {"secrets", "*"} & set(rule.get("resources", ()))] == []


def test_no_rule_has_a_wildcard():
    objects = rendered("--values", str(CHART / "values-demo.yaml"))

    rules = [rule for (kind, _), one in objects.items() if kind in {"ClusterRole", "Role"} for rule in one["rules"]]
    assert [rule for rule in rules if "*" in json.dumps(rule)] == []


def test_the_bundled_prometheus_is_left_out_by_default():
    names = {name for kind, name in rendered() if kind == "Deployment"}

    assert names == {"rankbeat-operator", "rankbeat-webhook"}


def test_prometheus_operators_kinds_are_rendered_where_they_are_served():
    objects = rendered(
        "--api-versions",
        "monitoring.coreos.com/v1/PodMonitor",
        "--api-versions",
        "monitoring.coreos.com/v1/PrometheusRule",
        "--set",
        "monitoring.labels.release=kps",
    )

    labels = {
        kind: one["metadata"]["labels"]["release"]
        for (kind, _), one in objects.items()
        if "release" in one["metadata"]["labels"]
    }
    assert labels == {"PodMonitor": "kps", "PrometheusRule": "kps"}


def test_the_api_server_takes_every_object(kube, control_plane):
    namespace = kube.namespace()

    told = subprocess.run(
        [
            *(HELM, "install", "rankbeat", CHART, "--namespace", namespace, "--kubeconfig", control_plane.kubeconfig),
            *("--values", CHART / "values-demo.yaml", "--dry-run=server"),
            "--take-ownership",  # other tests of this session may have applied some of them
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert told.returncode == 0, told.stderr


def external(*settings: str) -> dict[str, dict]:
    """PodMonitors of exporters that are not ours, by name."""
    served = ("--api-versions", "monitoring.coreos.com/v1/PodMonitor")
    objects = rendered(*served, *(part for setting in settings for part in ("--set", setting)))
    return {name: one["spec"] for (kind, name), one in objects.items() if kind == "PodMonitor" and name != "rankbeat"}


def test_by_default_no_other_exporter_is_scraped():
    assert external() == {}
    assert external("devices.exporter=builtin", "devices.nvidia.exporter=off") == {}


@pytest.mark.parametrize(
    ("setting", "name", "namespace", "pod_label"),
    [
        ("devices.exporter=external", "rankbeat-npu-exporter", "npu-exporter", "pod_name"),
        ("devices.nvidia.exporter=external", "rankbeat-dcgm-exporter", "gpu-operator", "exported_pod"),
    ],
)
def test_an_exporter_that_is_there_already_is_scraped_with_its_node_and_the_pod_that_holds_the_device(
    setting, name, namespace, pod_label
):
    monitors = external(setting)

    assert monitors.keys() == {name}
    assert monitors[name]["namespaceSelector"] == {"matchNames": [namespace]}
    (endpoint,) = monitors[name]["podMetricsEndpoints"]
    assert endpoint["trackTimestampsStaleness"] is True
    assert endpoint["honorLabels"] is False
    assert endpoint["relabelings"] == [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}]
    assert {"sourceLabels": [pod_label], "targetLabel": "pod"} in endpoint["metricRelabelings"]
    assert {"sourceLabels": ["exported_namespace"], "targetLabel": "namespace"} in endpoint["metricRelabelings"]


def test_an_exporter_is_one_of_three_words():
    done = subprocess.run(
        [HELM, "template", "x", CHART, "--set", "devices.exporter=own"], capture_output=True, text=True, check=False
    )

    assert done.returncode != 0
    assert "/devices/exporter" in done.stderr


def test_what_an_exporter_that_is_there_already_says_is_recorded_under_our_names():
    served = ("--api-versions", "monitoring.coreos.com/v1/PrometheusRule")

    assert ("PrometheusRule", "rankbeat-external") not in rendered(*served)
    rules = rendered(*served, "--set", "devices.exporter=external")[("PrometheusRule", "rankbeat-external")]
    recorded = {rule["record"] for group in rules["spec"]["groups"] for rule in group["rules"]}
    assert "rankbeat_node_accelerator_temperature_celsius" in recorded
