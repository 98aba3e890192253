"""Folders under the cache and links to them, safe against another setup that runs at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_setup.runs import CACHE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rankbeat_setup.runs import Run


def digest(*parts: str | Path) -> str:
    """16 hexadecimal digits that change with any text or file content given."""
    sum_ = hashlib.sha256()
    for part in parts:
        sum_.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        sum_.update(b"\0")
    return sum_.hexdigest()[:16]


@contextlib.contextmanager
def lock(run: Run, name: str) -> Iterator[None]:
    """Hold a name against other setups on this machine; a dead holder's lock is free."""
    path = CACHE / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            run.say(f"waits for another setup that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def link(target: Path, place: Path) -> None:
    """Make `place` a symbolic link to target in one step, so that a reader always finds one of the two."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(place)


def built_folder(run: Run, folder: Path, doing: str, build: Callable[[Path], None]) -> Path:
    """`folder`, built in a temporary neighbour and renamed when whole, or found there."""
    with lock(run, f"{folder.parent.name}-{folder.name}"):
        if not folder.exists():
            run.cold(doing)
            folder.parent.mkdir(parents=True, exist_ok=True)
            for broken in folder.parent.glob(f".{folder.name}.*"):  # of a setup that was killed; we hold the lock
                shutil.rmtree(broken, ignore_errors=True)
            fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
            try:
                build(fresh)
                fresh.chmod(0o755)
                fresh.replace(folder)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return folder


def stamped_environment(run: Run, folder: Path, key: str, doing: str, build: Callable[[], None]) -> None:
    """Build a Python environment in its final place; scripts and bytecode name that place, so it cannot be renamed."""
    stamp = folder / ".rankbeat-inputs"
    with lock(run, f"environment-{digest(str(folder))}"):
        if stamp.exists() and stamp.read_text() == key:
            return
        run.cold(doing)
        stamp.unlink(missing_ok=True)
        build()
        stamp.write_text(key)
