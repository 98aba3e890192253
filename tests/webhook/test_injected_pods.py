"""Exactly what an injected pod looks like, and which container, shell and monitor it got."""

import json

import pytest

import webhook_builders as build
from rankbeat_webhook.model import plans, pods
from rankbeat_webhook.patch import decisions


def volumes(monitor="llm"):
    return [
        {
            "name": "rankbeat-agent",
            "configMap": {
                "name": "rankbeat-agent-0123456789",
                "items": [
                    {"key": "rankbeat_agent____init__.py", "path": "rankbeat_agent/__init__.py"},
                    {"key": "sitecustomize.py", "path": "sitecustomize.py"},
                ],
                "defaultMode": 0o444,
                "optional": True,
            },
        },
        {
            "name": "rankbeat-config",
            "configMap": {"name": f"rankbeat-config-{monitor}", "defaultMode": 0o444, "optional": True},
        },
        {"name": "rankbeat", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]


MOUNTS = [
    {"name": "rankbeat-agent", "mountPath": "/rankbeat/agent", "readOnly": True},
    {"name": "rankbeat-config", "mountPath": "/rankbeat/config", "readOnly": True},
    {"name": "rankbeat", "mountPath": "/rankbeat/ring"},
]
ENV = [
    {"name": "RANKBEAT_RING_DIR", "value": "/rankbeat/ring"},
    {"name": "RANKBEAT_CONFIG", "value": "/rankbeat/config/monitor.json"},
]


def marks(message="", container="train", monitor="llm"):
    said = {"monitor": monitor, "result": "Injected", "message": message, "agent": build.AGENT, "container": container}
    return {"rankbeat.io/injection": json.dumps(said)}


def injected(manifest, view=None):
    decision = build.decided(manifest, view)
    assert decision.result == "Injected", decision
    return build.patched(manifest, decision.operations)


def test_a_shell_command_is_wrapped_by_its_own_shell():
    manifest = build.a_pod(build.a_container(command=["/bin/sh", "-c"], args=["msrun train.py"]))

    assert injected(manifest) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "llm-0-",
            "labels": {"rankbeat.io/monitor": "llm", "rankbeat.io/state": "injected"},
            "annotations": marks(),
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "train",
                    "image": "train:1",
                    "command": ["/bin/sh", "-c", build.WRAPPER, "rankbeat", "/bin/sh", "-c"],
                    "args": ["msrun train.py"],
                    "env": ENV,
                    "volumeMounts": MOUNTS,
                }
            ],
            "volumes": volumes(),
        },
    }


def test_a_literal_pythonpath_is_prepended_to_and_nothing_is_wrapped():
    mount = {"name": "data", "mountPath": "/data"}
    manifest = build.a_pod(
        build.a_container("log", command=None),
        build.a_container(
            "mindspore",
            command=None,
            env=[
                {"name": "A", "value": "1"},
                {"name": "PYTHONPATH", "value": "$(A):/x"},
                {"name": "B", "value": "$(PYTHONPATH)"},
            ],
            volumeMounts=[mount],
            resources={"limits": {"cpu": "4", "memory": "8Gi", "huawei.com/Ascend910": "8"}},
            securityContext={"runAsNonRoot": True, "readOnlyRootFilesystem": True},
        ),
        annotations={"a": "b"},
        volumes=[{"name": "data", "emptyDir": {}}],
    )

    assert injected(manifest) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "llm-0-",
            "labels": {"rankbeat.io/monitor": "llm", "rankbeat.io/state": "injected"},
            "annotations": {"a": "b", **marks(container="mindspore")},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "log", "image": "train:1"},
                {
                    "name": "mindspore",
                    "image": "train:1",
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "PYTHONPATH", "value": "/rankbeat/agent:$(A):/x"},
                        {"name": "B", "value": "$(PYTHONPATH)"},
                        *ENV,
                    ],
                    "volumeMounts": [mount, *MOUNTS],
                    "resources": {"limits": {"cpu": "4", "memory": "8Gi", "huawei.com/Ascend910": "8"}},
                    "securityContext": {"runAsNonRoot": True, "readOnlyRootFilesystem": True},
                },
            ],
            "volumes": [{"name": "data", "emptyDir": {}}, *volumes()],
        },
    }


def change(manifest, view=None, container=0):
    after = injected(manifest, view)["spec"]["containers"][container]
    return after.get("command"), [each for each in after["env"] if each["name"] == "PYTHONPATH"]


SOURCE = {"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "p"}}}
LITERAL = {"name": "PYTHONPATH", "value": "/x"}


@pytest.mark.parametrize(
    ("env", "after"),
    [
        ([{"name": "PYTHONPATH", "value": ""}], [{"name": "PYTHONPATH", "value": "/rankbeat/agent"}]),
        ([{"name": "PYTHONPATH"}], [{"name": "PYTHONPATH", "value": "/rankbeat/agent"}]),
        ([LITERAL], [{"name": "PYTHONPATH", "value": "/rankbeat/agent:/x"}]),
        ([SOURCE, LITERAL], [SOURCE, {"name": "PYTHONPATH", "value": "/rankbeat/agent:/x"}]),
    ],
    ids=["empty", "no value", "path", "last entry wins"],
)
def test_a_literal_needs_no_command_and_gets_no_trailing_colon(env, after):
    assert change(build.without_command(env=env)) == (None, after)


@pytest.mark.parametrize(
    ("fields", "python_path"),
    [
        ({"env": [SOURCE]}, [SOURCE]),
        ({"env": [LITERAL, SOURCE]}, [LITERAL, SOURCE]),
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, []),
        ({"envFrom": [{"prefix": "MY_", "secretRef": {"name": "x"}}]}, []),
    ],
    ids=["from a source", "the last entry from a source", "envFrom", "envFrom with a prefix"],
)
def test_the_wrapper_sees_what_the_kubelet_resolved(fields, python_path):
    manifest = build.a_pod(build.a_container(command=["sh", "run.sh"], **fields))

    assert change(manifest) == (["sh", "-c", build.WRAPPER, "rankbeat", "sh", "run.sh"], python_path)


SHELL_BASH = build.a_view(build.a_monitor(spec={"injection": {"shell": "/bin/bash"}}))


@pytest.mark.parametrize(
    ("command", "view", "shell"),
    [
        (["bash", "-lc", "x"], SHELL_BASH, "bash"),
        (["/usr/bin/dash", "x"], build.RETRIED, "/usr/bin/dash"),
        (["ash"], build.KNOWN, "ash"),
        (build.DIRECT, SHELL_BASH, "/bin/bash"),
        (build.DIRECT, build.RETRIED, "/bin/sh"),
    ],
    ids=["the command's own before the monitor's", "with its path", "busybox", "the monitor's", "retried"],
)
def test_the_shell_is_one_that_is_there(command, view, shell):
    manifest = build.a_pod(build.a_container(command=command), owner=build.a_job_owner())

    assert change(manifest, view)[0] == [shell, "-c", build.WRAPPER, "rankbeat", *command]


def test_bash_keeps_names_that_are_no_identifiers():
    env = [{"name": "com.huawei.path", "value": "1"}]

    assert change(build.direct(env=env), SHELL_BASH)[0][0] == "/bin/bash"


def test_what_the_command_s_own_shell_overwrites_is_lost_without_us_too():
    env = [{"name": "PS1", "value": "> "}, {"name": "BASH_ENV", "value": "/etc/x"}]

    assert change(build.a_pod(build.a_container(env=env)))[0][0] == "bash"


def test_names_that_are_no_identifiers_do_not_matter_where_nothing_is_wrapped():
    env = [{"name": "com.huawei.path", "value": "1"}, LITERAL]

    assert change(build.direct(env=env), build.NAMES_SH)[0] == build.DIRECT


NPU = {"limits": {"huawei.com/Ascend910": "8"}}
GPU = {"requests": {"nvidia.com/gpu": "1"}}


@pytest.mark.parametrize(
    ("containers", "view", "chosen"),
    [
        ([("a", None), ("b", None)], build.KNOWN, "a"),
        ([("a", None), ("b", NPU)], build.KNOWN, "b"),
        ([("a", None), ("b", GPU), ("c", NPU)], build.KNOWN, "b"),
        ([("a", NPU), ("ascend", None)], build.KNOWN, "ascend"),
        ([("a", None), ("mindspore", None)], build.KNOWN, "mindspore"),
        (
            [("a", None), ("ascend", NPU)],
            build.a_view(build.a_monitor(spec={"injection": {"container": "a"}})),
            "a",
        ),
    ],
    ids=["the first", "NPU", "GPU", "ascend", "mindspore", "the monitor's"],
)
def test_one_container_is_injected(containers, view, chosen):
    manifest = build.a_pod(*(build.a_container(name, resources=resources) for name, resources in containers))

    after = injected(manifest, view)

    assert [each["name"] for each in after["spec"]["containers"] if "volumeMounts" in each] == [chosen]
    assert build.report(after)["container"] == chosen


def test_a_monitor_that_does_not_exist_yet_gives_the_defaults():
    after = injected(build.a_pod(labels={"rankbeat.io/monitor": "later"}), build.a_view())

    assert after["spec"]["volumes"] == volumes("later")
    assert "does not exist yet" in build.report(after)["message"]


@pytest.mark.parametrize(
    "injection",
    [
        {"mode": "enabled"},
        {"mode": "blocked", "breaker": {"open": True, "agent": "another"}},
    ],
    ids=["enabled", "the breaker opened for another agent"],
)
def test_what_does_not_keep_the_agent_out(injection):
    assert build.decided(build.a_pod(), build.with_status(**injection)).result == "Injected"


def test_the_oldest_of_two_monitors_has_the_pod_and_the_message_says_so():
    view = build.a_view(
        build.a_monitor("b", "2026-01-01T00:00:00Z"),
        build.a_monitor("a", "2026-01-01T00:00:00Z"),
        build.a_monitor("0", "2026-01-01T00:00:01Z"),
        opted_in=True,
    )

    said = build.report(injected(build.a_pod(labels={}, owner=build.a_job_owner()), view))

    assert said["monitor"] == "a"
    assert said["message"] == (
        "monitors 'a', 'b', '0' select this pod, the oldest has it: 'a'; "
        "label the pod template rankbeat.io/monitor=NAME to choose"
    )


@pytest.mark.parametrize(
    ("manifest", "view", "settled"),
    [
        (build.direct(), build.KNOWN, False),
        (build.a_pod(build.a_container(command=build.DIRECT)), build.KNOWN, True),
        (build.direct(), build.a_view(build.a_monitor(), job=build.a_job(backoffLimit=0)), True),
        (build.a_pod(labels={}), build.a_view(opted_in=False), False),
        (build.a_pod(labels={}), build.a_view(opted_in=True), True),
    ],
    ids=["its Job may come", "no Job will come", "its Job came", "the label may come", "no monitor"],
)
def test_a_decision_says_whether_the_caches_may_only_be_late(manifest, view, settled):
    assert build.decided(manifest, view).is_settled is settled


def test_what_others_add_after_us_is_not_wrapped_again():
    after = injected(build.a_pod())
    del after["metadata"]["labels"]["rankbeat.io/state"]
    after["spec"]["containers"].append(build.a_container("proxy"))

    assert build.decided(after).operations == ()


def test_the_ring_volume_takes_the_cap_of_the_install():
    settings = plans.Settings(build.AGENT, (), ring_limit="16Mi")

    decision = decisions.decision(pods.pod("team-a", build.a_pod()), settings, build.KNOWN)

    after = build.patched(build.a_pod(), decision.operations)
    assert after["spec"]["volumes"][2]["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Mi"}


def test_a_pause_stops_alerts_and_not_injection():
    assert injected(build.a_pod(), build.a_view(build.a_monitor(spec={"paused": True})))
