"""A server's name, port and addresses: deadlines, and a resolver that hangs or fails."""

from __future__ import annotations

import threading
import time

import pytest

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.sources import sntp
from rankbeat_exporter.sources.resolver import Resolver
from sntp_support import PATIENT, SHORT, addresses, reason


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("ntp.example", ("ntp.example", 123)),
        ("ntp.example:1123", ("ntp.example", 1123)),
        ("192.0.2.1", ("192.0.2.1", 123)),
        ("[2001:db8::1]:1123", ("2001:db8::1", 1123)),
        ("[2001:db8::1]", ("2001:db8::1", 123)),
        ("2001:db8::1", ("2001:db8::1", 123)),
    ],
)
def test_the_port_is_123_by_number_where_none_is_given(server, expected):
    """C1: ntplib asks for the service "ntp", which slim images cannot resolve."""
    assert sntp.host_port(server) == expected


@pytest.mark.parametrize("server", ["", ":123", "host:0", "host:65536", "host:ntp", "[]:123"])
def test_what_is_no_server_is_refused_at_start(server):
    with pytest.raises(ValueError, match="no server"):
        sntp.host_port(server)


def test_a_name_that_nobody_knows_is_unresolved():
    assert reason("no-such-host.invalid") == "Unresolved"


def test_a_resolver_that_hangs_is_left_alone_after_the_deadline():
    """getaddrinfo has no time-out."""
    released = threading.Event()
    calls = []

    def hang(host, port):
        calls.append((host, port))
        released.wait()
        return ()

    resolver = Resolver(hang)

    for _ in range(3):
        with pytest.raises(CannotMeasure, match="Unresolved"):
            resolver.addresses("slow.example", 123, 0.02)

    assert calls == [("slow.example", 123)]
    released.set()


def test_a_round_that_waits_for_the_dns_ends_at_its_deadline():
    released = threading.Event()
    server = sntp.SntpServer("slow.example", SHORT, Resolver(lambda host, port: released.wait() and ()))
    begin = time.monotonic()

    with pytest.raises(CannotMeasure, match="Unresolved"):
        server.best_sample()

    assert time.monotonic() - begin < SHORT.total_seconds
    released.set()


def test_all_addresses_of_a_name_are_tried_within_the_deadline(liar):
    server = liar()
    resolver = Resolver(lambda host, port: addresses(server, "127.9.9.9", "127.0.0.1"))

    sample = sntp.SntpServer("two.example", PATIENT, resolver).best_sample()

    assert sample.address == f"127.0.0.1 {server.port}"


def test_silent_addresses_cost_no_more_than_the_deadline(liar):
    silent = liar(lambda question, now: [])
    resolver = Resolver(lambda host, port: addresses(silent, "127.0.0.1") * 50)
    pace = SHORT._replace(timeout_seconds=0.1, total_seconds=0.5)
    begin = time.monotonic()

    with pytest.raises(CannotMeasure, match="Timeout"):
        sntp.SntpServer("many.example", pace, resolver).best_sample()

    assert time.monotonic() - begin < 0.8


def test_addresses_that_answer_are_not_looked_up_at_each_round(liar):
    server = liar()
    calls = []
    resolver = Resolver(lambda host, port: calls.append(host) or addresses(server, "127.0.0.1"))
    asked = sntp.SntpServer("one.example", PATIENT, resolver)

    for _ in range(3):
        asked.best_sample()

    assert calls == ["one.example"]


def test_a_name_whose_addresses_are_silent_is_looked_up_again(liar):
    """The server moved: chronyd and ntpd had to be restarted for that for years."""
    old, new = liar(lambda question, now: []), liar()
    answers = iter([addresses(old, "127.0.0.1"), addresses(new, "127.0.0.1")])
    asked = sntp.SntpServer("moving.example", SHORT, Resolver(lambda host, port: next(answers)))

    with pytest.raises(CannotMeasure, match="Timeout"):
        asked.best_sample()

    assert asked.best_sample().address == f"127.0.0.1 {new.port}"


def test_a_dns_that_fails_takes_no_server_away_that_answers(liar):
    server = liar()
    answers = [addresses(server, "127.0.0.1")]

    def lookup(host, port):
        if not answers:
            raise OSError("Temporary failure in name resolution")
        return answers.pop()

    asked = sntp.SntpServer("one.example", PATIENT, Resolver(lookup, kept_seconds=0.0))

    assert [asked.best_sample().stratum for _ in range(3)] == [2, 2, 2]
