"""A small training job whose learning rate, losses and own numbers are chosen by the case of a test."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.dataset import NumpySlicesDataset
from mindspore.train import MAE, Callback, LossMonitor, Model

FEATURES, BATCH, BASE_LR = 8, 4, 0.01


class Own(Callback):
    """Prints the loss, the rate that this step used, and does what the case asks for."""

    def __init__(self, arguments):
        super().__init__()
        self.arguments = arguments

    def on_train_step_begin(self, run_context):
        if self.arguments.print_rate:
            self.rate = run_context.original_args().optimizer.get_lr()

    def on_train_step_end(self, run_context):
        parameters = run_context.original_args()
        step = parameters.cur_step_num
        print(f"step {step} loss {float(parameters.net_outputs.asnumpy())!r}", flush=True)
        if self.arguments.print_rate:
            rate = self.rate[-1] if isinstance(self.rate, tuple) else self.rate
            print(f"step {step} rate {float(rate.asnumpy().reshape(-1)[0])!r}", flush=True)
        if self.arguments.metrics:
            names = {f"metric {number}": float(number) for number in range(self.arguments.metrics)}
            sys.modules["rankbeat_agent.hooks.user"].log(names)
        if self.arguments.log and "rankbeat_agent.hooks.user" in sys.modules:
            sys.modules["rankbeat_agent.hooks.user"].log({"Reward 2": step / 2, "loss": -1.0})
        if step == self.arguments.out_of_memory_at:
            raise RuntimeError("Allocate memory failed, secret text that must stay here")
        if step == self.arguments.change_at:
            self.change(step)
        time.sleep(self.arguments.sleep)

    def change(self, step):
        """Replace the monitor's configuration as the kubelet does."""
        path = Path(os.environ["RANKBEAT_CONFIG"])
        content = json.loads(path.read_text())
        wanted = json.loads(self.arguments.change_to)
        if self.arguments.change_in:
            change = {"fromStep": step + self.arguments.change_in, "previous": content["sampling"]}
            wanted = {"sampling": {"intervalSteps": 7, "denseFirstSteps": 0}, "change": change}
        new = path.with_suffix(".new")
        new.write_text(json.dumps({**content, **wanted}))
        new.rename(path)


class Counted:
    """A step's output that says each time that it is read: on a device that has not been waited for it waits then."""

    size = 1

    def __init__(self, step, loss):
        self.step, self.loss = step, loss

    def item(self):
        print(f"step {self.step} read 1", flush=True)
        return float(self.loss.asnumpy())

    asnumpy = item


class Counting(Callback):
    """The last of the job's own callbacks: what is read after it is read for nobody else."""

    def on_train_step_end(self, run_context):
        parameters = run_context.original_args()
        parameters["net_outputs"] = Counted(parameters.cur_step_num, parameters.net_outputs)


def pretend(target):
    """A MindSpore that names another device to the agent, and to nobody else."""
    real = ms.context.get_context

    def get_context(key):
        asks = sys._getframe(1).f_globals["__name__"]
        return target if key == "device_target" and asks.startswith("rankbeat_agent") else real(key)

    ms.context.get_context = get_context


def rate(kind, steps):
    if kind == "list":
        return [BASE_LR / (1 + step) for step in range(steps)]
    return nn.CosineDecayLR(0.0, BASE_LR, steps) if kind == "cosine" else BASE_LR


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rate", choices=("constant", "list", "cosine", "groups"), default="constant")
    parser.add_argument("--print-rate", action="store_true")
    parser.add_argument("--log", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--out-of-memory-at", type=int, default=0)
    parser.add_argument("--metrics", type=int, default=0)
    parser.add_argument("--eval", action="store_true")
    parser.add_argument("--nan-from", type=int, default=0)
    parser.add_argument("--change-at", type=int, default=0)
    parser.add_argument("--change-in", type=int, default=0)
    parser.add_argument("--change-to", default="{}")
    parser.add_argument("--loss-monitor", action="store_true")
    parser.add_argument("--pretend", default="", help="another device target")
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--api-key", default="")
    arguments = parser.parse_args()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    features = np.random.default_rng(seed=1).standard_normal((arguments.steps * BATCH, FEATURES), dtype=np.float32)
    labels = features[:, :1].copy()
    if arguments.nan_from:
        labels[(arguments.nan_from - 1) * BATCH :] = np.nan
    data = NumpySlicesDataset((features, labels), ["x", "y"], shuffle=False).batch(BATCH)
    network = nn.SequentialCell(nn.Dense(FEATURES, 4), nn.Dense(4, 1))
    parameters = network.trainable_params()
    if arguments.rate == "groups":
        parameters = [{"params": parameters[:2], "lr": BASE_LR / 10}, {"params": parameters[2:]}]
    optimizer = nn.Momentum(parameters, learning_rate=rate(arguments.rate, arguments.steps), momentum=0.9)
    model = Model(network, loss_fn=nn.MSELoss(), optimizer=optimizer, metrics={"Mean error": MAE()})
    own = [Own(arguments)]
    if arguments.loss_monitor:
        own.append(LossMonitor())
    if arguments.pretend:
        pretend(arguments.pretend)
        own.append(Counting())
    if arguments.fit:
        model.fit(1, data, data, callbacks=own, dataset_sink_mode=False, valid_dataset_sink_mode=False)
    else:
        model.train(1, data, callbacks=own, dataset_sink_mode=False)
    if arguments.eval:
        model.eval(data, dataset_sink_mode=False)


if __name__ == "__main__":
    main()
