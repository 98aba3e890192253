"""Where an NPU driver's libraries lie: asked by processes that load none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def library_paths(driver_root: Path) -> tuple[Path, ...]:
    """Where libdcmi.so may lie, best first."""
    return (
        driver_root / "lib64/driver/libdcmi.so",
        driver_root.parent.parent / "dcmi/libdcmi.so",
    )


def library_search_path(driver_root: Path) -> str:
    """LD_LIBRARY_PATH for the process that loads it: libdcmi.so needs its neighbours, libdrvdsmi_host.so and others."""
    return ":".join(str(driver_root / part) for part in ("lib64/driver", "lib64/common", "lib64"))
