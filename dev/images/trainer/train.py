"""Trains a small network on synthetic numbers, data parallel over all ranks that msrun starts.

    msrun --worker_num=2 --local_worker_num=2 --join=True --log_dir=/tmp/msrun train.py --steps 200

or, as one of two pods of an indexed Job whose headless Service publishes addresses before pods are ready:

    msrun --worker_num=2 --local_worker_num=1 --join=True --log_dir=/tmp/msrun
        --master_addr=llm-0.llm --node_rank=$JOB_COMPLETION_INDEX train.py --steps 200

To rehearse failures, files in the fault folder act on one rank from its next step on, for as long as they exist:
hang-RANK (it stops arriving), slow-RANK (50 ms more per step), nan-RANK (its loss turns NaN), crash-RANK (it raises).
"""

import argparse
import hashlib
import time
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.communication import get_group_size, get_rank, init
from mindspore.dataset import Dataset, NumpySlicesDataset
from mindspore.train import Callback, Model, RunContext

SAMPLES, FEATURES, HIDDEN, BATCH = 4096, 32, 64, 32


class Losses(Callback):  # type: ignore[misc]
    """Prints the loss each `interval` steps and remembers the last one."""

    def __init__(self, interval: int) -> None:
        super().__init__()
        self.interval = interval
        self.last = float("nan")

    def on_train_step_end(self, run_context: RunContext) -> None:
        step = run_context.original_args().cur_step_num
        self.last = float(run_context.original_args().net_outputs.asnumpy())
        if step % self.interval == 0:
            print(f"step {step} loss {self.last:.6f}", flush=True)


class Pace(Callback):  # type: ignore[misc]
    """Waits a little before each step, so that a short training can be watched."""

    def __init__(self, step_milliseconds: float) -> None:
        super().__init__()
        self.seconds = step_milliseconds / 1000

    def on_train_step_begin(self, _run_context: RunContext) -> None:
        time.sleep(self.seconds)


class Faults(Callback):  # type: ignore[misc]
    """Acts on the files of the fault folder that name this rank."""

    def __init__(self, folder: Path, rank: int, network: nn.Cell) -> None:
        super().__init__()
        self.hang, self.slow, self.nan, self.crash = (
            folder / f"{kind}-{rank}" for kind in ("hang", "slow", "nan", "crash")
        )
        self.network = network

    def on_train_step_begin(self, _run_context: RunContext) -> None:
        while self.hang.exists():
            time.sleep(0.1)
        if self.slow.exists():
            time.sleep(0.05)
        if self.nan.exists():
            bias = self.network.trainable_params()[-1]  # a ReLU after it would turn NaN into 0 on the CPU
            bias.set_data(ms.Tensor(np.full(bias.shape, np.nan, np.float32)))
        if self.crash.exists():
            raise RuntimeError(f"asked to crash by {self.crash}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--step-milliseconds", type=float, default=5, help="pause before each step")
    parser.add_argument("--mode", choices=("graph", "pynative"), default="graph")
    parser.add_argument("--fault-dir", type=Path, default=Path("/tmp/faults"))
    return parser.parse_args()


def synthetic_dataset(rank: int, ranks: int, steps: int) -> Dataset:
    """This rank's shard of one fixed set of samples, repeated up to the wanted number of steps."""
    random = np.random.default_rng(seed=1)
    features = random.standard_normal((SAMPLES, FEATURES), dtype=np.float32)
    labels = np.sin(features @ random.standard_normal((FEATURES, 1), dtype=np.float32))
    dataset = NumpySlicesDataset((features, labels), ["x", "y"], shuffle=False, num_shards=ranks, shard_id=rank)
    dataset = dataset.batch(BATCH, drop_remainder=True)
    return dataset.repeat(-(-steps // dataset.get_dataset_size())).take(steps)


def digest_of_weights(network: nn.Cell) -> str:
    digest = hashlib.sha1()
    for parameter in network.trainable_params():
        digest.update(parameter.asnumpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    arguments = parse_arguments()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE if arguments.mode == "graph" else ms.PYNATIVE_MODE)
    init()
    rank, ranks = get_rank(), get_group_size()
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True, device_num=ranks)

    network = nn.SequentialCell(nn.Dense(FEATURES, HIDDEN), nn.ReLU(), nn.Dense(HIDDEN, 1))
    rates = nn.cosine_decay_lr(0.005, 0.05, arguments.steps, arguments.steps, 1)
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=rates, momentum=0.9)
    model = Model(network, loss_fn=nn.MSELoss(), optimizer=optimizer)

    losses = Losses(interval=50)
    callbacks = [losses, Pace(arguments.step_milliseconds), Faults(arguments.fault_dir, rank, network)]
    model.train(1, synthetic_dataset(rank, ranks, arguments.steps), callbacks=callbacks, dataset_sink_mode=False)
    print(f"rank {rank} final loss {losses.last:.6f} weights {digest_of_weights(network)}", flush=True)


if __name__ == "__main__":
    main()
