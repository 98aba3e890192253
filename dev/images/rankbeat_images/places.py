"""Where things lie on the machine that writes images."""

import os
import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def cache_folder() -> Path:
    """The folder shared by every checkout: RANKBEAT_CACHE, else ~/.cache/rankbeat."""
    chosen = os.environ.get("RANKBEAT_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "rankbeat"


def uv_program() -> str:
    """Path of uv: the set-up's, else the machine's.

    Raises: FileNotFoundError where there is neither.
    """
    program = REPOSITORY / "build" / "bin" / "uv"
    found = str(program) if program.exists() else shutil.which("uv")
    if found is None:
        raise FileNotFoundError(f"no uv at {program} and none on PATH: run `python3 dev/setup.py --only uv`")
    return found


def python_of_the_images() -> str:
    """An interpreter whose bytecode Debian's Python 3.11 accepts."""
    if sys.implementation.cache_tag == "cpython-311":
        return sys.executable
    return shutil.which("python3.11") or sys.executable
