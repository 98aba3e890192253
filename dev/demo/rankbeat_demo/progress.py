"""Steps of a long program: shown while they run, timed, and written down at the end."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar


class Progress:
    """Prints one line per step and keeps the seconds each took."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str, text: str) -> Iterator[None]:
        """Runs a step: `name` is its key in the figures, `text` what a person reads."""
        began = time.monotonic()
        print(f"  {text} ...", end="", flush=True)
        try:
            yield
        except BaseException:
            print(f" failed after {time.monotonic() - began:.1f} s", flush=True)
            raise
        self.seconds[name] = round(time.monotonic() - began, 1)
        print(f" {self.seconds[name]:.1f} s", flush=True)

    @property
    def total_seconds(self) -> float:
        return round(time.monotonic() - self.started, 1)


T = TypeVar("T")


def wait_for(what: str, condition: Callable[[], T | None], timeout_seconds: float, pause_seconds: float = 0.25) -> T:
    """The first true value of condition().

    Raises: TimeoutError naming `what` after timeout_seconds.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_seconds:.0f} s")
        time.sleep(pause_seconds)


def is_terminal() -> bool:
    return sys.stdout.isatty()
