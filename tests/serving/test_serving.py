"""The listener: who may read, in which shapes one may ask, and what others do meanwhile."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import http.client
import socket
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankbeat_serving import server as serving
from rankbeat_serving.access import Access, AccessError, checked
from rankbeat_serving.files import AccessFiles


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
        def start(self, *, compresses=False, request_seconds=serving.REQUEST_SECONDS, **access):
            files = AccessFiles(Access(**access))
            pages = {
                "/metrics": lambda: (200, "text/plain", b"up 1\n"),
                "/healthz": lambda: (200, "text/plain", b"ok\n"),
            }
            server = serving.HttpServer(
                0, pages, "127.0.0.1", files, compresses=compresses, request_seconds=request_seconds
            )
            server.start()
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


def test_whose_certificate_is_refused_is_told_why_though_it_writes_on_meanwhile(served, authority, tmp_path):
    certificate, key = authority.issue("server")
    served.start(certificate=certificate, key=key, client_ca=str(authority.path))
    context = trusting(authority, Authority(tmp_path, "stranger").issue("client"))

    for _ in range(10):
        with socket.create_connection(("localhost", served.server.server_port)) as plain:
            channel = context.wrap_socket(plain, server_hostname="localhost")
            with pytest.raises(ssl.SSLError, match=r"unknown ca|UNKNOWN_CA"):  # noqa: PT012 whichever call meets it
                channel.sendall(b"GET /metrics HTTP/1.1\r\n" + b"a" * 100_000)
                channel.recv(1)
            channel.close()


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


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (("token_file",), "--client-token-file is empty"),
        (("certificate", "key"), "--tls-cert and --tls-key cannot be used"),
    ],
)
def test_files_that_cannot_be_used_are_refused_at_start(tmp_path, fields, said):
    (tmp_path / "empty").write_text("")

    with pytest.raises(AccessError, match=said):
        AccessFiles(Access(**dict.fromkeys(fields, str(tmp_path / "empty"))))


@pytest.mark.parametrize(
    ("access", "said"),
    [
        (Access(certificate="a"), "--tls-cert and --tls-key belong together"),
        (Access(key="a"), "--tls-cert and --tls-key belong together"),
        (Access(client_ca="a"), "--client-ca needs TLS"),
    ],
)
def test_files_that_do_not_fit_each_other_are_refused(access, said):
    with pytest.raises(AccessError, match=said):
        checked(access)


def test_who_accepts_it_gets_pages_compressed_where_the_program_says_so(served):
    served.start(compresses=True)
    connection = http.client.HTTPConnection("127.0.0.1", served.server.server_port, timeout=5)

    connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()

    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(answer.read()) == b"up 1\n"
    connection.close()
    assert served.ask() == (200, "up 1\n")


@pytest.mark.parametrize("over_tls", [False, True])
def test_who_asks_or_shakes_hands_byte_by_byte_is_cut_off(served, authority, over_tls):
    files = dict(zip(("certificate", "key"), authority.issue("server"), strict=True)) if over_tls else {}
    served.start(request_seconds=0.5, **files)
    words = b"\x16\x03\x01\x40\x00" + b"\x01" * 4096 if over_tls else b"GET /metrics HTTP/1.1\r\nHost: " + b"n" * 4096
    begin = time.monotonic()

    with socket.create_connection(("127.0.0.1", served.server.server_port)) as channel, contextlib.suppress(OSError):
        for word in words:
            channel.sendall(bytes((word,)))
            time.sleep(0.05)

    assert 0.4 < time.monotonic() - begin < 2


def test_it_ends_at_once(served):
    server = served.start().server
    begin = time.monotonic()

    server.shutdown()

    assert time.monotonic() - begin < 0.3


def test_an_answered_connection_is_kept_longer_than_one_request_may_take(served):
    served.start(request_seconds=0.5)
    connection = http.client.HTTPConnection("127.0.0.1", served.server.server_port, timeout=5)

    statuses = []
    for _ in range(4):
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        statuses.append((answer.status, answer.read(), connection.sock is not None))
        time.sleep(0.3)

    assert statuses == [(200, b"up 1\n", True)] * 4
    connection.close()


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
        pytest.param(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", ["501"], "closed", id="POST"),
        pytest.param(GET + b"Content-Length: 3\r\n\r\nabc", ["200"], "closed", id="a body"),
        pytest.param(b"\x16\x03\x01\x00\xf8\r\n\r\n", ["400"], "closed", id="TLS to a plain port"),
        pytest.param(b"GET /metrics SPDY/3\r\n\r\n", ["400"], "closed", id="another protocol"),
        pytest.param(GET + b"a: b\r\n" * 101 + b"\r\n", ["431"], "closed", id="too many headers"),
        pytest.param(GET + b"a: " + b"b" * 70000 + b"\r\n\r\n", ["431"], "closed", id="too long a header"),
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
