"""Which certificates are issued when, and that nobody meets one outside the bundle while they rotate."""

import ssl

import pytest
from cryptography import x509

from operator_builders import NOW
from rankbeat_operator.handlers import certificates as shell
from rankbeat_operator.kube import pki
from rankbeat_operator.model.fleet import Metrics
from rankbeat_operator.plan import certificates
from rankbeat_operator.plan.certificates import DAY, Authority, Certificate, Held, Wanted

HOSTS = ("rankbeat-webhook.rankbeat.svc",)
WANTED = {"rankbeat-webhook-tls": Wanted(HOSTS)}


def an_authority(name: str = "one", *, age_days: float = 10, left_days: float = 700) -> Certificate:
    return Certificate(name, NOW - age_days * DAY - 3600, NOW + left_days * DAY)


def serving(issuer: str = "one", *, left_days: float = 80, hosts: tuple[str, ...] = HOSTS) -> Certificate:
    return Certificate("s", NOW - 10 * DAY, NOW + left_days * DAY, issuer, hosts)


@pytest.mark.parametrize(
    ("held", "step"),
    [
        pytest.param(Held(), Authority.ISSUE, id="none"),
        pytest.param(Held(an_authority(left_days=0)), Authority.ISSUE, id="expired"),
        pytest.param(Held(an_authority()), Authority.KEEP, id="young"),
        pytest.param(Held(an_authority(left_days=180.1)), Authority.KEEP, id="just not due"),
        pytest.param(Held(an_authority(left_days=179)), Authority.ISSUE_NEXT, id="due"),
        pytest.param(
            Held(an_authority(left_days=179), next=an_authority("two", age_days=0.9)),
            Authority.KEEP,
            id="published today",
        ),
        pytest.param(
            Held(an_authority(left_days=178), next=an_authority("two", age_days=1)),
            Authority.PROMOTE,
            id="published long enough",
        ),
        pytest.param(
            Held(an_authority("two"), previous=an_authority(), serving={"w": serving("one")}),
            Authority.KEEP,
            id="previous still serves",
        ),
        pytest.param(
            Held(an_authority("two"), previous=an_authority(), serving={"w": serving("two")}),
            Authority.RETIRE,
            id="previous has served its time",
        ),
        pytest.param(
            Held(an_authority("two"), previous=an_authority(left_days=-1), serving={"w": serving("one")}),
            Authority.RETIRE,
            id="previous has expired",
        ),
    ],
)
def test_authorities_take_one_step_at_a_time(held, step):
    assert certificates.authority_step(held, NOW) == step


@pytest.mark.parametrize(
    ("found", "is_due"),
    [
        pytest.param({}, True, id="none"),
        pytest.param({"rankbeat-webhook-tls": serving()}, False, id="good"),
        pytest.param({"rankbeat-webhook-tls": serving(left_days=29)}, True, id="a third left"),
        pytest.param({"rankbeat-webhook-tls": serving("old")}, True, id="another authority"),
        pytest.param({"rankbeat-webhook-tls": serving("")}, True, id="nobody's"),
        pytest.param({"rankbeat-webhook-tls": serving(hosts=("other",))}, True, id="another name"),
    ],
)
def test_serving_certificates_are_issued_when_due(found, is_due):
    due = certificates.due_serving(Held(an_authority(), serving=found), WANTED, NOW)

    assert due == (("rankbeat-webhook-tls",) if is_due else ())


BASE = {"rankbeat-webhook-tls", "rankbeat-aggregator-tls"}


@pytest.mark.parametrize(
    ("metrics", "more"),
    [
        pytest.param(Metrics(), set(), id="plain"),
        pytest.param(Metrics(has_tls=True), {"rankbeat-metrics-tls"}, id="tls"),
        pytest.param(
            Metrics(has_tls=True, asks_for_certificate=True),
            {"rankbeat-metrics-tls", "rankbeat-metrics-client-tls"},
            id="clients by our authority",
        ),
        pytest.param(
            Metrics(has_tls=True, asks_for_certificate=True, client_secret="prometheus"),
            {"rankbeat-metrics-tls"},
            id="clients by the install's authority",
        ),
    ],
)
def test_metrics_have_certificates_of_their_own_where_the_install_asks_for_tls(metrics, more):
    wanted = certificates.wanted(metrics, "rankbeat")

    assert wanted.keys() == BASE | more
    assert {name for name, one in wanted.items() if one.is_client} == more - {"rankbeat-metrics-tls"}
    assert all(name.removesuffix("-tls") + ".rankbeat.svc" in one.hosts for name, one in wanted.items())


def test_a_servers_certificate_proves_no_client_and_a_clients_no_server():
    signer = pki.authority(NOW)

    uses = [make(signer, HOSTS, NOW).certificate for make in (pki.serving, pki.client)]

    assert [usage(pem) for pem in uses] == [["serverAuth"], ["clientAuth"]]


def usage(pem: str) -> list[str]:
    extensions = x509.load_pem_x509_certificate(pem.encode()).extensions
    return [one._name for one in extensions.get_extension_for_class(x509.ExtendedKeyUsage).value]


def test_through_a_whole_rotation_every_serving_certificate_is_trusted_by_the_bundle_before_and_after():
    """Three years, a day a step; whoever holds the bundle of the step before must trust what is served now."""
    store, previous_bundle, served, now = shell.Store(), None, 0, NOW
    authorities = set()
    while now < NOW + 3 * 365 * DAY:
        step = certificates.authority_step(shell._held(store), now)
        store = shell.Store(shell._stepped(store.authorities, step, now), store.serving)
        for name in certificates.due_serving(shell._held(store), WANTED, now):
            store = shell.Store(
                store.authorities, {**store.serving, name: pki.serving(store.authorities["ca"], HOSTS, now)}
            )
            served += 1
        authorities.add(store.authorities["ca"].certificate)
        leaf = store.serving["rankbeat-webhook-tls"].certificate
        for bundle in (store.bundle, previous_bundle or store.bundle):
            assert is_trusted(leaf, bundle, now), (step, (now - NOW) / DAY)
        previous_bundle, now = store.bundle, now + DAY

    assert len(authorities) == 2
    assert served >= 15


def is_trusted(leaf: str, bundle: str, now: float) -> bool:
    end = "-----END CERTIFICATE-----\n"
    signers = tuple(pem + end for pem in bundle.split(end) if pem.strip())
    found = pki.read(leaf, signers)
    valid = [pki.read(pem) for pem in signers]
    return (
        any(found.issuer == s.fingerprint and s.not_before <= now < s.not_after for s in valid)
        and now < found.not_after
    )


def test_a_bundle_is_what_tls_takes():
    signer = pki.authority(NOW)

    context = ssl.create_default_context(cadata=signer.certificate + pki.authority(NOW).certificate)

    assert context.cert_store_stats()["x509_ca"] >= 2


def test_what_is_no_certificate_is_none():
    assert pki.read("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n") is None
