"""Pods, monitors and views for tests of the webhook, with good defaults."""

from __future__ import annotations

import copy
import datetime as dt
import ipaddress
import json
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rankbeat_webhook.model import jobs, monitors, plans, pods
from rankbeat_webhook.patch import decisions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

AGENT = "0123456789"
SETTINGS = plans.Settings(
    agent=AGENT,
    items=(
        {"key": "rankbeat_agent____init__.py", "path": "rankbeat_agent/__init__.py"},
        {"key": "sitecustomize.py", "path": "sitecustomize.py"},
    ),
    sidecar=plans.Sidecar("rankbeat/node:1", pull_secrets=("mirror",)),
)
SERVER = (1, 36)
WRAPPER = 'export PYTHONPATH="/rankbeat/agent${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"'
JOB_UID = "9c0b4c6e-0000-4000-8000-000000000001"


def a_container(name: str = "train", **fields: Any) -> dict[str, Any]:
    """A container as kubectl would send it; a field given as None is left out."""
    made = {"name": name, "image": "train:1", "command": ["bash", "-c", "msrun train.py"], **fields}
    return {key: value for key, value in made.items() if value is not None}


def a_pod(
    *containers: dict[str, Any],
    labels: Mapping[str, str] | None = None,
    owner: Mapping[str, object] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> dict[str, Any]:
    """A pod that has opted in by its label, unless labels say otherwise."""
    metadata: dict[str, Any] = {
        "generateName": "llm-0-",
        "labels": dict({"rankbeat.io/monitor": "llm"} if labels is None else labels),
    }
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    made = {"restartPolicy": "Never", "containers": list(containers or [a_container()]), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}


def a_job_owner(name: str = "llm", uid: str = JOB_UID) -> dict[str, object]:
    """The ownerReference that the Job controller writes."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def a_monitor(name: str = "llm", created: str = "2026-01-01T00:00:00Z", **manifest: Any) -> monitors.Monitor:
    """A monitor of Job llm in team-a; spec and status as in its manifest."""
    spec = {"workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "llm"}} | manifest.pop("spec", {})
    if "podSelector" in spec:
        del spec["workloadRef"]
    metadata = {"namespace": "team-a", "name": name, "creationTimestamp": created}
    return monitors.monitor({"metadata": metadata, "spec": spec, "status": manifest.pop("status", {})})


def a_job(**spec: object) -> jobs.Job:
    """The Job that a_job_owner points at."""
    return jobs.job({"metadata": {"uid": JOB_UID, "name": "llm"}, "spec": spec})


def a_view(
    *known: monitors.Monitor,
    switch: str = "enabled",
    job: jobs.Job | None = None,
    opted_in: bool | None = None,
    server: tuple[int, int] | None = SERVER,
) -> plans.View:
    """What the caches know."""
    return plans.View(switch, known, job, opted_in, server)


def wanting(job: jobs.Job | None = None, server: tuple[int, int] | None = SERVER, **spec: object) -> plans.View:
    """What the caches know where the monitor has these fields."""
    return a_view(a_monitor(spec=spec), job=job, server=server)


DIRECT = ["msrun", "--worker_num", "2", "train.py"]
KNOWN = a_view(a_monitor())
RETRIED = a_view(a_monitor(), job=a_job(backoffLimit=6))
NAMES_SH = a_view(a_monitor(spec={"injection": {"shell": "/bin/sh"}}))


def with_status(**injection: object) -> plans.View:
    """The monitor with this status.injection."""
    return a_view(a_monitor(status={"injection": injection}))


def without_command(**fields: Any) -> dict[str, Any]:
    """A pod whose image's entrypoint runs."""
    return a_pod(a_container(command=None, **fields))


def direct(**fields: Any) -> dict[str, Any]:
    """A Job's pod that starts a program without a shell."""
    return a_pod(a_container(command=DIRECT, **fields), owner=a_job_owner())


def decided(
    manifest: Mapping[str, object], view: plans.View | None = None, settings: plans.Settings = SETTINGS
) -> plans.Decision:
    """The decision on a pod of team-a."""
    return decisions.decision(pods.pod("team-a", manifest), settings, view or a_view(a_monitor()))


def patched(manifest: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The pod after the operations, by RFC 6902 as the API server reads it; add and replace only."""
    root: dict[str, Any] = json.loads(json.dumps(manifest))
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target: Any = root
        for part in parents:
            target = target[int(part) if isinstance(target, list) else part]
        value = copy.deepcopy(operation["value"])
        if isinstance(target, list):
            assert (operation["op"], last) == ("add", "-")
            target.append(value)
        else:
            assert operation["op"] == "add" or last in target
            target[last] = value
    return root


def report(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The annotation that the operator reads."""
    said: dict[str, Any] = json.loads(manifest["metadata"]["annotations"]["rankbeat.io/injection"])
    return said


def a_review(manifest: Mapping[str, object], namespace: str = "team-a", **request: object) -> dict[str, Any]:
    """What the API server posts."""
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "object": manifest,
        "oldObject": None,
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}


def write_certificate(folder: Path, name: str = "localhost") -> bytes:
    """A self-signed pair for 127.0.0.1 and name as tls.crt and tls.key in folder; the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "tls.crt").write_bytes(pem)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "tls.key").write_bytes(private)
    return pem
