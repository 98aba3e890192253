"""Where a train() call stands in the run, and what its times mean: decided once, before its first step."""

from typing import Any, Dict

from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import ring

Parameters = Dict[str, Any]


def global_step_of(optimizer: Any) -> int:
    """Steps that the optimizer has made, 0 if it does not say; only before training, it is a copy from the device."""
    counter = getattr(optimizer, "global_step", None)
    if counter is None or getattr(counter, "has_init", False) or not hasattr(counter, "asnumpy"):
        return 0
    return int(counter.asnumpy().reshape(-1)[0])


def total_steps_of(parameters: Parameters) -> int:
    """Steps that this train() call is going to make."""
    # Without sink mode batch_num may be sink_size (docs/sources.md, MindSpore).
    in_sink_mode = parameters.get("dataset_sink_mode")
    batches = parameters["batch_num"] if in_sink_mode else parameters["train_dataset"].get_dataset_size()
    return int(parameters["epoch_num"] * batches)


def reads_tensors(writer: Writer, parameters: Parameters) -> bool:
    """Whether device scalars may be read at the end of a step; says in the state what durations mean."""
    source = parameters.get("rankbeat")
    if source is not None:  # not Model.train's parameters but those of loops.py or pynative.py
        writer.flags &= ~ring.TIMING_SYNCED
        return bool(source == "logged")
    from mindspore import context  # noqa: PLC0415 - imported by the job

    # PyNative: Model.train puts a _StepSync before all callbacks. Graph mode is proven to be synchronised at
    # step end on CPU only; elsewhere durations are called dispatch times until someone with hardware knows better.
    in_graph_mode = context.get_context("mode") == context.GRAPH_MODE
    on_cpu = context.get_context("device_target") == "CPU"
    has_sync = any(type(callback).__name__ == "_StepSync" for callback in parameters["list_callback"])
    is_synced = has_sync or (in_graph_mode and on_cpu)
    writer.flags = (writer.flags & ~ring.TIMING_SYNCED) | (ring.TIMING_SYNCED if is_synced else 0)
    return is_synced or in_graph_mode
