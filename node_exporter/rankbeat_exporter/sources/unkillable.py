"""Processes of ours that hang in a vendor's driver, in uninterruptible sleep, where SIGKILL does not end them."""

from __future__ import annotations

import logging
import subprocess

_log = logging.getLogger(__name__)

Child = subprocess.Popen[bytes]


class Unkillable:
    """Those of one driver: while one is left, no process is started that would enter the driver too.

    One that runs already may follow: a library's child and a tool, so that two are left at most.
    """

    def __init__(self) -> None:
        self._children: tuple[Child, ...] = ()

    def note(self, child: Child, what: str) -> None:
        """That it was killed, and goes on."""
        _log.error("%s cannot be killed pid=%d", what, child.pid)
        self._children = (*self._children, child)

    def left(self) -> tuple[Child, ...]:
        """Those that are still there; what is gone is let go of."""
        ended = tuple(child for child in self._children if child.poll() is not None)
        for child in ended:
            close_pipes(child)
        self._children = tuple(child for child in self._children if child not in ended)
        return self._children


def close_pipes(child: Child) -> None:
    """Of a process that has ended."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                _log.debug("pipe of a dead child", exc_info=True)
