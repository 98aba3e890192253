"""HTTP push: batches to a real server, retried, bounded, every loss counted."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from typing import TYPE_CHECKING

import pytest

import files_support as support
from rankbeat_collector.files import posting
from rankbeat_contract.outputs import Http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Receiver(http.server.ThreadingHTTPServer):
    """Answers with the statuses in turn, the last one for ever."""

    daemon_threads = True

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = list(statuses)
        self.bodies: list[dict[str, object]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/rows"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.statuses[0]
        if len(self.server.statuses) > 1:
            del self.server.statuses[0]
        if status == 200:
            self.server.bodies.append(body)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    with Receiver(*statuses) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def a_posting(url: str, **changes: object) -> posting.Posting:
    made = posting.Posting(Http(url, **changes), {"experiment": "llm", "pod": "pod-0"}, lambda: 0.0)  # type: ignore[arg-type]
    made.start()
    return made


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_rows_arrive_in_batches_in_order() -> None:
    with receiving(200) as server:
        made = a_posting(server.url, batch=40)
        made.take([support.a_row(step) for step in range(100)], 0.0)
        made.stop(5.0)

    steps = [[row["step"] for row in body["rows"]] for body in server.bodies]  # type: ignore[attr-defined]
    assert steps == [[*range(40)], [*range(40, 80)], [*range(80, 100)]]
    assert {(body["experiment"], body["pod"]) for body in server.bodies} == {("llm", "pod-0")}
    assert (made.rows_posted, made.rows_dropped) == (100, 0)


def test_rows_wait_for_the_flush_interval_at_most() -> None:
    with receiving(200) as server:
        made = a_posting(server.url, flush_seconds=5.0)
        made.take([support.a_row()], 0.0)
        made.flush(4.9)
        early = len(server.bodies)
        made.flush(5.0)
        wait(lambda: len(server.bodies) == 1)
        made.stop(1.0)

    assert early == 0


def test_a_server_in_trouble_is_tried_again_until_it_takes_the_batch() -> None:
    with receiving(503, 429, 200) as server:
        made = a_posting(server.url, batch=1)
        made.take([support.a_row()], 0.0)
        wait(lambda: made.rows_posted == 1)
        made.stop(1.0)

    assert made.posts == {"accepted": 1, "rejected": 0, "failed": 2}
    assert (made.rows_dropped, made.failing) == (0, "")


@pytest.mark.parametrize("status", [400, 302])
def test_what_is_refused_for_good_is_dropped_and_counted(status: int) -> None:
    with receiving(status, 200) as server:
        made = a_posting(server.url, batch=1)
        made.take([support.a_row(1), support.a_row(2)], 0.0)
        wait(lambda: made.rows_posted == 1)
        made.stop(1.0)

    assert made.posts == {"accepted": 1, "rejected": 1, "failed": 0}
    assert made.rows_dropped == 1


def test_without_a_server_memory_is_bounded_and_the_end_is_not_delayed() -> None:
    made = a_posting("http://127.0.0.1:9/", batch=10)
    made.take([support.a_row(step) for step in range(1000)], 0.0)
    wait(lambda: made.posts["failed"] > 0)

    begun = time.monotonic()
    made.stop(1.0)

    assert time.monotonic() - begun < 1.5
    assert made.rows_dropped == 1000
    assert "Connection refused" in made.failing
