"""Programs end when they are told to, whichever thread takes the signal."""

from __future__ import annotations

import threading

import pytest

from rankbeat_exporter import __main__ as program


class Taken(threading.Event):
    """Of a signal that came to another thread: the main thread is not woken, and finds it set when it looks again."""

    looks = 0

    def wait(self, timeout=None):
        assert timeout is not None, "asleep for ever: Python runs handlers in the main thread, when that wakes"
        self.looks += 1
        return self.looks > 1


@pytest.mark.parametrize("name", ["clock", "devices", "vendor"])
def test_a_program_that_waits_for_its_end_looks_up_now_and_then(name, free_port, tmp_path):
    socket = ("--socket", str(tmp_path / "vendor.sock"))
    web = ("--port", str(free_port), "--address", "127.0.0.1", "--node", "n1")
    run = {"clock": program._clock, "devices": program._devices, "vendor": program._vendor}[name]
    arguments = {"clock": web, "devices": (*socket, *web), "vendor": socket}[name]
    stopped = Taken()

    run(program._parser().parse_args([name, *arguments]), stopped)

    assert stopped.looks == 2
