"""Reports over real TLS: when they go, what a failure keeps, what may change meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING

import pytest

import report_receiver as receiver
import ring_support as support
from rankbeat_collector import outputs
from rankbeat_collector.errors import RejectedError, SettingsError
from rankbeat_collector.model.ranks import Poll, Step
from rankbeat_collector.model.reports import Sender
from rankbeat_collector.push import client
from rankbeat_collector.push.loop import Pusher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def certificate() -> receiver.Certificate:
    return receiver.a_certificate()


@pytest.fixture
def aggregator(certificate: receiver.Certificate, tmp_path: Path) -> Iterator[receiver.Receiver]:
    (tmp_path / "ca.crt").write_bytes(certificate.certificate)
    (tmp_path / "token").write_text("token-1\n", encoding="ascii")
    with receiver.receiving(certificate, tmp_path) as running:
        yield running


@contextlib.contextmanager
def a_client(url: str, folder: Path) -> Iterator[client.Client]:
    made = client.Client(url, str(folder / "ca.crt"), str(folder / "token"))
    try:
        yield made
    finally:
        made.close()


class Feed:
    """What the poll loop finds, from one test to the pusher, forty times a second."""

    def __init__(self, pusher: Pusher, poll: Poll) -> None:
        self.poll = poll
        self._pusher = pusher
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.025):
            self._pusher.offer(dataclasses.replace(self.poll))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


@contextlib.contextmanager
def pushing(
    url: str, folder: Path, poll: Poll, seconds: float = 0.05, counts: outputs.Counts | None = None
) -> Iterator[Feed]:
    with a_client(url, folder) as posting:
        pusher = Pusher(posting, Sender("n1", seconds), counts or outputs.Counts())
        pusher.start()
        feed = Feed(pusher, poll)
        try:
            yield feed
        finally:
            feed.end()
            pusher.stop(5.0)


def poll_with_steps(read: int, kept: int = 4) -> Poll:
    newest = tuple(Step(step, 0.02, 0.001, 0.019, 1) for step in range(max(0, read - kept), read))
    return support.a_poll(support.a_rank(steps=newest, steps_read=read))


def test_a_report_carries_the_token_and_gives_a_clock_exchange(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    aggregator.clock_ahead_seconds = 100.0

    with a_client(aggregator.url, tmp_path) as posting:
        answer = posting.post({"node": "n1", "sent_wall": 0.0}, 5.0)

    assert aggregator.tokens == ["Bearer token-1"]
    assert aggregator.reports[0]["sent_wall"] == pytest.approx(answer.sent_wall, abs=0.5)
    assert answer.body["received_wall"] == pytest.approx(answer.sent_wall + 100.0, abs=0.5)


def test_the_exchange_of_one_push_is_told_by_the_next(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    aggregator.clock_ahead_seconds = 100.0

    with pushing(aggregator.url, tmp_path, support.a_poll()):
        first, second = aggregator.wait_for_reports(2)[:2]

    assert first["exchange"] is None
    assert second["exchange"]["offset_seconds"] == pytest.approx(100.0, abs=0.2)
    assert 0 <= second["exchange"]["delay_seconds"] < 1


def test_one_connection_serves_many_reports(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    with a_client(aggregator.url, tmp_path) as posting:
        for _ in range(3):
            posting.post({}, 5.0)

    assert len(aggregator.connections) == 1


def test_steps_that_were_not_accepted_come_again_and_those_that_fell_out_count_as_lost(
    aggregator: receiver.Receiver, tmp_path: Path
) -> None:
    with pushing(aggregator.url, tmp_path, poll_with_steps(2)) as feed:
        aggregator.wait_for_reports(1)
        aggregator.status = 503
        feed.poll = poll_with_steps(4)
        refused = len(aggregator.tokens)
        aggregator.wait(lambda: len(aggregator.tokens) > refused + 1)
        feed.poll = poll_with_steps(10)
        refused = len(aggregator.tokens)
        aggregator.wait(lambda: len(aggregator.tokens) > refused + 1)  # the first may have been made before
        before = len(aggregator.reports)
        aggregator.status = 200
        aggregator.wait_for_reports(before + 2)

    rows = [
        ([row[0] for row in report["ranks"][0]["steps"]], report["ranks"][0]["records_lost"])
        for report in aggregator.reports
        if report["ranks"][0]["steps"]
    ]
    assert rows == [([0, 1], 0), ([6, 7, 8, 9], 4)]


def test_an_aggregator_that_comes_back_on_another_connection_is_found_again(
    certificate: receiver.Certificate, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_bytes(certificate.certificate)
    (tmp_path / "token").write_text("token-1", encoding="ascii")
    with contextlib.ExitStack() as stack:
        with receiver.receiving(certificate, tmp_path) as first:
            posting = stack.enter_context(a_client(first.url, tmp_path))
            posting.post({}, 5.0)
        with receiver.receiving(certificate, tmp_path, int(first.url.rpartition(":")[2])) as second:
            posting.post({}, 5.0)

    assert (len(first.reports), len(second.reports)) == (1, 1)


def test_a_new_token_is_used_at_the_next_report(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    with a_client(aggregator.url, tmp_path) as posting:
        posting.post({}, 5.0)
        (tmp_path / "token").write_text("token-2", encoding="ascii")

        posting.post({}, 5.0)

    assert aggregator.tokens == ["Bearer token-1", "Bearer token-2"]


def test_a_new_authority_is_used_at_the_next_report(tmp_path: Path, certificate: receiver.Certificate) -> None:
    (tmp_path / "ca.crt").write_bytes(certificate.certificate)
    (tmp_path / "token").write_text("token-1", encoding="ascii")
    rotated = receiver.a_certificate()
    with receiver.receiving(rotated, tmp_path) as aggregator, a_client(aggregator.url, tmp_path) as posting:
        with pytest.raises(ssl.SSLCertVerificationError):
            posting.post({}, 5.0)
        (tmp_path / "ca.crt").write_bytes(certificate.certificate + rotated.certificate)

        posting.post({}, 5.0)

    assert aggregator.tokens == ["Bearer token-1"]


def test_the_token_goes_to_nobody_whose_certificate_does_not_check(
    tmp_path: Path, aggregator: receiver.Receiver
) -> None:
    (tmp_path / "ca.crt").write_bytes(receiver.a_certificate().certificate)

    with a_client(aggregator.url, tmp_path) as posting, pytest.raises(ssl.SSLCertVerificationError):
        posting.post({}, 5.0)

    assert aggregator.tokens == []


def test_plain_http_is_refused_at_start() -> None:
    with pytest.raises(SettingsError, match="is no https URL"):
        client.Client("http://127.0.0.1:1", "ca.crt", "token")


def test_an_answer_other_than_200_says_what_the_aggregator_said(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    aggregator.status = 403

    with (
        a_client(aggregator.url, tmp_path) as posting,
        pytest.raises(RejectedError, match=r'403: {"error": "not now"}'),
    ):
        posting.post({}, 5.0)


def test_an_aggregator_that_never_answers_costs_the_deadline(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    aggregator.pause_seconds = 2.0
    started = time.monotonic()

    with a_client(aggregator.url, tmp_path) as posting, pytest.raises((OSError, http.client.HTTPException)):
        posting.post({}, 0.3)

    assert time.monotonic() - started < 1.0


def test_a_rank_that_appears_or_dies_is_reported_within_the_second(
    aggregator: receiver.Receiver, tmp_path: Path
) -> None:
    with pushing(aggregator.url, tmp_path, support.a_poll(support.a_rank()), seconds=60.0) as feed:
        started = time.monotonic()
        aggregator.wait_for_reports(1)
        feed.poll = support.a_poll(support.a_rank(is_alive=False))
        aggregator.wait_for_reports(2)
        took = time.monotonic() - started

    assert [report["ranks"][0]["alive"] for report in aggregator.reports[:2]] == [True, False]
    assert 1.0 < took < 4.0


def test_nothing_is_reported_while_nobody_knows_which_pods_are_here(
    aggregator: receiver.Receiver, tmp_path: Path
) -> None:
    with pushing(aggregator.url, tmp_path, support.a_poll(has_pods=False)):
        time.sleep(0.2)

    assert aggregator.reports == []


def test_the_last_report_goes_out_at_the_end(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    counts = outputs.Counts()

    with pushing(aggregator.url, tmp_path, support.a_poll(), 60.0, counts):
        time.sleep(0.1)

    assert (len(aggregator.reports), counts.pushes) == (1, {"accepted": 1, "rejected": 0, "failed": 0})


def test_a_clock_service_that_is_not_there_is_none_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    assert client.local_clock("127.0.0.1", port, 0.5) is None


def test_an_offer_never_waits_for_a_push(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    aggregator.pause_seconds = 1.0
    with a_client(aggregator.url, tmp_path) as posting:
        pusher = Pusher(posting, Sender("n1", 0.05), outputs.Counts())
        pusher.start()
        pusher.offer(support.a_poll())
        aggregator.wait(lambda: len(aggregator.connections) > 0)
        started = time.monotonic()
        for step in range(100):
            pusher.offer(poll_with_steps(step))
        took = time.monotonic() - started
        aggregator.pause_seconds = 0.0
        pusher.stop(5.0)

    assert took < 0.5


def test_a_poll_loop_that_hangs_is_silent_for_the_aggregator(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    with a_client(aggregator.url, tmp_path) as posting:
        pusher = Pusher(posting, Sender("n1", 0.05), outputs.Counts())
        pusher.start()
        pusher.offer(support.a_poll(support.a_rank()))
        aggregator.wait_for_reports(1)
        time.sleep(0.5)
        reported = len(aggregator.reports)
        pusher.stop(5.0)

    assert reported == 1


def test_ages_are_of_the_moment_of_the_report(aggregator: receiver.Receiver, tmp_path: Path) -> None:
    entered = time.monotonic_ns() - 3_000_000_000
    state = support.a_state(entered_step=1, entered_mono_ns=entered)

    with pushing(aggregator.url, tmp_path, support.a_poll(support.a_rank(state=state))):
        (report,) = aggregator.wait_for_reports(1)[:1]
        later = time.monotonic_ns()

    assert 3.0 <= report["ranks"][0]["entered_age_seconds"] <= (later - entered) / 1e9


def test_a_broken_token_file_is_an_error_that_does_not_repeat_the_token(
    aggregator: receiver.Receiver, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\nsecret", encoding="ascii")

    with a_client(aggregator.url, tmp_path) as posting, pytest.raises(ValueError, match="holds no token") as raised:
        posting.post({}, 5.0)

    assert "secret" not in str(raised.value)
