"""What can go wrong with the test cluster, said in words that name the place and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class ClusterError(RuntimeError):
    """A part of the cluster could not be started, reached or removed."""


class MissingProgram(ClusterError):  # noqa: N818 - a noun, as the project names its errors
    """A program that `make setup` leaves is not there."""

    def __init__(self, name: str, place: Path | str) -> None:
        super().__init__(f"program {name!r} is not at {place}: run `make setup` (python3 dev/setup.py)")
        self.name = name


class NotInTime(ClusterError):  # noqa: N818 - a noun, as the project names its errors
    """A part was not ready within its limit, or ended before it was."""

    def __init__(self, what: str, why: str, log: Path | None) -> None:
        lines = log.read_text(errors="replace").splitlines()[-15:] if log and log.exists() else []
        tail = "".join(f"\n    {line}" for line in lines)
        place = f"\n  log: {log}{tail}" if log else ""
        super().__init__(f"{what}: {why}{place}")
        self.what = what
