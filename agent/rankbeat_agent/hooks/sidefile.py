"""This process's side file, claimed when something is first to be written to it."""

import os
from typing import Any

from rankbeat_agent.hooks import configuration, rank
from rankbeat_contract import names

_TAKEN: "dict[int, Any]" = {}
"""By process id: a forked child has none."""


def present(process: rank.Rank = rank.RANK) -> Any:
    """The side file, None where the monitor asks for nothing that needs one or it cannot be made (counted once)."""
    pid = os.getpid()
    if pid not in _TAKEN:
        _TAKEN[pid] = None
        if configuration.present(process).has_side_file and process.writer is not None:
            try:
                from rankbeat_agent.wire import side  # noqa: PLC0415 - only where asked for

                _TAKEN[pid] = side.claim_side(os.environ[names.ENV_RING_DIR], process.writer.run_id, side.DEFAULT_BYTES)
            except Exception as error:  # noqa: BLE001 - a door: no room for it
                process.count("side file", error)
    return _TAKEN[pid]
