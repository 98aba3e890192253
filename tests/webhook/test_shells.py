"""The wrapper under real shells: what the training process sees with and without us."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import webhook_builders as build

MAY_DIFFER = {"PYTHONPATH", "PWD", "OLDPWD", "SHLVL", "_"}
"""docs/adr/0002: all that may differ in /proc/1/environ, beside RANKBEAT_*."""

SEEN = """
import json, os, sys
environ = open("/proc/self/environ", "rb").read().decode("utf-8", "surrogateescape")
json.dump([sys.argv[1:], [each for each in environ.split("\\0") if each], os.getpid(), os.getcwd()], sys.stdout)
"""


@pytest.fixture(params=["dash", "bash", "bash as sh", "busybox sh"])
def shell(request, tmp_path):
    """Path of one shell, under the name by which images start it."""
    program = {"bash as sh": "bash", "busybox sh": "busybox"}.get(request.param, request.param)
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program} on this machine")
    if program == request.param:
        return found
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(found)
    return str(tmp_path / "bin" / "sh")


def wrapped(shell, command):
    """The command as the pod would have it, made by the real decision."""
    view = build.a_view(build.a_monitor(spec={"injection": {"shell": shell}}))
    manifest = build.a_pod(build.a_container(command=list(command)))
    after = build.patched(manifest, build.decided(manifest, view).operations)
    return after["spec"]["containers"][0]["command"]


def python(*arguments):
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", SEEN, *arguments]


def seen(command, env):
    done = subprocess.run(command, env=env, capture_output=True, check=True, timeout=20, cwd="/")
    assert done.stderr == b""
    arguments, environ, pid, folder = json.loads(done.stdout)
    return arguments, dict(each.split("=", 1) for each in environ), pid, folder


ARGUMENTS = (
    "",
    "--",
    "-c",
    "a b",
    "it's",
    'say "x"',
    "two\nlines",
    "$(HOME)",
    "${HOME}",
    "`id`",
    "$@",
    "*",
    "\\",
    "ü",
    "$$",
    ";",
    "&&",
)
ENVIRONMENTS = {
    "image path": {"PYTHONPATH": "/usr/local/Ascend/python/site-packages:/opp/tbe"},
    "no path": {},
    "empty path": {"PYTHONPATH": ""},
    "blanks that an old dash would split": {"PYTHONPATH": "/a b-c:/d *:/e\nf"},
    "quotes": {"PYTHONPATH": "/a'b:/c\"d:$(X):${HOME}:`id`"},
    "hostile values": {
        "A": 'it\'s "x" $(B) `id` \\ \n * ; &',
        "B": "",
        "LANG": "C",
        "HOME": "/nonexistent",
        "CDPATH": "/",
        "ENV": "/nonexistent",
        "TERM": "",
        "_": "x",
        "SHLVL": "y",
        "PWD": "/wrong",
        "OLDPWD": "z",
        "lower_case1": "=a=b",
    },
}


@pytest.mark.parametrize("extra", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_the_process_sees_its_own_arguments_and_environment(shell, extra):
    env = {"PATH": os.environ["PATH"], **extra}

    arguments, after, _, folder = seen(wrapped(shell, python(*ARGUMENTS)), env)

    assert arguments == list(ARGUMENTS)
    assert folder == "/"
    assert {key: value for key, value in after.items() if key not in MAY_DIFFER} == {
        key: value for key, value in env.items() if key not in MAY_DIFFER
    }
    own = extra.get("PYTHONPATH")
    assert after["PYTHONPATH"] == (f"/rankbeat/agent:{own}" if own else "/rankbeat/agent")


@pytest.mark.parametrize("name", ["com.huawei.path", "my-cfg"])
def test_bash_alone_hands_on_names_that_are_no_identifiers(shell, name):
    env = {"PATH": os.environ["PATH"], name: "1"}

    _, after, _, _ = seen(wrapped(shell, python()), env)

    assert (after.get(name) == "1") is ("bash" in Path(shell).resolve().name)


def test_the_process_takes_the_shell_s_place(shell):
    with subprocess.Popen(wrapped(shell, python()), stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=20)

    assert json.loads(out)[2] == process.pid


@pytest.mark.parametrize("code", [0, 1, 3, 126, 127, 255])
def test_the_exit_code_is_the_process_s_own(shell, code):
    command = wrapped(shell, ["python", "-c", "x"])[:-3]

    assert subprocess.run([*command, "sh", "-c", f"exit {code}"], check=False, timeout=20).returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGKILL])
def test_a_signal_reaches_the_process_itself(shell, number):
    # Whoever started us in the background had SIGINT ignored, which processes inherit: env puts it right and goes.
    command = ["env", "--default-signal", *wrapped(shell, ["cat"])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        process.send_signal(number)

        assert process.wait(timeout=20) == -number


def test_a_command_that_does_not_exist_ends_with_127(shell):
    done = subprocess.run(wrapped(shell, ["no-such-program"]), check=False, capture_output=True, timeout=20)

    assert done.returncode == 127


def test_a_program_named_like_a_builtin_is_the_program(shell):
    done = subprocess.run(wrapped(shell, ["echo", "-e", "a"]), check=True, capture_output=True, timeout=20)

    assert done.stdout == subprocess.run(["/bin/echo", "-e", "a"], check=True, capture_output=True, timeout=20).stdout


def test_a_relative_program_is_found_as_without_us(shell, tmp_path):
    program = tmp_path / "train.sh"
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o755)

    done = subprocess.run(wrapped(shell, ["./train.sh"]), check=True, capture_output=True, timeout=20, cwd=tmp_path)

    assert done.stdout == b"started\n"


REPO = Path(__file__).resolve().parents[2]


def launched(shell, command, agent=REPO / "agent"):
    """The command as the pod would have it with spec.msrun.fix; the agent's folder lies here."""
    spec = {"injection": {"shell": shell}, "msrun": {"fix": ["signals", "exitCode"]}}
    manifest = build.a_pod(build.a_container(command=list(command)))
    after = build.patched(manifest, build.decided(manifest, build.wanting(**spec)).operations)
    return [each.replace("/rankbeat/agent", str(agent)) for each in after["spec"]["containers"][0]["command"]]


def test_the_launcher_starts_the_command_with_its_arguments_and_environment(shell):
    # A Python that is no shim: what starts another one may change the environment for it.
    found = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    env = {"PATH": found, **ENVIRONMENTS["hostile values"]}

    arguments, after, _, folder = seen(launched(shell, python(*ARGUMENTS)), env)

    assert arguments == list(ARGUMENTS)
    assert folder == "/"
    assert after["PYTHONPATH"] == str(REPO / "agent")
    assert {key: value for key, value in after.items() if key not in MAY_DIFFER} == {
        key: value for key, value in env.items() if key not in MAY_DIFFER
    }


@pytest.mark.parametrize("code", [0, 1, 126, 255])
def test_the_launcher_hands_on_the_exit_code(shell, code):
    assert subprocess.run(launched(shell, ["sh", "-c", f"exit {code}"]), check=False, timeout=20).returncode == code


@pytest.mark.parametrize("path", ["no python3", "no agent"])
def test_without_a_launcher_the_command_starts_and_says_so(shell, tmp_path, path):
    for program in ("sh", "echo"):
        (tmp_path / program).symlink_to(shutil.which(program))
    env = {"PATH": str(tmp_path) if path == "no python3" else os.environ["PATH"]}
    agent = REPO / "agent" if path == "no python3" else tmp_path

    done = subprocess.run(
        launched(shell, ["sh", "-c", "echo started; exit 3"], agent),
        env=env,
        check=False,
        capture_output=True,
        timeout=20,
    )

    assert (done.returncode, done.stdout) == (3, b"started\n")
    assert b"spec.msrun.fix signals and exitCode cannot be done" in done.stderr


def test_kubernetes_finds_nothing_to_expand_in_the_wrapper():
    every = (build.WRAPPER, launched("sh", ["msrun", "train.py"])[2])

    assert not any(mark in text for text in every for mark in ("$(", "$$"))
