"""Certificates of webhook and aggregator: read what is held, take one step, write in an order that nobody fails in."""

import base64
import logging
from dataclasses import dataclass, field, replace

from rankbeat_contract import names
from rankbeat_operator.handlers.context import Context
from rankbeat_operator.kube import kinds, pki
from rankbeat_operator.kube.pki import Pair
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.plan import certificates
from rankbeat_operator.plan.certificates import Authority, Held

LOG = logging.getLogger(__name__)

CA_SECRET = "rankbeat-ca-key"  # noqa: S105 the Secret's name
CA_CONFIG_MAP = "rankbeat-ca"
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
    """Authorities, bundle, caBundle, serving certificates; in this order, so that who trusts knows before who serves.

    Raises: ApiError.
    """
    namespace, now = context.settings.namespace, context.wall()
    wanted = {f"{name}-tls": _hosts(name, namespace) for name in (names.WEBHOOK, names.AGGREGATOR)}
    store = await _store(context, tuple(wanted))
    step = certificates.authority_step(_held(store), now)
    store = replace(store, authorities=_stepped(store.authorities, step, now))
    if step is not Authority.KEEP:
        await context.cluster.apply(_ca_secret(namespace, store), names.MANAGER_CERT)
        LOG.info("authority changed step=%s", step.value)
    await context.cluster.apply(_ca_config_map(namespace, store.bundle), names.MANAGER_CERT)
    await _write_ca_bundle(context, store.bundle)
    context.knowledge.authorities = store.bundle
    for name in certificates.due_serving(_held(store), wanted, now):
        pair = pki.serving(store.authorities["ca"], wanted[name], now)
        await context.cluster.apply(_tls_secret(namespace, name, pair), names.MANAGER_CERT)
        LOG.info("certificate issued secret=%s", name)


def _hosts(service: str, namespace: str) -> tuple[str, ...]:
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")


async def _store(context: Context, serving: tuple[str, ...]) -> Store:
    namespace = context.settings.namespace
    found = await context.cluster.found(kinds.SECRETS, CA_SECRET, namespace)
    authorities = {name: _pair(found, f"{name}.crt", f"{name}.key") for name in _AUTHORITIES}
    pairs = {
        name: _pair(await context.cluster.found(kinds.SECRETS, name, namespace), "tls.crt", "tls.key")
        for name in serving
    }
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


def _metadata(namespace: str, name: str) -> Manifest:
    labels = {"app.kubernetes.io/managed-by": names.OPERATOR, "app.kubernetes.io/part-of": "rankbeat"}
    return {"name": name, "namespace": namespace, "labels": labels}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _ca_secret(namespace: str, store: Store) -> Manifest:
    texts = {
        f"{name}.{suffix}": text
        for name, pair in store.authorities.items()
        for suffix, text in (("crt", pair.certificate), ("key", pair.key))
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(namespace, CA_SECRET),
        "type": "Opaque",
        "data": {name: _encoded(text) for name, text in texts.items() if text},
    }


def _ca_config_map(namespace: str, bundle: str) -> Manifest:
    metadata = _metadata(namespace, CA_CONFIG_MAP)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": bundle}}


def _tls_secret(namespace: str, name: str, pair: Pair) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(namespace, name),
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
