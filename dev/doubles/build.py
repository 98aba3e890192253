"""Vendors' libraries without hardware: `python dev/doubles/build.py OUTDIR` makes OUTDIR an NPU driver root."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "dcmi"
NVML = Path(__file__).parent / "nvml"
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")


def build_dcmi(root: Path, without: tuple[str, ...] = (), symbols: str = "dcmi_*") -> Path:
    """root/lib64/driver/libdcmi.so, lacking the symbols named in without, as an older driver would.

    symbols: `dcmi_*` are the first generation's, `dcmiv2_*` those of 950 boards, `dcmi_*; dcmiv2_*` both.
    """
    sources = tuple(SOURCES / name for name in ("dcmi.c", "script.c"))
    return _library(root / "lib64/driver/libdcmi.so", sources, symbols, without)


def build_nvml(folder: Path, without: tuple[str, ...] = ()) -> Path:
    """folder/libnvidia-ml.so.1, lacking the symbols named in without, as an older driver would."""
    return _library(folder / "libnvidia-ml.so.1", (NVML / "nvml.c",), "nvml*", without)


def _library(library: Path, sources: tuple[Path, ...], symbols: str, without: tuple[str, ...]) -> Path:
    library.parent.mkdir(parents=True, exist_ok=True)
    hidden = "".join(f"{symbol}; " for symbol in without)
    with tempfile.NamedTemporaryFile("w", suffix=".map") as version_script:
        version_script.write(f"{{ global: {symbols}; local: {hidden}*; }};\n")
        version_script.flush()
        settings = (f"-Wl,--version-script={version_script.name}", f"-Wl,-soname,{library.name}")
        linked = ("-shared", "-fPIC", *settings, "-o", str(library))
        subprocess.run(("gcc", *FLAGS, *linked, *map(str, sources), "-ldl", "-pthread"), check=True)
    return library


def layouts(folder: Path, sources: Path = SOURCES) -> dict[tuple[str, str], int]:
    """Offsets of fields, and sizes under `*`, as the C compiler lays structures out. folder: where the program goes."""
    program = folder / "layouts"
    subprocess.run(("gcc", *FLAGS, "-o", str(program), str(sources / "layouts.c")), check=True)
    lines = subprocess.run((program,), check=True, capture_output=True, text=True).stdout.splitlines()
    return {(structure, field): int(number) for structure, field, number in map(str.split, lines)}


def main() -> None:
    """Builds into the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--without", action="append", default=[], metavar="SYMBOL", help="leave this function out")
    options = parser.parse_args()
    print(build_dcmi(options.outdir, tuple(options.without)))


if __name__ == "__main__":
    main()
