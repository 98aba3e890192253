"""Long-running programs: started detached with a log, known by pid and start time, ended by exactly that."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_cluster import errors, programs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Server:
    """A started program. The start time (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    started_ticks: int


def start(
    command: Sequence[str],
    log: Path,
    *,
    dies_with_us: bool = False,
    env: Mapping[str, str] | None = None,
    keep_open: int | None = None,
) -> Server:
    """A program in a session of its own, its output appended to log.

    dies_with_us: the kernel kills it when this program ends, however it ends.
    keep_open: a descriptor that the program inherits, such as a lock that is to live as long as it.
    """
    words = list(command)
    if dies_with_us:
        words = [programs.installed("setpriv"), "--pdeathsig", "KILL", "--", *words]
    log.parent.mkdir(parents=True, exist_ok=True)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        *([(os.POSIX_SPAWN_DUP2, keep_open, keep_open)] if keep_open is not None else []),  # clears close-on-exec
    ]
    # posix_spawn: no Popen object that warns when a program outlives it, as these are meant to.
    pid = os.posix_spawnp(words[0], words, os.environ | dict(env or {}), file_actions=actions, setsid=True)
    return Server(pid, started_ticks(pid) or 0)


def started_ticks(pid: int) -> int | None:
    """When a live process started; None for one that is gone or a zombie.

    A zombie whose other threads are still ending lives: it holds its files and ports.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - hot in loops
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    threads = int(fields[17])
    return None if fields[0] in "ZX" and threads <= 1 else int(fields[19])


def children_pids(pid: int) -> list[int]:
    """Pids of what a program has started itself."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def children(server: Server) -> list[Server]:
    """What a program has started itself: of nsenter, the program in the node."""
    return [Server(pid, started_ticks(pid) or 0) for pid in children_pids(server.pid)]


def is_running(server: Server) -> bool:
    """Whether exactly this program still runs."""
    reap(server)
    return started_ticks(server.pid) == server.started_ticks


def reap(server: Server) -> None:
    """Take the exit status of a program that is our child and has ended, so that no zombie stays."""
    try:
        os.waitpid(server.pid, os.WNOHANG)
    except ChildProcessError:
        return


def end(server: Server, number: int = signal.SIGKILL, seconds: float = 10.0) -> None:
    """Send a signal and wait until the program is gone; nothing happens if it is gone already.

    Raises: ClusterError if it is still there after `seconds`.
    """
    if not is_running(server):
        return
    try:
        os.kill(server.pid, number)
    except ProcessLookupError:
        return
    until = time.monotonic() + seconds
    while is_running(server):
        if time.monotonic() > until:
            raise errors.ClusterError(f"pid {server.pid} is still there {seconds} s after signal {number}")
        time.sleep(0.005)


def wait(what: str, is_so: Callable[[], bool], seconds: float, needs: Mapping[Path, Server] | None = None) -> None:
    """Return when is_so() gives true.

    needs: servers by their logs; when one of them ends there is nothing to wait for.

    Raises: NotInTime, with the end of the log that explains it.
    """
    until = time.monotonic() + seconds
    needed = dict(needs or {})
    while not is_so():
        for log, server in needed.items():
            if not is_running(server):
                raise errors.NotInTime(what, f"{log.stem} ended", log)
        if time.monotonic() > until:
            raise errors.NotInTime(what, f"not so after {seconds:.0f} s", next(iter(needed), None))
        time.sleep(POLL_SECONDS)
