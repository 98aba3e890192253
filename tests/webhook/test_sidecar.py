"""spec.collector.mode: sidecar: what is added, what never is, and who gets none."""

import pytest

import webhook_builders as build
from rankbeat_contract import names
from rankbeat_webhook.model import plans, pods
from rankbeat_webhook.patch import quality

CLAIM = {"persistentVolumeClaim": {"claimName": "runs"}}
SIDECAR = {"mode": "sidecar"}


def field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def outputs(**more):
    return {"volume": CLAIM, "files": [{"format": "jsonl"}], **more}


def injected(manifest, *, server=build.SERVER, settings=build.SETTINGS, wanted=None):
    """The pod after injection, and what the annotation says of the sidecar."""
    view = build.wanting(server=server, collector=SIDECAR, outputs=outputs() if wanted is None else wanted)
    decision = build.decided(manifest, view, settings)
    assert decision.result == "Injected", decision
    after = build.patched(manifest, decision.operations)
    return after["spec"], build.report(after)["sidecar"]


def pod(containers=None, **spec):
    return build.a_pod(*(containers or [build.a_container()]), **spec)


ENV = [
    {"name": "RANKBEAT_RING_DIR", "value": "/rankbeat/ring"},
    {"name": "RANKBEAT_CONFIG", "value": "/rankbeat/config/monitor.json"},
]
IDENTITY = [
    field("POD_NAME", "metadata.name"),
    field("POD_NAMESPACE", "metadata.namespace"),
    field("POD_UID", "metadata.uid"),
    field("NODE_NAME", "spec.nodeName"),
]
OWN_MOUNTS = [
    {"name": "rankbeat-config", "mountPath": "/rankbeat/config", "readOnly": True},
    {"name": "rankbeat", "mountPath": "/rankbeat/ring"},
]


def test_the_whole_sidecar():
    spec, said = injected(pod(initContainers=[build.a_container("init")], imagePullSecrets=[{"name": "own"}]))

    assert spec["initContainers"] == [
        build.a_container("init"),
        {
            "name": "rankbeat-collector",
            "image": "rankbeat/node:1",
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-m", "rankbeat_collector", "sidecar"],
            "args": ["--status-file", "/rankbeat/ring/outputs.json"],
            "env": [*ENV, {"name": "RANKBEAT_OUT", "value": names.OUTPUT_PATH}, *IDENTITY],
            "restartPolicy": "Always",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumeMounts": [*OWN_MOUNTS, {"name": "rankbeat-outputs", "mountPath": names.OUTPUT_PATH}],
        },
    ]
    assert spec["volumes"][-1] == {"name": "rankbeat-outputs", **CLAIM}
    assert spec["imagePullSecrets"] == [{"name": "own"}, {"name": "mirror"}]
    assert said == {"result": "Injected", "message": ""}


def test_without_a_wish_nothing_is_added():
    after = build.patched(pod(), build.decided(pod()).operations)

    assert "initContainers" not in after["spec"]
    assert "imagePullSecrets" not in after["spec"]
    assert "sidecar" not in build.report(after)


def test_a_pull_secret_that_is_there_is_not_named_twice():
    spec, _ = injected(pod(imagePullSecrets=[{"name": "mirror"}]))

    assert spec["imagePullSecrets"] == [{"name": "mirror"}]


@pytest.mark.parametrize(
    ("volume", "added", "mounted"),
    [
        ({"name": "data"}, [], "data"),
        (
            {"hostPath": {"path": "/runs"}},
            [{"name": "rankbeat-outputs", "hostPath": {"path": "/runs"}}],
            "rankbeat-outputs",
        ),
        (None, [], None),
    ],
    ids=["the pod's own", "hostPath", "none"],
)
def test_the_output_volume_is_the_tenant_s(volume, added, mounted):
    data = {"name": "data", "emptyDir": {}}
    wanted = {"http": {"url": "http://x"}} if volume is None else outputs(volume=volume)
    spec, _ = injected(pod(volumes=[data]), wanted=wanted)

    (made,) = spec["initContainers"]
    assert spec["volumes"][4:] == added
    assert [each["name"] for each in made["volumeMounts"] if each["mountPath"] == names.OUTPUT_PATH] == (
        [mounted] if mounted else []
    )
    assert ({"name": "RANKBEAT_OUT", "value": names.OUTPUT_PATH} in made["env"]) is bool(mounted)


def test_keys_are_the_tenant_s_secrets_mounted_and_never_read_by_us():
    wanted = outputs(encryption={"secretName": "a", "key": "files"}, masking={"secretName": "b", "key": "m"})
    spec, _ = injected(pod(), wanted=wanted)

    assert spec["volumes"][-1] == {
        "name": "rankbeat-keys",
        "projected": {
            "sources": [
                {"secret": {"name": "a", "items": [{"key": "files", "path": "encryption"}], "optional": True}},
                {"secret": {"name": "b", "items": [{"key": "m", "path": "masking"}], "optional": True}},
            ],
            "defaultMode": 0o444,
        },
    }
    assert spec["initContainers"][0]["volumeMounts"][-1] == {
        "name": "rankbeat-keys",
        "mountPath": names.KEYS_PATH,
        "readOnly": True,
    }
    assert all(each["name"] != "rankbeat-keys" for each in spec["containers"][0]["volumeMounts"])


@pytest.mark.parametrize(
    ("own", "whole", "user"),
    [
        ({"runAsUser": 1000, "runAsGroup": 100}, {}, {"runAsUser": 1000, "runAsGroup": 100}),
        ({"runAsUser": 1000}, {"runAsUser": 5}, {"runAsUser": 1000}),
        (None, {"runAsUser": 5}, {}),
        ({"runAsUser": 0}, {"runAsUser": 5}, {"runAsUser": 65532, "runAsGroup": 65532}),
        (None, {"runAsUser": 0}, {"runAsUser": 65532, "runAsGroup": 65532}),
    ],
    ids=["the container's", "the container's before the pod's", "the pod's", "never root", "never the pod's root"],
)
def test_it_runs_as_the_user_that_trains(own, whole, user):
    spec, _ = injected(pod([build.a_container(securityContext=own)], securityContext=whole))

    context = spec["initContainers"][0]["securityContext"]
    assert {key: context[key] for key in ("runAsUser", "runAsGroup") if key in context} == user
    assert context["runAsNonRoot"] is True


def asks(cpu, memory, /, **limits):
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": limits or {"cpu": cpu, "memory": memory}}


QUALITIES = {
    "BestEffort": ([None], "BestEffort"),
    "only a GPU": ([{"limits": {"nvidia.com/gpu": "1"}}], "BestEffort"),
    "Guaranteed": ([asks("1500m", "2Gi")], "Guaranteed"),
    "Guaranteed in other words": ([asks("1500m", "2Gi", cpu="1.5", memory="2097152Ki")], "Guaranteed"),
    "limits alone": ([{"limits": {"cpu": "1500m", "memory": "2Gi"}}], "Guaranteed"),
    "one of two without": ([asks("1500m", "2Gi"), None], "Burstable"),
    "no memory": ([{"limits": {"cpu": "1500m"}}], "Burstable"),
    "requests below": ([asks("1", "2Gi", cpu="2", memory="2Gi")], "Burstable"),
}


@pytest.mark.parametrize(("asked", "expected"), QUALITIES.values(), ids=QUALITIES.keys())
def test_the_quality_of_service_class_stays_what_it_is(asked, expected):
    manifest = pod([build.a_container(f"c{number}", resources=each) for number, each in enumerate(asked)])
    spec, _ = injected(manifest)

    assert quality.quality(pods.pod("team-a", manifest)) == expected
    assert quality.quality(pods.pod("team-a", {**manifest, "spec": spec})) == expected


def test_a_pod_with_resources_of_its_own_is_asked_for_nothing_more():
    spec, _ = injected(pod(resources=asks("1500m", "2Gi")))

    assert "resources" not in spec["initContainers"][0]


def test_no_port_is_opened():
    spec, _ = injected(pod(hostNetwork=True))

    assert "ports" not in spec["initContainers"][0]


OFF = plans.Settings(build.AGENT, build.SETTINGS.items)
REFUSED = {
    "an old server": ({"server": (1, 28)}, pod(), "SidecarNotSupported"),
    "a server nobody knows": ({"server": None}, pod(), "SidecarNotSupported"),
    "turned off": ({"settings": OFF}, pod(), "SidecarTurnedOff"),
    "exclusive CPUs": ({}, pod([build.a_container(resources=asks("8", "2Gi"))]), "ExclusiveCPUs"),
    "exclusive CPUs of another container": (
        {},
        pod([build.a_container(resources=asks("1500m", "2Gi")), build.a_container("b", resources=asks("2", "1Gi"))]),
        "ExclusiveCPUs",
    ),
    "a volume that is not there": ({"wanted": outputs(volume={"name": "data"})}, pod(), "NoSuchVolume"),
    "a volume of our name": ({}, pod(volumes=[{"name": "rankbeat-outputs", "emptyDir": {}}]), "MountTaken"),
    "a container of our name": ({}, pod(initContainers=[build.a_container("rankbeat-collector")]), "MountTaken"),
}


@pytest.mark.parametrize(("how", "manifest", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_that_gets_no_sidecar_gets_the_agent_and_says_why(how, manifest, reason):
    spec, said = injected(manifest, **how)

    assert said["result"] == reason
    assert said["message"]
    assert spec.get("initContainers") == manifest["spec"].get("initContainers")
    assert spec.get("imagePullSecrets") is None
    assert [each["name"] for each in spec["volumes"]][-3:] == ["rankbeat-agent", "rankbeat-config", "rankbeat"]


@pytest.mark.parametrize(("server", "settled"), [(None, False), ((1, 28), True), ((1, 36), True)])
def test_the_server_s_version_is_waited_for(server, settled):
    view = build.wanting(server=server, collector=SIDECAR)

    assert build.decided(pod(), view).is_settled is settled


def test_whole_cpus_without_the_guarantee_are_shared_anyway():
    burstable = build.a_container(resources={"requests": {"cpu": "8"}})

    assert injected(pod([burstable]))[1]["result"] == "Injected"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("500m", 0.5),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000),
        ("2Ki", 2048),
        ("1M", 1e6),
        ("1u", 1e-6),
        ("x", 0),
    ],
)
def test_quantities_are_numbers(text, number):
    assert float(quality.quantity(text)) == number
