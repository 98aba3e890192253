"""Every "nothing happens" state has a reason and a remedy."""

import pytest

from operator_builders import AGENT, NOW, a_hang, a_job, a_monitor, a_pending_pod, a_pod, a_verdict, seen
from rankbeat_operator.model.monitors import Target
from rankbeat_operator.model.observed import Agent, Aggregator
from rankbeat_operator.model.pods import Injection
from rankbeat_operator.plan import conditions
from rankbeat_operator.plan.breaker import Breaker
from rankbeat_operator.plan.conditions import Condition

NO_RANKS = a_verdict(ranks_expected=None, ranks_reporting=0, step=None, total_steps=None, loss=None, phase="")


def found(observed, monitor=None, state=None) -> dict[str, Condition]:
    return {c.type: c for c in conditions.conditions(monitor or a_monitor(), observed, state or Breaker())}


def an_unseen_pod(name: str = "llm-0-x", **labels: str):
    return a_pod(name, labels=labels, injection=None)


def a_skipped_pod(reason: str, message: str):
    return a_pod(labels={"rankbeat.io/state": "skipped"}, injection=Injection(reason, message))


def test_a_job_that_is_observed_is_ready_and_healthy():
    assert {name: (c.status, c.reason) for name, c in found(seen()).items()} == {
        "TargetFound": ("True", "Found"),
        "Injected": ("True", "Injected"),
        "AgentLoaded": ("True", "Loaded"),
        "AggregatorReachable": ("True", "Answers"),
        "Reporting": ("True", "AllRanks"),
        "Ready": ("True", "Observing"),
        "Healthy": ("True", "NoIncident"),
        "LaunchSafe": ("Unknown", "CannotTell"),
    }


@pytest.mark.parametrize(
    ("name", "observed", "expected", "remedy"),
    [
        pytest.param(
            "TargetFound",
            seen(workload=None, pods=(), verdict=None),
            ("False", "JobNotFound"),
            "create it there",
            id="no job",
        ),
        pytest.param(
            "Injected",
            seen(workload=a_job(template_labels={}), pods=(), verdict=None),
            ("False", "NotOptedIn"),
            "kubectl label namespace team-a rankbeat.io/inject=enabled",
            id="not opted in, before the first pod",
        ),
        pytest.param(
            "Injected",
            seen(pods=(an_unseen_pod(),), verdict=None),
            ("False", "NotOptedIn"),
            "add the label rankbeat.io/monitor: llm to the pod template",
            id="not opted in",
        ),
        pytest.param(
            "Injected",
            seen(pods=(an_unseen_pod(**{"rankbeat.io/monitor": "llm"}),), verdict=None),
            ("False", "CreatedBeforeWebhook"),
            "recreate them",
            id="created before the webhook, by pod label",
        ),
        pytest.param(
            "Injected",
            seen(pods=(an_unseen_pod(),), is_namespace_opted_in=True, verdict=None),
            ("False", "CreatedBeforeWebhook"),
            "recreate them",
            id="created before the webhook, by namespace label",
        ),
        pytest.param(
            "Injected",
            seen(pods=(an_unseen_pod(**{"rankbeat.io/inject": "disabled"}),), is_namespace_opted_in=True, verdict=None),
            ("False", "OptedOut"),
            "remove it from the pod template",
            id="opted out",
        ),
        pytest.param(
            "Injected",
            seen(pods=(a_skipped_pod("NoCommand", "set the container's command"),), verdict=None),
            ("False", "NoCommand"),
            "1 of 1 pods are without the agent: set the container's command",
            id="skipped by the webhook",
        ),
        pytest.param(
            "Injected", seen(pods=(), verdict=None), ("Unknown", "NoPods"), "Job llm has no pods yet", id="no pods yet"
        ),
        pytest.param(
            "Injected",
            seen(pods=(a_skipped_pod("InjectionTurnedOff", "x"),), is_switched_off=True, verdict=None),
            ("False", "InjectionTurnedOff"),
            "install value injection",
            id="kill switch",
        ),
        pytest.param(
            "Injected",
            seen(agent=Agent(AGENT, "ConfigMap rankbeat-agent-x cannot be written"), pods=(), verdict=None),
            ("False", "AgentMissing"),
            "cannot be written",
            id="agent missing",
        ),
        pytest.param(
            "AgentLoaded",
            seen(verdict=a_verdict(ranks_reporting=1, pods_without_ring=("llm-1-y",))),
            ("False", "NotLoaded"),
            "(llm-1-y) have run for 60 s without a rank in sight: the program must be Python without -I, -S and -E",
            id="agent not loaded",
        ),
        pytest.param(
            "AgentLoaded",
            seen(
                pods=(a_pod(age_seconds=59),),
                verdict=a_verdict(ranks_expected=None, ranks_reporting=0, pods_without_ring=("llm-0-x",)),
            ),
            ("Unknown", "Starting"),
            "no rank has entered",
            id="agent not loaded yet",
        ),
        pytest.param(
            "AgentLoaded",
            seen(verdict=None),
            ("Unknown", "NoReports"),
            "no report of these pods",
            id="nobody reports the pods",
        ),
        pytest.param(
            "AggregatorReachable",
            seen(verdict=None, aggregator=Aggregator("refused", NOW - 60)),
            ("False", "NoAnswer"),
            "numbers are as of 2026-11-30T05:59:00Z",
            id="aggregator gone",
        ),
        pytest.param(
            "Reporting",
            seen(verdict=a_verdict(ranks_reporting=1)),
            ("False", "RanksMissing"),
            "1 of 2 ranks report",
            id="a rank does not report",
        ),
        pytest.param(
            "Reporting",
            seen(verdict=None),
            ("Unknown", "NoReports"),
            "look at DaemonSet rankbeat-node",
            id="nobody reports the job",
        ),
        pytest.param(
            "Reporting",
            seen(verdict=NO_RANKS),
            ("Unknown", "NoSamples"),
            "a rank is seen from communication.init() on",
            id="no rank has ever reported",
        ),
        pytest.param(
            "Reporting",
            seen(verdict=a_verdict(ranks_reporting=0)),
            ("False", "RanksMissing"),
            "0 of 2 ranks report",
            id="no rank reports any more",
        ),
        pytest.param(
            "Healthy",
            seen(verdict=NO_RANKS),
            ("Unknown", "NotJudged"),
            "no rank has reported yet",
            id="nothing to judge by",
        ),
        pytest.param(
            "Healthy",
            seen(verdict=a_verdict(incidents=(a_hang(),))),
            ("False", "TrainingHung"),
            "rank 1 has not entered step 513",
            id="hang",
        ),
        pytest.param("Healthy", seen(verdict=None), ("Unknown", "NotJudged"), "nothing is known", id="not judged"),
        pytest.param(
            "Ready",
            seen(workload=a_job(finished="Complete", wants_pods=False), verdict=None),
            ("False", "WorkloadComplete"),
            "has completed",
            id="job is over",
        ),
        pytest.param(
            "Ready",
            seen(pods=(an_unseen_pod(),), verdict=None),
            ("False", "NotOptedIn"),
            "Injected: nobody has opted the pods in",
            id="ready repeats the first that is missing",
        ),
    ],
)
def test_what_is_missing_is_said_with_the_remedy(name, observed, expected, remedy):
    condition = found(observed)[name]

    assert (condition.status, condition.reason) == expected
    assert remedy in condition.message


def test_a_pod_selector_that_selects_nothing_shows_itself():
    monitor = a_monitor(target=Target(pod_selector={"matchLabels": {"app": "llm"}}))

    condition = found(seen(workload=None, pods=(), verdict=None), monitor)["TargetFound"]

    assert (condition.reason, "(app=llm)" in condition.message) == ("NoPodSelected", True)


def test_an_open_breaker_shows_before_all_else():
    condition = found(seen(), state=Breaker(True, "StartError", "container ended"))["Injected"]

    assert (condition.status, condition.reason, condition.message) == (
        "False",
        "BreakerOpen",
        "StartError: container ended",
    )


def test_a_job_of_which_no_rank_has_reported_is_not_ready():
    ready = found(seen(verdict=NO_RANKS))["Ready"]

    assert (ready.status, ready.reason) == ("False", "Starting")


def test_pods_that_are_over_do_not_count_while_others_live():
    over = an_unseen_pod("llm-0-a")
    pods = (a_pod("llm-0-b"), type(over)(**{f: getattr(over, f) for f in over.__slots__} | {"phase": "Failed"}))

    assert found(seen(pods=pods))["Injected"].status == "True"


def test_paused_is_said_to_raise_no_alert():
    ready = found(seen(), a_monitor(paused=True))["Ready"]

    assert (ready.status, ready.reason) == ("False", "Paused")


def test_a_pending_pod_is_injected_but_not_loaded():
    shown = found(seen(pods=(a_pending_pod(),), verdict=None))

    assert (shown["Injected"].status, shown["AgentLoaded"].status) == ("True", "Unknown")


def test_only_a_change_of_status_moves_the_transition_time():
    old = {
        "conditions": [
            {"type": "Injected", "status": "False", "reason": "A", "lastTransitionTime": "2026-11-30T05:00:00Z"},
            {"type": "Ready", "status": "True", "reason": "B", "lastTransitionTime": "2026-11-30T05:00:00Z"},
        ]
    }
    new = [Condition("Injected", "False", "C", "c"), Condition("Ready", "False", "C", "c")]

    times = {c["type"]: c["lastTransitionTime"] for c in conditions.written(new, old, 1, NOW)}

    assert times == {"Injected": "2026-11-30T05:00:00Z", "Ready": "2026-11-30T06:00:00Z"}
