"""kopf's part: watches, whose events put keys into the queue. Spies only: no object ever gets a finalizer of ours."""

import logging
from typing import Any

import kopf

from rankbeat_contract import names
from rankbeat_operator.handlers import listed
from rankbeat_operator.handlers.context import Context, Key, Scope, known_monitor
from rankbeat_operator.model.manifests import Manifest, labels

MONITORS = (names.GROUP, names.VERSION, names.PLURAL)
PODS = ("", "v1", "pods")
JOBS = ("batch", "v1", "jobs")
NAMESPACES = ("", "v1", "namespaces")


def settings() -> kopf.OperatorSettings:
    """Watches that the server filters, and nothing of kopf's defaults that another operator could share."""
    chosen = kopf.OperatorSettings()
    chosen.watching.label_selectors[PODS] = names.LABEL_STATE
    chosen.watching.label_selectors[NAMESPACES] = f"{names.LABEL_INJECT}=enabled"
    chosen.watching.chunk_size = 500
    chosen.persistence.finalizer = f"{names.GROUP}/never-set"
    chosen.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"kopf.{names.GROUP}")
    chosen.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f"kopf.{names.GROUP}")
    chosen.posting.level = logging.WARNING
    chosen.networking.request_timeout = 30.0
    chosen.networking.connect_timeout = 5.0
    chosen.execution.max_workers = 2
    return chosen


def registry(context: Context) -> kopf.OperatorRegistry:
    """The spies, bound to one operator."""
    spies = kopf.OperatorRegistry()

    @kopf.on.login(registry=spies)
    def login(**event: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_via_client(**event)

    @kopf.on.event(*MONITORS, registry=spies)
    async def monitor_changed(event: Manifest, **_: object) -> None:
        note_monitor(context, event)

    @kopf.on.event(*PODS, registry=spies)
    async def pod_changed(body: Manifest, **_: object) -> None:
        note_pod(context, body)

    @kopf.on.event(*JOBS, registry=spies)
    async def job_changed(body: Manifest, **_: object) -> None:
        _add_targeting(context, body["metadata"]["namespace"], body["metadata"]["name"])

    @kopf.on.event(*NAMESPACES, registry=spies)
    async def namespace_changed(event: Manifest, **_: object) -> None:
        note_namespace(context, event)

    return spies


def note_monitor(context: Context, event: Manifest) -> None:
    """A monitor came, went, or changed in more than its status."""
    manifest, known = event["object"], context.knowledge.monitors
    metadata = manifest["metadata"]
    place, key = (metadata["namespace"], metadata["name"]), Key(Scope.MONITOR, metadata["namespace"], metadata["name"])
    if event["type"] == "DELETED":
        known.pop(place, None)
        context.keys.forget(key)
        context.status_writes.pop(metadata["uid"], None)
        context.keys.add(Key(Scope.NAMESPACE, metadata["namespace"]))
        return
    seen = known_monitor(manifest)
    if place not in known:
        listed.forget_namespace(context, place[0])
    if known.get(place) != seen:
        known[place] = seen
        context.keys.add(key)


def note_pod(context: Context, pod: Manifest) -> None:
    """A pod that the webhook saw came, went or changed."""
    _add_targeting(context, pod["metadata"]["namespace"], labels(pod).get("batch.kubernetes.io/job-name", ""))


def note_namespace(context: Context, event: Manifest) -> None:
    """A namespace opted in, or out: the server's filter makes a DELETED of the latter."""
    namespace, opted_in = event["object"]["metadata"]["name"], context.knowledge.opted_in
    is_opted_in = event["type"] != "DELETED"
    if is_opted_in == (namespace in opted_in):
        return
    if is_opted_in:
        opted_in.add(namespace)
    else:
        opted_in.discard(namespace)
    listed.forget_namespace(context, namespace)
    context.keys.add(Key(Scope.NAMESPACE, namespace))
    _add_targeting(context, namespace, None)


def _add_targeting(context: Context, namespace: str, job: str | None) -> None:
    """The namespace's monitors of a job, and those that select by label; all of them if job is None."""
    for name, known in context.knowledge.monitors_of(namespace):
        if job is None or not known.job or known.job == job:
            context.keys.add(Key(Scope.MONITOR, namespace, name))
