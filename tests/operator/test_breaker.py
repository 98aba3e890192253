"""When new pods come without the agent, and when they get it again."""

import pytest

from operator_builders import AGENT, JOB_UID, NOW, a_job, a_monitor, a_pending_pod, a_pod, seen
from rankbeat_operator.model.manifests import time_text
from rankbeat_operator.model.observed import Agent
from rankbeat_operator.model.pods import Container, Exit, Injection, ObjectEvent
from rankbeat_operator.plan import breaker
from rankbeat_operator.plan.breaker import Breaker

CLOSED = Breaker(agent=AGENT)


def opened(observed, **monitor):
    return breaker.breaker(a_monitor(**monitor), observed).reason


def an_event(uid: str, reason: str, message: str, *, seconds_ago: float = 5) -> ObjectEvent:
    return ObjectEvent(uid, reason, message, NOW - seconds_ago)


def an_ended(code: int, reason: str, seconds: float | None):
    return a_pod(
        age_seconds=5,
        phase="Failed",
        containers=(Container("train", has_started=seconds is not None, exits=(Exit(code, reason, seconds),)),),
    )


def an_open_status(*, agent: str = AGENT, reset: str = "") -> dict:
    state = {"open": True, "reason": "StartError", "since": time_text(NOW - 100), "agent": agent, "reset": reset}
    return {"injection": {"message": "container train ended", "breaker": state}}


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(seen(), id="all train"),
        pytest.param(seen(workload=None, pods=()), id="no workload"),
        pytest.param(seen(pods=()), id="no pods yet"),
        pytest.param(seen(pods=(a_pending_pod(age_seconds=59),)), id="pending for less than the limit"),
        pytest.param(seen(pods=(a_pending_pod(), a_pod("llm-1-y"))), id="one of two started"),
        pytest.param(seen(pods=(a_pending_pod(is_scheduled=False),)), id="not scheduled"),
        pytest.param(
            seen(pods=(a_pending_pod(containers=(Container("train", waiting="ImagePullBackOff"),)),)), id="image"
        ),
        pytest.param(
            seen(pods=(a_pending_pod(),), events=(an_event("uid-llm-0-x", "Pulling", 'Pulling image "cann:8"'),)),
            id="large image still being pulled",
        ),
        pytest.param(
            seen(
                pods=(a_pending_pod(),),
                events=(
                    an_event("uid-llm-0-x", "FailedMount", 'MountVolume.SetUp failed for volume "data" : timeout'),
                ),
            ),
            id="the user's volume",
        ),
        pytest.param(
            seen(pods=(a_pending_pod(),), events=(an_event("uid-llm-0-x", "FailedCreatePodSandBox", "cni"),)),
            id="network",
        ),
        pytest.param(
            seen(pods=(a_pending_pod(init_containers=(Container("i", has_started=True),)),)), id="init container"
        ),
        pytest.param(seen(workload=a_job(wants_pods=False), pods=(a_pending_pod(),)), id="owner wants no pods"),
        pytest.param(
            seen(pods=(a_pending_pod(labels={"rankbeat.io/state": "skipped"}),)),
            id="pending without the agent: not ours",
        ),
        pytest.param(
            seen(pods=(a_pending_pod(injection=Injection("Injected", "", "old", "train")),)), id="another agent's pod"
        ),
        pytest.param(seen(pods=(an_ended(1, "Error", 1.0),)), id="fails at once, in its own way"),
        pytest.param(seen(pods=(an_ended(127, "Error", 30.0),)), id="127 after half a minute"),
        pytest.param(
            seen(
                pods=(),
                events=(an_event(JOB_UID, "FailedCreate", 'Error creating: pods "x" is forbidden: exceeded quota: q'),),
            ),
            id="quota: we ask for nothing",
        ),
    ],
)
def test_it_stays_closed_while_the_job_starts_or_is_kept_by_others(observed):
    assert breaker.breaker(a_monitor(), observed) == CLOSED


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        pytest.param(seen(pods=(an_ended(128, "StartError", None),)), "StartError", id="no such shell"),
        pytest.param(seen(pods=(an_ended(127, "Error", 0.0),)), "CommandFailed", id="127 at once"),
        pytest.param(seen(pods=(an_ended(126, "Error", 2.0),)), "CommandFailed", id="126 within 2 s"),
        pytest.param(
            seen(
                pods=(a_pending_pod(age_seconds=3),),
                events=(
                    an_event("uid-llm-0-x", "FailedMount", 'MountVolume.SetUp failed for volume "rankbeat-agent" : x'),
                ),
            ),
            "FailedMount",
            id="our volume",
        ),
        pytest.param(
            seen(pods=(), events=(an_event(JOB_UID, "FailedCreate", "admission webhook denied: command is pinned"),)),
            "FailedCreate",
            id="policy pins the command",
        ),
        pytest.param(
            seen(
                pods=(an_ended(1, "Error", 9.0),),
                events=(an_event(JOB_UID, "FailedCreate", "denied: command is pinned"),),
            ),
            "FailedCreate",
            id="policy, only a finished pod is left",
        ),
        pytest.param(seen(pods=(a_pending_pod(age_seconds=61),)), "NotStarted", id="no cause known after the limit"),
        pytest.param(
            seen(
                pods=(a_pending_pod(),),
                events=(
                    an_event("uid-llm-0-x", "Pulling", 'Pulling image "cann:8"'),
                    an_event("uid-llm-0-x", "Pulled", "Successfully pulled image"),
                ),
            ),
            "NotStarted",
            id="image is there and nothing starts",
        ),
    ],
)
def test_it_opens_when_injection_may_be_the_cause(observed, reason):
    assert opened(observed) == reason


def test_open_it_blocks_injection_and_says_how_to_close_it():
    state = breaker.breaker(a_monitor(), seen(pods=(an_ended(128, "StartError", None),)))

    plan = breaker.injection(seen(), state)

    assert plan == {
        "agent": AGENT,
        "mode": "blocked",
        "reason": "StartError",
        "message": (
            "container train of injected pod llm-0-x ended with 128 (StartError) instead of starting;"
            " new pods come without the agent until you run:"
            ' kubectl -n team-a annotate tmon llm rankbeat.io/reset-breaker="$(date +%s)" --overwrite'
        ),
        "breaker": {"open": True, "reason": "StartError", "since": "2026-11-30T06:00:00Z", "agent": AGENT, "reset": ""},
        "injectedPods": 2,
        "skippedPods": 0,
    }


def test_it_stays_open_after_the_evidence_is_gone():
    state = breaker.breaker(a_monitor(status=an_open_status()), seen())

    assert state == Breaker(True, "StartError", "container train ended", NOW - 100, AGENT, "")


@pytest.mark.parametrize(
    ("monitor", "observed"),
    [
        pytest.param(a_monitor(status=an_open_status(), reset="1796018400"), seen(), id="annotation"),
        pytest.param(a_monitor(status=an_open_status(reset="1"), reset="2"), seen(), id="annotation changed"),
        pytest.param(a_monitor(status=an_open_status(agent="old")), seen(), id="another agent"),
    ],
)
def test_it_closes_by_the_annotation_or_another_agent(monitor, observed):
    assert breaker.breaker(monitor, observed) == Breaker(since=NOW, agent=AGENT, reset=monitor.reset)


def test_closed_by_a_person_it_does_not_open_again_for_the_same_pods():
    closed = {
        "injection": {
            "breaker": {"open": False, "reason": "", "since": time_text(NOW - 3), "agent": AGENT, "reset": "1"}
        }
    }

    assert opened(seen(pods=(an_ended(128, "StartError", None),)), reset="1", status=closed) == ""


def test_what_was_written_is_read_back():
    state = breaker.breaker(a_monitor(reset="7"), seen(pods=(an_ended(128, "StartError", None),)))

    assert breaker.written({"injection": breaker.injection(seen(), state)}) == state


def test_without_the_agents_config_map_injection_is_off():
    plan = breaker.injection(seen(agent=Agent(AGENT, "ConfigMap cannot be written")), CLOSED)

    assert (plan["mode"], plan["reason"], plan["message"]) == (
        "disabled",
        "AgentMissing",
        "ConfigMap cannot be written",
    )
