"""The real program behind a real API server: who is patched, who never waits for us, and what happens without us."""

import base64
import json
import signal
import socket
import time

import pytest
from kubernetes.dynamic import exceptions

import webhook_builders as build
import webhook_install as install
from rankbeat_cluster import ports

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def ports_block():
    """Ports of our own."""
    with ports.block() as first:
        yield first


@pytest.fixture(scope="module")
def installed(kube, control_plane, ports_block, tmp_path_factory):
    """The program, and the chart's configuration with its URL."""
    folder = tmp_path_factory.mktemp("webhook")
    configuration = install.apply_release(kube, folder)
    switch(kube, "enabled")
    program = install.Program(folder, install.account_kubeconfig(kube, control_plane, folder), ports_block)
    program.start()
    bundle = base64.b64encode(program.pem).decode()
    for each in configuration["webhooks"]:
        each["clientConfig"] = {"url": f"https://127.0.0.1:{program.port}/v1/pods", "caBundle": bundle}
    kube.apply(configuration)
    install.wait("first patch", lambda: is_seen(create(kube, "default", build.a_pod(), dry_run="All")))
    yield program
    if program.process.poll() is None:
        assert program.stop() == 0
    install.delete_admission(kube)


def create(kube, namespace, manifest, **options):
    return kube.resource("v1", "Pod").create(body=manifest, namespace=namespace, **options).to_dict()


def switch(kube, value):
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "rankbeat-fleet", "namespace": install.RELEASE},
            "data": {"injection": value},
        }
    )


def a_monitor_object(namespace, name="llm", **spec):
    target = {"workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": name}}
    return {
        "apiVersion": "rankbeat.io/v1alpha1",
        "kind": "TrainingMonitor",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec if "podSelector" in spec else target | spec,
    }


def a_job_object(namespace, command, labels=None, **spec):
    template = build.a_pod(build.a_container(command=command), labels=labels or {})
    del template["metadata"]["generateName"], template["apiVersion"], template["kind"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llm", "namespace": namespace},
        "spec": {"template": template, **spec},
    }


def is_seen(pod):
    return "rankbeat.io/state" in pod["metadata"].get("labels", {})


def result(pod):
    return build.report(pod)["result"]


def test_a_pod_that_names_its_monitor_is_injected(kube, installed):
    namespace = kube.namespace()

    pod = create(kube, namespace, build.a_pod())

    assert result(pod) == "Injected"
    container = pod["spec"]["containers"][0]
    assert container["command"] == ["bash", "-c", build.WRAPPER, "rankbeat", "bash", "-c", "msrun train.py"]
    mounts = [each["name"] for each in container["volumeMounts"] if "serviceaccount" not in each["mountPath"]]
    assert mounts == ["rankbeat-agent", "rankbeat-config", "rankbeat"]
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    assert volumes["rankbeat"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Mi"}
    assert volumes["rankbeat-config"]["configMap"]["name"] == "rankbeat-config-llm"
    agent = volumes["rankbeat-agent"]["configMap"]
    assert agent["name"] == f"rankbeat-agent-{build.report(pod)['agent']}"
    assert {"key": "sitecustomize.py", "path": "sitecustomize.py"} in agent["items"]


def test_a_pod_that_a_monitor_of_an_opted_in_namespace_selects_is_injected(kube, installed):
    namespace = kube.namespace({"rankbeat.io/inject": "enabled"})
    kube.apply(a_monitor_object(namespace, podSelector={"matchLabels": {"app": "llm"}}))

    install.wait(
        "injected", lambda: is_seen(create(kube, namespace, build.a_pod(labels={"app": "llm"}), dry_run="All"))
    )

    assert not is_seen(create(kube, namespace, build.a_pod(labels={"app": "other"})))


NEVER = {
    "no opt-in": ({}, {"app": "llm"}),
    "opted out": ({}, {"rankbeat.io/monitor": "llm", "rankbeat.io/inject": "disabled"}),
    "opted out of an opted-in namespace": ({"rankbeat.io/inject": "enabled"}, {"rankbeat.io/inject": "disabled"}),
    "seen before": ({"rankbeat.io/inject": "enabled"}, {"rankbeat.io/monitor": "llm", "rankbeat.io/state": "injected"}),
}


@pytest.mark.parametrize(("namespace_labels", "labels"), NEVER.values(), ids=NEVER.keys())
def test_who_did_not_opt_in_never_reaches_us(kube, installed, namespace_labels, labels):
    namespace = kube.namespace(namespace_labels)
    before = installed.calls()

    pod = create(kube, namespace, build.a_pod(labels=labels))

    assert installed.calls() == before
    assert pod["metadata"]["labels"] == labels
    assert "rankbeat" not in json.dumps(pod["spec"])


@pytest.mark.parametrize("namespace", ["kube-system", install.RELEASE])
def test_system_and_release_namespaces_never_reach_us(kube, installed, namespace):
    before = installed.calls()

    create(kube, namespace, build.a_pod(), dry_run="All")

    assert installed.calls() == before


def test_a_server_dry_run_shows_the_patch_and_stores_nothing(kube, installed):
    namespace = kube.namespace()

    assert result(create(kube, namespace, build.a_pod(), dry_run="All")) == "Injected"

    assert kube.resource("v1", "Pod").get(namespace=namespace).items == []


def pods_of_job(kube, namespace, count):
    pods = kube.resource("v1", "Pod")
    install.wait(f"{count} pods", lambda: len(pods.get(namespace=namespace).items) == count)
    return [each.to_dict() for each in pods.get(namespace=namespace).items]


def test_the_pods_of_a_job_are_decided_alike_from_the_first_one_on(kube, installed):
    namespace = kube.namespace()
    labels = {"rankbeat.io/monitor": "llm"}
    shape = {"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimit": 6}

    kube.apply(a_job_object(namespace, build.DIRECT, labels, **shape))

    pods = pods_of_job(kube, namespace, 3)
    assert [result(each) for each in pods] == ["Injected"] * 3
    assert {each["spec"]["containers"][0]["command"][0] for each in pods} == {"/bin/sh"}


def test_a_job_that_never_retries_keeps_its_command_and_is_told_the_remedy(kube, installed):
    namespace = kube.namespace()

    kube.apply(a_job_object(namespace, build.DIRECT, {"rankbeat.io/monitor": "llm"}, backoffLimit=0))

    pod = pods_of_job(kube, namespace, 1)[0]
    assert pod["spec"]["containers"][0]["command"] == build.DIRECT
    assert result(pod) == "ShellNotProven"
    assert "sh -c" in build.report(pod)["message"]


def test_a_job_selected_by_reference_in_an_opted_in_namespace_is_injected(kube, installed):
    namespace = kube.namespace({"rankbeat.io/inject": "enabled"})
    kube.apply(a_monitor_object(namespace, injection={"shell": "/bin/bash"}))

    kube.apply(a_job_object(namespace, build.DIRECT, backoffLimit=0))

    pod = pods_of_job(kube, namespace, 1)[0]
    assert (result(pod), pod["spec"]["containers"][0]["command"][0]) == ("Injected", "/bin/bash")


def test_the_breaker_keeps_new_pods_as_they_are(kube, installed):
    namespace = kube.namespace()
    kube.apply(a_monitor_object(namespace))
    plan = {"mode": "blocked", "reason": "StartError", "message": "pods could not start", "breaker": {"open": True}}
    body = a_monitor_object(namespace) | {"status": {"injection": plan}}
    monitors = kube.resource("rankbeat.io/v1alpha1", "TrainingMonitor")
    monitors.status.patch(body=body, namespace=namespace, name="llm", content_type="application/merge-patch+json")

    install.wait("blocked", lambda: result(create(kube, namespace, build.a_pod(), dry_run="All")) == "BreakerOpen")

    assert build.report(create(kube, namespace, build.a_pod()))["message"] == "pods could not start"


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def test_an_injected_pod_stays_restricted_and_guaranteed(kube, installed):
    namespace = kube.namespace({"pod-security.kubernetes.io/enforce": "restricted"})
    whole = {"cpu": "4", "memory": "8Gi"}
    container = build.a_container(securityContext=RESTRICTED, resources={"requests": whole, "limits": whole})

    pod = create(kube, namespace, build.a_pod(container))

    assert (result(pod), pod["status"]["qosClass"]) == ("Injected", "Guaranteed")


def with_sidecar(kube, namespace, volume):
    """Monitor llm asks for a sidecar that writes files into volume; back when the webhook has read that."""
    wanted = {"volume": volume, "files": [{"format": "jsonl"}]}
    kube.apply(a_monitor_object(namespace, collector={"mode": "sidecar"}, outputs=wanted))
    keys = {"encryption": {"secretName": "k", "key": "a"}, "masking": {"secretName": "k", "key": "b"}}
    kube.apply(a_monitor_object(namespace, "keys", collector={"mode": "sidecar"}, outputs=wanted | keys))
    secure = build.a_pod(build.a_container(securityContext=RESTRICTED))

    def is_read():
        try:
            pod = create(kube, namespace, secure, dry_run="All")
        except exceptions.ForbiddenError:
            return True
        return "initContainers" in pod["spec"]

    install.wait("sidecar", is_read)


@pytest.mark.parametrize("monitor", ["llm", "keys"])
def test_a_pod_with_a_sidecar_stays_restricted_and_guaranteed(kube, installed, monitor):
    namespace = kube.namespace({"pod-security.kubernetes.io/enforce": "restricted"})
    with_sidecar(kube, namespace, {"persistentVolumeClaim": {"claimName": "runs"}})
    some = {"cpu": "1500m", "memory": "8Gi"}
    container = build.a_container(securityContext=RESTRICTED, resources={"requests": some, "limits": some})

    pod = create(kube, namespace, build.a_pod(container, labels={"rankbeat.io/monitor": monitor}))

    assert build.report(pod)["sidecar"] == {"result": "Injected", "message": ""}
    assert pod["status"]["qosClass"] == "Guaranteed"
    (sidecar,) = pod["spec"]["initContainers"]
    assert (sidecar["image"], sidecar["restartPolicy"]) == ("rankbeat/node:test", "Always")
    assert {"name": "mirror"} in pod["spec"]["imagePullSecrets"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [(None, "BestEffort"), ({"requests": {"cpu": "1"}}, "Burstable")],
    ids=["BestEffort", "Burstable"],
)
def test_a_sidecar_changes_no_quality_of_service_class(kube, installed, resources, expected):
    namespace = kube.namespace()
    with_sidecar(kube, namespace, {"persistentVolumeClaim": {"claimName": "runs"}})

    pod = create(kube, namespace, build.a_pod(build.a_container(resources=resources)))

    assert (len(pod["spec"]["initContainers"]), pod["status"]["qosClass"]) == (1, expected)


def test_pod_security_judges_the_tenant_s_host_path_after_us(kube, installed):
    """Nobody gets a folder of the node by way of a monitor who could not have it by way of a pod."""
    namespace = kube.namespace({"pod-security.kubernetes.io/enforce": "restricted"})
    with_sidecar(kube, namespace, {"hostPath": {"path": "/var/runs"}})

    with pytest.raises(exceptions.ForbiddenError) as refused:
        create(kube, namespace, build.a_pod(build.a_container(securityContext=RESTRICTED)))

    assert 'restricted volume types (volume \\"rankbeat-outputs\\" uses restricted volume type \\"hostPath\\")' in str(
        refused.value.body
    )


def test_the_server_takes_a_mended_pod_of_an_indexed_job(kube, installed):
    namespace = kube.namespace()
    kube.apply(a_monitor_object(namespace, msrun={"fix": ["join", "nodeRank", "signals", "exitCode"]}))
    install.wait("read", lambda: "launch.py" in json.dumps(create(kube, namespace, build.a_pod(), dry_run="All")))
    shape = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 6}
    command = ["msrun", "--worker_num=4", "--local_worker_num=2", "train.py"]

    kube.apply(a_job_object(namespace, command, {"rankbeat.io/monitor": "llm"}, **shape))

    for pod in pods_of_job(kube, namespace, 2):
        after = pod["spec"]["containers"][0]["command"]
        assert after[4:7] == ["msrun", "--join=True", "--node_rank=$(JOB_COMPLETION_INDEX)"]
        assert "launch.py signals,exitCode" in after[2]


def test_the_server_takes_a_pod_of_the_tier_perf_file(kube, installed):
    namespace = kube.namespace()
    kube.apply(a_monitor_object(namespace, tiers=["perfFile"]))
    manifest = build.a_pod(build.a_container(command=None))

    install.wait("read", lambda: result(create(kube, namespace, manifest, dry_run="All")) == "InjectedPerfFile")

    assert result(create(kube, namespace, manifest)) == "InjectedPerfFile"


STRATEGIC = {
    "nothing but a command": build.a_pod(),
    "every list there": build.a_pod(
        build.a_container(
            env=[{"name": "A", "value": "1"}], volumeMounts=[{"name": "data", "mountPath": "/data"}], args=["a", ""]
        ),
        annotations={"a.b/c": "d"},
        volumes=[{"name": "data", "emptyDir": {}}],
    ),
    "sidecars on both sides": build.a_pod(
        build.a_container("log"), build.a_container("ascend"), build.a_container("proxy")
    ),
    "a literal path": build.a_pod(build.a_container(command=None, env=[{"name": "PYTHONPATH", "value": "/x"}])),
}


@pytest.mark.parametrize("manifest", STRATEGIC.values(), ids=STRATEGIC.keys())
def test_the_server_reads_our_operations_as_the_unit_tests_do(kube, installed, manifest):
    namespace = kube.namespace()

    pod = create(kube, namespace, manifest)

    expected = build.patched(manifest, build.decided(manifest, build.a_view()).operations)
    for mine, theirs in zip(expected["spec"]["containers"], pod["spec"]["containers"], strict=True):
        assert theirs.get("command") == mine.get("command")
        assert theirs.get("args") == mine.get("args")
        assert theirs.get("env") == mine.get("env")
        mounts = [each for each in theirs["volumeMounts"] if "serviceaccount" not in each["mountPath"]]
        assert mounts == mine.get("volumeMounts", [])
    assert [each["name"] for each in pod["spec"]["volumes"] if not each["name"].startswith("kube-api")] == [
        each["name"] for each in expected["spec"]["volumes"]
    ]


def test_the_kill_switch_works_within_ten_seconds(kube, installed):
    namespace = kube.namespace()

    def now():
        return result(create(kube, namespace, build.a_pod(), dry_run="All"))

    assert now() == "Injected"
    switch(kube, "disabled")
    try:
        seconds = install.wait("turned off", lambda: now() == "InjectionTurnedOff", 10.0)
    finally:
        switch(kube, "enabled")
    install.wait("turned on", lambda: now() == "Injected", 10.0)
    print(f"kill switch after {seconds:.2f} s")


def test_the_caches_follow_again_after_the_api_server_was_away(kube, control_plane, installed):
    namespace = kube.namespace({"rankbeat.io/inject": "enabled"})

    control_plane.restart()

    kube.apply(a_monitor_object(namespace, podSelector={"matchLabels": {"app": "llm"}}))
    pod = build.a_pod(labels={"app": "llm"})
    install.wait("injected", lambda: is_seen(create(kube, namespace, pod, dry_run="All")))
    assert "rankbeat_webhook_cache_stale" in installed.get("/metrics")


@pytest.fixture
def without_agent(kube, control_plane, installed, ports_block, tmp_path):
    """A replica of another version, whose agent the operator has not yet put everywhere."""
    agent = {each.metadata.name for each in kube.resource("v1", "ConfigMap").get(namespace=install.RELEASE).items}
    name = install.agent_sign()["metadata"]["name"]
    assert name in agent
    delete_agent(kube, name)
    second = install.Program(tmp_path, install.account_kubeconfig(kube, control_plane, tmp_path), ports_block + 4)
    second.begin()
    yield second
    if second.process.poll() is None:
        assert second.stop() == 0
    make_agent(kube)


def delete_agent(kube, name):
    kube.resource("v1", "ConfigMap").delete(name=name, namespace=install.RELEASE)


def make_agent(kube):
    """As the operator: a policy lets nobody else."""
    kube.resource("v1", "ConfigMap").server_side_apply(
        body=install.agent_sign(),
        field_manager="rankbeat-monitor",
        force_conflicts=True,
        header_params={"Impersonate-User": install.OPERATOR},
    )


def waiting(program):
    lines = (program.get("/metrics") or "").splitlines()
    return {
        line.split('"')[1] for line in lines if line.startswith("rankbeat_webhook_waiting{") and line.endswith(" 1.0")
    }


def test_a_replica_is_ready_once_its_agent_is_everywhere_and_stays_so(kube, installed, without_agent):
    name = install.agent_sign()["metadata"]["name"]
    install.wait("only the agent is missing", lambda: waiting(without_agent) == {"agent"})
    assert without_agent.get("/readyz") is None
    assert without_agent.get("/healthz") is not None
    install.wait("said so", lambda: "waiting what=agent" in without_agent.log.read_text())
    assert f"ConfigMap {name} is in namespace {install.RELEASE}" in without_agent.log.read_text()
    assert installed.get("/readyz") is not None

    make_agent(kube)

    install.wait("ready", lambda: without_agent.get("/readyz") is not None)
    assert waiting(without_agent) == set()
    delete_agent(kube, name)
    time.sleep(1)
    assert without_agent.get("/readyz") is not None


@pytest.fixture
def without_certificate(kube, control_plane, installed, ports_block, tmp_path):
    """A second program, whose certificate is not there yet."""
    kubeconfig = install.account_kubeconfig(kube, control_plane, tmp_path)
    program = install.Program(tmp_path, kubeconfig, ports_block + 2)
    (tmp_path / "tls.key").unlink()
    program.begin()
    yield program
    if program.process.poll() is None:
        assert program.stop() == 0


def test_the_program_waits_for_its_certificate_and_says_so(without_certificate, tmp_path):
    install.wait("said so", lambda: "certificate missing" in without_certificate.log.read_text())
    assert without_certificate.get("/healthz") is not None
    assert without_certificate.get("/readyz") is None

    build.write_certificate(tmp_path)

    install.wait("ready", lambda: without_certificate.get("/readyz") is not None)


def test_the_program_ends_while_it_waits_for_its_certificate(without_certificate):
    install.wait("said so", lambda: "certificate missing" in without_certificate.log.read_text())

    assert without_certificate.stop() == 0


def timed_create(kube, namespace):
    begun = time.monotonic()
    pod = create(kube, namespace, build.a_pod())
    return pod, time.monotonic() - begun


def test_without_us_pods_are_created_as_they_are_and_in_time(kube, installed):
    namespace = kube.namespace()
    installed.stop(signal.SIGKILL)
    try:
        refused, refused_seconds = timed_create(kube, namespace)
        with socket.create_server(("127.0.0.1", installed.port)):
            silent, silent_seconds = timed_create(kube, namespace)
    finally:
        installed.start()

    assert not is_seen(refused)
    assert not is_seen(silent)
    assert refused_seconds < 1.0
    assert silent_seconds < 3.0
    install.wait("injected again", lambda: is_seen(create(kube, namespace, build.a_pod(), dry_run="All")))
    print(f"refused {refused_seconds:.2f} s, silent {silent_seconds:.2f} s")


def test_an_upgrade_of_the_chart_keeps_the_ca_bundle(kube, control_plane, installed, tmp_path):
    """Helm owns no caBundle, so neither a three-way merge nor a server-side apply takes it away."""
    folder = install.chart(tmp_path / "chart", "webhook-configuration.yaml")
    template = folder / "templates/webhook-configuration.yaml"
    template.write_text(template.read_text().replace("rankbeat-injection", "upgraded").replace("enabled]", "never]"))
    options = ["--kubeconfig", str(control_plane.kubeconfig), "--namespace", kube.namespace()]
    install.helm("install", "rankbeat", str(folder), *options)
    resource = kube.resource("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
    try:
        names = [each.name for each in resource.get(name="upgraded").webhooks]
        own = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "upgraded"},
            "webhooks": [{"name": each, "clientConfig": {"caBundle": "Q0E="}} for each in names],
        }
        kube.apply(own, "rankbeat-cert")

        install.helm("upgrade", "rankbeat", str(folder), "--set", "webhook.timeoutSeconds=1", *options)

        after = resource.get(name="upgraded").webhooks
        assert [(each.timeoutSeconds, each.clientConfig.caBundle) for each in after] == [(1, "Q0E=")] * 2
    finally:
        install.helm("uninstall", "rankbeat", *options)
