"""Rules that hold for every pod: all or nothing, once, and nothing of others touched."""

from hypothesis import given, settings
from hypothesis import strategies as st

import webhook_builders as build
from rankbeat_webhook.model import jobs

NAMES = st.sampled_from(["A", "B.C", "PYTHONPATH", "RANKBEAT_RING_DIR", "IFS", "HOME"])
ENV = st.lists(
    st.one_of(
        st.builds(lambda name, value: {"name": name, "value": value}, NAMES, st.sampled_from(["", "/x", "$(A)"])),
        st.builds(lambda name: {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, NAMES),
    ),
    max_size=4,
)
COMMANDS = st.sampled_from([None, ["sh"], ["bash", "-c", "x"], ["msrun", "a"], ["/opt/dash"]])
MOUNTS = st.lists(
    st.sampled_from(["/data", "/rankbeat", "/rankbeat/ring", "/rankbeats"]).map(
        lambda path: {"name": "data", "mountPath": path}
    ),
    max_size=2,
)
CONTAINERS = st.builds(
    lambda name, command, env, mounts, source: build.a_container(
        name, command=command, env=env or None, volumeMounts=mounts or None, envFrom=source
    ),
    st.sampled_from(["train", "ascend", "log"]),
    COMMANDS,
    ENV,
    MOUNTS,
    st.sampled_from([None, [{"secretRef": {"name": "s"}}], [{"prefix": "a-", "secretRef": {"name": "s"}}]]),
)
LABELS = st.dictionaries(
    st.sampled_from(["rankbeat.io/monitor", "rankbeat.io/inject", "app"]),
    st.sampled_from(["llm", "disabled", "", "Not_A_Name"]),
)
PODS = st.builds(
    lambda containers, labels, annotations, volumes, owner: build.a_pod(
        *containers, labels=labels, annotations=annotations, owner=owner, **({"volumes": volumes} if volumes else {})
    ),
    st.lists(CONTAINERS, min_size=1, max_size=3),
    LABELS,
    st.sampled_from([None, {}, {"a/b": "c"}]),
    st.sampled_from([None, [{"name": "data", "emptyDir": {}}], [{"name": "rankbeat", "emptyDir": {}}]]),
    st.sampled_from([None, build.a_job_owner()]),
)
ASKED = {
    "shell": {"injection": {"shell": "/bin/bash"}},
    "tiers": {"tiers": ["perfFile"]},
    "sidecar": {
        "collector": {"mode": "sidecar"},
        "outputs": {"volume": {"hostPath": {"path": "/x"}}, "files": [{"format": "csv"}]},
    },
    "own volume": {"collector": {"mode": "sidecar"}, "outputs": {"volume": {"name": "data"}}},
}
FIXES = {"msrun": {"fix": ["join", "signals", "exitCode", "nodeRank"]}}


def views(specs):
    return st.builds(
        build.a_view,
        st.sampled_from([*(build.a_monitor(spec=spec) for spec in specs), build.a_monitor("other")]),
        switch=st.sampled_from(["enabled", "enabled", "disabled"]),
        job=st.sampled_from([None, jobs.Job(build.JOB_UID, allows_retry=True, pods=2)]),
        opted_in=st.sampled_from([True, False, None]),
        server=st.sampled_from([(1, 28), (1, 36), None]),
    )


VIEWS = views([{}, *ASKED.values()])
MENDING = views([spec | FIXES for spec in ({}, *ASKED.values())])
OURS = {"rankbeat", "rankbeat-agent", "rankbeat-config"}


@given(PODS, st.one_of(VIEWS, MENDING))
@settings(max_examples=200, deadline=None)
def test_a_patched_pod_is_not_patched_again(manifest, view):
    after = build.patched(manifest, build.decided(manifest, view).operations)

    assert build.decided(after, view).operations == ()


@given(PODS, st.one_of(VIEWS, MENDING))
@settings(max_examples=200, deadline=None)
def test_not_even_without_our_label(manifest, view):
    """Another webhook may write labels anew."""
    decision = build.decided(manifest, view)
    after = build.patched(manifest, decision.operations)
    if decision.operations:
        del after["metadata"]["labels"]["rankbeat.io/state"]

    if decision.result in {"Injected", "InjectedPerfFile"}:
        assert build.decided(after, view).operations == ()


@given(PODS, st.one_of(VIEWS, MENDING))
@settings(max_examples=200, deadline=None)
def test_injection_is_whole_or_absent(manifest, view):
    decision = build.decided(manifest, view)
    after = build.patched(manifest, decision.operations)

    changed = [
        one for one, two in zip(manifest["spec"]["containers"], after["spec"]["containers"], strict=True) if one != two
    ]
    added = [each["name"] for each in after["spec"].get("volumes", [])[len(manifest["spec"].get("volumes", [])) :]]
    has_sidecar = decision.more.get("sidecar", {}).get("result") == "Injected"
    expected = {
        "Injected": (1, OURS | ({"rankbeat-outputs"} if has_sidecar and "rankbeat-outputs" in added else set())),
        "InjectedPerfFile": (1, {"rankbeat-perf"}),
    }
    assert (len(changed), set(added)) == expected.get(decision.result, (0, set()))
    sidecars = [each["name"] for each in after["spec"].get("initContainers", [])]
    assert sidecars == (["rankbeat-collector"] if has_sidecar else [])
    mounted = {each["name"] for each in after["spec"].get("volumes", [])}
    for each in after["spec"].get("initContainers", []):
        assert {mount["name"] for mount in each["volumeMounts"]} <= mounted


@given(PODS, VIEWS)
@settings(max_examples=100, deadline=None)
def test_what_others_wrote_keeps_its_place(manifest, view):
    after = build.patched(manifest, build.decided(manifest, view).operations)

    for one, two in zip(manifest["spec"]["containers"], after["spec"]["containers"], strict=True):
        mine = [each["name"] for each in one.get("env", [])]
        assert [each["name"] for each in two.get("env", [])][: len(mine)] == mine
        assert two.get("volumeMounts", [])[: len(one.get("volumeMounts", []))] == one.get("volumeMounts", [])
        assert two.get("command", [])[-len(one.get("command", [])) :] == one.get("command", [])
        assert {key: each for key, each in two.items() if key not in {"env", "command", "volumeMounts"}} == {
            key: each for key, each in one.items() if key not in {"env", "command", "volumeMounts"}
        }
