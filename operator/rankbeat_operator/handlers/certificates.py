"""Certificates of the release and the scrapers' token: read what is held, take one step, write so that nobody fails."""

import base64
import logging
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from rankbeat_contract import names
from rankbeat_operator.errors import InvalidFleetError
from rankbeat_operator.handlers.context import Context
from rankbeat_operator.kube import files, kinds, pki
from rankbeat_operator.kube.pki import Pair
from rankbeat_operator.model.fleet import Metrics
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.plan import certificates
from rankbeat_operator.plan.certificates import Authority, Held, Wanted
from rankbeat_operator.plan.fleet import metrics as serving
from rankbeat_operator.plan.fleet import pods
from rankbeat_operator.plan.fleet.pods import Release

LOG = logging.getLogger(__name__)

CA_SECRET = "rankbeat-ca-key"  # noqa: S105 the Secret's name
WEBHOOK_CONFIGURATION = "rankbeat-injection"
_AUTHORITIES = ("ca", "next", "previous")


@dataclass(frozen=True, slots=True)
class Store:
    """Key pairs as they are stored: authorities by _AUTHORITIES, serving ones by Secret."""

    authorities: dict[str, Pair] = field(default_factory=dict)
    serving: dict[str, Pair] = field(default_factory=dict)

    @property
    def bundle(self) -> str:
        """All authorities to trust, PEM."""
        return "".join(self.authorities[name].certificate for name in _AUTHORITIES if name in self.authorities)


async def reconcile(context: Context) -> None:
    """Authorities, bundle, caBundle, certificates; in this order, so that who trusts knows before who serves.

    All of it is owned by the install's ConfigMap: `helm uninstall` takes it along. Without that nothing is made.

    Raises: ApiError.
    """
    namespace = context.settings.namespace
    chart = await context.cluster.found(kinds.CONFIG_MAPS, names.FLEET_CONFIG_MAP, namespace, metadata_only=True)
    if chart is None:
        LOG.debug("no certificates, the install is not there config_map=%s", names.FLEET_CONFIG_MAP)
        return
    release, metrics = Release(namespace, chart["metadata"]["uid"]), _metrics(context)
    wanted = certificates.wanted(metrics, namespace)
    held = {name: await context.cluster.found(kinds.SECRETS, name, namespace) for name in (CA_SECRET, *wanted)}
    strange = {name for name, secret in held.items() if not _is_owned(secret, release)}
    store = await _stepped_store(context, release, _store(held, wanted), strange)
    await context.cluster.apply(_ca_config_map(release, store.bundle), names.MANAGER_CERT)
    await _write_ca_bundle(context, store.bundle)
    context.knowledge.authorities = store.bundle
    await _issue(context, release, store, wanted, strange)
    if metrics.asks_for_token and not metrics.token_secret:
        await _keep_token(context, release)


async def _stepped_store(context: Context, release: Release, store: Store, strange: set[str]) -> Store:
    """The store after one step with the authorities. strange: Secrets that are not the release's own (yet)."""
    now = context.wall()
    step = certificates.authority_step(_held(store), now)
    store = replace(store, authorities=_stepped(store.authorities, step, now))
    if step is not Authority.KEEP or CA_SECRET in strange:
        await context.cluster.apply(_ca_secret(release, store), names.MANAGER_CERT)
        LOG.info("authorities written step=%s", step.value)
    return store


async def _issue(
    context: Context, release: Release, store: Store, wanted: Mapping[str, Wanted], strange: set[str]
) -> None:
    """Certificates that are due, and good ones that the release does not own."""
    now = context.wall()
    due = certificates.due_serving(_held(store), wanted, now)
    for name in due:
        make = pki.client if wanted[name].is_client else pki.serving
        store.serving[name] = make(store.authorities["ca"], wanted[name].hosts, now)
    for name in (name for name in wanted if name in {*due, *strange}):
        await context.cluster.apply(_tls_secret(release, name, store.serving[name]), names.MANAGER_CERT)
        LOG.info("certificate written secret=%s new=%s", name, name in due)


def _metrics(context: Context) -> Metrics:
    """What fleet.yaml asks for. One that says nothing sensible is told of by the fleet's own reconcile."""
    try:
        fleet = files.installed_fleet(context.settings.fleet_folder)
    except InvalidFleetError:
        return Metrics()
    return fleet.metrics if fleet else Metrics()


async def _keep_token(context: Context, release: Release) -> None:
    """The scrapers' token: made once, then whatever the Secret holds."""
    found = await context.cluster.found(kinds.SECRETS, serving.TOKEN_SECRET, release.namespace)
    token = ((found or {}).get("data") or {}).get(serving.TOKEN_KEY)
    if token and _is_owned(found, release):
        return
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(release, serving.TOKEN_SECRET),
        "type": "Opaque",
        "data": {serving.TOKEN_KEY: token or _encoded(secrets.token_urlsafe())},
    }
    await context.cluster.apply(manifest, names.MANAGER_CERT)
    LOG.info("token kept secret=%s new=%s", serving.TOKEN_SECRET, not token)


def _is_owned(found: Manifest | None, release: Release) -> bool:
    owners = ((found or {}).get("metadata") or {}).get("ownerReferences") or ()
    return any(owner["uid"] == release.owner_uid for owner in owners)


def _store(held: Mapping[str, Manifest | None], wanted: Iterable[str]) -> Store:
    authorities = {name: _pair(held[CA_SECRET], f"{name}.crt", f"{name}.key") for name in _AUTHORITIES}
    pairs = {name: _pair(held[name], "tls.crt", "tls.key") for name in wanted}
    return Store(
        {name: pair for name, pair in authorities.items() if pair is not None},
        {name: pair for name, pair in pairs.items() if pair is not None},
    )


def _pair(secret: Manifest | None, certificate: str, key: str) -> Pair | None:
    """The pair in a Secret, None if it holds none that can be read."""
    held = (secret or {}).get("data") or {}
    if not held.get(certificate):
        return None
    pem = base64.b64decode(held[certificate]).decode("ascii", "replace")
    return Pair(pem, base64.b64decode(held.get(key, "")).decode("ascii", "replace")) if pki.read(pem) else None


def _held(store: Store) -> Held:
    authorities = {name: pki.read(pair.certificate) for name, pair in store.authorities.items()}
    signers = tuple(pair.certificate for pair in store.authorities.values())
    serving = {name: pki.read(pair.certificate, signers) for name, pair in store.serving.items()}
    return Held(
        authority=authorities.get("ca"),
        next=authorities.get("next"),
        previous=authorities.get("previous"),
        serving={name: certificate for name, certificate in serving.items() if certificate is not None},
    )


def _stepped(held: dict[str, Pair], step: Authority, now: float) -> dict[str, Pair]:
    """The authorities after a step. Of `previous` nothing is signed any more: its key goes."""
    match step:
        case Authority.ISSUE:
            return {"ca": pki.authority(now)}
        case Authority.ISSUE_NEXT:
            return {**held, "next": pki.authority(now)}
        case Authority.PROMOTE:
            return {"ca": held["next"], "previous": Pair(held["ca"].certificate, "")}
        case Authority.RETIRE:
            return {"ca": held["ca"]}
        case _:
            return held


def _metadata(release: Release, name: str) -> Manifest:
    labels = {"app.kubernetes.io/managed-by": names.OPERATOR, "app.kubernetes.io/part-of": "rankbeat"}
    owners = [pods.owner(release)]
    return {"name": name, "namespace": release.namespace, "labels": labels, "ownerReferences": owners}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _ca_secret(release: Release, store: Store) -> Manifest:
    texts = {
        f"{name}.{suffix}": text
        for name, pair in store.authorities.items()
        for suffix, text in (("crt", pair.certificate), ("key", pair.key))
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(release, CA_SECRET),
        "type": "Opaque",
        "data": {name: _encoded(text) for name, text in texts.items() if text},
    }


def _ca_config_map(release: Release, bundle: str) -> Manifest:
    metadata = _metadata(release, pods.CA_CONFIG_MAP)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": bundle}}


def _tls_secret(release: Release, name: str, pair: Pair) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(release, name),
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": _encoded(pair.certificate), "tls.key": _encoded(pair.key)},
    }


async def _write_ca_bundle(context: Context, bundle: str) -> None:
    """The caBundle of the webhooks that the chart has installed, and no other field of them."""
    found = await context.cluster.found(kinds.WEBHOOKS, WEBHOOK_CONFIGURATION)
    hooks = (found or {}).get("webhooks") or ()
    if all(hook["clientConfig"].get("caBundle") == _encoded(bundle) for hook in hooks):
        return
    manifest = {
        "apiVersion": kinds.WEBHOOKS.api_version,
        "kind": kinds.WEBHOOKS.kind,
        "metadata": {"name": WEBHOOK_CONFIGURATION},
        "webhooks": [{"name": hook["name"], "clientConfig": {"caBundle": _encoded(bundle)}} for hook in hooks],
    }
    await context.cluster.apply(manifest, names.MANAGER_CERT)
    LOG.info("ca bundle written webhooks=%d", len(hooks))
