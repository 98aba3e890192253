"""When a program counts as gone."""

import os
import subprocess
import sys
import time
from pathlib import Path

from rankbeat_cluster import servers

ENDS_THREAD_BY_THREAD = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)  # exit(2), of the first thread only
"""


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_zombie_with_a_thread_that_still_ends_is_not_gone():
    """A killed API server looks like that for a moment, and still holds its port."""
    program = subprocess.Popen([sys.executable, "-c", ENDS_THREAD_BY_THREAD])
    while state_of(program.pid) != "Z":
        time.sleep(0.01)

    assert servers.started_ticks(program.pid) is not None

    os.kill(program.pid, 9)
    program.wait()
    assert servers.started_ticks(program.pid) is None
