"""What stands in tenants' namespaces, and for how long."""

import json

import pytest

from operator_builders import AGENT, NOW, a_monitor
from rankbeat_contract import packing
from rankbeat_operator.kube import files
from rankbeat_operator.model.planned import Planned, Sampling
from rankbeat_operator.plan import tenants
from rankbeat_operator.plan.tenants import AgentConfigMap

FILES = {"sitecustomize.py": "import rankbeat_agent", "rankbeat_agent/hooks/model.py": "HOOK = 1\n"}
CURRENT = AgentConfigMap(f"rankbeat-agent-{AGENT}", NOW - 900)
FRESH = AgentConfigMap(f"rankbeat-agent-{AGENT}", NOW - 899)
OLD = AgentConfigMap("rankbeat-agent-0000000000", NOW - 9000)


def test_a_monitors_configuration():
    assert tenants.configuration(a_monitor(), Planned(Sampling(0, 100))) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "rankbeat-config-llm",
            "namespace": "team-a",
            "labels": {
                "app.kubernetes.io/managed-by": "rankbeat-operator",
                "app.kubernetes.io/part-of": "rankbeat",
                "rankbeat.io/component": "configuration",
                "rankbeat.io/monitor-uid": "9d1f0a52-aaaa-4bbb-8ccc-dddddddddddd",
            },
            "ownerReferences": [
                {
                    "apiVersion": "rankbeat.io/v1alpha1",
                    "kind": "TrainingMonitor",
                    "name": "llm",
                    "uid": "9d1f0a52-aaaa-4bbb-8ccc-dddddddddddd",
                    "controller": True,
                }
            ],
        },
        "data": {"monitor.json": '{"sampling": {"denseFirstSteps": 100, "intervalSteps": 0}, "version": 2}'},
    }


def test_the_agent_is_immutable_named_by_its_hash_and_owned_by_nobody():
    packed = packing.packed(FILES)

    assert tenants.agent("team-a", packed) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"rankbeat-agent-{packed.hash}",
            "namespace": "team-a",
            "labels": {
                "app.kubernetes.io/managed-by": "rankbeat-operator",
                "app.kubernetes.io/part-of": "rankbeat",
                "rankbeat.io/component": "agent",
            },
        },
        "immutable": True,
        "data": {"rankbeat_agent__hooks__model.py": "HOOK = 1\n", "sitecustomize.py": "import rankbeat_agent"},
    }
    assert packed.items == [
        {"key": "rankbeat_agent__hooks__model.py", "path": "rankbeat_agent/hooks/model.py"},
        {"key": "sitecustomize.py", "path": "sitecustomize.py"},
    ]


def test_the_hash_changes_with_every_name_and_every_content():
    hashes = {
        packing.packed(files).hash
        for files in (
            FILES,
            {**FILES, "sitecustomize.py": "x"},
            {"a/b.py": "c"},
            {"a/bc.py": ""},
            {"a.py": "b"},
            {"a": ".pyb"},
        )
    }

    assert len(hashes) == 6
    assert {len(digits) for digits in hashes} == {10}


def test_two_paths_with_one_key_are_refused():
    with pytest.raises(ValueError, match="rename the file"):
        packing.packed({"a/b.py": "", "a__b.py": ""})


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("rankbeat_agent/autoload/sitecustomize.py", "sitecustomize.py"),
        ("rankbeat_agent/hooks/model.py", "rankbeat_agent/hooks/model.py"),
        ("rankbeat_contract/ring.py", "rankbeat_contract/ring.py"),
        ("rankbeat_contract/metrics/ranks.py", None),
        ("rankbeat_contract/packing.py", None),
        ("rankbeat_contract/monitor.py", None),
        ("rankbeat_contract/translation/keys.py", None),
        ("rankbeat_agent/notes.txt", None),
    ],
)
def test_only_what_the_process_needs_travels(path, place):
    assert packing.place(path) == place


def test_the_installed_agent_fits_a_config_map_and_can_start():
    packed = files.installed_agent()

    assert len(json.dumps(packed.data)) < 512 * 1024
    assert {"sitecustomize.py", "rankbeat_agent____init__.py", "rankbeat_contract__ring.py"} <= packed.data.keys()
    assert [item for item in packed.items if "/" not in item["path"]] == [
        {"key": "sitecustomize.py", "path": "sitecustomize.py"}
    ]


@pytest.mark.parametrize(
    ("found", "is_intact"),
    [
        pytest.param({"data": {"a": "b"}, "immutable": True}, True, id="as written"),
        pytest.param({"data": {"a": "c"}, "immutable": True}, False, id="other content"),
        pytest.param({"data": {"a": "b", "c": "d"}, "immutable": True}, False, id="more content"),
        pytest.param({"data": {"a": "b"}}, False, id="mutable"),
        pytest.param({"data": {"a": "b"}, "binaryData": {"x": ""}, "immutable": True}, False, id="binary content"),
    ],
)
def test_an_agent_counts_only_with_exactly_our_content(found, is_intact):
    assert tenants.is_agent_intact(found, packing.Packed({"a": "b"}, [], AGENT)) is is_intact


@pytest.mark.parametrize(
    ("namespace", "monitors", "is_needed"),
    [
        pytest.param({"metadata": {}}, 0, False, id="plain"),
        pytest.param({"metadata": {"labels": {"rankbeat.io/inject": "enabled"}}}, 0, True, id="opted in"),
        pytest.param({"metadata": {"labels": {"rankbeat.io/inject": "disabled"}}}, 0, False, id="opted out"),
        pytest.param({"metadata": {}}, 1, True, id="with a monitor"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-11-30T06:00:00Z", "labels": {"rankbeat.io/inject": "enabled"}}},
            1,
            False,
            id="ending",
        ),
    ],
)
def test_which_namespaces_have_the_agent(namespace, monitors, is_needed):
    assert tenants.needs_agent(namespace, monitors) is is_needed


@pytest.mark.parametrize(
    ("found", "mounted", "needed", "deleted"),
    [
        pytest.param([CURRENT, OLD], (), CURRENT.name, (OLD.name,), id="replaced and not mounted"),
        pytest.param([CURRENT, OLD], (OLD.name,), CURRENT.name, (), id="replaced but still mounted"),
        pytest.param([FRESH, OLD], (), CURRENT.name, (), id="replaced a moment ago"),
        pytest.param([OLD], (), CURRENT.name, (), id="the new one is not there yet"),
        pytest.param([CURRENT, OLD], (), None, (OLD.name, CURRENT.name), id="namespace opted out"),
        pytest.param([CURRENT], (CURRENT.name,), None, (), id="namespace opted out, pods still run"),
        pytest.param([CURRENT], (), CURRENT.name, (), id="nothing to do"),
    ],
)
def test_an_agent_goes_when_nothing_mounts_it_and_nothing_will(found, mounted, needed, deleted):
    assert tenants.leftover_agents(found, frozenset(mounted), needed, NOW) == deleted


@pytest.mark.parametrize(
    ("labels", "ending", "monitors", "expected"),
    [
        pytest.param({}, False, (), (), id="plain"),
        pytest.param({"rankbeat.io/inject": "enabled"}, False, (), ("team-a",), id="labelled"),
        pytest.param({"rankbeat.io/inject": "enabled"}, True, (), (), id="labelled and ending"),
        pytest.param({"rankbeat.io/inject": "disabled"}, False, ("team-a", "team-a"), ("team-a",), id="with monitors"),
        pytest.param({}, False, ("rankbeat-system",), (), id="the release's own"),
    ],
)
def test_which_namespaces_must_have_the_agent_before_a_webhook_injects_it(labels, ending, monitors, expected):
    metadata = {"name": "team-a", "labels": labels, **({"deletionTimestamp": "2026-11-30T06:00:00Z"} if ending else {})}
    monitors = [{"metadata": {"namespace": namespace}} for namespace in monitors]

    assert tenants.agent_namespaces([{"metadata": metadata}], monitors, "rankbeat-system") == expected


def test_pods_that_are_over_mount_nothing():
    def a_pod(phase: str, name: str) -> dict:
        return {"spec": {"volumes": [{"configMap": {"name": name}}, {"emptyDir": {}}]}, "status": {"phase": phase}}

    pods = [a_pod("Running", "a"), a_pod("Pending", "b"), a_pod("Succeeded", "c"), a_pod("Failed", "d")]

    assert tenants.mounted_agents(pods) == {"a", "b"}
