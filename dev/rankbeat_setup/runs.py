"""One step as it runs: its log, the lines that people see, and the programs that it calls."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

REPO = Path(__file__).resolve().parents[2]
BUILD = REPO / "build"
LOGS = BUILD / "setup-logs"
CACHE = Path(os.environ.get("RANKBEAT_CACHE") or Path.home() / ".cache" / "rankbeat")

_screen = threading.Lock()


def show(line: str) -> None:
    """Print one whole line, whichever thread it comes from."""
    with _screen:
        print(line, flush=True)


class StepError(Exception):
    """One step cannot be finished; the text says what failed and what to do."""


@dataclass
class Run:
    """One step as it runs: its log, and what it has told the person who waits."""

    name: str
    log: TextIO
    started: float = field(default_factory=time.monotonic)
    doing: str = ""
    is_cold: bool = False

    def seconds(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self.started

    def cold(self, doing: str) -> None:
        """Announce work that the cache did not save."""
        self.is_cold = True
        self.say(doing)

    def say(self, doing: str) -> None:
        """Print one line now, and name it in heartbeats."""
        self.doing = doing
        show(f"{self.name:<11} {doing} ...")

    def call(self, *command: str | Path, cwd: Path = REPO, env: Mapping[str, str] | None = None) -> None:
        """Run one program into the step's log.

        Raises: StepError with the program's exit status.
        """
        words = [str(word) for word in command]
        print(f"$ {' '.join(words)}    (in {cwd})", file=self.log, flush=True)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | dict(
            env or {}
        )
        try:
            done = subprocess.run(words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=self.log,
                                  stderr=subprocess.STDOUT, check=False)  # fmt: skip
        except OSError as error:
            raise StepError(f"cannot start {words[0]!r}: {error}") from error
        if done.returncode != 0:
            raise StepError(f"exit status {done.returncode} of {' '.join(words[:6])}")
