"""What each step installs or builds. A step calls run.cold() as soon as the cache does not save its work."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_setup import caches
from rankbeat_setup.runs import BUILD, CACHE, REPO, StepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rankbeat_setup.runs import Run

UV = "uv==0.13.9"
# Go 1.27 builds an apiserver with malformed OpenAPI: readyz is green and `kubectl apply` fails (docs/sources.md).
GO_SERIES = "go1.26"
POLICY = Path("/usr/sbin/policy-rc.d")


def debian(run: Run) -> None:
    """Install Debian packages; no service starts."""
    wanted = (REPO / "requirements" / "apt.txt").read_text().split()
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted],
                           capture_output=True, text=True, check=False)  # fmt: skip
    there = {line.split()[0] for line in query.stdout.splitlines() if line.endswith(" installed")}
    missing = [package for package in wanted if package not in there]
    if not missing:
        return
    with caches.lock(run, "debian"), no_services():
        run.cold(f"installing {len(missing)} Debian packages (about 20 s)")
        apt = ("apt-get", "-o", "DPkg::Lock::Timeout=600")
        install = (*apt, "install", "-y", "--no-install-recommends", *missing)
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            run.call(*install, env=quiet)
        except StepError:
            run.say("failed with the package lists of this machine; fetching new ones, then once more")
            run.call(*apt, "update", env=quiet)
            run.call(*install, env=quiet)


@contextlib.contextmanager
def no_services() -> Iterator[None]:
    """Refuse to start services that packages bring: policy-rc.d says 101, "forbidden by policy"."""
    if POLICY.exists():  # containers have one already, and it says the same
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def uv_folder() -> Path:
    """Where uv's own small environment lies in the cache."""
    return CACHE / "uv" / caches.digest(UV, sys.version)


def uv(run: Run) -> None:
    """An environment that holds uv; its program is native, so the folder may be renamed."""

    def build(folder: Path) -> None:
        run.call(sys.executable, "-m", "venv", folder)
        run.call(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV)

    folder = caches.built_folder(run, uv_folder(), "installing uv (about 15 s)", build)
    caches.link(folder / "bin" / "uv", BUILD / "bin" / "uv")


def python311() -> str:
    """The interpreter for environments: this one if it is 3.11, else whatever uv finds."""
    return sys.executable if sys.version_info[:2] == (3, 11) else "3.11"


def distribution(folder: Path) -> str:
    """What of a pyproject.toml decides how its packages are installed; settings of linters do not."""
    whole = tomllib.loads((folder / "pyproject.toml").read_text())
    return repr([whole["project"], whole["build-system"], whole["tool"]["hatch"]])


def venv(run: Run) -> None:
    """.venv: everything locked in requirements/dev.txt, and this repository's packages, editable."""
    program, locked, folder = uv_folder() / "bin" / "uv", REPO / "requirements" / "dev.txt", REPO / ".venv"
    key = caches.digest(python311(), locked, *(distribution(REPO / place) for place in (".", "agent")))

    def build() -> None:
        if not (folder / "bin" / "python").exists():
            run.call(program, "venv", "--quiet", "--no-python-downloads", "--clear", "--python", python311(), folder)
        inside = {"VIRTUAL_ENV": str(folder)}
        run.call(program, "pip", "sync", "--require-hashes", locked, env=inside)
        run.call(program, "pip", "install", "--no-deps", "-e", "agent", "-e", ".", env=inside)

    caches.stamped_environment(run, folder, key, "installing the development environment .venv (about 20 s)", build)


def training_environment(run: Run, name: str, doing: str, locks: tuple[Path, ...]) -> None:
    """An environment that trains, with bytecode: without it each process imports for 6-13 s instead of 1.8 s.

    locks: the first with all dependencies, each other installed on top without any.
    """
    program = uv_folder() / "bin" / "uv"
    key = caches.digest(python311(), *locks)
    folder = CACHE / name / key

    def build() -> None:
        inside = {"VIRTUAL_ENV": str(folder)}
        run.call(program, "venv", "--quiet", "--no-python-downloads", "--clear", "--python", python311(), folder)
        run.call(program, "pip", "sync", "--require-hashes", "--compile-bytecode", locks[0], env=inside)
        for lock in locks[1:]:
            options = ("--no-deps", "--require-hashes", "--compile-bytecode")
            run.call(program, "pip", "install", *options, "-r", lock, env=inside)

    caches.stamped_environment(run, folder, key, doing, build)
    caches.link(folder, BUILD / name)


def mindspore(run: Run) -> None:
    """What tests and demo train with."""
    locks = (REPO / "requirements" / "mindspore.txt",)
    training_environment(run, "mindspore", "installing MindSpore, 2.7 GB (about 45 s)", locks)


def mindformers(run: Run) -> None:
    """What tests train a Llama with, and one benchmark compares with: MindFormers and its own monitor."""
    locks = tuple(REPO / "requirements" / f"{name}.txt" for name in ("mindformers", "mindformers-only"))
    training_environment(run, "mindformers", "installing MindFormers, 3.4 GB (about 60 s)", locks)


def go_tools(run: Run, module: Path, version_flags: Callable[[str], str], doing: str) -> None:
    """All tools of a Go module in the cache, and a link to each under build/bin."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    env = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    try:
        command = [go, "env", "GOVERSION", "GOARCH"]
        version = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise StepError(f"no usable Go: {error}") from error
    if not version.startswith(GO_SERIES):
        raise StepError(f"{go} is {version.split()[0]!r}; Kubernetes 1.36 needs {GO_SERIES} (1.27 breaks its OpenAPI)")
    flags = "-s -w " + version_flags((module / "go.mod").read_text())
    sources = sorted([module / "go.mod", module / "go.sum", *module.rglob("*.go")])

    def build(folder: Path) -> None:
        run.call(
            go,
            "build",
            "-trimpath",
            "-gcflags=all=-dwarf=false",
            "-ldflags",
            flags,
            "-o",
            f"{folder}/",
            "tool",
            cwd=module,
            env=env,
        )

    folder = caches.built_folder(run, CACHE / "bin" / caches.digest(version, flags, *sources), doing, build)
    for program in sorted(folder.iterdir()):
        caches.link(program, BUILD / "bin" / program.name)


def required(go_mod: str, module: str) -> str:
    """The version of one requirement of a go.mod."""
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise StepError(f"{module} is not required by its go.mod: restore the file from git")
    return found[1]


def kubernetes(run: Run) -> None:
    """The six Kubernetes programs; Helm's kubeVersion check and clients compare the version that is set here."""

    def flags(go_mod: str) -> str:
        version = required(go_mod, "k8s.io/kubernetes")
        major, minor, _ = version.removeprefix("v").split(".", 2)
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())

    doing = "building the six Kubernetes programs (first time: about 10 min)"
    go_tools(run, REPO / "dev" / "cluster" / "kubernetes", flags, doing)


def addons(run: Run) -> None:
    """Helm, a small CoreDNS and etcd."""

    def flags(go_mod: str) -> str:
        return f"-X helm.sh/helm/v4/internal/version.version={required(go_mod, 'helm.sh/helm/v4')}"

    doing = "building Helm, CoreDNS and etcd (first time: about 5 min)"
    go_tools(run, REPO / "dev" / "cluster" / "addons", flags, doing)


def write_images(run: Run, doing: str, *names: str) -> None:
    """Have the images' own program write those that its cache lacks (all, where none is named)."""
    run.say(doing)
    run.call(REPO / ".venv" / "bin" / "python", "-m", "rankbeat_images", *names, env={"PYTHONPATH": "dev/images"})
    layers = re.findall(r"(\d+) of (\d+) layers from cache", Path(run.log.name).read_text())
    run.is_cold = any(cached != all_ for cached, all_ in layers)


def tools(run: Run) -> None:
    """promtool and amtool, from the Debian packages out of which two of the images are made."""
    write_images(run, "unpacking Prometheus and Alertmanager (first time: about 15 s)", "prometheus", "alertmanager")
    for name, place in json.loads((BUILD / "tools.json").read_text()).items():
        caches.link(Path(place), BUILD / "bin" / name)


def images(run: Run) -> None:
    """Container images, by the program that owns them and caches each by its own inputs."""
    write_images(run, "writing the container images that the cache lacks (first time: about 1 min)")
