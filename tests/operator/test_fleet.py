"""The fleet's objects, whole.

After an intended change: RANKBEAT_WRITE_GOLDEN=1 pytest tests/operator/test_fleet.py, then read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from rankbeat_operator.model import fleet as model
from rankbeat_operator.plan import fleet
from rankbeat_operator.plan.fleet.pods import Release

if TYPE_CHECKING:
    from kube import Kube

GOLDEN = Path(__file__).parent / "golden"
RELEASE = Release("rankbeat", "f1e2d3c4")
SMALLEST = {"images": {"node": "rankbeat/node:1", "aggregator": "rankbeat/aggregator:1"}}
NPU = {"driverRoot": "/opt/driver", "resources": ["acme.example/npu"], "rankTables": True}
LARGEST = {
    "images": {"node": "mirror/node:1", "aggregator": "mirror/aggregator:1"},
    "imagePullPolicy": "Always",
    "imagePullSecrets": ["mirror"],
    "labels": {"team": "ml"},
    "node": {
        "pushInterval": "2s",
        "pollInterval": "250ms",
        "kubeletRoot": "/data/kubelet",
        "podLogs": "/var/log/pods",
        "seLinuxOptions": {"type": "spc_t"},
        "nodeSelector": {"role": "training"},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        "resources": {"limits": {"memory": "256Mi"}},
    },
    "clock": {
        "servers": ["ntp1", "ntp2:1123"],
        "offsetLimit": "10ms",
        "chrony": {"socket": "/run/chrony/chronyd.sock", "user": 991},
    },
    "devices": {"exporter": "builtin", "nodeSelector": {"npu": "true"}, "npu": NPU},
    "aggregator": {"resources": {"limits": {"memory": "1Gi"}}},
    "metrics": {"tls": {"enabled": True, "clientAuth": {"enabled": True}}, "bearerToken": {"enabled": True}},
}


class Whole(yaml.SafeDumper):
    """Writes everything out, however often it comes."""

    def ignore_aliases(self, data: object) -> bool:
        return True


@pytest.mark.parametrize(("name", "document"), [("smallest", SMALLEST), ("largest", LARGEST)])
def test_the_fleet_of_an_install(name, document):
    objects = fleet.desired(model.fleet(document), RELEASE).objects

    text = yaml.dump_all(objects, Dumper=Whole, sort_keys=False)
    if os.environ.get("RANKBEAT_WRITE_GOLDEN"):
        (GOLDEN / f"fleet-{name}.yaml").write_text(text)
    assert list(yaml.safe_load_all(text)) == list(yaml.safe_load_all((GOLDEN / f"fleet-{name}.yaml").read_text()))


@pytest.mark.controlplane
@pytest.mark.parametrize("document", [SMALLEST, LARGEST], ids=["smallest", "largest"])
def test_an_api_server_takes_it(kube: Kube, document):
    release = Release(kube.namespace(), RELEASE.owner_uid)

    for manifest in fleet.desired(model.fleet(document), release).objects:
        kube.resource(manifest["apiVersion"], manifest["kind"]).server_side_apply(
            body=manifest, namespace=release.namespace, field_manager="test", dry_run="All"
        )


def test_devices_that_are_not_asked_for_must_not_be_there():
    assert fleet.desired(model.fleet(SMALLEST), RELEASE).absent_daemon_sets == (
        "rankbeat-devices",
        "rankbeat-devices-nvidia",
    )
    assert fleet.desired(model.fleet(LARGEST), RELEASE).absent_daemon_sets == ("rankbeat-devices-nvidia",)


@pytest.mark.parametrize("document", [SMALLEST, LARGEST], ids=["smallest", "largest"])
def test_only_the_vendor_part_is_privileged_and_it_holds_no_token(document):
    pods = {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in _workloads(document)}
    containers = {c["name"]: (c, spec) for spec in pods.values() for c in spec["containers"]}

    privileged = {name for name, (c, _) in containers.items() if c["securityContext"].get("privileged")}
    with_token = {
        name
        for name, (c, _) in containers.items()
        if {"api-access", "identity"} & {m["name"] for m in c.get("volumeMounts", ())}
    }

    assert privileged <= {"vendor"}
    assert with_token - {"devices"} == {"collector", "aggregator"}
    assert all(spec["automountServiceAccountToken"] is False for spec in pods.values())
    assert {c["securityContext"]["readOnlyRootFilesystem"] for c, _ in containers.values()} == {True}


def test_a_users_label_cannot_change_what_is_selected():
    document = {**SMALLEST, "labels": {"app.kubernetes.io/name": "mine", "rankbeat.io/component": "x"}}

    for workload in _workloads(document):
        selector = workload["spec"]["selector"]["matchLabels"]
        assert selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items()


def _workloads(document):
    return [o for o in fleet.desired(model.fleet(document), RELEASE).objects if "template" in o["spec"]]
