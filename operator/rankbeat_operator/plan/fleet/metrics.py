"""How the programs on nodes serve /metrics: plain, or over TLS to those who prove who they are.

The kubelet proves nothing: its probes ask /healthz, which the programs leave open.
"""

from rankbeat_operator.model.fleet import Fleet, Metrics
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.plan.fleet import pods

SERVICE = "rankbeat-metrics"
"""The name, with the namespace and `.svc`, that certificates bear and scrapers must ask for: targets are addresses."""
TLS_SECRET = f"{SERVICE}-tls"
CLIENT_SECRET = f"{SERVICE}-client-tls"
TOKEN_SECRET = f"{SERVICE}-token"
TOKEN_KEY = "token"  # noqa: S105 the key's name
_PATH = "/etc/rankbeat/metrics"
_VOLUME = "metrics"


def port(fleet: Fleet, number: int, plain: str = "metrics", over_tls: str = "https-metrics") -> Manifest:
    """plain, over_tls: its name, by which scrapers find it."""
    return {"name": over_tls if fleet.metrics.has_tls else plain, "containerPort": number}


def probe(fleet: Fleet, number: int) -> Manifest:
    return pods.probe("/healthz", number, scheme="HTTPS" if fleet.metrics.has_tls else "")


def arguments(fleet: Fleet) -> tuple[str, ...]:
    """Files only: what they hold stands in no argument."""
    metrics = fleet.metrics
    return (
        *((f"--tls-cert={_PATH}/tls.crt", f"--tls-key={_PATH}/tls.key") if metrics.has_tls else ()),
        *((f"--client-ca={_PATH}/client-ca.crt",) if metrics.asks_for_certificate else ()),
        *((f"--client-token-file={_PATH}/{TOKEN_KEY}",) if metrics.asks_for_token else ()),
    )


def mounts(fleet: Fleet) -> tuple[Manifest, ...]:
    return (pods.mount(_VOLUME, _PATH),) if fleet.metrics.has_tls else ()


def volumes(fleet: Fleet) -> tuple[Manifest, ...]:
    """One volume, whose files change together; the pod waits until the Secrets are there."""
    metrics = fleet.metrics
    if not metrics.has_tls:
        return ()
    sources = [_files("secret", TLS_SECRET, {"tls.crt": "tls.crt", "tls.key": "tls.key"})]
    if metrics.asks_for_certificate:
        sources.append(_client_authority(metrics))
    if metrics.asks_for_token:
        sources.append(_files("secret", metrics.token_secret or TOKEN_SECRET, {TOKEN_KEY: TOKEN_KEY}))
    return ({"name": _VOLUME, "projected": {"defaultMode": 0o444, "sources": sources}},)


def _client_authority(metrics: Metrics) -> Manifest:
    if metrics.client_secret:
        return _files("secret", metrics.client_secret, {"ca.crt": "client-ca.crt"})
    return _files("configMap", pods.CA_CONFIG_MAP, {"ca.crt": "client-ca.crt"})


def _files(kind: str, name: str, paths: Manifest) -> Manifest:
    """A source of the volume. paths: file by key."""
    return {kind: {"name": name, "items": [{"key": key, "path": path} for key, path in paths.items()]}}
