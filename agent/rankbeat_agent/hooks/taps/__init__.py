"""Taps: what is computed inside the compiled step, or kept of it, because the monitor asks for it.

Decided once per process, before anything is compiled; imported by no process whose monitor asks for none. A tap holds
no collective, so a rank without it computes the same and waits for nobody; it hands on what it is given, so training is
the same to the last bit (tests/agent/test_taps.py). One that cannot be installed is left out, said once and counted.
"""

import functools
import sys
from typing import Any, Callable, Optional

from rankbeat_agent.hooks import rank
from rankbeat_agent.hooks.taps import attaching

TAPS: Optional[attaching.Taps] = None


def _attaching(init: Callable[..., None], taps: attaching.Taps) -> Callable[..., None]:
    """TrainOneStepCell.__init__, after which the new cell has its taps."""

    @functools.wraps(init)
    def observed(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        try:
            taps.attach(self)
        except Exception as error:  # noqa: BLE001 - a door
            rank.RANK.count("taps", error)

    return observed


def _preceding(call: Callable[..., Any], taps: attaching.Taps) -> Callable[..., Any]:
    """TrainOneStepCell.__call__, before which a sampled step's begin is seen; graphs are compiled from construct()."""

    @functools.wraps(call)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            taps.before(self)
        except Exception as error:  # noqa: BLE001 - a door
            rank.RANK.count("taps", error)
        return call(self, *args, **kwargs)

    return observed


def install(configuration: Any) -> None:
    """Give each TrainOneStepCell its taps; to be called when mindspore.nn.wrap.cell_wrapper was just imported."""
    global TAPS  # noqa: PLW0603 - what signals.py finds
    wanted = attaching.SIGNALS & configuration.signals
    if TAPS is None and wanted:
        TAPS = attaching.Taps(wanted, configuration.attention_cells, configuration.parameters)
        owner = sys.modules["mindspore.nn.wrap.cell_wrapper"].TrainOneStepCell
        owner.__init__ = _attaching(owner.__init__, TAPS)
        if wanted & attaching.BEFORE_STEPS:
            owner.__call__ = _preceding(owner.__call__, TAPS)
