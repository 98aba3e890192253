"""The three images that the cluster itself needs, and the import of any image into a node's containerd.

Names begin with localhost/, which containerd does not expand, so no registry is ever asked. Archives are kept in the
cache under a hash of what is in them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_cluster import errors, node, programs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rankbeat_cluster.state import Node

IMPORT_TRIES = 3
"""When a name moves to a new image, containerd 1.6 may collect the old one's snapshots while the new one is unpacked on
top of them: "parent snapshot does not exist"."""
PAUSE_SOURCE = """
#include <signal.h>
#include <unistd.h>
#include <sys/wait.h>
static void end(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) {
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGCHLD, reap);
    for (;;) pause();
}
"""


def _cached(name: str, key: str) -> Path:
    return programs.CACHE / "cluster-images" / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.tar"


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _layer(files: Mapping[str, bytes], links: Mapping[str, str], folders: Sequence[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name, content in files.items():
            _add(tar, name, content, 0o644 if name.startswith("etc/") else 0o755)
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()


def write(place: Path, reference: str, layer: bytes, command: Sequence[str]) -> Path:
    """One image of one layer as a docker archive at `place`, whole or not at all."""
    digest = hashlib.sha256(layer).hexdigest()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": list(command), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": [f"{digest}/layer.tar"]}]
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _add(tar, config_name, config)
            _add(tar, f"{digest}/layer.tar", layer)
            _add(tar, "manifest.json", json.dumps(manifest).encode())
        Path(file.name).replace(place)
    return place


def pause() -> Path:
    """localhost/pause:1, the program that holds a pod's namespaces."""
    place = _cached("pause", PAUSE_SOURCE)
    if place.exists():
        return place
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "pause.c", Path(folder) / "pause"
        source.write_text(PAUSE_SOURCE)
        subprocess.run([programs.installed("gcc"), "-Os", "-static", "-s", "-o", program, source], check=True)
        return write(place, "localhost/pause:1", _layer({"pause": program.read_bytes()}, {}, ()), ["/pause"])


def busybox() -> Path:
    """localhost/busybox:1, a shell and tools for test pods."""
    program = Path(programs.installed("busybox"))
    content = program.read_bytes()
    place = _cached("busybox", hashlib.sha256(content).hexdigest())
    if place.exists():
        return place
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"bin/{name}": "busybox" for name in names if name != "busybox"}
    etc = {"etc/passwd": b"root:x:0:0:root:/:/bin/sh\n", "etc/group": b"root:x:0:\n"}
    layer = _layer({"bin/busybox": content, **etc}, links, ("bin", "etc", "tmp", "var"))
    return write(place, "localhost/busybox:1", layer, ["/bin/sh"])


def coredns() -> Path:
    """localhost/coredns:1."""
    program = Path(programs.built("coredns"))
    place = _cached("coredns", str(program.resolve()))  # the folder of a built program is named by its inputs
    if place.exists():
        return place
    layer = _layer({"coredns": program.read_bytes()}, {}, ())
    return write(place, "localhost/coredns:1", layer, ["/coredns"])


def _digest(archive: Path) -> str:
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def references(archive: Path) -> tuple[str, ...]:
    """The names that an archive, docker's or OCI's, gives to its images."""
    with tarfile.open(archive) as tar:
        names = set(tar.getnames())
        for name in {"manifest.json", "index.json"} & names:
            document = json.load(tar.extractfile(name) or io.BytesIO(b"[]"))
            if name == "manifest.json":
                return tuple(reference for image in document for reference in image["RepoTags"])
            return tuple(each["annotations"]["io.containerd.image.name"] for each in document["manifests"])
    raise errors.ClusterError(f"{archive} is no image archive: it holds neither manifest.json nor index.json")


def answers(target: Node) -> bool:
    """Whether a node's containerd does."""
    command = node.inside(target, ["ctr", "--connect-timeout", "2s", "version"])
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def load(archive: Path, digest: str, target: Node) -> bool:
    """Import one archive into a node unless its names stand for this archive already; whether it was imported.

    Raises: ClusterError with what ctr said.
    """
    folder = Path(target.containerd) / "rankbeat-imported"
    marks = [folder / reference.replace("/", "_") for reference in references(archive)]
    if all(mark.exists() and mark.read_text() == digest for mark in marks):
        return False
    command = node.inside(target, ["ctr", "--namespace", "k8s.io", "images", "import", str(archive)])
    said = ""
    for _ in range(IMPORT_TRIES):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        said = (done.stdout + done.stderr).strip()
        time.sleep(1)
    else:
        raise errors.ClusterError(
            f"import of {archive} into node {target.name}: {said}; "
            f"if it stays so, take the cluster down and remove {target.containerd}"
        )
    folder.mkdir(exist_ok=True)
    for mark in marks:
        mark.write_text(digest)
    return True


def load_all(archives: Sequence[Path], nodes: Sequence[Node]) -> int:
    """Import archives into every node, by absolute path; how many imports were needed."""
    count = 0
    for archive in archives:
        digest = _digest(archive)
        count += sum(load(archive.resolve(), digest, each) for each in nodes)
    return count
