"""Where the cluster's programs are: build/bin for those that setup builds, PATH for Debian's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rankbeat_cluster import errors

REPO = Path(__file__).resolve().parents[3]
BIN = REPO / "build" / "bin"
CACHE = Path(os.environ.get("RANKBEAT_CACHE") or Path.home() / ".cache" / "rankbeat")
CNI_BIN = Path("/usr/lib/cni")


def built(name: str) -> str:
    """The path of a program that setup builds: the six Kubernetes programs, helm, coredns.

    Raises: MissingProgram.
    """
    place = BIN / name
    if not place.exists():
        raise errors.MissingProgram(name, place)
    return str(place.resolve())


def installed(name: str) -> str:
    """The path of a program of a Debian package (requirements/apt.txt).

    Raises: MissingProgram.
    """
    place = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin")
    if place is None:
        raise errors.MissingProgram(name, "PATH")
    return place
