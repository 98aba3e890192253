"""Install values `metrics`: certificates and token by the real operator with the chart's own rights, the real program
with the arguments and files of its DaemonSet, the real Prometheus with the configuration that the chart renders.

Two things are put in between: the kubelet's mounting of volumes (`mount`), and addresses in place of DNS discovery.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import shutil
import ssl
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

import operator_install
import operator_process
import prometheus_server
from operator_cluster import exists, read, reconciles
from rankbeat_operator.kube import pki

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kube import Kube
    from operator_process import OperatorProcess

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]

SETTINGS = (
    *("devices.exporter=builtin", "bundled.enabled=true", "bundled.prometheus.scrapeInterval=1s"),
    *("metrics.tls.enabled=true", "metrics.tls.clientAuth.enabled=true", "metrics.bearerToken.enabled=true"),
)
PATH = "/etc/rankbeat/metrics"
MADE = ("rankbeat-metrics-tls", "rankbeat-metrics-client-tls", "rankbeat-metrics-token")


class Installed(NamedTuple):
    """A release with the chart's objects by kind and name, its running operator, and Prometheus' program."""

    kube: Kube
    release: str
    chart: dict[tuple[str, str], dict[str, Any]]
    operator: OperatorProcess
    prometheus: Path

    def scraper_files(self, folder: Path) -> Path:
        """What the chart's Prometheus has mounted."""
        spec = self.chart["Deployment", "rankbeat-prometheus"]["spec"]["template"]["spec"]
        return mount(self.kube, self.release, spec, folder)

    def scraping(self, files: Path, port: int) -> dict[str, Any]:
        """The chart's configuration of the devices' job, at one address instead of what DNS says."""
        text = self.chart["ConfigMap", "rankbeat-prometheus"]["data"]["prometheus.yml"].replace(PATH, str(files))
        whole = yaml.safe_load(text)
        (job,) = (one for one in whole["scrape_configs"] if one["job_name"] == "rankbeat-nodes")
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        return {"global": whole["global"], "scrape_configs": [job]}


@pytest.fixture(scope="module")
def installed(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder, release = tmp_path_factory.mktemp("operator"), operator_install.install(kube, *SETTINGS)
    chart = operator_install.rendered(release, *SETTINGS)
    operator_install.write_fleet(chart, folder)
    kubeconfig = operator_install.operators_kubeconfig(kube, release, folder)
    with operator_process.running(kubeconfig, release, folder) as operator:
        for name in MADE:
            operator.until(name, lambda: exists(kube, "v1", "Secret", release, name))  # noqa: B023 asked before the next
        operator.until("devices", lambda: exists(kube, "apps/v1", "DaemonSet", release, "rankbeat-devices"))
        program = prometheus_server.program(tmp_path_factory.mktemp("prometheus"))
        yield Installed(kube, release, chart, operator, program)
    operator_install.uninstall(kube)


def mount(kube: Kube, namespace: str, spec: dict[str, Any], folder: Path) -> Path:
    """Volume `metrics` of a pod, as the kubelet would show it: all files at once."""
    (volume,) = (one["projected"]["sources"] for one in spec["volumes"] if one["name"] == "metrics")
    fresh = folder / "fresh"
    fresh.mkdir(parents=True)
    for kind, source in ((kind, source) for one in volume for kind, source in one.items()):
        held = read(kube, "v1", kind[0].upper() + kind[1:], namespace, source["name"])["data"]
        for item in source["items"]:
            text = held[item["key"]].encode()
            (fresh / item["path"]).write_bytes(base64.b64decode(text) if kind == "secret" else text)
    for file in fresh.iterdir():
        file.replace(folder / file.name)
    fresh.rmdir()
    return folder


class Exporter(NamedTuple):
    """Container devices of a DaemonSet as a process. spec: its pod's."""

    port: int
    folder: Path
    log: Path
    spec: dict[str, Any]


@pytest.fixture
def exporter(installed: Installed, tmp_path: Path) -> Iterator[Exporter]:
    kube, release = installed.kube, installed.release
    spec = read(kube, "apps/v1", "DaemonSet", release, "rankbeat-devices")["spec"]["template"]["spec"]
    (container,) = (one for one in spec["containers"] if one["name"] == "devices")
    folder, port, log = tmp_path / "mounted", operator_process.free_port(), tmp_path / "log"
    mount(kube, release, spec, folder)
    arguments = [
        one.replace(PATH, str(folder)).replace("$(NODE_NAME)", "n1").replace("/run/rankbeat", str(tmp_path))
        for one in container["args"]
        if not one.startswith("--pod-resources=")  # there is no kubelet
    ]
    command = [sys.executable, *container["command"][1:], *arguments, f"--port={port}", "--address=127.0.0.1"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            installed.operator.until("the exporter answers", lambda: healthy(port))
            yield Exporter(port, folder, log, spec)
        finally:
            process.terminate()


def healthy(port: int) -> bool:
    """As the kubelet's probe asks: over TLS, with nothing checked and nothing shown."""
    context = ssl._create_unverified_context()
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", timeout=2, context=context).status == 200
    return False


def served_certificate(port: int) -> str:
    """Fingerprint."""
    pem = ssl.get_server_certificate(("127.0.0.1", port))
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def test_the_charts_prometheus_scrapes_what_the_operator_has_made(installed, exporter, tmp_path):
    wanted = installed.scraping(installed.scraper_files(tmp_path / "scraper"), exporter.port)

    with prometheus_server.running(installed.prometheus, tmp_path / "p", wanted) as server:
        target = server.target("up")
        found = server.labels('rankbeat_node_collector_success{collector="accelerators"}')

    assert target["scrapeUrl"] == f"https://127.0.0.1:{exporter.port}/metrics"
    assert [one["node"] for one in found] == ["n1"]


def a_wrong_token(files: Path) -> None:
    (files / "token").write_text("mistaken")


def another_authority(files: Path) -> None:
    (files / "ca.crt").write_text(pki.authority(1796018400.0).certificate)


def a_servers_certificate(files: Path) -> None:
    """Which the same authority has issued, and which proves no client."""
    shutil.copy(files.parent / "mounted/tls.crt", files / "tls.crt")
    shutil.copy(files.parent / "mounted/tls.key", files / "tls.key")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (a_wrong_token, "server returned HTTP status 401 Unauthorized"),
        (another_authority, "x509: certificate signed by unknown authority"),
        (a_servers_certificate, "remote error: tls: unsupported certificate"),
    ],
)
def test_with_the_wrong_files_nothing_is_scraped_and_prometheus_says_why(installed, exporter, tmp_path, spoil, said):
    files = installed.scraper_files(tmp_path / "scraper")
    wanted = installed.scraping(files, exporter.port)
    spoil(files)

    with prometheus_server.running(installed.prometheus, tmp_path / "p", wanted) as server:
        assert said in server.target("down")["lastError"]
        installed.scraper_files(files)

        server.target("up")  # files are read anew


def test_who_shows_no_certificate_gets_nothing(installed, exporter, tmp_path):
    wanted = installed.scraping(installed.scraper_files(tmp_path / "scraper"), exporter.port)
    tls = wanted["scrape_configs"][0]["tls_config"]
    del tls["cert_file"], tls["key_file"]

    with prometheus_server.running(installed.prometheus, tmp_path / "p", wanted) as server:
        assert "server returned HTTP status 403 Forbidden" in server.target("down")["lastError"]


def test_a_certificate_that_is_issued_anew_is_served_by_the_same_process_and_scraped(installed, exporter, tmp_path):
    kube, release, operator = installed.kube, installed.release, installed.operator
    wanted = installed.scraping(installed.scraper_files(tmp_path / "scraper"), exporter.port)
    before = served_certificate(exporter.port)

    with prometheus_server.running(installed.prometheus, tmp_path / "p", wanted) as server:
        server.target("up")
        kube.resource("v1", "Secret").delete(name="rankbeat-metrics-tls", namespace=release)
        operator.until("a new one", lambda: exists(kube, "v1", "Secret", release, "rankbeat-metrics-tls"))
        mount(kube, release, exporter.spec, exporter.folder)

        assert served_certificate(exporter.port) != before
        last = server.target("up")["lastScrape"]
        operator.until("another scrape", lambda: server.target("up")["lastScrape"] > last)


def test_the_token_is_made_once_and_stands_in_its_secret_alone(installed, exporter):
    kube, release, operator = installed.kube, installed.release, installed.operator
    secret = read(kube, "v1", "Secret", release, "rankbeat-metrics-token")
    rounds = reconciles(operator, "certificates")
    operator.until("two reconciles more", lambda: reconciles(operator, "certificates") >= rounds + 2)

    token = base64.b64decode(secret["data"]["token"]).decode()

    assert len(token) >= 40
    assert read(kube, "v1", "Secret", release, "rankbeat-metrics-token")["metadata"] == secret["metadata"]
    elsewhere = operator.log.read_text() + exporter.log.read_text() + json.dumps(exporter.spec)
    assert token not in elsewhere


def test_the_charts_rights_are_enough_for_it(installed, exporter):
    assert "403" not in installed.operator.log.read_text()
