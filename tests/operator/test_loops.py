"""What the operator's own tasks note, and when it calls itself unwell."""

from pathlib import Path

import pytest

from kubernetes import client
from operator_builders import JOB_UID, a_verdict
from rankbeat_contract import packing
from rankbeat_operator.handlers import health, listed, loops, watching
from rankbeat_operator.handlers.context import Context, Key, KnownMonitor, Scope, Settings
from rankbeat_operator.handlers.keys import Keys
from rankbeat_operator.kube.cluster import Cluster
from rankbeat_operator.kube.events import Events
from rankbeat_operator.model.observed import Aggregator
from rankbeat_operator.plan import tenants


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def context(clock: Clock) -> Context:
    """An operator that has not spoken to any server."""
    cluster = Cluster(client.ApiClient())
    return Context(
        settings=Settings("rankbeat", Path("/none"), "https://localhost:9", Path("/none"), None, 0),
        cluster=cluster,
        events=Events(cluster, clock),
        agent=packing.packed({}),
        keys=Keys(clock),
        clock=clock,
        wall=clock,
    )


def monitor_event(kind: str | None = "ADDED", *, generation: int = 1, **status: object) -> dict:
    metadata = {"namespace": "team-a", "name": "llm", "uid": "m1", "generation": generation}
    return {"type": kind, "object": {"metadata": metadata, "spec": {"workloadRef": {"name": "llm"}}, "status": status}}


def turns(context: Context) -> set[Key]:
    """The keys whose turn has come."""
    found = set()
    while (key := context.keys._take()) is not None:
        context.keys.done(key)
        found.add(key)
    return found


LLM = Key(Scope.MONITOR, "team-a", "llm")


def test_a_monitor_has_its_turn_when_it_changes_and_not_for_its_own_status(context, clock):
    watching.note_monitor(context, monitor_event())
    assert turns(context) == {LLM}

    clock.now += 10
    watching.note_monitor(context, monitor_event("MODIFIED", step=7))
    assert turns(context) == set()

    watching.note_monitor(context, monitor_event("MODIFIED", generation=2))
    assert turns(context) == {LLM}


def test_a_deleted_monitor_leaves_the_question_whether_its_namespace_needs_the_agent(context):
    watching.note_monitor(context, monitor_event())
    watching.note_monitor(context, monitor_event("DELETED"))

    assert turns(context) == {Key(Scope.NAMESPACE, "team-a")}
    assert context.knowledge.monitors == {}


def test_a_pod_concerns_the_monitors_of_its_job_and_those_that_select_by_label(context):
    known = {"llm": "llm", "other": "other", "selector": ""}
    context.knowledge.monitors = {("team-a", name): KnownMonitor(1, "", job) for name, job in known.items()}
    context.knowledge.monitors["team-b", "llm"] = KnownMonitor(1, "", "llm")

    watching.note_pod(context, {"metadata": {"namespace": "team-a", "labels": {"batch.kubernetes.io/job-name": "llm"}}})

    assert turns(context) == {LLM, Key(Scope.MONITOR, "team-a", "selector")}


def test_a_namespace_that_opts_out_is_looked_at_again(context, clock):
    watching.note_namespace(context, {"type": None, "object": {"metadata": {"name": "team-a"}}})
    assert (turns(context), context.knowledge.opted_in) == ({Key(Scope.NAMESPACE, "team-a")}, {"team-a"})

    clock.now += 10
    watching.note_namespace(context, {"type": "DELETED", "object": {"metadata": {"name": "team-a"}}})
    assert (turns(context), context.knowledge.opted_in) == ({Key(Scope.NAMESPACE, "team-a")}, set())


def test_an_aggregator_that_is_lost_is_told_to_every_monitor_and_what_it_said_is_void(context):
    context.knowledge.monitors = {("team-a", "llm"): KnownMonitor(1, "", "llm")}
    context.knowledge.verdicts = {("team-a", "llm", JOB_UID): a_verdict()}
    context.knowledge.aggregator = Aggregator(since=900.0)

    loops._lose(context, "refused")

    assert (context.knowledge.verdicts, context.knowledge.aggregator) == ({}, Aggregator("refused", 900.0))
    assert turns(context) == {LLM}


AN_AGENT = {"metadata": {"namespace": "team-a", "name": "rankbeat-agent-1"}, "data": {"a": "b"}}


def at(version: str) -> dict:
    return {"metadata": {**AN_AGENT["metadata"], "resourceVersion": version}}


def test_a_config_map_is_not_asked_for_while_its_version_is_that_at_which_it_was_as_desired(context):
    assert not listed.is_intact(context, AN_AGENT)

    listed.note_intact(context, AN_AGENT, at("7"))

    assert listed.is_intact(context, AN_AGENT)
    assert not listed.is_intact(context, {**AN_AGENT, "data": {"a": "c"}})


@pytest.mark.parametrize("versions", [{"rankbeat-agent-1": "8"}, {}], ids=["changed", "gone"])
def test_a_config_map_that_a_list_shows_otherwise_is_asked_for(context, versions):
    listed.note_intact(context, AN_AGENT, at("7"))

    context.knowledge.config_maps["team-a"] = versions

    assert not listed.is_intact(context, AN_AGENT)


def test_the_namespace_of_a_new_monitor_is_looked_at_afresh(context):
    context.knowledge.namespaces["team-a"] = {"metadata": {"name": "team-a"}}
    agent = tenants.agent("team-a", context.agent)
    listed.note_intact(context, agent, {"metadata": {"resourceVersion": "7"}})

    watching.note_monitor(context, monitor_event())
    context.knowledge.config_maps["team-a"] = {agent["metadata"]["name"]: "7"}

    assert "team-a" not in context.knowledge.namespaces
    assert not listed.is_intact(context, agent)


@pytest.mark.parametrize(
    ("signs", "problem"),
    [
        pytest.param({}, "", id="just started"),
        pytest.param({"resync": 1000.0, "verdicts": 1000.0}, "", id="at work"),
        pytest.param({"stale_since": 900.0}, "", id="a watch a little behind"),
        pytest.param({"stale_since": 800.0}, "watch of TrainingMonitors is stale since 200 s", id="stale watch"),
        pytest.param({"resync": 800.0}, "last resync is 200 s ago", id="no resync"),
        pytest.param({"verdicts": 800.0}, "aggregator was last asked 200 s ago", id="no poll"),
    ],
)
def test_the_operator_is_unwell_when_a_loop_or_a_watch_stands_still(context, signs, problem):
    for name, value in signs.items():
        setattr(context.health, name, value)

    assert health.problem(context) == problem


def test_a_reconcile_that_does_not_end_is_named(context, clock):
    context.keys.add(LLM)
    context.keys._take()
    clock.now += 181

    assert "llm" in health.problem(context)
