"""Claims the ring on entry to `communication.init()`, takes the rank when it returns."""

import functools
from typing import Any, Callable, Optional

from rankbeat_agent.hooks import rank


def _entered(process: rank.Rank) -> Optional[int]:
    """The phase to return to."""
    process.claim()
    if process.writer is None:
        return None
    before = process.writer.phase
    process.writer.enter_phase(rank.INIT_COMM)
    return before


def _returned(process: rank.Rank, before: Optional[int]) -> None:
    writer = process.writer
    if writer is None:
        return
    process.watch_exceptions()
    try:
        process.identify(writer)
    finally:
        writer.enter_phase(before or rank.BUILD)


def _observed(init: Callable[..., Any], process: rank.Rank) -> Callable[..., Any]:
    @functools.wraps(init)
    def observed(*args: Any, **kwargs: Any) -> Any:
        before = None
        try:
            before = _entered(process)
        except Exception as error:  # noqa: BLE001 - a door
            process.count("init", error)
        result = init(*args, **kwargs)
        try:
            _returned(process, before)
        except Exception as error:  # noqa: BLE001 - a door
            process.count("init", error)
        return result

    return observed


def patch(module: Any) -> None:
    """Wrap what all ways to a communication group go through (mint's init_process_group too)."""
    for name in ("init", "_init_with_store"):
        if hasattr(module, name):
            setattr(module, name, _observed(getattr(module, name), rank.RANK))
