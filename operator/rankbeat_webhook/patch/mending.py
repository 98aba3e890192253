"""msrun's traps mended, where the monitor asks for it: options by editing the command, signals by the launcher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rankbeat_contract import launch

if TYPE_CHECKING:
    from rankbeat_webhook.model import pods

_LAUNCHERS = (launch.SIGNALS, launch.EXIT_CODE)


@dataclass(frozen=True, slots=True)
class Mending:
    """A container with its command line mended.

    launcher: what the launcher has still to mend. fixed: options that were mended. message: what could not be, and why.
    """

    container: pods.Container
    launcher: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    message: str = ""


def mending(pod: pods.Pod, container: pods.Container, fixes: tuple[str, ...], pods_at_once: int | None) -> Mending:
    """The container as the monitor wants it. fixes: spec.msrun.fix. pods_at_once: of its Job, None if not known."""
    if not fixes:
        return Mending(container)
    line = (*container.command, *container.args)
    launched = launch.launch(line)
    if launched is None:
        unseen = " and ".join(each for each in fixes if each not in _LAUNCHERS)
        unseen = f"{unseen} cannot be mended: the command does not start msrun itself" if unseen else ""
        return Mending(container, _in_order(set(fixes) & set(_LAUNCHERS)), (), unseen)
    found = launch.traps(launched, pods_at_once, is_process_one=not pod.shares_processes)
    wanted = [each for each in found if each in fixes]
    message = ""
    if launch.NODE_RANK in wanted and all(each.name != launch.INDEX for each in container.env):
        wanted.remove(launch.NODE_RANK)
        message = f"{launch.NODE_RANK} cannot be mended: no {launch.INDEX}, set completionMode: Indexed on the Job"
    options = tuple(each for each in wanted if each not in _LAUNCHERS)
    mended = _edited(container, launch.mended(line, launched, options))
    return Mending(mended, _in_order(set(wanted) & set(_LAUNCHERS)), options, message)


def _in_order(fixes: set[str]) -> tuple[str, ...]:
    return tuple(each for each in launch.FIXES if each in fixes)


def _edited(container: pods.Container, changes: tuple[tuple[int, str], ...]) -> pods.Container:
    """The container after the changes that launch.mended says, made from the end of the line."""
    command, args = list(container.command), list(container.args)
    for index, text in sorted(changes, reverse=True):
        # msrun's first option may be the first of args: what comes after the end of command goes there.
        part, place = (command, index) if index < len(command) or not args else (args, index - len(command))
        if text.startswith("+--"):
            part.insert(place, text[1:])
        else:
            part[place] = text
    return replace(container, command=tuple(command), args=tuple(args))
