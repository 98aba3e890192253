"""LaunchSafe and Sidecar: what is told of how pods start, and which field mends it."""

import pytest

from operator_builders import AGENT, a_job, a_monitor, a_pod, a_verdict, seen
from rankbeat_contract import monitor as contract
from rankbeat_contract import outputs
from rankbeat_operator.model import launches, pods, workloads
from rankbeat_operator.model.pods import Container, Injection
from rankbeat_operator.plan import breaker, conditions, launching, status


def a_start(*command, **spec):
    return launches.start({"containers": [{"name": "train", "command": list(command)}], **spec})


SAFE = a_start(
    *("sh", "-c", 'exec python3 /rankbeat/agent/rankbeat_agent/launch.py signals,exitCode "$@"', "rankbeat"),
    *("msrun", "--join=True", "train.py"),
)
PLAIN = a_start("msrun", "--join=True", "train.py")
CARELESS = a_start("msrun", "--worker_num=4", "--local_worker_num=2", "train.py")


def asking(**fields):
    return a_monitor(settings=contract.Settings(**fields))


def launch_safe(start, monitor=None, **changes):
    observed = seen(**{"pods": (a_pod("llm-0-x", start=start), a_pod("llm-1-y", start=start)), **changes})
    return next(launching.conditions(monitor or a_monitor(), observed))


def test_every_trap_is_told_with_the_field_that_mends_it():
    found = launch_safe(CARELESS)

    assert (found.type, found.status, found.reason) == ("LaunchSafe", "False", "LaunchUnsafe")
    assert found.message == (
        "msrun without --join=True ends with 0 once its workers are started, and the pod takes them with it; "
        "SIGTERM is ignored, so that a deletion waits the whole grace period of 30 s for nothing; "
        "msrun ends with 0 when it is interrupted, so that an aborted job counts as succeeded; "
        "msrun without --node_rank on more than one node gives its processes a wrong RANK_ID: "
        "write spec.msrun.fix: [join, signals, exitCode, nodeRank] and recreate the pods"
    )


def test_a_mended_launch_is_safe():
    assert launch_safe(SAFE).status == "True"


def test_one_pod_with_a_trap_is_enough():
    mixed = (a_pod("llm-0-x", start=SAFE), a_pod("llm-1-y", start=PLAIN))

    assert launch_safe(SAFE, pods=mixed).reason == "LaunchUnsafe"


@pytest.mark.parametrize(
    "start",
    [a_start("bash", "start.sh"), a_start("python", "train.py"), a_start()],
    ids=["a script", "another program", "the image's entrypoint"],
)
def test_what_cannot_be_told_is_unknown(start):
    found = launch_safe(start)

    assert (found.status, found.reason) == ("Unknown", "CannotTell")


def test_before_there_are_pods_the_template_is_judged():
    template = {"metadata": {}, "spec": {"containers": [{"name": "train", "command": ["msrun", "train.py"]}]}}
    manifest = {"metadata": {"name": "llm", "uid": "u"}, "spec": {"parallelism": 2, "template": template}}
    workload = workloads.job(manifest)

    assert launch_safe(PLAIN, pods=(), workload=workload).reason == "LaunchUnsafe"
    assert workload.pods_at_once == 2


def test_without_a_workload_nothing_is_said():
    assert list(launching.conditions(a_monitor(), seen(workload=None, pods=(), verdict=None))) == []


@pytest.mark.parametrize(
    ("spec", "is_told"),
    [
        ({}, True),
        ({"terminationGracePeriodSeconds": 5}, False),
        ({"terminationGracePeriodSeconds": 600}, True),
        ({"shareProcessNamespace": True}, False),
        ({"hostPID": True}, False),
    ],
)
def test_an_ignored_sigterm_matters_where_a_deletion_would_wait_for_it(spec, is_told):
    found = launch_safe(a_start("msrun", "--join=True", "train.py", **spec))

    assert ("SIGTERM" in found.message) is is_told


def test_a_fix_that_the_pods_did_not_get_is_told_with_the_webhook_s_reason():
    monitor = asking(msrun_fixes=("join", "signals", "exitCode"))
    injection = Injection("Injected", "signals cannot be mended: no shell", "h", "train")
    pod = a_pod(start=PLAIN, injection=injection)

    assert launch_safe(PLAIN, monitor, pods=(pod,)).message.endswith(
        "spec.msrun.fix names them, and these pods came without (signals cannot be mended: no shell): "
        "recreate them, and see condition Injected"
    )


def test_fixes_that_are_asked_for_stay_in_the_advice():
    found = launch_safe(PLAIN, asking(msrun_fixes=("join", "signals")))

    assert "write spec.msrun.fix: [join, signals, exitCode]" in found.message


def test_a_trap_keeps_no_job_from_being_ready_and_is_an_event_once():
    observed = seen(pods=(a_pod("llm-0-x", start=CARELESS), a_pod("llm-1-y", start=CARELESS)))
    first = status.reconciled(a_monitor(), observed)
    again = status.reconciled(a_monitor(status=first.status), observed)

    found = {c.type: c.status for c in conditions.conditions(a_monitor(), observed, breaker.Breaker())}
    assert (found["Ready"], found["LaunchSafe"]) == ("True", "False")
    assert [notice.reason for notice in first.notices] == ["LaunchUnsafe"]
    assert again.notices == ()


@pytest.mark.parametrize(
    ("containers", "wanted", "command"),
    [
        ([("a", {}), ("b", {})], "b", ["b"]),
        ([("a", {}), ("mindspore", {})], "", ["mindspore"]),
        ([("a", {}), ("b", {"limits": {"huawei.com/Ascend910": "8"}})], "", ["b"]),
        ([("a", {}), ("b", {})], "", ["a"]),
    ],
    ids=["named", "usual", "accelerator", "first"],
)
def test_the_container_that_trains_is_judged(containers, wanted, command):
    spec = {
        "containers": [{"name": n, "resources": r, "command": ["msrun", "--log_dir", n, "x"]} for n, r in containers]
    }

    assert launches.start(spec, wanted).launch.options["log_dir"].value == command[0]


def test_the_annotation_says_what_became_of_the_sidecar():
    written = (
        '{"result": "Injected", "agent": "h", "container": "c", "sidecar": {"result": "ExclusiveCPUs", "message": "m"}}'
    )
    manifest = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "creationTimestamp": "2026-11-30T06:00:00Z",
            "annotations": {"rankbeat.io/injection": written},
        },
        "spec": {"containers": []},
    }

    found = pods.pod(manifest).injection

    assert (found.sidecar, found.sidecar_message) == ("ExclusiveCPUs", "m")


SIDECAR = asking(collector_mode="sidecar")


def sidecar(*found):
    (*_, last) = launching.conditions(SIDECAR, seen(pods=tuple(found)))
    assert last.type == "Sidecar"
    return last


def with_sidecar(result="Injected", message="", **changes):
    return a_pod(injection=Injection("Injected", "", AGENT, "train", result, message), **changes)


def failing(reason):
    return with_sidecar(init_containers=(Container("rankbeat-collector", waiting=reason),))


@pytest.mark.parametrize(
    ("pod", "expected", "said"),
    [
        (with_sidecar(), ("True", "Injected"), "all 1 pods"),
        (with_sidecar("ExclusiveCPUs", "write node"), ("False", "ExclusiveCPUs"), "write node"),
        (with_sidecar(""), ("False", "CreatedBefore"), "recreate them"),
        (failing("CrashLoopBackOff"), ("False", "SidecarFails"), "kubectl logs"),
        (failing("PodInitializing"), ("True", "Injected"), "all 1 pods"),
        (a_pod(labels={}, injection=None), ("Unknown", "NotInjected"), "Injected"),
    ],
    ids=["there", "refused", "older", "crashes", "starts", "no agent"],
)
def test_the_sidecar_s_condition(pod, expected, said):
    found = sidecar(pod)

    assert (found.status, found.reason) == expected
    assert said in found.message


def test_nobody_who_asked_for_no_sidecar_hears_of_it():
    assert [each.type for each in launching.conditions(a_monitor(), seen())] == ["LaunchSafe"]


def an_opened(monitor, observed):
    found = breaker.breaker(monitor, observed)
    return found.reason if found.is_open else ""


def test_our_image_that_cannot_be_pulled_opens_the_breaker():
    for reason in ("ErrImagePull", "ImagePullBackOff"):
        pod = failing(reason)

        assert an_opened(SIDECAR, seen(pods=(pod,))) == "SidecarImage"


def test_a_sidecar_that_cannot_be_started_opens_the_breaker():
    end = pods.Exit(128, "StartError", None)
    pod = with_sidecar(init_containers=(Container("rankbeat-collector", exits=(end,)),))

    assert an_opened(SIDECAR, seen(pods=(pod,))) == "StartError"


def test_a_sidecar_that_crashes_does_not_open_it():
    end = pods.Exit(1, "Error", 3.0)
    sidecar = Container("rankbeat-collector", has_started=True, waiting="CrashLoopBackOff", exits=(end,))

    assert an_opened(SIDECAR, seen(pods=(with_sidecar(init_containers=(sidecar,)),))) == ""


@pytest.mark.parametrize(
    ("claim", "mode", "expected"), [("runs", "sidecar", "OutputVolume"), ("data", "sidecar", ""), ("runs", "node", "")]
)
def test_a_claim_that_a_monitor_names_and_nobody_made_opens_the_breaker(claim, mode, expected):
    """The pods wait for it to be scheduled: without us they would not."""
    volume = outputs.Outputs(volume={"persistentVolumeClaim": {"claimName": claim}})
    monitor = asking(collector_mode=mode, outputs=volume)
    pod = with_sidecar(is_scheduled=False, running_since=None, containers=(), phase="Pending")
    message = '0/1 nodes are available: persistentvolumeclaim "runs" not found.'
    waits = pods.ObjectEvent(pod.uid, "FailedScheduling", message, seen().now - 1)

    assert an_opened(monitor, seen(pods=(pod,), events=(waits,), verdict=None)) == expected


def test_a_pod_of_the_tier_perf_file_says_so_and_why():
    said = Injection("InjectedPerfFile", "NoCommand: write the command", "", "train")
    pod = a_pod(labels={"rankbeat.io/state": "skipped"}, injection=said)

    found = {c.type: c for c in conditions.conditions(a_monitor(), seen(pods=(pod,)), breaker.Breaker())}

    assert (found["Injected"].status, found["Injected"].reason) == ("False", "InjectedPerfFile")
    assert "write the command" in found["Injected"].message


def test_an_agent_that_is_not_loaded_names_the_tier_to_ask_for():
    verdict = a_verdict(pods_without_ring=("llm-0-x",), ranks_reporting=0)
    observed = seen(pods=(a_pod("llm-0-x"),), verdict=verdict)

    def said(monitor):
        found = conditions.conditions(monitor, observed, breaker.Breaker())
        return next(c.message for c in found if (c.type, c.reason) == ("AgentLoaded", "NotLoaded"))

    assert "spec.tiers: [logTail]" in said(a_monitor())
    assert "logTail" not in said(asking(tiers=("logTail",)))


def test_a_quota_that_refuses_pods_counts_where_a_sidecar_asks_for_something():
    refused = pods.ObjectEvent(a_job().uid, "FailedCreate", 'pods "x" is forbidden: exceeded quota: q', seen().now - 1)
    observed = seen(pods=(), events=(refused,), verdict=None)

    assert an_opened(a_monitor(), observed) == ""
    assert an_opened(SIDECAR, observed) == "FailedCreate"
