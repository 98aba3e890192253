"""The tier perfFile at admission: only where the agent cannot be put in, and only where the monitor allows it."""

import json

import pytest

import webhook_builders as build
from rankbeat_contract import names

PERF = build.wanting(tiers=["perfFile"])
BOTH = build.wanting(tiers=["perfFile", "logTail"])
ENV = [
    {"name": "PERF_DUMP_CONFIG", "value": "enable:true,steptime:true,dtpGroup:false"},
    {"name": "PERF_DUMP_PATH", "value": "/rankbeat/ring/perf"},
]


def test_the_whole_pod():
    manifest = build.without_command(env=[{"name": "A", "value": "1"}])
    decision = build.decided(manifest, BOTH)
    after = build.patched(manifest, decision.operations)

    assert after["spec"] == {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "train",
                "image": "train:1",
                "env": [{"name": "A", "value": "1"}, *ENV],
                "volumeMounts": [{"name": "rankbeat-perf", "mountPath": "/rankbeat/ring/perf"}],
            }
        ],
        "volumes": [{"name": "rankbeat-perf", "emptyDir": {}}],
    }
    assert after["metadata"]["labels"][names.LABEL_STATE] == "skipped"
    said = json.loads(after["metadata"]["annotations"][names.ANNOTATION_INJECTION])
    assert said == {
        "monitor": "llm",
        "result": "InjectedPerfFile",
        "message": decision.message,
        "agent": "",
        "container": "train",
        "tiers": ["perfFile", "logTail"],
    }
    assert decision.message.startswith("NoCommand: ")


REFUSALS = {
    "no command": build.without_command(),
    "the shell is not proven": build.a_pod(build.a_container(command=build.DIRECT)),
    "names would be lost": build.a_pod(build.a_container(command=["sh", "x"], env=[{"name": "a.b", "value": "1"}])),
    "PYTHONPATH from a source": build.without_command(
        env=[{"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "p"}}}]
    ),
}


@pytest.mark.parametrize("manifest", REFUSALS.values(), ids=REFUSALS.keys())
def test_it_takes_the_place_of_an_agent_that_cannot_be_put_in(manifest):
    assert build.decided(manifest, PERF).result == "InjectedPerfFile"
    assert build.decided(manifest, build.wanting(tiers=["logTail"])).result != "InjectedPerfFile"
    assert build.decided(manifest).result != "InjectedPerfFile"


def test_where_the_agent_can_be_put_in_there_is_no_need():
    decision = build.decided(build.a_pod(), PERF)

    assert decision.result == "Injected"
    assert "PERF_DUMP" not in json.dumps(decision.operations)


@pytest.mark.parametrize(
    "fields",
    [
        {"env": [{"name": "PERF_DUMP_PATH", "value": "/x"}]},
        {"env": [{"name": "PERF_DUMP_CONFIG", "value": "enable:false"}]},
        {"volumeMounts": [{"name": "x", "mountPath": "/rankbeat/ring"}]},
    ],
    ids=["path", "config", "mount"],
)
def test_what_the_pod_sets_itself_is_left_alone(fields):
    decision = build.decided(build.without_command(**fields), PERF)

    assert decision.result == "NoCommand"
    assert "the tier perfFile cannot be used" in decision.message


def test_neither_switch_nor_opt_out_is_gone_round():
    off = build.a_view(build.a_monitor(spec={"tiers": ["perfFile"]}), switch="disabled")

    assert build.decided(build.without_command(), off).result == "InjectionTurnedOff"
