"""Where a train() call stands in the run, and what its times mean: decided once, before its first step."""

from typing import Any, Dict, Iterable, Tuple

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

    in_graph_mode = context.get_context("mode") == context.GRAPH_MODE
    is_synced, is_read = timing(parameters["list_callback"], context.get_context("device_target"), in_graph_mode)
    writer.flags = (writer.flags & ~ring.TIMING_SYNCED) | (ring.TIMING_SYNCED if is_synced else 0)
    return is_read


def timing(callbacks: Iterable[Any], target: str, in_graph_mode: bool) -> Tuple[bool, bool]:  # noqa: FBT001
    """Whether the device is known to have been waited for at the end of a step, and whether scalars are read there.

    PyNative: Model.train puts a _StepSync before all callbacks. Graph mode: MindSpore's scheduler waits for all streams
    at the end of a step (docs/sources.md, MindSpore), seen on CPU only. On other devices durations are called dispatch
    times until someone with hardware has looked, and scalars are read at sampled steps alone: were the source wrong,
    such a step would wait for its device.
    """
    has_sync = any(type(callback).__name__ == "_StepSync" for callback in callbacks)
    return has_sync or (in_graph_mode and target == "CPU"), has_sync or in_graph_mode
