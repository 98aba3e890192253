"""One training of bench/step_overhead.py's network with or without another monitor; prints its mean step as JSON.

Run by bench/step_overhead.py, once for each: SummaryCollector leaves a process of its own at work after the steps that
it collects, so that blocks of one training would not tell it from what runs beside it.
"""

import argparse
import json
import tempfile
import time

import mindspore as ms
import mlp
from mindspore.train import Callback, RunContext, SummaryCollector

WARM_UP_STEPS = 100


class Clock(Callback):  # type: ignore[misc] # MindSpore has no types
    """When the steps ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[float] = []

    def on_train_step_end(self, _run_context: RunContext) -> None:
        self.ended.append(time.perf_counter())


def monitor(name: str, folder: str, length: int) -> list[Callback]:
    if name == "SummaryCollector":
        return [SummaryCollector(summary_dir=folder, collect_freq=10)]
    if name == "TrainingStateMonitor":
        from mindformers.core.callback import TrainingStateMonitor  # noqa: PLC0415 - only in its environment

        shown = {"weight_state_format": "log", "optimizer_state_format": "log"}
        return [TrainingStateMonitor(1, config=shown, dataset_size=length, global_batch_size=mlp.BATCH)]
    return []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--monitor", choices=("none", "SummaryCollector", "TrainingStateMonitor"), default="none")
    parser.add_argument("--steps", type=int, default=600)
    given = parser.parse_args()
    length = WARM_UP_STEPS + given.steps
    mlp.pin_to_one_core()
    if mlp.mindformers:
        mlp.loss_monitor(length)  # the same context for all
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    training, data = mlp.training(length)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [clock, *monitor(given.monitor, folder, length)]
        training.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
    mean_ms = (clock.ended[-1] - clock.ended[WARM_UP_STEPS - 1]) * 1000 / given.steps
    print(json.dumps({"mean_ms": mean_ms}))


if __name__ == "__main__":
    main()
