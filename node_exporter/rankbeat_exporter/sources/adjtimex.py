"""The kernel's clock state by adjtimex(2), read only: needs no capability, but seccomp or gVisor may refuse."""

from __future__ import annotations

import ctypes
import errno
import os

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.parsing.kernel import Timex


class TimexStructure(ctypes.Structure):
    """struct timex of 64-bit Linux (adjtimex(2)); its 44 reserved bytes at the end are ours to keep."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


_LIBC = ctypes.CDLL(None, use_errno=True)


def timex() -> Timex:
    """What the kernel says now.

    Raises: CannotMeasure(NotPermitted | NotSupported | KernelError).
    """
    buffer = TimexStructure()  # modes stays 0: nothing is set
    ctypes.set_errno(0)
    state = _LIBC.adjtimex(ctypes.byref(buffer))
    if state < 0:
        number = ctypes.get_errno()
        reasons = {errno.EPERM: "NotPermitted", errno.EACCES: "NotPermitted", errno.ENOSYS: "NotSupported"}
        raise CannotMeasure(reasons.get(number, "KernelError"), os.strerror(number))
    return Timex(state, buffer.status, buffer.offset, buffer.maxerror, buffer.esterror)
