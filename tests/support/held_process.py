"""A real process that SIGKILL does not end, as one in the driver's uninterruptible sleep: until released.

Run as a program it is such a process: a tracer, in a session of its own, holds it where it would exit (ptrace(2),
PTRACE_O_TRACEEXIT). argv[1]: a file that gets the tracer's process id.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_PTRACER = 0x59616D61
PTRACE_SEIZE = 0x4206
PTRACE_O_TRACEEXIT = 0x40
SECONDS = 60.0
"""Nothing is left of it after so long."""


def command(folder: Path) -> list[str]:
    """What to start; release(folder) lets it die."""
    return [sys.executable, __file__, str(folder / "tracer")]


def release(folder: Path) -> None:
    """Ends the tracer, and with it what holds the process."""
    os.kill(int((folder / "tracer").read_text()), signal.SIGKILL)


def _hold(libc: ctypes.CDLL, pid: int, may_begin: int, is_held: int) -> None:
    os.setsid()  # the signal is for the tool's session
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.read(may_begin, 1)
    if libc.ptrace(PTRACE_SEIZE, pid, None, ctypes.c_void_p(PTRACE_O_TRACEEXIT)):
        os._exit(ctypes.get_errno())
    os.write(is_held, b"x")
    os.close(is_held)
    time.sleep(SECONDS)
    os._exit(0)


def main() -> None:
    """Is held, says so, and waits."""
    libc = ctypes.CDLL(None, use_errno=True)
    (may_begin, begin), (held, is_held) = os.pipe(), os.pipe()
    pid, tracer = os.getpid(), os.fork()
    if not tracer:
        _hold(libc, pid, may_begin, is_held)
    os.close(is_held)
    libc.prctl(PR_SET_PTRACER, ctypes.c_ulong(tracer), 0, 0, 0)  # fails without Yama, which alone asks for it
    os.write(begin, b"x")
    if os.read(held, 1) != b"x":
        raise SystemExit("this machine allows no tracing")
    fresh = Path(sys.argv[1] + ".new")
    fresh.write_text(str(tracer))
    fresh.replace(sys.argv[1])
    time.sleep(SECONDS)


if __name__ == "__main__":
    main()
