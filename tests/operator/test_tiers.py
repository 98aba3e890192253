"""How each pod of a monitor is seen, and what is said of why not better."""

import pytest

from operator_builders import NOW, a_monitor, a_pod, a_verdict, seen
from rankbeat_contract import monitor as contract
from rankbeat_operator.model.observed import Aggregator
from rankbeat_operator.model.pods import Injection
from rankbeat_operator.plan import breaker, conditions, status, tiers

SKIPPED = {"rankbeat.io/state": "skipped", "rankbeat.io/monitor": "llm"}


def a_skipped_pod(name="llm-1-y", result="ShellNotProven", message="set spec.injection.shell"):
    return a_pod(name, labels=SKIPPED, injection=Injection(result, message, "", "train"))


def tiers_of(observed, *, asked=()):
    return [
        (one.pod, one.tier, one.reason)
        for one in tiers.pod_tiers(a_monitor(settings=contract.Settings(tiers=asked)), observed)
    ]


def condition(kind, observed):
    state = breaker.breaker(a_monitor(), observed)
    return next(one for one in conditions.conditions(a_monitor(), observed, state) if one.type == kind)


def test_pods_with_rings_have_the_highest_tier_and_no_reason():
    observed = seen(verdict=a_verdict(tiers={"llm-0-x": "callback", "llm-1-y": "callback"}))

    assert tiers_of(observed) == [("llm-0-x", "callback", ""), ("llm-1-y", "callback", "")]


@pytest.mark.parametrize(
    ("pod", "tier", "reason"),
    [
        pytest.param(a_pod("llm-1-y"), "heartbeat", "OwnLoop", id="a loop of its own"),
        pytest.param(a_pod("llm-1-y"), "log_tail", "NoRing", id="the agent did not load"),
        pytest.param(a_skipped_pod(), "perf_file", "ShellNotProven", id="the agent could not be put in"),
        pytest.param(a_skipped_pod(), "none", "ShellNotProven", id="and nothing else is seen"),
        pytest.param(a_pod("llm-1-y", labels={}, injection=None), "none", "NotSeenByWebhook", id="older"),
    ],
)
def test_a_pod_with_a_lower_tier_comes_first_and_says_why(pod, tier, reason):
    known = {"llm-0-x": "callback", **({} if tier == "none" else {"llm-1-y": tier})}
    observed = seen(pods=(a_pod("llm-0-x"), pod), verdict=a_verdict(tiers=known))

    assert tiers_of(observed) == [("llm-1-y", tier, reason), ("llm-0-x", "callback", "")]


def test_a_pod_that_nothing_shows_is_told_the_tier_to_ask_for():
    observed = seen(pods=(a_skipped_pod(),), verdict=a_verdict(tiers={}))

    (one,) = tiers.pod_tiers(a_monitor(), observed)
    (asked,) = tiers.pod_tiers(a_monitor(settings=contract.Settings(tiers=("logTail",))), observed)

    assert one.message == "set spec.injection.shell; spec.tiers: [logTail] would show the loss lines of its log"
    assert "the install value node.podLogs" in asked.message


def test_a_pod_that_is_only_starting_is_left_out():
    assert tiers_of(seen(pods=(a_pod("llm-0-x"),), verdict=a_verdict(tiers={}))) == []


def test_the_status_lists_pods_and_holds_64_of_them_at_most():
    pods = tuple(a_skipped_pod(f"llm-{index}") for index in range(100))
    observed = seen(pods=pods, verdict=a_verdict(tiers={"llm-7": "log_tail"}))

    found = status.reconciled(a_monitor(), observed).status["tiers"]

    assert len(found) == 64
    assert found[0] == {
        "pod": "llm-0",
        "tier": "none",
        "reason": "ShellNotProven",
        "message": "set spec.injection.shell; spec.tiers: [logTail] would show the loss lines of its log",
    }


def test_while_the_aggregator_does_not_answer_the_status_keeps_what_it_said():
    observed = seen(verdict=a_verdict(tiers={"llm-0-x": "callback"}))
    before = status.reconciled(a_monitor(), observed).status

    silent = seen(verdict=None, aggregator=Aggregator("refused", NOW - 60))
    after = status.reconciled(a_monitor(status=before), silent).status

    assert before["tiers"] == after["tiers"] == [{"pod": "llm-0-x", "tier": "callback", "reason": "", "message": ""}]


def test_an_injected_pod_whose_log_alone_is_seen_has_not_loaded_the_agent():
    observed = seen(verdict=a_verdict(tiers={"llm-0-x": "callback", "llm-1-y": "log_tail"}))

    found = condition("AgentLoaded", observed)

    assert (found.status, found.reason) == ("False", "NotLoaded")
    assert "(llm-1-y)" in found.message


def test_a_log_that_names_no_rank_is_said_to_be():
    verdict = a_verdict(ranks_expected=None, ranks_reporting=0, tiers={"llm-0-x": "log_tail"})

    found = condition("Reporting", seen(verdict=verdict))

    assert (found.status, found.reason) == ("Unknown", "RanksUnnamed")
    assert "--tail_worker_log" in found.message
