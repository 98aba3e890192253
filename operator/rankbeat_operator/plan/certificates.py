"""Which certificates to issue, given which exist: nobody who trusts the bundle ever meets a certificate outside it.

A new authority is published in the bundle first (`next`), signs only after every mounted bundle and the webhook's
caBundle must have it, and the one before stays in the bundle until the last certificate it signed is gone.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from rankbeat_contract import names
from rankbeat_operator.model.fleet import Metrics
from rankbeat_operator.plan.fleet import metrics as serving

DAY = 86400.0
AUTHORITY_SECONDS = 730 * DAY
AUTHORITY_LEFT_SECONDS = 180 * DAY
"""With less than this left, the next authority is made."""
OVERLAP_SECONDS = DAY
"""From publishing an authority to signing with it; a mounted ConfigMap follows within two minutes."""
SERVING_SECONDS = 90 * DAY
SERVING_LEFT_SECONDS = 30 * DAY
BACKDATED_SECONDS = 3600.0
"""A certificate is valid from an hour before it is made, for clocks that are behind."""
RETIRED_SECONDS = 7 * DAY
"""How long an authority stays in the bundle after the next one has signed everything anew."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a decision needs of a certificate. Times are epochs. issuer: fingerprint of the authority that signed it."""

    fingerprint: str
    not_before: float
    not_after: float
    issuer: str = ""
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """What exists. serving: by name of the Secret."""

    authority: Certificate | None = None
    next: Certificate | None = None
    previous: Certificate | None = None
    serving: Mapping[str, Certificate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A certificate to have. is_client: it proves who asks, not who serves."""

    hosts: tuple[str, ...]
    is_client: bool = False


class Authority(enum.Enum):
    """What to do with the authorities."""

    KEEP = "keep"
    ISSUE = "issue"
    """Make one and sign with it at once: there is none, or it has expired."""
    ISSUE_NEXT = "issue_next"
    PROMOTE = "promote"
    """next signs from now on, authority becomes previous."""
    RETIRE = "retire"
    """previous leaves the bundle."""


def wanted(metrics: Metrics, namespace: str) -> Mapping[str, Wanted]:
    """Certificates of the release, by the name of the Secret."""
    found = {f"{name}-tls": Wanted(_hosts(name, namespace)) for name in (names.WEBHOOK, names.AGGREGATOR)}
    if metrics.has_tls:
        found[serving.TLS_SECRET] = Wanted(_hosts(serving.SERVICE, namespace))
    if metrics.asks_for_certificate and not metrics.client_secret:
        found[serving.CLIENT_SECRET] = Wanted(_hosts(f"{serving.SERVICE}-client", namespace), is_client=True)
    return found


def _hosts(service: str, namespace: str) -> tuple[str, ...]:
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")


def authority_step(held: Held, now: float) -> Authority:
    """The one step to take with the authorities."""
    if held.authority is None or held.authority.not_after <= now:
        return Authority.ISSUE
    if held.next is not None:
        published = held.next.not_before + BACKDATED_SECONDS
        return Authority.PROMOTE if now - published >= OVERLAP_SECONDS else Authority.KEEP
    if held.authority.not_after - now < AUTHORITY_LEFT_SECONDS:
        return Authority.ISSUE_NEXT
    if held.previous is not None and _is_retired(held, held.previous, now):
        return Authority.RETIRE
    return Authority.KEEP


def due_serving(held: Held, wanted: Mapping[str, Wanted], now: float) -> tuple[str, ...]:
    """Names of the certificates to issue.

    wanted: by name of the Secret. held: after authority_step was taken.
    """
    return tuple(name for name, one in wanted.items() if _is_due(held, held.serving.get(name), one.hosts, now))


def _is_due(held: Held, serving: Certificate | None, hosts: tuple[str, ...], now: float) -> bool:
    if serving is None or held.authority is None:
        return True
    is_old = serving.not_after - now < SERVING_LEFT_SECONDS
    return is_old or serving.issuer != held.authority.fingerprint or serving.hosts != hosts


def _is_retired(held: Held, previous: Certificate, now: float) -> bool:
    if previous.not_after <= now:
        return True
    if any(serving.issuer == previous.fingerprint for serving in held.serving.values()):
        return False
    newest = max((serving.not_before for serving in held.serving.values()), default=0.0)
    return now - newest - BACKDATED_SECONDS >= RETIRED_SECONDS
