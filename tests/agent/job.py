"""A small training job that knows nothing of Rankbeat, with one switch per case of the tests."""

import argparse
import hashlib
import sys
import time

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.communication import get_group_size, get_rank, init
from mindspore.dataset import NumpySlicesDataset
from mindspore.train import MAE, Callback, LossMonitor, Model

SAMPLES, FEATURES, HIDDEN, BATCH = 512, 16, 32, 16


class Losses(Callback):
    """Prints what the job itself thinks its losses are, and does what the case asks for at one step."""

    def __init__(self, arguments):
        super().__init__()
        self.arguments = arguments

    def on_train_step_end(self, run_context):
        parameters = run_context.original_args()
        step = parameters.cur_step_num
        print(f"step {step} loss {float(parameters.net_outputs.asnumpy())!r}", flush=True)
        if self.arguments.at == step:
            getattr(self, self.arguments.case)()

    def nothing(self):
        pass

    def crash(self):
        raise ZeroDivisionError("asked to crash, text that must stay here")

    def leave(self):
        sys.exit(3)

    def break_agent(self):
        from rankbeat_agent.hooks import rank  # noqa: PLC0415 - there only where the agent is

        rank.RANK.writer.marks = None

    def wait(self):
        time.sleep(600)


def dataset(rank, ranks, steps, nan_from=0):
    random = np.random.default_rng(seed=1)
    features = random.standard_normal((SAMPLES, FEATURES), dtype=np.float32)
    labels = np.sin(features @ random.standard_normal((FEATURES, 1), dtype=np.float32))
    if nan_from:
        labels[(nan_from - 1) * BATCH :] = np.nan
    shard = NumpySlicesDataset((features, labels), ["x", "y"], shuffle=False, num_shards=ranks, shard_id=rank)
    shard = shard.batch(BATCH, drop_remainder=True)
    return shard.repeat(-(-steps // shard.get_dataset_size())).take(steps)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--pynative", action="store_true")
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--callbacks", nargs="+", default=["list"], help="one training each")
    parser.add_argument("--loss-monitor", action="store_true")
    parser.add_argument("--own-hook", action="store_true")
    parser.add_argument("--case", choices=("nothing", "crash", "leave", "break_agent", "wait"), default="nothing")
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--nan-from", type=int, default=0)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE if arguments.pynative else ms.GRAPH_MODE)
    rank, ranks = 0, 1
    if arguments.distributed:
        init()
        rank, ranks = get_rank(), get_group_size()
        ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True, device_num=ranks)
    if arguments.own_hook:
        sys.excepthook = lambda kind, value, trace: print(f"own hook saw {kind.__name__}", flush=True)

    network = nn.SequentialCell(nn.Dense(FEATURES, HIDDEN), nn.ReLU(), nn.Dense(HIDDEN, 1))
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.05, momentum=0.9)
    model = Model(network, loss_fn=nn.MSELoss(), optimizer=optimizer, metrics={"mae": MAE()})
    own = [Losses(arguments), *([LossMonitor(1)] if arguments.loss_monitor else [])]
    forms = {"list": own, "single": own[0], "tuple": tuple(own), "none": None}
    for form in arguments.callbacks:
        data = dataset(rank, ranks, arguments.steps, arguments.nan_from)
        if form == "positional":
            model.train(arguments.epochs, data, own, False)
        elif form == "fit":
            model.fit(arguments.epochs, data, dataset(rank, ranks, 8), callbacks=own)
        else:
            model.train(arguments.epochs, data, callbacks=forms[form], dataset_sink_mode=False)
    digest = hashlib.sha1()
    for parameter in network.trainable_params():
        digest.update(parameter.asnumpy().tobytes())
    print(f"rank {rank} weights {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
