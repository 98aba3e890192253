"""Everything that this machine lacks to build, test and show Rankbeat.

    python3 dev/setup.py [--only STEP ...]

Standard library only: it runs before any environment exists. Steps run side by side where they do not need each other;
each is cached by a hash of its inputs under $RANKBEAT_CACHE (default ~/.cache/rankbeat) and may be run by two setups at
once. Leaves build/setup.json, build/bin/PROGRAM, build/mindspore (links into the cache), .venv, build/setup-logs/STEP.log.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

REPO = Path(__file__).resolve().parent.parent
BUILD = REPO / "build"
LOGS = BUILD / "setup-logs"
CACHE = Path(os.environ.get("RANKBEAT_CACHE") or Path.home() / ".cache" / "rankbeat")
UV = "uv==0.13.9"
# Go 1.27 builds an apiserver with malformed OpenAPI: readyz is green and `kubectl apply` fails (facts/cluster.md, 1).
GO_SERIES = "go1.26"
POLICY = Path("/usr/sbin/policy-rc.d")
HEARTBEAT_SECONDS = 30.0


class StepError(Exception):
    """One step cannot be finished; the text says what failed and what to do."""


@dataclass
class Run:
    """One step as it runs: its log, and what it has told the person who waits."""

    name: str
    log: TextIO
    started: float = field(default_factory=time.monotonic)
    doing: str = ""
    is_cold: bool = False

    def seconds(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self.started

    def cold(self, doing: str) -> None:
        """Announce work that the cache did not save."""
        self.is_cold = True
        self.say(doing)

    def say(self, doing: str) -> None:
        """Print one line now, and name it in heartbeats."""
        self.doing = doing
        show(f"{self.name:<11} {doing} ...")

    def call(self, *command: str | Path, cwd: Path = REPO, env: Mapping[str, str] | None = None) -> None:
        """Run one program into the step's log.

        Raises: StepError with the program's exit status.
        """
        words = [str(word) for word in command]
        print(f"$ {' '.join(words)}    (in {cwd})", file=self.log, flush=True)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | dict(env or {})
        try:
            done = subprocess.run(words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=self.log,
                                  stderr=subprocess.STDOUT, check=False)  # fmt: skip
        except OSError as error:
            raise StepError(f"cannot start {words[0]!r}: {error}") from error
        if done.returncode != 0:
            raise StepError(f"exit status {done.returncode} of {' '.join(words[:6])}")


@dataclass(frozen=True)
class Step:
    """A part of the setup, the steps that it needs, and what to do when it fails."""

    name: str
    work: Callable[[Run], None]
    after: tuple[str, ...]
    remedy: str


_screen = threading.Lock()


def show(line: str) -> None:
    """Print one whole line, whichever thread it comes from."""
    with _screen:
        print(line, flush=True)


def digest(*parts: str | Path) -> str:
    """16 hexadecimal digits that change with any text or file content given."""
    sum_ = hashlib.sha256()
    for part in parts:
        sum_.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        sum_.update(b"\0")
    return sum_.hexdigest()[:16]


@contextlib.contextmanager
def lock(run: Run, name: str) -> Iterator[None]:
    """Hold a name against other setups on this machine; a dead holder's lock is free."""
    path = CACHE / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            run.say(f"waits for another setup that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def link(target: Path, place: Path) -> None:
    """Make `place` a symbolic link to target in one step, so that a reader always finds one of the two."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(place)


def built_folder(run: Run, folder: Path, doing: str, build: Callable[[Path], None]) -> Path:
    """`folder`, built in a temporary neighbour and renamed when whole, or found there."""
    with lock(run, f"{folder.parent.name}-{folder.name}"):
        if not folder.exists():
            run.cold(doing)
            folder.parent.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
            try:
                build(fresh)
                fresh.chmod(0o755)
                fresh.replace(folder)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return folder


def stamped_environment(run: Run, folder: Path, key: str, doing: str, build: Callable[[], None]) -> None:
    """Build a Python environment in its final place; scripts and bytecode name that place, so it cannot be renamed."""
    stamp = folder / ".rankbeat-inputs"
    with lock(run, f"environment-{digest(str(folder))}"):
        if stamp.exists() and stamp.read_text() == key:
            return
        run.cold(doing)
        stamp.unlink(missing_ok=True)
        build()
        stamp.write_text(key)


def debian(run: Run) -> None:
    """Install Debian packages; no service starts."""
    wanted = (REPO / "requirements" / "apt.txt").read_text().split()
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted],
                           capture_output=True, text=True, check=False)  # fmt: skip
    there = {line.split()[0] for line in query.stdout.splitlines() if line.endswith(" installed")}
    missing = [package for package in wanted if package not in there]
    if not missing:
        return
    with lock(run, "debian"), no_services():
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
    return CACHE / "uv" / digest(UV, sys.version)


def uv(run: Run) -> None:
    """An environment that holds uv; its program is native, so the folder may be renamed."""

    def build(folder: Path) -> None:
        run.call(sys.executable, "-m", "venv", folder)
        run.call(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV)

    folder = built_folder(run, uv_folder(), "installing uv (about 15 s)", build)
    link(folder / "bin" / "uv", BUILD / "bin" / "uv")


def python311() -> str:
    """The interpreter for environments: this one if it is 3.11, else whatever uv finds."""
    return sys.executable if sys.version_info[:2] == (3, 11) else "3.11"


def venv(run: Run) -> None:
    """.venv: everything locked in requirements/dev.txt, and this repository's packages, editable."""
    program, locked, folder = uv_folder() / "bin" / "uv", REPO / "requirements" / "dev.txt", REPO / ".venv"
    key = digest(python311(), locked, REPO / "pyproject.toml", REPO / "agent" / "pyproject.toml")

    def build() -> None:
        if not (folder / "bin" / "python").exists():
            run.call(program, "venv", "--quiet", "--no-python-downloads", "--clear", "--python", python311(), folder)
        inside = {"VIRTUAL_ENV": str(folder)}
        run.call(program, "pip", "sync", "--require-hashes", locked, env=inside)
        run.call(program, "pip", "install", "--no-deps", "-e", "agent", "-e", ".", env=inside)

    stamped_environment(run, folder, key, "installing the development environment .venv (about 20 s)", build)


def mindspore(run: Run) -> None:
    """The training environment, with bytecode: without it each process imports for 6-13 s instead of 1.8 s."""
    program, locked = uv_folder() / "bin" / "uv", REPO / "requirements" / "mindspore.txt"
    key = digest(python311(), locked)
    folder = CACHE / "mindspore" / key

    def build() -> None:
        run.call(program, "venv", "--quiet", "--no-python-downloads", "--clear", "--python", python311(), folder)
        run.call(program, "pip", "sync", "--require-hashes", "--compile-bytecode", locked,
                 env={"VIRTUAL_ENV": str(folder)})  # fmt: skip

    stamped_environment(run, folder, key, "installing MindSpore, 2.7 GB (about 45 s)", build)
    link(folder, BUILD / "mindspore")


def go_tools(run: Run, module: Path, version_flags: Callable[[str], str], doing: str) -> None:
    """All tools of a Go module in the cache, and a link to each under build/bin."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    env = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    try:
        version = subprocess.run([go, "env", "GOVERSION", "GOARCH"], env=os.environ | env, capture_output=True, text=True, check=True).stdout  # noqa: E501  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        raise StepError(f"no usable Go: {error}") from error
    if not version.startswith(GO_SERIES):
        raise StepError(f"{go} is {version.split()[0]!r}; Kubernetes 1.36 needs {GO_SERIES} (1.27 breaks its OpenAPI)")
    flags = "-s -w " + version_flags((module / "go.mod").read_text())
    sources = sorted([module / "go.mod", module / "go.sum", *module.rglob("*.go")])

    def build(folder: Path) -> None:
        run.call(go, "build", "-trimpath", "-ldflags", flags, "-o", f"{folder}/", "tool", cwd=module, env=env)

    folder = built_folder(run, CACHE / "bin" / digest(version, flags, *sources), doing, build)
    for program in sorted(folder.iterdir()):
        link(program, BUILD / "bin" / program.name)


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
    """Helm and a small CoreDNS."""

    def flags(go_mod: str) -> str:
        return f"-X helm.sh/helm/v4/internal/version.version={required(go_mod, 'helm.sh/helm/v4')}"

    doing = "building Helm and CoreDNS (first time: about 4 min)"
    go_tools(run, REPO / "dev" / "cluster" / "addons", flags, doing)


def images(run: Run) -> None:
    """Container images, by the program that owns them and caches each by its own inputs."""
    if not (REPO / "dev" / "images" / "rankbeat_images" / "__main__.py").exists():
        run.say("no dev/images/rankbeat_images here: nothing to do")
        return
    run.cold("writing container images (first time: about 1 min)")
    run.call(REPO / ".venv" / "bin" / "python", "-m", "rankbeat_images", env={"PYTHONPATH": "dev/images"})


NETWORK = "look at the log; if a download failed, check this machine's package index settings and run setup again"
STEPS = (
    Step("kubernetes", kubernetes, (), "install Go 1.26 as `go` on PATH; the build needs 6 GB disk and 2 GB memory"),
    Step("uv", uv, (), NETWORK),
    Step("debian", debian, (), "run as root on Debian 12 or later; " + NETWORK),
    Step("venv", venv, ("uv",), NETWORK),
    Step("mindspore", mindspore, ("uv",), NETWORK),
    # After Kubernetes: they share packages in Go's build cache and would only fight for the cores.
    Step("addons", addons, ("kubernetes",), "look at the log; setup continues where it stopped"),
    Step("images", images, ("debian", "venv", "mindspore", "addons"), "look at the log; the images are rebuilt one by one"),
)


def run_step(step: Step) -> dict[str, object]:
    """Seconds and state (cold, warm) of one step."""
    with (LOGS / f"{step.name}.log").open("w") as log:
        run = Run(step.name, log)
        RUNNING[step.name] = run
        try:
            step.work(run)
        finally:
            del RUNNING[step.name]
    state = "cold" if run.is_cold else "warm"
    show(f"{step.name:<11} done  {run.seconds():.1f} s  {state}")
    return {"seconds": round(run.seconds(), 3), "state": state}


RUNNING: dict[str, Run] = {}


def heartbeat() -> None:
    """Say for each running step how long it has been at what."""
    for run in list(RUNNING.values()):
        show(f"{run.name:<11} {run.doing or 'starting'} ... {run.seconds():.0f} s")


def run_all(steps: Sequence[Step]) -> tuple[dict[str, dict[str, object]], dict[str, BaseException]]:
    """What each step gave back, and what each failed step raised; those that need a failed one are not started."""
    names = {step.name for step in steps}
    waiting, going = list(steps), {}
    results: dict[str, dict[str, object]] = {}
    failures: dict[str, BaseException] = {}
    with ThreadPoolExecutor(len(steps)) as pool:
        while waiting or going:
            for step in [step for step in waiting if names.intersection(step.after) <= results.keys()]:
                waiting.remove(step)
                going[pool.submit(run_step, step)] = step
            if not going:  # what still waits needs a step that failed
                break
            done, _ = wait(going, HEARTBEAT_SECONDS, FIRST_COMPLETED)
            if not done:
                heartbeat()
            for future in done:
                settle(future, going.pop(future), results, failures)
    return results, failures


def settle(
    future: Future[dict[str, object]],
    step: Step,
    results: dict[str, dict[str, object]],
    failures: dict[str, BaseException],
) -> None:
    """Sort one finished step into results or failures."""
    error = future.exception()
    if error is None:
        results[step.name] = future.result()
    else:
        failures[step.name] = error
        show(f"{step.name:<11} FAILED: {error}")


def explain(step: Step, error: BaseException) -> None:
    """Print what failed, where, the end of the log, and what to do."""
    log = LOGS / f"{step.name}.log"
    tail = log.read_text(errors="replace").splitlines()[-20:]
    text = "\n".join(f"    {line}" for line in tail)
    print(f"\n{step.name}: {error}\n  log: {log}\n{text}\n  what to do: {step.remedy}", file=sys.stderr)


def report(results: Mapping[str, Mapping[str, object]], total_seconds: float) -> None:
    """Leave build/setup.json."""
    figures = {"total_seconds": round(total_seconds, 3)} | {f"{name}_seconds": each["seconds"] for name, each in results.items()}
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    machine = {"cores": os.cpu_count(), "memory_mib": memory_mib, "system": platform.platform()}
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    text = json.dumps({"figures": figures, "steps": results, "date": date, "machine": machine}, indent=2)
    (BUILD / "setup.json").write_text(text + "\n")


def main() -> int:
    """Exit status: 0 when every step asked for is done."""
    parser = argparse.ArgumentParser(description="Install everything that this machine lacks.")
    parser.add_argument("--only", nargs="+", choices=[step.name for step in STEPS], metavar="STEP",
                        help=f"only these, without what they need: {', '.join(step.name for step in STEPS)}")  # fmt: skip
    only = parser.parse_args().only
    LOGS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    steps = [step for step in STEPS if only is None or step.name in only]
    results, failures = run_all(steps)
    total_seconds = time.monotonic() - started
    for step in steps:
        if step.name in failures:
            explain(step, failures[step.name])
    if failures:
        return 1
    if only is None:  # a part of the setup is not a figure of the whole
        report(results, total_seconds)
    show(f"setup done in {total_seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
