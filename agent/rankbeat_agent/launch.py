"""Stands between the container's first process and msrun, on request (spec.msrun.fix: signals, exitCode).

python3 -I -S launch.py check            ends with 0 where it can do its work
python3 -I -S launch.py FIXES COMMAND...  runs COMMAND; FIXES: signals, exitCode or both, with a comma

msrun knows no SIGTERM: as process 1 it ignores it, as a child it dies and leaves its workers. On SIGINT it kills its
workers and ends with 0. Source: docs/sources.md, msrun. Standard library only; imports nothing of ours.
"""

import errno
import os
import signal
import sys
import time
from typing import Callable, Dict, FrozenSet, Iterable, List, Optional

SIGNALS = "signals"
EXIT_CODE = "exitCode"
END_SECONDS = 2.0
"""How long processes that do not catch SIGTERM may take to die of it, before SIGKILL."""
FINISH_SECONDS = 2.0
"""How long msrun may take to notice that its workers are gone: it looks once a second."""
ORPHAN_SECONDS = 2.0
"""How long a killed worker may take to give its memory back, after msrun has gone."""
POLL_SECONDS = 0.1

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Process:
    """One line of /proc: parent, session and state of a process."""

    __slots__ = ("parent", "pid", "session", "state")

    def __init__(self, pid: int, state: str, parent: int, session: int) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.session = session

    @property
    def is_worker(self) -> bool:
        """msrun starts each worker in a session of its own, and nothing else."""
        return self.session == self.pid

    @property
    def is_alive(self) -> bool:
        return self.state not in {"Z", "X"}


def read(path: str) -> bytes:
    """A file of /proc."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    pieces: List[bytes] = []
    try:
        while True:
            piece = os.read(descriptor, 65536)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
    finally:
        os.close(descriptor)


def process(pid: int) -> Optional[Process]:
    """The process, None if it is gone. proc_pid_stat(5); a name may hold blanks and brackets."""
    try:
        fields = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[3]))


def descendants() -> List[Process]:
    """All processes below this one that are alive."""
    every = [process(int(entry.name)) for entry in os.scandir("/proc") if entry.name.isdigit()]
    children: Dict[int, List[Process]] = {}
    for each in every:
        if each is not None:
            children.setdefault(each.parent, []).append(each)
    found: List[Process] = []
    below = list(children.get(os.getpid(), ()))
    while below:
        each = below.pop()
        below.extend(children.get(each.pid, ()))
        if each.is_alive:
            found.append(each)
    return found


def workers() -> List[Process]:
    """Workers of msrun that are alive."""
    return [each for each in descendants() if each.is_worker]


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal."""
    try:
        caught = read("/proc/%d/status" % pid).partition(b"\nSigCgt:")[2].split()
    except OSError:
        return False
    return bool(caught and int(caught[0], 16) >> (number - 1) & 1)


def send(pids: Iterable[int], number: int) -> None:
    """The signal to each that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:  # noqa: PERF203 - a handful of processes
            continue


def waitable() -> Optional[os.waitid_result]:
    """A child that has ended and is not waited for yet."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None


class Child:
    """The command, and what became of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: Optional[int] = None
        """Exit code as a shell counts it, None while it runs."""
        self.has_killed_orphan = False
        """Whether a worker that nobody waited for ended by SIGKILL after the command had gone."""

    def reap(self) -> None:
        """Wait for whatever has ended."""
        has_killed = False
        ended = waitable()
        while ended is not None:
            if ended.si_pid == self.pid:
                killed = ended.si_code != os.CLD_EXITED
                self.code = ended.si_status + (128 if killed else 0)
            elif ended.si_code == os.CLD_KILLED and ended.si_status == signal.SIGKILL:
                orphan = process(ended.si_pid)
                has_killed |= orphan is not None and orphan.is_worker
            os.waitpid(ended.si_pid, 0)
            ended = waitable()
        # As the command ends its children become ours, in one moment: which of them is waited for first is chance.
        self.has_killed_orphan |= has_killed and self.code is not None

    def wait(self, is_over: Callable[[], bool], seconds: Optional[float]) -> bool:
        """Whether is_over within so many seconds (None: however long it takes)."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            self.reap()
            if is_over():
                self.reap()  # what has ended since
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            signal.sigtimedwait({signal.SIGCHLD}, POLL_SECONDS)


def end(child: Child) -> None:
    """SIGTERM to all, the workers first; back when nothing is left that would not be killed with us."""
    found = [each.pid for each in workers()]
    send(found, signal.SIGTERM)
    # A worker that catches SIGTERM saves its work: it has the whole grace period, after which the kubelet kills us all.
    child.wait(lambda: not any(catches(each.pid, signal.SIGTERM) for each in workers()), None)
    if not child.wait(lambda: not workers(), END_SECONDS):
        send([each.pid for each in workers()], signal.SIGKILL)
    if found:
        child.wait(lambda: child.code is not None, FINISH_SECONDS)
    send([each.pid for each in descendants()], signal.SIGTERM)
    if not child.wait(lambda: not descendants(), END_SECONDS):
        send([each.pid for each in descendants()], signal.SIGKILL)
        child.wait(lambda: child.code is not None, END_SECONDS)


def supervise(child: Child, fixes: FrozenSet[str]) -> int:
    """Exit code of the command, or of the signal that ended it."""
    aborted = 0
    while child.code is None:
        number = signal.sigwait({signal.SIGCHLD, *_HANDLED})
        if number == signal.SIGCHLD:
            child.reap()
        elif number == signal.SIGTERM and SIGNALS in fixes and not catches(child.pid, number):
            end(child)
            return _code(child, fixes, number)
        elif number == signal.SIGINT:
            # As a terminal does: everyone but the workers, which msrun ends itself.
            aborted = number
            send([each.pid for each in descendants() if not each.is_worker], number)
        elif catches(child.pid, number):
            send([child.pid], number)
    if child.code == 0 and EXIT_CODE in fixes and not aborted:
        child.wait(lambda: not workers(), ORPHAN_SECONDS)
        aborted = signal.SIGINT if child.has_killed_orphan else 0
    return _code(child, fixes, aborted)


def _code(child: Child, fixes: FrozenSet[str], number: int) -> int:
    """number: the signal that aborted the command, 0 for none."""
    if child.code is None or (number and EXIT_CODE in fixes and child.code == 0):
        return 128 + number
    return child.code


def environment() -> Dict[bytes, bytes]:
    """What this process was started with: Python itself may have set LC_CTYPE since (PEP 538)."""
    pairs = [entry.partition(b"=") for entry in read("/proc/self/environ").split(b"\0") if b"=" in entry]
    return {name: value for name, _, value in pairs}


def become(command: List[str]) -> None:
    """The command in this process's place; as a shell would, 127 where there is none and 126 where it is no program."""
    found = environment()
    try:
        try:
            os.execvpe(command[0], command, found)  # noqa: S606 - no shell between us and it
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            os.execvpe("sh", ["sh", *command], found)  # noqa: S606
    except OSError as error:
        sys.stderr.write("rankbeat: %s: %s\n" % (command[0], error.strerror))
        sys.stderr.flush()
        os._exit(127 if error.errno == errno.ENOENT else 126)


def run(fixes: FrozenSet[str], command: List[str]) -> int:
    """Exit code of the command."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *_HANDLED})
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two, and exec keeps that
            signal.signal(number, signal.SIG_DFL)
        become(command)
    return supervise(Child(pid), fixes)


def can_run() -> bool:
    """Whether this machine and Python have what is used above."""
    return sys.version_info >= (3, 6) and hasattr(os, "waitid") and process(os.getpid()) is not None


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        sys.exit(0 if can_run() else 1)
    sys.exit(run(frozenset(sys.argv[1].split(",")), sys.argv[2:]))
