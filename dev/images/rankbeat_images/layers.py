"""One layer: a folder as a tar whose bytes depend on nothing but names, contents and the executable bit."""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@dataclass(frozen=True, slots=True)
class Layer:
    """A written layer. stable: it changes rarely, so a thin archive leaves it out."""

    name: str
    path: Path
    digest: str
    size_bytes: int
    stable: bool


class _HashingWriter(io.BufferedWriter):
    """A file that keeps the digest of what is written to it, front to end."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "w"), buffer_size=1 << 20)
        self.sha256 = hashlib.sha256()

    def write(self, chunk: "ReadableBuffer") -> int:
        self.sha256.update(chunk)
        return super().write(chunk)


def written_layer(folder: Path, place: str, target: Path, *, name: str, stable: bool) -> Layer:
    """The layer that puts the contents of folder at the absolute path place, written to target."""
    unfinished = target.with_suffix(".unfinished")
    with _HashingWriter(unfinished) as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for entry, source in _entries(folder, place):
                _add(tar, entry, source)
        digest, size_bytes = file.sha256.hexdigest(), file.tell()
    unfinished.replace(target)
    return Layer(name, target, f"sha256:{digest}", size_bytes, stable)


def _entries(folder: Path, place: str) -> Iterator[tuple[tarfile.TarInfo, Path]]:
    """Every entry of the layer in the order of names, parents first."""
    prefix = place.strip("/")
    parents = prefix.split("/") if prefix else []
    for depth in range(1, len(parents) + 1):
        yield _entry("/".join(parents[:depth]), folder), folder
    for source in sorted(_walk(folder)):
        name = source.relative_to(folder).as_posix()
        yield _entry(f"{prefix}/{name}" if prefix else name, source), source


def _walk(folder: Path) -> Iterator[Path]:
    for found in os.scandir(folder):
        yield Path(found.path)
        if found.is_dir(follow_symlinks=False):
            yield from _walk(Path(found.path))


def _entry(name: str, source: Path) -> tarfile.TarInfo:
    """Owner 0, time 0, three possible modes; hard links become files, so link counts do not matter.

    Set-user-id bits are dropped: nothing in these images needs them.
    """
    found = source.lstat()
    entry = tarfile.TarInfo(name)
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.fspath(source.readlink()), 0o777
    elif stat.S_ISDIR(found.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if found.st_mode & stat.S_ISVTX else 0o755
    else:
        entry.size, entry.mode = found.st_size, 0o755 if found.st_mode & stat.S_IXUSR else 0o644
    return entry


def _add(tar: tarfile.TarFile, entry: tarfile.TarInfo, source: Path) -> None:
    if not entry.isreg():
        tar.addfile(entry)
        return
    with source.open("rb") as file:
        tar.addfile(entry, file)
