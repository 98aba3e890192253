"""How the agent's folder gets onto PYTHONPATH without hiding what the image has there.

Source of every rule: docs/sources.md, Injection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_contract import launch, names

if TYPE_CHECKING:
    from rankbeat_webhook.model import plans, pods

_EXPORT = f'export PYTHONPATH="{names.AGENT_PATH}${{PYTHONPATH:+:$PYTHONPATH}}"; '
_EXEC = 'exec "$@"'
WRAPPER = _EXPORT + _EXEC
"""exec keeps PID 1, signals and the exit code. Quoted: dash before 0.5.11 splits what `export` assigns at blanks.
Nothing in it matches Kubernetes' $(VAR) expansion."""
ARGV0 = launch.WRAPPED
DEFAULT_SHELL = "/bin/sh"

_PYTHONPATH = "PYTHONPATH"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN = frozenset(
    {"IFS", "PS1", "PS2", "PS4", "OPTIND", "PPID", "LINENO", "RANDOM", "SRANDOM", "HISTCMD", "SHELLOPTS"}
    | {"EPOCHSECONDS", "EPOCHREALTIME", "COMP_WORDBREAKS"}
)
"""Variables that bash 5.2, dash 0.5.12 or busybox 1.35 drop or overwrite (measured 2026-11-30); dash even ends on an
OPTIND that is no number. Those of bash that begin with BASH come on top."""
_REMEDY = "or put PYTHONPATH as a plain value into the container's env"


@dataclass(frozen=True, slots=True)
class Prepend:
    """The container's own literal PYTHONPATH, env[index], becomes value."""

    index: int
    value: str


@dataclass(frozen=True, slots=True)
class Wrap:
    """The container's command becomes this one."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the agent's folder cannot be put onto PYTHONPATH without a risk, and what to do."""

    reason: str
    message: str
    is_settled: bool = True


def launching(fixes: tuple[str, ...]) -> str:
    """The wrapper's text that hands the command to the launcher, which mends signals and exit code of what it runs.

    Where python3 cannot run it the command starts as it would without it, and says so.
    """
    if not fixes:
        return _EXEC
    launcher = f"python3 -I -S {names.AGENT_PATH}/{launch.LAUNCHER}"
    said = f"rankbeat: no python3 that runs the launcher: spec.msrun.fix {' and '.join(fixes)} cannot be done"
    return (
        f'if {launcher} check 2>/dev/null; then exec {launcher} {",".join(fixes)} "$@"; fi; echo "{said}" >&2; {_EXEC}'
    )


def python_path(
    pod: pods.Pod, container: pods.Container, shell: str, view: plans.View, fixes: tuple[str, ...] = ()
) -> Prepend | Wrap | Refusal:
    """The change to one container. shell: the one that the monitor names, or empty. fixes: of the launcher."""
    own = _own_python_path(container)
    if own is not None and container.env[own].value is not None:
        value = container.env[own].value
        return Prepend(own, f"{names.AGENT_PATH}:{value}" if value else names.AGENT_PATH)
    if not container.command:
        return _without_command(container, is_from_source=own is not None)
    return wrapping(pod, container, shell, view, _EXPORT + launching(fixes))


def wrapping(pod: pods.Pod, container: pods.Container, shell: str, view: plans.View, text: str) -> Wrap | Refusal:
    """A container's command behind a shell that runs text, which ends by starting it."""
    own_shell = _starting_shell(container.command)
    chosen = own_shell or shell or _default_shell(pod, view)
    if not chosen:
        return _not_proven(pod, container, view)
    lost = _lost_names(container, chosen, is_own_shell=bool(own_shell))
    if lost:
        return Refusal(
            names.REASON_ENV_NOT_PRESERVED,
            f"container {container.name!r} has environment names that {chosen!r} would not hand on: {', '.join(lost)}; "
            f"rename them, start the command with bash, {_REMEDY}",
        )
    return Wrap((chosen, "-c", text, ARGV0, *container.command))


def _own_python_path(container: pods.Container) -> int | None:
    """Index of the entry that decides: the last of a name wins."""
    found = [index for index, each in enumerate(container.env) if each.name == _PYTHONPATH]
    return found[-1] if found else None


def _without_command(container: pods.Container, *, is_from_source: bool) -> Refusal:
    if is_from_source:
        return Refusal(
            names.REASON_PYTHONPATH_FROM_SOURCE,
            f"container {container.name!r} takes PYTHONPATH from a source and names no command that could be wrapped; "
            f"write the image's command into the pod template, {_REMEDY}",
        )
    return Refusal(
        names.REASON_NO_COMMAND,
        f"container {container.name!r} names no command, so its image's entrypoint runs and cannot be wrapped; "
        f"write the command into the pod template, {_REMEDY}",
    )


def _starting_shell(command: tuple[str, ...]) -> str:
    return command[0] if _base(command[0]) in launch.SHELLS else ""


def _default_shell(pod: pods.Pod, view: plans.View) -> str:
    """/bin/sh where an image without it costs one wave of pods, else empty.

    With restartPolicy Never the Job makes new pods, which come without us once the breaker is open; with OnFailure the
    same wrapped container would restart until the Job fails.
    """
    retries = view.job is not None and view.job.allows_retry and pod.restart_policy == "Never"
    return DEFAULT_SHELL if retries else ""


def _not_proven(pod: pods.Pod, container: pods.Container, view: plans.View) -> Refusal:
    is_late = view.job is None and pod.owner is not None and pod.owner.is_job
    cause = "its Job is not known yet" if is_late else "its owner would not retry a pod that cannot start"
    return Refusal(
        names.REASON_SHELL_NOT_PROVEN,
        f"container {container.name!r} starts {container.command[0]!r} without a shell, and {cause}; "
        f"start the command with sh -c, name the image's shell in spec.injection.shell of the monitor, {_REMEDY}",
        is_settled=not is_late,
    )


def _lost_names(container: pods.Container, shell: str, *, is_own_shell: bool) -> tuple[str, ...]:
    """Environment names, and prefixes of them, that the shell would not hand on as they are.

    dash and busybox sh drop names that are no identifiers. The variables that shells own count only where the command
    does not start with the shell anyway.
    """
    every = [each.name for each in container.env]
    prefixes = [each for each in container.env_prefixes if each]
    odd = [each for each in (*every, *prefixes) if _base(shell) != "bash" and not _IDENTIFIER.fullmatch(each)]
    own = [each for each in every if not is_own_shell and (each in _SHELLS_OWN or each.startswith("BASH"))]
    return tuple(repr(each) for each in (*odd, *own))


def _base(path: str) -> str:
    return path.rpartition("/")[2]
