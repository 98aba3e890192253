"""Install values `metrics`, rendered by the real Helm: one decision for programs, Prometheus, PodMonitor and rights."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/helm/rankbeat"
HELM = ROOT / "build/bin/helm"
SERVED = ("--api-versions", "monitoring.coreos.com/v1/PodMonitor")
TLS = ("bundled.enabled=true", "metrics.tls.enabled=true")
CLIENTS = (*TLS, "metrics.tls.clientAuth.enabled=true")
TOKEN = (*TLS, "metrics.bearerToken.enabled=true")
OWN_CLIENTS = (*CLIENTS, "metrics.tls.clientAuth.existingSecret=prom")
OVER_TLS = {"https-metrics", "https-clock"}
OWN_TOKEN = (*TOKEN, "metrics.bearerToken.existingSecret=scrape")

pytestmark = pytest.mark.controlplane


def run(*settings: str) -> subprocess.CompletedProcess[str]:
    options = [part for setting in settings for part in ("--set", setting)]
    command = [HELM, "template", "rankbeat", CHART, "--namespace", "rb", *SERVED, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def rendered(*settings: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(run(*settings).stdout) if one}


def job(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any] | None:
    """Of the bundled Prometheus, for the nodes, without what all jobs have."""
    jobs = yaml.safe_load(objects["ConfigMap", "rankbeat-prometheus"]["data"]["prometheus.yml"])["scrape_configs"]
    found = [one for one in jobs if one["job_name"] == "rankbeat-nodes"]
    if not found:
        return None
    (names,) = (one["names"] for one in found[0]["dns_sd_configs"])
    assert {name.partition(".")[0].removeprefix("_") for name in names} == OVER_TLS
    return {key: found[0].get(key) for key in ("scheme", "tls_config", "authorization")}


def endpoints(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    """Of the PodMonitor, likewise, by port."""
    found = objects["PodMonitor", "rankbeat"]["spec"]["podMetricsEndpoints"]
    return {
        one["port"]: {key: one.get(key) for key in ("scheme", "tlsConfig", "authorization")}
        for one in found
        if one.get("scheme") == "https"
    }


def served_ports(objects: dict[tuple[str, str], dict[str, Any]]) -> set[str]:
    """Names of the ports by which DNS says who serves over TLS."""
    return {one["targetPort"] for one in objects["Service", "rankbeat-metrics"]["spec"]["ports"]} & OVER_TLS


def mounted(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, str]:
    """Files of the bundled Prometheus, with the Secret or ConfigMap of each."""
    volumes = objects["Deployment", "rankbeat-prometheus"]["spec"]["template"]["spec"]["volumes"]
    sources = [source for one in volumes if one["name"] == "metrics" for source in one["projected"]["sources"]]
    held = [source for kinds in sources for source in kinds.values()]
    return {item["path"]: one["name"] for one in held for item in one["items"]}


def secrets_of_the_operator(objects: dict[tuple[str, str], dict[str, Any]]) -> set[str]:
    rules = objects["Role", "rankbeat-operator"]["rules"]
    names = {name for rule in rules if rule["resources"] == ["secrets"] for name in rule.get("resourceNames", ())}
    return names - {"rankbeat-ca-key", "rankbeat-webhook-tls", "rankbeat-aggregator-tls"}


def test_by_default_nothing_changes():
    objects = rendered("bundled.enabled=true")

    assert (job(objects), endpoints(objects), served_ports(objects)) == (None, {}, set())
    assert (mounted(objects), secrets_of_the_operator(objects)) == ({}, set())


PATH = "/etc/rankbeat/metrics"
CA = {"ca_file": f"{PATH}/ca.crt", "server_name": "rankbeat-metrics.rb.svc"}
PAIR = {"cert_file": f"{PATH}/tls.crt", "key_file": f"{PATH}/tls.key"}
BY_FILE = {"credentials_file": f"{PATH}/token"}


@pytest.mark.parametrize(
    ("settings", "tls", "authorization", "files", "made"),
    [
        pytest.param(TLS, CA, None, {}, {"rankbeat-metrics-tls"}, id="tls"),
        pytest.param(
            CLIENTS,
            {**CA, **PAIR},
            None,
            {"tls.crt": "rankbeat-metrics-client-tls", "tls.key": "rankbeat-metrics-client-tls"},
            {"rankbeat-metrics-tls", "rankbeat-metrics-client-tls"},
            id="client certificate of ours",
        ),
        pytest.param(
            OWN_CLIENTS,
            {**CA, **PAIR},
            None,
            {"tls.crt": "prom", "tls.key": "prom"},
            {"rankbeat-metrics-tls"},
            id="client certificate of the install's",
        ),
        pytest.param(
            TOKEN,
            CA,
            BY_FILE,
            {"token": "rankbeat-metrics-token"},
            {"rankbeat-metrics-tls", "rankbeat-metrics-token"},
            id="token of ours",
        ),
        pytest.param(
            OWN_TOKEN, CA, BY_FILE, {"token": "scrape"}, {"rankbeat-metrics-tls"}, id="token of the install's"
        ),
    ],
)
def test_the_bundled_prometheus_and_the_operators_rights_follow(settings, tls, authorization, files, made):
    objects = rendered(*settings)

    assert job(objects) == {"scheme": "https", "tls_config": tls, "authorization": authorization}
    assert served_ports(objects) == OVER_TLS
    assert mounted(objects) == {"ca.crt": "rankbeat-ca", **files}
    assert secrets_of_the_operator(objects) == made


@pytest.mark.parametrize(
    ("settings", "client", "token"),
    [
        (TLS, None, None),
        (CLIENTS, "rankbeat-metrics-client-tls", None),
        (OWN_CLIENTS, "prom", None),
        (TOKEN, None, "rankbeat-metrics-token"),
        (OWN_TOKEN, None, "scrape"),
    ],
    ids=["tls", "client", "own client", "token", "own token"],
)
def test_the_podmonitor_follows(settings, client, token):
    tls = {"ca": {"configMap": {"name": "rankbeat-ca", "key": "ca.crt"}}, "serverName": "rankbeat-metrics.rb.svc"}
    if client:
        tls |= {"cert": {"secret": {"name": client, "key": "tls.crt"}}, "keySecret": {"name": client, "key": "tls.key"}}

    asked = {
        "scheme": "https",
        "tlsConfig": tls,
        "authorization": {"credentials": {"name": token, "key": "token"}} if token else None,
    }
    assert endpoints(rendered(*settings)) == dict.fromkeys(OVER_TLS, asked)


def test_the_prometheus_that_is_up_starts_anew_with_other_files():
    def checksum(*settings: str) -> str:
        template = rendered(*settings)["Deployment", "rankbeat-prometheus"]["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert len({checksum("bundled.enabled=true"), checksum(*TLS), checksum(*TOKEN)}) == 3


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("metrics.bearerToken.enabled=true", "metrics.tls.enabled is false"),
        ("metrics.tls.clientAuth.enabled=true", "metrics.tls.enabled is false"),
        ("metrics.bearerToken.existingSecret=x", "add --set metrics.bearerToken.enabled=true"),
        ("metrics.tls.clientAuth.existingSecret=x", "add --set metrics.tls.clientAuth.enabled=true"),
        ("metrics.tls.enabled=yes", "/metrics/tls/enabled"),
        ("metrics.tls.clientCA=x", "clientCA"),
        ("metrics.bearerToken.existingSecret=Not_A_Name", "/metrics/bearerToken/existingSecret"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(setting, said):
    done = run(setting)

    assert done.returncode != 0
    assert said in done.stderr
