"""The launcher as process 1, as in a container: what becomes of its command, and of signals to it.

A pid namespace of its own stands for the container: what is left in it is killed when its first process ends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import training_support as training

LAUNCHER = training.REPO / "agent/rankbeat_agent/launch.py"
BOTH = "signals,exitCode"
SETSID = "import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])"

needs_namespaces = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a pid namespace")


def command(fixes, *program):
    return [sys.executable, "-I", "-S", str(LAUNCHER), fixes, *program]


def run(*program, fixes=BOTH):
    return subprocess.run(command(fixes, *program), check=False, capture_output=True, text=True, timeout=30)


class Container:
    """A command as process 1 of a pid namespace. out: what it printed; first: its pid out here."""

    def __init__(self, folder, argv, **options):
        self.path = folder / "out"
        with self.path.open("wb") as out:
            # Whoever started us in the background had SIGINT ignored, which processes inherit.
            unshare = ["env", "--default-signal", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
            self.process = subprocess.Popen([*unshare, *argv], stdout=out, stderr=subprocess.STDOUT, **options)

    @property
    def out(self):
        return self.path.read_text(errors="replace")

    @property
    def first(self):
        return child_of(self.process.pid)

    def wait_for(self, text, seconds=20.0):
        deadline = time.monotonic() + seconds
        while text not in self.out:
            assert self.process.poll() is None, self.out
            assert time.monotonic() < deadline, f"no {text!r} after {seconds} s in {self.out!r}"
            time.sleep(0.05)

    def end(self, seconds=20.0):
        """Exit code, and how many seconds that took."""
        begun = time.monotonic()
        return self.process.wait(timeout=seconds), time.monotonic() - begun


def child_of(pid):
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.fixture
def container(tmp_path):
    """Starts containers, and ends them."""
    started = []

    def start(*program, fixes=BOTH, launched=True, **options):
        argv = command(fixes, *program) if launched else list(program)
        started.append(Container(tmp_path, argv, **options))
        return started[-1]

    yield start
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            each.process.kill()
        each.process.wait(timeout=20)


def sh(text):
    return ["sh", "-c", text]


def a_worker(text):
    """A shell command that starts another one in a session of its own, as msrun does."""
    return f"{sys.executable} -c '{SETSID}' sh -c \"{text}\""


def a_started_worker(flag):
    """The like in the background, once it has its session: it leaves the file flag."""
    return f"{a_worker(f'touch {flag}; exec sleep 60')} & while [ ! -e {flag} ]; do sleep 0.05; done;"


def test_it_says_whether_it_can_work():
    done = subprocess.run([sys.executable, "-I", "-S", str(LAUNCHER), "check"], check=False, timeout=20)

    assert done.returncode == 0


@pytest.mark.parametrize("code", [0, 1, 3, 126, 127, 255])
def test_the_exit_code_is_the_command_s_own(code):
    assert run("sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_command_that_a_signal_ended_has_a_shell_s_code(number):
    assert run("sh", "-c", f"kill -{number:d} $$").returncode == 128 + number


def test_a_command_that_is_none_has_a_shell_s_code(tmp_path):
    plain, script = tmp_path / "plain", tmp_path / "script"
    plain.write_text("x")
    script.write_text("exit 5\n")
    script.chmod(0o755)

    assert run("no-such-program").returncode == 127
    assert run(str(plain)).returncode == 126
    assert run(str(script)).returncode == 5


LIBRARYS_OWN = 0b11 << 31
"""Signals 32 and 33: glibc's, which no program can set, `env` neither. make leaves one of them ignored."""


def test_the_command_has_its_arguments_streams_and_default_signals():
    text = 'printf "%s\\n" "$@"; cat; grep -E "^Sig(Blk|Ign)" /proc/self/status >&2'
    argv = ["env", "--default-signal", *command(BOTH, "sh", "-c", text, "sh", "a b", "", "$x")]
    done = subprocess.run(argv, check=True, input="in", capture_output=True, text=True, timeout=20)

    assert done.stdout == "a b\n\n$x\nin"
    blocked, ignored = (int(line.split()[1], 16) for line in done.stderr.splitlines())
    assert (blocked, ignored & ~LIBRARYS_OWN) == (0, 0)


@needs_namespaces
def test_without_it_process_one_ignores_sigterm(container):
    pod = container("sh", "-c", "echo up; sleep 60; true", launched=False)
    pod.wait_for("up")

    os.kill(pod.first, signal.SIGTERM)

    with pytest.raises(subprocess.TimeoutExpired):
        pod.process.wait(timeout=1.5)


@needs_namespaces
@pytest.mark.parametrize("text", ["echo up; exec sleep 60", "echo up; sleep 60; true"], ids=["program", "shell"])
def test_sigterm_ends_what_does_not_know_it(container, text):
    pod = container(*sh(text))
    pod.wait_for("up")

    os.kill(pod.first, signal.SIGTERM)
    code, seconds = pod.end()

    assert code == 128 + signal.SIGTERM
    assert seconds < 1.5


@needs_namespaces
def test_sigterm_is_left_to_a_command_that_catches_it(container):
    pod = container(*sh("trap 'echo mine; exit 4' TERM; echo up; sleep 60 & wait"))
    pod.wait_for("up")

    os.kill(pod.first, signal.SIGTERM)

    assert (pod.end()[0], "mine" in pod.out) == (4, True)


@needs_namespaces
def test_a_worker_that_catches_sigterm_has_its_time_to_save(container):
    worker = "trap 'sleep 3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    pod = container(*sh(f"{a_worker(worker)}; echo joined"))
    pod.wait_for("up")

    os.kill(pod.first, signal.SIGTERM)
    code, seconds = pod.end()

    assert "saved" in pod.out
    assert code == 128 + signal.SIGTERM
    assert 3 <= seconds < 8


@needs_namespaces
def test_without_signals_asked_for_sigterm_stays_ignored(container):
    pod = container(*sh("echo up; exec sleep 60"), fixes="exitCode")
    pod.wait_for("up")

    os.kill(pod.first, signal.SIGTERM)

    with pytest.raises(subprocess.TimeoutExpired):
        pod.process.wait(timeout=1.0)


@needs_namespaces
@pytest.mark.parametrize(("fixes", "code"), [(BOTH, 130), ("exitCode", 130), ("signals", 0)])
def test_an_interrupted_command_that_ends_with_0_has_not_succeeded(container, fixes, code):
    pod = container(*sh("trap 'exit 0' INT; echo up; sleep 60 & wait"), fixes=fixes)
    pod.wait_for("up")

    os.kill(pod.first, signal.SIGINT)

    assert pod.end()[0] == code


@needs_namespaces
@pytest.mark.parametrize(("number", "code"), [(9, 130), (15, 0), (0, 0)])
def test_a_command_that_killed_its_workers_and_ended_with_0_has_not_succeeded(container, tmp_path, number, code):
    """msrun on SIGINT: it kills its workers, does not wait for them, and exits with 0. A shell would wait for some."""
    kill = f"exec {sys.executable} -c 'import os, sys; os.kill(int(sys.argv[1]), {number})' $!"
    pod = container(*sh(f"{a_started_worker(tmp_path / 'flag')} {kill}"))

    assert pod.end()[0] == code


@needs_namespaces
def test_a_worker_that_its_command_waited_for_is_none_of_its_business(container, tmp_path):
    pod = container(*sh(f"{a_started_worker(tmp_path / 'flag')} kill -9 $!; wait; exit 0"))

    assert pod.end()[0] == 0


@needs_namespaces
def test_orphans_are_reaped(container):
    zombies = "sh -c 'sleep 0.2 & sleep 0.2 &'; sleep 1; grep -l 'State:.Z' /proc/[0-9]*/status | wc -l; echo counted"
    pod = container(*sh(zombies))
    pod.wait_for("counted")

    assert pod.out.split() == ["0", "counted"]


msrun = pytest.mark.skipif(
    not training.mindspore_python().exists() or shutil.which("unshare") is None, reason="needs make setup and unshare"
)


@pytest.fixture
def training_container(container, tmp_path):
    """Real msrun with two ranks that train."""

    def start(**how):
        script = [str(training.REPO / "dev/images/trainer/train.py"), "--steps", "20000", "--step-milliseconds", "20"]
        argv = training._msrun_command(2, script, tmp_path / "logs")
        pod = container(*argv, env=training.environment(None, None), cwd=tmp_path, **how)
        pod.wait_for("step 50", training.LIMIT_SECONDS)
        return pod

    return start


@pytest.mark.training
@needs_namespaces
@msrun
def test_sigterm_ends_msrun_and_its_workers_in_seconds(training_container):
    pod = training_container()

    os.kill(pod.first, signal.SIGTERM)
    code, seconds = pod.end(60)

    assert code == 128 + signal.SIGTERM
    assert seconds < 8


@pytest.mark.training
@needs_namespaces
@msrun
@pytest.mark.parametrize("to_msrun", [False, True], ids=["to process 1", "to msrun itself"])
def test_an_interrupted_msrun_has_not_succeeded(training_container, to_msrun):
    pod = training_container()

    os.kill(child_of(pod.first) if to_msrun else pod.first, signal.SIGINT)

    assert pod.end(60)[0] == 128 + signal.SIGINT


@pytest.mark.training
@needs_namespaces
@msrun
def test_msrun_alone_ignores_sigterm_and_ends_with_0_when_interrupted(training_container):
    """What the fixes are for. If this fails, msrun has been mended upstream."""
    pod = training_container(launched=False)

    os.kill(pod.first, signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        pod.process.wait(timeout=3)
    os.kill(pod.first, signal.SIGINT)

    assert pod.end(60)[0] == 0
