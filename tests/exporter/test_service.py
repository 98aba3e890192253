"""A running exporter: one page of all collectors, a file that is followed while it runs, and who may read."""

from __future__ import annotations

import datetime as dt
import http.client
import socket
import ssl
import threading
import time
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from rankbeat_contract import metrics
from rankbeat_exporter.collectors.families import family
from rankbeat_exporter.errors import InvalidConfiguration
from rankbeat_exporter.model.configuration import ClockSection, Configuration, WebSection
from rankbeat_exporter.server import http as serving
from rankbeat_exporter.server.exposition import Exposition, source, text
from rankbeat_exporter.server.service import Service
from rankbeat_exporter.sources.web_files import WebFiles


class Authority:
    """A CA that signs certificates into a folder."""

    def __init__(self, folder, name="ca"):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = folder / f"{name}.crt"
        self._write(self.path, self._certificate(self._name, self._key.public_key(), is_authority=True))
        self._folder = folder

    def issue(self, name):
        """Paths of a new certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        paths = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        self._write(paths[0], self._certificate(subject, key.public_key(), is_authority=False))
        fresh = paths[1].with_suffix(".new")
        fresh.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        fresh.replace(paths[1])
        return str(paths[0]), str(paths[1])

    def _certificate(self, subject, public_key, *, is_authority):
        now = dt.datetime.now(dt.UTC)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @staticmethod
    def _write(path, certificate):
        fresh = path.with_suffix(".new")
        fresh.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        fresh.replace(path)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def served():
    """Starts servers with one page of text, and asks them."""
    started = []

    class Served:
        def start(self, **web):
            files = WebFiles(WebSection(1, **web))
            pages = {
                "/metrics": lambda: (200, "text/plain", b"up 1\n"),
                "/healthz": lambda: (200, "text/plain", b"ok\n"),
            }
            server = serving.HttpServer(0, pages, "127.0.0.1", files)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            started.append(server)
            self.server = server
            return self

        def ask(self, path="/metrics", context=None, **headers):
            kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
            options = {"context": context} if context else {}
            connection = kind("localhost", self.server.server_port, timeout=5, **options)
            try:
                connection.request("GET", path, headers={name.title(): value for name, value in headers.items()})
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

    yield Served()
    for server in started:
        server.shutdown()
        server.server_close()


def trusting(authority, certificate=()):
    context = ssl.create_default_context(cafile=str(authority.path))
    if certificate:
        context.load_cert_chain(*certificate)
    return context


def test_with_a_certificate_it_speaks_tls_alone(served, authority):
    certificate, key = authority.issue("server")
    served.start(certificate=certificate, key=key)

    assert served.ask(context=trusting(authority)) == (200, "up 1\n")
    with pytest.raises((OSError, http.client.HTTPException)):
        served.ask()


def test_who_does_not_finish_the_handshake_keeps_nobody_else_waiting(served, authority):
    certificate, key = authority.issue("server")
    served.start(certificate=certificate, key=key)
    with socket.create_connection(("127.0.0.1", served.server.server_port)):
        begin = time.monotonic()

        assert served.ask(context=trusting(authority))[0] == 200

        assert time.monotonic() - begin < 1


def test_a_rotated_certificate_is_served_without_a_restart_and_a_broken_one_is_not(served, authority, tmp_path):
    certificate, key = authority.issue("server")
    served.start(certificate=certificate, key=key)
    served.ask(context=trusting(authority))

    (tmp_path / "server.crt").write_text("half written")
    assert served.ask(context=trusting(authority))[0] == 200
    other = Authority(tmp_path, "other")
    other.issue("server")

    assert served.ask(context=trusting(other)) == (200, "up 1\n")
    with pytest.raises(ssl.SSLError):
        served.ask(context=trusting(authority))


def test_with_a_client_ca_metrics_need_a_certificate_of_it_and_the_probe_does_not(served, authority, tmp_path):
    certificate, key = authority.issue("server")
    served.start(certificate=certificate, key=key, client_ca=str(authority.path))
    stranger = Authority(tmp_path, "stranger").issue("client")

    assert served.ask(context=trusting(authority, authority.issue("prometheus"))) == (200, "up 1\n")
    assert served.ask(context=trusting(authority))[0] == 403
    assert served.ask("/healthz", trusting(authority)) == (200, "ok\n")
    with pytest.raises((OSError, http.client.HTTPException)):
        served.ask(context=trusting(authority, stranger))


def test_with_a_token_file_metrics_need_the_token_that_it_holds_now(served, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    served.start(token_file=str(token))

    assert served.ask(authorization="Bearer first") == (200, "up 1\n")
    assert served.ask(authorization="bearer first")[0] == 200
    assert [served.ask(authorization=value)[0] for value in ("Bearer fir", "Basic first", "first", "")] == [401] * 4
    assert served.ask()[0] == 401
    assert served.ask("/healthz")[0] == 200
    token.write_text("second, longer\n")
    assert served.ask(authorization="Bearer first")[0] == 401
    assert served.ask(authorization="Bearer second, longer")[0] == 200


@pytest.mark.parametrize("kind", ["token", "certificate"])
def test_files_that_cannot_be_used_are_refused_at_start(tmp_path, kind):
    (tmp_path / "empty").write_text("")
    path = str(tmp_path / "empty")
    web = WebSection(1, token_file=path) if kind == "token" else WebSection(1, certificate=path, key=path)

    with pytest.raises(InvalidConfiguration):
        WebFiles(web)


def test_connections_beyond_the_limit_are_closed_at_once(served):
    served.start()
    idle = [socket.create_connection(("127.0.0.1", served.server.server_port)) for _ in range(serving.MAX_CONNECTIONS)]
    time.sleep(0.2)

    with pytest.raises((OSError, http.client.HTTPException)):
        served.ask()

    for one in idle:
        one.close()
    time.sleep(0.2)
    assert served.ask()[0] == 200


def spoken(server, text):
    """All that the server answers to the bytes, until it closes the connection or 0.3 s pass."""
    with socket.create_connection(("127.0.0.1", server.server_port)) as channel:
        channel.sendall(text)
        channel.settimeout(0.3)
        answer = b""
        try:
            while chunk := channel.recv(65536):
                answer += chunk
        except TimeoutError:
            return answer, "open"
        return answer, "closed"


GET = b"GET /metrics?x=1 HTTP/1.1\r\nHost: n1\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "statuses", "connection"),
    [
        pytest.param(GET + b"\r\n", ["200"], "open", id="kept"),
        pytest.param((GET + b"\r\n") * 2, ["200", "200"], "open", id="two at once"),
        pytest.param(GET + b"Connection: close\r\n\r\n", ["200"], "closed", id="close is asked for"),
        pytest.param(b"GET /metrics HTTP/1.0\r\n\r\n", ["200"], "closed", id="HTTP/1.0"),
        pytest.param(b"GET /other HTTP/1.1\r\n\r\n", ["404"], "open", id="no such page"),
        pytest.param(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", ["405"], "closed", id="POST"),
        pytest.param(GET + b"Content-Length: 3\r\n\r\nabc", ["200"], "closed", id="a body"),
        pytest.param(b"\x16\x03\x01\x00\xf8\r\n\r\n", ["400"], "closed", id="TLS to a plain port"),
        pytest.param(b"GET /metrics SPDY/3\r\n\r\n", ["400"], "closed", id="another protocol"),
        pytest.param(GET + b"a: b\r\n" * 100 + b"\r\n", ["400"], "closed", id="too many headers"),
        pytest.param(GET + b"a: " + b"b" * 9000 + b"\r\n\r\n", ["400"], "closed", id="too long a header"),
        pytest.param(GET + b"no header\r\n\r\n", ["400"], "closed", id="no header"),
    ],
)
def test_requests_in_all_shapes_are_answered(served, request_bytes, statuses, connection):
    server = served.start().server

    answer, is_open = spoken(server, request_bytes)

    assert [part[:3].decode() for part in answer.split(b"HTTP/1.1 ")[1:]] == statuses
    assert is_open == connection


@given(st.binary(max_size=200))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_noise_ends_its_connection_alone(served, noise):
    server = served.server if hasattr(served, "server") else served.start().server

    with socket.create_connection(("127.0.0.1", server.server_port)) as channel:
        channel.sendall(noise)

    assert served.ask() == (200, "up 1\n")


def a_success(name, value=1.0):
    return family(metrics.EXPORTER_SUCCESS, [(("n1", name), value)])


def test_a_collector_that_cannot_be_shown_is_left_out_and_counted_and_the_others_are_there():
    exposition = Exposition()
    exposition.put(source("good", int, lambda _: [a_success("good")]))
    exposition.put(source("bad", object, lambda _: 1 / 0))

    pages = [exposition.page() for _ in range(2)]

    assert [status for status, _, _ in pages] == [200, 200]
    assert b'{collector="good",node="n1"} 1.0' in pages[1][2]
    assert exposition.failures() == (("bad", 2), ("good", 0))


def test_a_family_of_several_collectors_stands_once():
    exposition = Exposition()
    for name in ("one", "two"):
        exposition.put(source(name, int, lambda _, name=name: [a_success(name)]))

    page = exposition.page()[2].decode()

    assert page.count("# TYPE rankbeat_node_collector_success gauge") == 1
    assert [line for line in page.splitlines() if line[0] != "#"] == [
        'rankbeat_node_collector_success{collector="one",node="n1"} 1.0',
        'rankbeat_node_collector_success{collector="two",node="n1"} 1.0',
    ]


VALUES = (
    st.floats() | st.integers(-(2**60), 2**60) | st.sampled_from([0.0, 1e6, 123456.0, 1234567.0, 1796018231.25, -5e8])
)


@given(st.lists(st.tuples(st.text(max_size=8), VALUES), max_size=5, unique_by=lambda row: row[0]))
def test_any_label_and_any_number_is_written_as_client_libraries_write_it(rows):
    kinds = {metrics.GAUGE: GaugeMetricFamily, metrics.COUNTER: CounterMetricFamily}
    for metric in (metrics.EXPORTER_SUCCESS, metrics.EXPORTER_SERIES_FAILURES):
        theirs = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
        for value, number in rows:
            theirs.add_metric(("n1", value), number)

        ours = text([family(metric, [(("n1", value), number) for value, number in rows])])

        assert ours == generate_latest(Registered(theirs))


class Registered:
    """One family, as a registry of prometheus_client gives it."""

    def __init__(self, family):
        self._family = family

    def collect(self):
        return [self._family]


def test_what_has_not_changed_is_not_rendered_again():
    views, rendered = [(1, "a"), (1, "a"), (2, "a")], []
    rest = iter(views)

    def families(view):
        rendered.append(view)
        return [a_success("one", float(view[0]))]

    exposition = Exposition()
    exposition.put(source("one", lambda: next(rest), families))
    texts = [exposition.page()[2] for _ in views]

    assert rendered == [(1, "a"), (2, "a")]
    assert texts[0] == texts[1] != texts[2]


@pytest.fixture
def exporter(program, driver_root, script, tmp_path, free_port, get):
    """Writes exporter.toml, and runs the exporter with it."""
    path = tmp_path / "exporter.toml"

    class Exporter:
        port = free_port

        def write(self, text, port=free_port):
            fresh = tmp_path / "new"
            fresh.write_text(text.replace("ROOT", str(driver_root)).replace("PORT", str(port)))
            fresh.replace(path)

        def running(self):
            return program("--config", str(path), environment={"DCMI_DOUBLE_SCRIPT": str(script.path)})

        def page(self, port=free_port):
            found = get(port, "/metrics")
            return found if isinstance(found, str) else ""

    return Exporter()


WEB = "node = 'host-7'\n[web]\nport = PORT\naddress = '127.0.0.1'\n"
DEVICES = "[devices]\ninterval = '200ms'\nvendors = ['huawei']\nnpu_driver_root = 'ROOT'\n"
NO_CLOCK = "[clock]\nenabled = false\n"


def holds(exporter, text):
    return lambda: text in exporter.page()


def test_outside_kubernetes_one_process_with_a_file_serves_clock_and_devices(exporter, liar, get, eventually):
    exporter.write(f"{WEB}{DEVICES}[clock]\nservers = ['{liar().address}']\nround_interval = '1s'\n")

    with exporter.running():
        eventually(holds(exporter, 'rankbeat_node_accelerators{node="host-7",vendor="huawei"} 2.0'))
        eventually(holds(exporter, 'rankbeat_node_clock_trusted{node="host-7",reason="Quorum"} 1.0'))
        text = exporter.page()
        assert get(exporter.port, "/healthz") == "ok\n"

    assert 'rankbeat_node_collector_success{collector="accelerators",node="host-7"} 1.0' in text
    assert 'rankbeat_node_collector_success{collector="sntp",node="host-7"} 1.0' in text
    assert 'rankbeat_node_exporter_configuration_followed{node="host-7"} 1.0' in text


def test_a_changed_file_is_followed_and_a_wrong_one_is_counted_and_leaves_all_as_it_was(exporter, eventually):
    devices = 'rankbeat_node_accelerators{node="host-7",vendor="huawei"} 2.0'
    exporter.write(WEB + DEVICES + NO_CLOCK)
    with exporter.running():
        eventually(holds(exporter, devices))
        assert "rankbeat_node_clock_trusted" not in exporter.page()

        exporter.write(WEB + DEVICES + "[clock]\nservers = ['ntp1.example:port']\n")
        eventually(holds(exporter, 'configuration_refused_total{node="host-7"} 1.0'))
        assert 'configuration_followed{node="host-7"} 0.0' in exporter.page()
        assert devices in exporter.page()

        exporter.write(WEB + DEVICES + "[clock]\nround_interval = '1s'\n")
        eventually(holds(exporter, "rankbeat_node_clock_trusted"))
        assert 'configuration_followed{node="host-7"} 1.0' in exporter.page()
        assert devices in exporter.page()
        assert 'driver_restarts_total{node="host-7",vendor="huawei"} 0.0' in exporter.page()


def test_a_changed_port_is_listened_on_and_one_that_is_taken_is_refused(exporter, eventually):
    exporter.write(WEB + "[devices]\nenabled = false\n")
    with exporter.running(), socket.socket() as other, socket.socket() as free:
        eventually(holds(exporter, "rankbeat_node_clock_trusted"))
        other.bind(("127.0.0.1", 0))
        other.listen()
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()

        exporter.write(WEB + "[devices]\nenabled = false\n", other.getsockname()[1])
        eventually(holds(exporter, 'configuration_refused_total{node="host-7"} 1.0'))
        exporter.write(WEB + "[devices]\nenabled = false\n", port)
        eventually(lambda: "rankbeat_node_clock_trusted" in exporter.page(port))

        assert exporter.page() == ""


def test_a_first_file_that_cannot_be_followed_ends_the_program_with_what_to_write(tmp_path, capsys):
    from rankbeat_exporter.__main__ import main  # noqa: PLC0415

    (tmp_path / "exporter.toml").write_text("[clock]\nserver = 'x'\n")

    assert main(["--config", str(tmp_path / "exporter.toml")]) == 2
    assert "write only enabled, servers" in capsys.readouterr().err


def test_a_machine_without_a_driver_starts_no_child_and_loads_no_vendors_library(exporter, tmp_path, eventually):
    exporter.write(WEB + "[devices]\ninterval = '100ms'\nnpu_driver_root = '/nonexistent'\n" + NO_CLOCK)
    with exporter.running() as process:
        eventually(holds(exporter, 'reason="LibraryNotFound"'))
        time.sleep(0.5)
        with open(f"/proc/{process.pid}/maps") as maps:  # noqa: PTH123
            mapped = maps.read()
        children = [
            child
            for task in (p for p in __import__("pathlib").Path(f"/proc/{process.pid}/task").iterdir())
            for child in (task / "children").read_text().split()
        ]

    assert children == []
    assert "dcmi" not in mapped
    assert "nvidia" not in mapped


def test_while_a_child_cannot_be_killed_no_other_takes_its_place(free_port):
    clock = Configuration("n1", WebSection(free_port, "127.0.0.1"), clock=ClockSection())
    service = Service()
    service.follow(clock)
    stuck = service._parts["clock"]._replace(is_stuck=lambda: True)
    service._parts["clock"] = stuck

    with pytest.raises(InvalidConfiguration, match="cannot be killed"):
        service.follow(replace(clock, clock=ClockSection(offset_limit_seconds=1.0)))

    assert service._parts["clock"] is stuck
    service.follow(replace(clock, web=WebSection(free_port, "127.0.0.1")))
    service.stop()
