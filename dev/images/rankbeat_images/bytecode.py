"""Bytecode that stays valid in an image."""

import os
import subprocess
from pathlib import Path

from rankbeat_images import places


def compile_folder(folder: Path, place: str) -> None:
    """Compile all sources below folder, which will lie at place in the image.

    unchecked-hash, because every file of a layer has time 0 and ordinary bytecode is checked against its source's time.
    One process, a fixed hash seed and no site (-S), because marshal's bytes depend on the order of sets and on which
    strings are alive elsewhere: one file of 8,000 differed between an interpreter and its virtual environment.
    Files that do not compile (templates, tests of syntax errors) stay sources.
    """
    options = ["-q", "-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", place]
    command = [places.python_of_the_images(), "-S", "-W", "ignore", "-m", "compileall", *options, str(folder)]
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0", "PYTHONNOUSERSITE": "1"}
    subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)
