"""Where libnvidia-ml.so.1 may lie, and whether a node has NVIDIA's driver at all. pynvml is not needed for that."""

from __future__ import annotations

import os
from pathlib import Path

LIBRARY = "libnvidia-ml.so.1"
ROOT_FOLDERS = ("", "lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64")
"""Below a driver root: Debian's and Red Hat's folders, also of a driver container (/run/nvidia/driver), and lib64 as
in the folder that managed Kubernetes nodes keep their driver in (/home/kubernetes/bin/nvidia)."""
SYSTEM_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64")
"""Where the NVIDIA runtime puts the library into a container, and where a host has it."""
DRIVER_FILES = ("/proc/driver/nvidia/version", "/dev/nvidiactl")


def library_search_path(driver_root: Path | None, inherited: str) -> str:
    """LD_LIBRARY_PATH for the process that loads the library; the inherited value stays, last."""
    folders = [str(driver_root / folder) for folder in ROOT_FOLDERS] if driver_root else []
    return ":".join((*folders, *([inherited] if inherited else [])))


def is_present(driver_root: Path | None) -> bool:
    """Whether driver or library is here. A driver without its library is a node that cannot be read."""
    search_path = library_search_path(driver_root, os.environ.get("LD_LIBRARY_PATH", "")).split(":")
    libraries = (Path(folder) / LIBRARY for folder in (*search_path, *SYSTEM_FOLDERS) if folder)
    return any(path.exists() for path in (*map(Path, DRIVER_FILES), *libraries))
