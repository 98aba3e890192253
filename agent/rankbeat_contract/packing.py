"""How the agent travels: Python files packed into one ConfigMap, its name a hash, its keys mapped back to paths.

Operator and webhook pack the same installed packages with these functions: the one writes the ConfigMap,
the other mounts it.
"""

import hashlib
from typing import Dict, List, Mapping, NamedTuple, Optional

PACKAGES = ("rankbeat_agent", "rankbeat_contract")
"""Installed packages that the agent is made of."""

HASH_DIGITS = 10
_AUTOLOAD = "rankbeat_agent/autoload/sitecustomize.py"
_NOT_DELIVERED = tuple(
    f"rankbeat_contract/{name}"
    for name in (
        "launch.py",
        "metrics/",
        "mindformers.py",
        "monitor.py",
        "outputs.py",
        "packing.py",
        "shell.py",
        "translation/",
        "units.py",
    )
)


class Packed(NamedTuple):
    """The agent as Kubernetes objects hold it."""

    data: Dict[str, str]
    """`data` of the ConfigMap."""
    items: List[Dict[str, str]]
    """`items` of the volume that mounts it, in the order of the keys."""
    hash: str
    """HASH_DIGITS hex digits of the SHA-256 over names and contents."""


def place(path: str) -> Optional[str]:
    """Where a package's file lies in the agent's volume, None if it does not travel.

    path: package name and path within it, with slashes. Only sitecustomize.py stands at the top.
    """
    if path == _AUTOLOAD:
        return "sitecustomize.py"
    return path if path.endswith(".py") and not path.startswith(_NOT_DELIVERED) else None


def packed(files: Mapping[str, str]) -> Packed:
    """The ConfigMap's data, the volume's items and the hash of files (path in the volume -> text).

    Raises: ValueError if two paths give the same key.
    """
    keys = {path.replace("/", "__"): path for path in sorted(files)}
    if len(keys) != len(files):
        raise ValueError(f"two of the paths {sorted(files)!r} give one key, rename the file with __ in its name")
    digest = hashlib.sha256()
    for key in sorted(keys):
        for part in (keys[key].encode(), files[keys[key]].encode()):
            digest.update(len(part).to_bytes(8, "big") + part)
    return Packed(
        data={key: files[keys[key]] for key in sorted(keys)},
        items=[{"key": key, "path": keys[key]} for key in sorted(keys)],
        hash=digest.hexdigest()[:HASH_DIGITS],
    )
