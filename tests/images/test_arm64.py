"""Images for arm64: made here of arm64's wheels, run nowhere here (docs/unverified.md)."""

import struct

import pytest

from rankbeat_images import places, python_packages, recipes

EM_AARCH64 = 183
EM_X86_64 = 62


def machines(folder):
    """Of every shared library in folder, the machine in its ELF header."""
    headers = [path.read_bytes()[:20] for path in folder.rglob("*.so*")]
    return {struct.unpack_from("<H", header, 18)[0] for header in headers if header.startswith(b"\x7fELF")}


@pytest.mark.registry
@pytest.mark.parametrize(("architecture", "machine"), [("arm64", EM_AARCH64), ("amd64", EM_X86_64)])
@pytest.mark.parametrize("name", ["operator", "node", "aggregator"])
def test_the_locks_of_an_image_have_every_wheel_of_both_architectures(name, architecture, machine, tmp_path):
    [part] = [layer for layer in recipes.RECIPES[name].layers if isinstance(layer, recipes.LockedPackages)]
    locks = tuple(places.REPOSITORY / lock for lock in part.locks)

    python_packages.install_locked(locks, python_packages.Target(tmp_path, recipes.SITE), architecture, part.leave_out)

    assert machines(tmp_path) == {machine}
