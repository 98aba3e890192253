"""A collector's own thread."""

from __future__ import annotations

import threading

import pytest

from rankbeat_exporter.collectors.loop import Loop


@pytest.fixture
def loop():
    """Starts loops and ends them."""
    started = []

    def start(collect, interval_seconds=0.01, patience_seconds=30.0):
        started.append(Loop("test", collect, interval_seconds, patience_seconds))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_a_collection_that_fails_is_logged_and_followed_by_the_next(loop, caplog, eventually):
    calls = []

    def fail():
        calls.append(1)
        raise RuntimeError("broken")

    found = loop(fail)

    eventually(lambda: len(calls) >= 3)
    assert found.is_alive()
    assert "collection failed collector=test" in caplog.text


def test_a_collection_that_does_not_end_fails_the_health_check(loop, eventually):
    released = threading.Event()

    found = loop(released.wait, patience_seconds=0.05)

    eventually(lambda: not found.is_alive())
    released.set()
