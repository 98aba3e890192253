"""How the programs on nodes serve /metrics: by files of Secrets, nothing in arguments, probes that go on working."""

from __future__ import annotations

import json

import pytest

from rankbeat_operator.errors import InvalidFleetError
from rankbeat_operator.model import fleet as model
from rankbeat_operator.plan import fleet
from rankbeat_operator.plan.fleet.pods import Release

INSTALL = {
    "images": {"node": "rankbeat/node:1", "aggregator": "rankbeat/aggregator:1"},
    "devices": {"exporter": "builtin", "nvidia": {"exporter": "builtin"}},
}
TLS = {"tls": {"enabled": True}}
CLIENTS = {"tls": {"enabled": True, "clientAuth": {"enabled": True}}}
TOKEN = {**TLS, "bearerToken": {"enabled": True}}
PATH = "/etc/rankbeat/metrics"
TLS_ARGUMENTS = [f"--tls-cert={PATH}/tls.crt", f"--tls-key={PATH}/tls.key"]
TLS_FILES = {"tls.crt": "rankbeat-metrics-tls", "tls.key": "rankbeat-metrics-tls"}


def pods(metrics: object) -> dict[str, dict]:
    """Pod specs by name."""
    objects = fleet.desired(model.fleet({**INSTALL, "metrics": metrics}), Release("rankbeat", "u")).objects
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in objects if "template" in one["spec"]}


def served(spec: dict, name: str) -> tuple[list[str], dict[str, str], str, str]:
    """Of a container: web arguments, Secret or ConfigMap by file, the port's name, the probe's scheme."""
    (container,) = (one for one in spec["containers"] if one["name"] == name)
    arguments = [one for one in container["args"] if one.startswith(("--tls", "--client"))]
    volumes = [one["projected"]["sources"] for one in spec["volumes"] if one["name"] == "metrics"]
    files = {
        item["path"]: source["name"]
        for sources in volumes
        for kinds in sources
        for source in kinds.values()
        for item in source["items"]
    }
    mounts = [one for one in container["volumeMounts"] if one["name"] == "metrics"]
    assert mounts == [{"name": "metrics", "mountPath": PATH, "readOnly": True}] * bool(files)
    (port,) = container["ports"]
    return arguments, files, port["name"], container["livenessProbe"]["httpGet"].get("scheme", "HTTP")


@pytest.mark.parametrize(
    ("pod", "container", "ports"),
    [
        ("rankbeat-devices", "devices", {}),
        ("rankbeat-devices-nvidia", "devices", {}),
        ("rankbeat-node", "collector", {}),
        ("rankbeat-node", "clock", {"metrics": "metrics-clock", "https-metrics": "https-clock"}),
    ],
    ids=["devices", "devices-nvidia", "collector", "clock"],
)
@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        pytest.param(None, ([], {}, "metrics", "HTTP"), id="plain"),
        pytest.param(TLS, (TLS_ARGUMENTS, TLS_FILES, "https-metrics", "HTTPS"), id="tls"),
        pytest.param(
            CLIENTS,
            (
                [*TLS_ARGUMENTS, f"--client-ca={PATH}/client-ca.crt"],
                {**TLS_FILES, "client-ca.crt": "rankbeat-ca"},
                *("https-metrics", "HTTPS"),
            ),
            id="clients by our authority",
        ),
        pytest.param(
            {"tls": {"enabled": True, "clientAuth": {"enabled": True, "existingSecret": "prom"}}},
            (
                [*TLS_ARGUMENTS, f"--client-ca={PATH}/client-ca.crt"],
                {**TLS_FILES, "client-ca.crt": "prom"},
                *("https-metrics", "HTTPS"),
            ),
            id="clients by the install's",
        ),
        pytest.param(
            TOKEN,
            (
                [*TLS_ARGUMENTS, f"--client-token-file={PATH}/token"],
                {**TLS_FILES, "token": "rankbeat-metrics-token"},
                *("https-metrics", "HTTPS"),
            ),
            id="token of ours",
        ),
        pytest.param(
            {**TLS, "bearerToken": {"enabled": True, "existingSecret": "scrape"}},
            (
                [*TLS_ARGUMENTS, f"--client-token-file={PATH}/token"],
                {**TLS_FILES, "token": "scrape"},
                *("https-metrics", "HTTPS"),
            ),
            id="token of the install's",
        ),
    ],
)
def test_programs_on_nodes_serve_as_the_install_asks(pod, container, ports, metrics, expected):
    arguments, files, port, scheme = expected

    assert served(pods(metrics)[pod], container) == (arguments, files, ports.get(port, port), scheme)


@pytest.mark.parametrize("metrics", [TLS, CLIENTS, TOKEN], ids=["tls", "clients", "token"])
def test_no_other_container_holds_the_files_and_no_other_program_changes(metrics):
    plain, protected = pods(None), pods(metrics)

    assert protected["rankbeat-aggregator"] == plain["rankbeat-aggregator"]
    for name in ("rankbeat-devices", "rankbeat-devices-nvidia"):
        (vendor,) = (one for one in protected[name]["containers"] if one["name"] == "vendor")
        assert "metrics" not in json.dumps(vendor)


@pytest.mark.parametrize(
    ("metrics", "field"),
    [
        ({"bearerToken": {"enabled": True}}, "metrics.tls.enabled"),
        ({"tls": {"clientAuth": {"enabled": True}}}, "metrics.tls.enabled"),
        ({"tls": {"enabled": "yes"}}, "metrics.tls.enabled"),
        ({"tls": {"clientAuth": {"secret": "x"}}}, "metrics.tls.clientAuth"),
        ({"bearerToken": {"existingSecret": 1}}, "metrics.bearerToken.existingSecret"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field(metrics, field):
    with pytest.raises(InvalidFleetError) as refused:
        model.fleet({**INSTALL, "metrics": metrics})

    assert refused.value.field == field
