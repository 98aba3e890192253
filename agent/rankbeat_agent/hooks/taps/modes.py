"""Where a value that is computed inside the step would be wrong."""

import sys
from typing import Any

RIGHT_MODES = ("stand_alone", "data_parallel")
_SPARSE = frozenset(("SparseGatherV2", "EmbeddingLookup"))
"""Operations whose gradients are rows of a parameter (mindspore/ops/_grad_experimental, 2.10.0)."""


def sharding() -> str:
    """Why parameters and activations of this rank are parts only, as of now; empty where they are whole.

    In the other modes MindSpore cuts every operation of the step, a tap's too, and adds collectives to it.
    """
    from mindspore import context  # noqa: PLC0415 - imported by the job

    mode = context.get_auto_parallel_context("parallel_mode")
    if mode not in RIGHT_MODES:
        return f"parallel mode {mode} shards what it reads"
    if context.get_auto_parallel_context("pipeline_stages") > 1:
        return "a pipeline stage holds a part of the parameters"
    return ""


def reduction() -> str:
    """Why a norm after the reducer would not be the job's; empty where it is."""
    from mindspore import context  # noqa: PLC0415 - imported by the job

    found = sharding()
    if found or context.get_auto_parallel_context("parallel_mode") != "stand_alone":
        return found
    management = sys.modules["mindspore.communication.management"]
    if management.GlobalComm.INITED and management.get_group_size() > 1:
        return "several ranks in parallel mode stand_alone: MindSpore does not know how they share gradients"
    return ""


def sparse(network: Any) -> str:
    """Why the gradients of network have no norm; empty where they have.

    Rows may come twice, so that no sum over them is the gradient's; and a step that squares them does not compile.
    """
    for path, cell in network.cells_and_names():
        for part in (*vars(cell).values(), *getattr(cell, "_primitives", {}).values()):
            if getattr(part, "name", None) in _SPARSE:
                return f"{path or 'the network'} has sparse gradients ({part.name})"
    return ""
