"""Where vendors' drivers lie on a node, and whose are there: asked by processes that load no library."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI, VENDOR_NVIDIA
from rankbeat_exporter.sources import dcmi_places, nvml_places


class DriverRoots(NamedTuple):
    """Where vendors' drivers lie: npu as npu.driverRoot; nvidia where no runtime brings the library."""

    npu: Path
    nvidia: Path | None = None


def present_vendors(roots: DriverRoots) -> tuple[str, ...]:
    """Whose library, or at least whose driver, is here: a few questions to the file system."""
    present = {VENDOR_HUAWEI: dcmi_is_present(roots.npu), VENDOR_NVIDIA: nvml_places.is_present(roots.nvidia)}
    return tuple(vendor for vendor, is_present in present.items() if is_present)


def dcmi_is_present(driver_root: Path) -> bool:
    return any(path.exists() for path in (*dcmi_places.library_paths(driver_root), Path("/dev/davinci_manager")))
