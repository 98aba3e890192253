"""Folders of Python packages: third parties' from lock files, our own from the repository."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rankbeat_images import bytecode, places
from rankbeat_images.errors import MissingInputError

PLATFORMS = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
# Scripts carry the path of the builder's interpreter, and RECORD their digests; nothing installs into an image.
NOT_FOR_IMAGES = ("bin", ".lock", "*.dist-info/RECORD")
# 2.7 GB become 0.7 GB: training under msrun on CPU gives the same losses and weights without these (2026-11, 2.10.0).
# lib/plugin/cpu holds only libakg; libmindspore_ops_cpu.so beside it is needed.
MINDSPORE_ON_CPU_LEAVES_OUT = (
    "mindspore/include",
    "mindspore/_akg",
    "mindspore/lib/plugin/cpu",
    "mindspore/lib/plugin/gpu*",
    "mindspore/lib/plugin/ascend",
    "mindspore/lib/plugin/libmindspore_gpu*",
    "mindspore/lib/plugin/libmindspore_ascend*",
    "mindspore/lib/plugin/libmindspore_ops_ascend.so",
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where packages go: folder while the layer is made, place in the image."""

    folder: Path
    place: str


def install_locked(locks: tuple[Path, ...], target: Target, architecture: str, leave_out: tuple[str, ...] = ()) -> None:
    """Install the locked wheels for the images' interpreter, without what leave_out matches, with bytecode."""
    command = [places.uv_program(), "pip", "install", "--quiet", "--target", str(target.folder), "--no-config"]
    command += ["--python", places.python_of_the_images(), "--python-version", "3.11"]
    command += ["--python-platform", PLATFORMS[architecture], "--only-binary", ":all:", "--require-hashes"]
    for lock in locks:
        command += ["-r", str(present(lock, "run dev/lock.sh"))]
    subprocess.run(command, check=True)
    for pattern in (*NOT_FOR_IMAGES, *leave_out):
        for found in target.folder.glob(pattern):
            _delete(found)
    bytecode.compile_folder(target.folder, target.place)


def copy_own(packages: tuple[Path, ...], target: Target) -> None:
    """Copy our packages, sources and package files only, and compile them."""
    for package in packages:
        for source in own_files(package):
            copy = target.folder / package.name / source.relative_to(package)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    bytecode.compile_folder(target.folder, target.place)


def own_files(package: Path) -> tuple[Path, ...]:
    """Every file of a package of ours that belongs in an image."""
    found = sorted(present(package, "an image needs this package").rglob("*"))
    return tuple(path for path in found if path.is_file() and not path.match("*/__pycache__/*"))


def present(path: Path, remedy: str) -> Path:
    """The path, which exists.

    Raises: MissingInputError.
    """
    if not path.exists():
        raise MissingInputError(path, remedy)
    return path


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
