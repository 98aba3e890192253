"""Who is left alone, and why."""

import json

import pytest

import webhook_builders as build
from rankbeat_contract import names


def skipped(manifest, view):
    """The reason, after checking that nothing but label and annotation was changed."""
    decision = build.decided(manifest, view)
    after = build.patched(manifest, decision.operations)

    assert after["metadata"]["labels"].pop(names.LABEL_STATE) == "skipped"
    said = json.loads(after["metadata"]["annotations"].pop(names.ANNOTATION_INJECTION))
    assert said == {
        "monitor": decision.monitor,
        "result": decision.result,
        "message": decision.message,
        "agent": "",
        "container": decision.container,
    }
    if not after["metadata"]["annotations"]:
        del after["metadata"]["annotations"]
    assert after == manifest
    assert decision.message
    return decision.result


SKIPPED = {
    "label inject=disabled always wins": (
        build.a_pod(labels={"rankbeat.io/monitor": "llm", "rankbeat.io/inject": "disabled"}),
        build.KNOWN,
        "OptedOut",
    ),
    "kill switch": (build.a_pod(), build.a_view(build.a_monitor(), switch="disabled"), "InjectionTurnedOff"),
    "kill switch with a typing error": (build.a_pod(), build.a_view(switch="disable"), "InjectionTurnedOff"),
    "breaker open": (
        build.a_pod(),
        build.with_status(mode="blocked", breaker={"open": True, "agent": build.AGENT}),
        "BreakerOpen",
    ),
    "breaker open for no agent in particular": (build.a_pod(), build.with_status(mode="blocked"), "BreakerOpen"),
    "the operator refuses the plan": (
        build.a_pod(),
        build.with_status(mode="disabled", reason="AgentNotReady"),
        "InjectionTurnedOff",
    ),
    "a label's value that no object's name can be": (
        build.a_pod(labels={"rankbeat.io/monitor": "LLM_1"}),
        build.a_view(),
        "NoMonitor",
    ),
    "an empty label": (build.a_pod(labels={"rankbeat.io/monitor": ""}), build.a_view(), "NoMonitor"),
    "the monitor names a container that is not there": (
        build.a_pod(),
        build.a_view(build.a_monitor(spec={"injection": {"container": "trainer"}})),
        "NoContainer",
    ),
    "no command": (build.without_command(), build.KNOWN, "NoCommand"),
    "no command but args": (build.without_command(args=["msrun"]), build.KNOWN, "NoCommand"),
    "no command and envFrom": (
        build.without_command(envFrom=[{"configMapRef": {"name": "x"}}]),
        build.KNOWN,
        "NoCommand",
    ),
    "no command and PYTHONPATH from a source": (
        build.without_command(
            env=[{"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "p"}}}]
        ),
        build.KNOWN,
        "PythonPathFromSource",
    ),
    "a bare pod has nobody to retry it": (
        build.a_pod(build.a_container(command=build.DIRECT)),
        build.KNOWN,
        "ShellNotProven",
    ),
    "its Job is not in the cache": (build.direct(), build.KNOWN, "ShellNotProven"),
    "backoffLimit 0": (
        build.direct(),
        build.a_view(build.a_monitor(), job=build.a_job(backoffLimit=0)),
        "ShellNotProven",
    ),
    "fewer retries than pods that would fail at once": (
        build.direct(),
        build.a_view(build.a_monitor(), job=build.a_job(backoffLimit=6, parallelism=8, completions=8)),
        "ShellNotProven",
    ),
    "OnFailure restarts the same container": (
        build.a_pod(build.a_container(command=build.DIRECT), owner=build.a_job_owner(), restartPolicy="OnFailure"),
        build.RETRIED,
        "ShellNotProven",
    ),
    "a dotted name would be lost": (
        build.direct(env=[{"name": "com.huawei.path", "value": "1"}]),
        build.NAMES_SH,
        "EnvNotPreserved",
    ),
    "a dashed prefix would be lost": (
        build.direct(envFrom=[{"prefix": "my-", "configMapRef": {"name": "x"}}]),
        build.RETRIED,
        "EnvNotPreserved",
    ),
    "a variable that shells overwrite": (
        build.direct(env=[{"name": "IFS", "value": ","}]),
        build.RETRIED,
        "EnvNotPreserved",
    ),
    "a variable that bash reads a file for": (
        build.direct(env=[{"name": "BASH_ENV", "value": "/etc/x"}]),
        build.a_view(build.a_monitor(spec={"injection": {"shell": "/bin/bash"}})),
        "EnvNotPreserved",
    ),
    "a volume of our name": (build.a_pod(volumes=[{"name": "rankbeat", "emptyDir": {}}]), build.KNOWN, "MountTaken"),
    "a mount at our path": (
        build.a_pod(build.a_container(volumeMounts=[{"name": "x", "mountPath": "/rankbeat/ring/"}])),
        build.KNOWN,
        "MountTaken",
    ),
    "a mount above our path": (
        build.a_pod(build.a_container(volumeMounts=[{"name": "x", "mountPath": "//rankbeat"}])),
        build.KNOWN,
        "MountTaken",
    ),
    "a block device below our path": (
        build.a_pod(build.a_container(volumeDevices=[{"name": "x", "devicePath": "/rankbeat/disk"}])),
        build.KNOWN,
        "MountTaken",
    ),
    "a variable of our name": (
        build.a_pod(build.a_container(env=[{"name": "RANKBEAT_RING_DIR", "value": "/tmp"}])),
        build.KNOWN,
        "MountTaken",
    ),
    "annotations of others stay": (
        build.without_command()
        | {"metadata": {"labels": {"rankbeat.io/monitor": "llm"}, "annotations": {"a/b~c": "1"}}},
        build.KNOWN,
        "NoCommand",
    ),
}


@pytest.mark.parametrize(("manifest", "view", "reason"), SKIPPED.values(), ids=SKIPPED.keys())
def test_a_skipped_pod_is_changed_in_nothing_but_its_marks(manifest, view, reason):
    assert skipped(manifest, view) == reason


UNTOUCHED = {
    "no monitor in an opted-in namespace": (build.a_pod(labels={}), build.a_view(opted_in=True)),
    "no monitor selects it": (
        build.a_pod(labels={"app": "other"}, owner=build.a_job_owner("other")),
        build.a_view(build.a_monitor(), opted_in=True),
    ),
    "the namespace did not opt in": (
        build.a_pod(labels={}, owner=build.a_job_owner()),
        build.a_view(build.a_monitor(), opted_in=False),
    ),
    "seen before and injected": (
        build.a_pod(labels={"rankbeat.io/monitor": "llm", "rankbeat.io/state": "injected"}),
        build.KNOWN,
    ),
    "seen before and skipped": (
        build.a_pod(labels={"rankbeat.io/monitor": "llm", "rankbeat.io/state": "skipped"}),
        build.KNOWN,
    ),
    "not selected, opted out and turned off": (
        build.a_pod(labels={"rankbeat.io/inject": "disabled"}),
        build.a_view(switch="disabled", opted_in=True),
    ),
}


@pytest.mark.parametrize(("manifest", "view"), UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_a_pod_that_is_not_ours_stays_wholly_untouched(manifest, view):
    assert build.decided(manifest, view).operations == ()
