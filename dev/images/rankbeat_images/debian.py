"""Root file systems from Debian packages: downloaded by apt-get, unpacked by dpkg-deb, never installed."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rankbeat_images import bytecode
from rankbeat_images.errors import DebianPackagesError

# The smallest list that carries CPython 3.11 and every wheel in use, each left out once to see (2026-11, Debian 12).
PYTHON = (
    "base-files libc6 libgcc-s1 libstdc++6 zlib1g libbz2-1.0 liblzma5 libffi8 libssl3 libsqlite3-0 libexpat1 libuuid1 "
    "libcrypt1 libpython3.11-minimal libpython3.11-stdlib python3.11-minimal python3.11 ca-certificates media-types "
    "netbase tzdata"
)
UNREAD = ("doc", "man", "info", "lintian", "locale", "doc-base", "bug")
ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnonroot:x:65532:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


@dataclass(frozen=True, slots=True)
class Package:
    """A package version as this machine's index offers it."""

    name: str
    file: str
    sha256: str


def architecture() -> str:
    """Debian's name of this machine's architecture: amd64, arm64."""
    asked = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True)
    return asked.stdout.strip()


def resolved_packages(names: tuple[str, ...], cache: Path) -> tuple[Package, ...]:
    """The versions that the package index names now.

    Asking apt costs a second of CPU, so the answer is kept until the index changes.
    """
    stamp = hashlib.sha256(f"{names}{_index_state()}".encode()).hexdigest()[:16]
    kept = cache / f"resolved-{stamp}.json"
    if kept.exists():
        return tuple(Package(**fields) for fields in json.loads(kept.read_text()))
    answer = _apt_get(names, cache, "--print-uris").stdout
    found = tuple(
        Package(match[1].partition("_")[0], match[1], match[2])
        for match in re.finditer(r"^'[^']+' (\S+) \d+ SHA256:([0-9a-f]{64})$", answer, re.MULTILINE)
    )
    if {package.name for package in found} != set(names):
        raise DebianPackagesError(names, answer)
    kept.write_text(json.dumps([{"name": p.name, "file": p.file, "sha256": p.sha256} for p in found]))
    return found


def unpack(packages: tuple[Package, ...], cache: Path, root: Path) -> None:
    """Unpack the packages into root; apt checks what it downloads, kept files are checked here."""
    missing = tuple(package for package in packages if not _is_intact(package, cache))
    if missing:
        _apt_get(tuple(f"{package.name}={_version(package)}" for package in missing), cache)
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", cache / package.file, root], check=True)
    for folder in UNREAD:
        shutil.rmtree(root / "usr" / "share" / folder, ignore_errors=True)


def finish_python_root(root: Path) -> None:
    """Do by hand what the packages' own scripts would have done, and compile the standard library."""
    for name, text in ACCOUNTS.items():
        (root / "etc" / name).write_text(text)
    certificates = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_bytes(b"".join(path.read_bytes() for path in certificates))
    link(root, "usr/lib/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt")  # else OpenSSL trusts nobody
    for name in ("python", "python3"):
        link(root, f"usr/bin/{name}", "python3.11")
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(0o1777)
    bytecode.compile_folder(root / "usr/lib/python3.11", "/usr/lib/python3.11")


def link(root: Path, name: str, target: str) -> None:
    """A symbolic link in root, with the folders above it; one that exists is kept."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(target)


def _index_state() -> str:
    return repr(sorted((e.name, e.stat().st_mtime_ns, e.stat().st_size) for e in os.scandir("/var/lib/apt/lists")))


def _apt_get(names: tuple[str, ...], cache: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *options, *names]
    ran = subprocess.run(command, cwd=cache, check=False, capture_output=True, text=True)
    if ran.returncode:
        raise DebianPackagesError(names, ran.stderr)
    return ran


def _is_intact(package: Package, cache: Path) -> bool:
    path = cache / package.file
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == package.sha256


def _version(package: Package) -> str:
    """The version, from NAME_VERSION_ARCHITECTURE.deb, where a colon is written %3a."""
    return package.file.split("_")[1].replace("%3a", ":")
