"""Where things lie on the machine that writes images."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
UV_VERSION = "0.13.9"


def cache_folder() -> Path:
    """The folder shared by every checkout: RANKBEAT_CACHE, else ~/.cache/rankbeat."""
    chosen = os.environ.get("RANKBEAT_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "rankbeat"


def uv_program() -> str:
    """Path of uv; installs it into the cache where the machine has none."""
    own = cache_folder() / "tools" / "uv"
    program = own / "bin" / "uv"
    if program.exists():
        return str(program)
    found = shutil.which("uv")
    if found:
        return found
    venv.create(own, with_pip=True)
    subprocess.run([own / "bin" / "pip", "install", "--quiet", f"uv=={UV_VERSION}"], check=True)
    return str(program)


def python_of_the_images() -> str:
    """An interpreter whose bytecode Debian's Python 3.11 accepts."""
    if sys.implementation.cache_tag == "cpython-311":
        return sys.executable
    return shutil.which("python3.11") or sys.executable
