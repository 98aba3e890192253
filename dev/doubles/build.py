"""Vendors' libraries without hardware: `python dev/doubles/build.py OUTDIR` makes OUTDIR an NPU driver root."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "dcmi"
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")


def build_dcmi(root: Path, without: tuple[str, ...] = ()) -> Path:
    """root/lib64/driver/libdcmi.so, lacking the symbols named in without, as an older driver would."""
    library = root / "lib64/driver/libdcmi.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    hidden = "".join(f"{symbol}; " for symbol in without)
    with tempfile.NamedTemporaryFile("w", suffix=".map") as version_script:
        version_script.write(f"{{ global: dcmi_*; local: {hidden}*; }};\n")
        version_script.flush()
        linked = ("-shared", "-fPIC", f"-Wl,--version-script={version_script.name}", "-o", str(library))
        subprocess.run(("gcc", *FLAGS, *linked, str(SOURCES / "dcmi.c"), "-ldl"), check=True)
    return library


def layouts(folder: Path) -> dict[tuple[str, str], int]:
    """Offsets of fields, and sizes under `*`, as the C compiler lays structures out. folder: where the program goes."""
    program = folder / "layouts"
    subprocess.run(("gcc", *FLAGS, "-o", str(program), str(SOURCES / "layouts.c")), check=True)
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
