"""Has the taps put in where the monitor asks for one: to read what it asks for costs every other process too much."""

from typing import Any

from rankbeat_agent.hooks import configuration, taps


def patch_cells(_module: Any) -> None:
    """mindspore.nn.wrap.cell_wrapper was just imported: nothing is compiled yet."""
    taps.install(configuration.present())
