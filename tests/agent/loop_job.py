"""A small training whose loop is its own, in each style that MindSpore's users write; it knows nothing of Rankbeat."""

import argparse
import hashlib
import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.dataset import NumpySlicesDataset
from mindspore.experimental import optim
from mindspore.train import Model

FEATURES, HIDDEN, BATCH = 16, 32, 16
RANDOM = np.random.default_rng(seed=1)


def batches(steps):
    features = RANDOM.standard_normal((steps * BATCH, FEATURES), dtype=np.float32)
    labels = np.sin(features[:, :1])
    return NumpySlicesDataset((features, labels), ["x", "y"], shuffle=False).batch(BATCH)


def tensors(steps):
    return batches(steps).create_tuple_iterator(num_epochs=1)


def network():
    return nn.SequentialCell(nn.Dense(FEATURES, HIDDEN), nn.ReLU(), nn.Dense(HIDDEN, 1))


def momentum(net):
    return nn.Momentum(net.trainable_params(), learning_rate=0.05, momentum=0.9)


def told(step, loss):
    print(f"step {step} loss {float(loss.asnumpy())!r}", flush=True)


def cell(arguments, net):
    """nn.TrainOneStepCell."""
    training = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), momentum(net))
    training.set_train()
    for step, (x, y) in enumerate(tensors(arguments.steps), 1):
        told(step, training(x, y))


def eager(arguments, net, optimizer=None):
    """value_and_grad and a call of the optimizer."""
    optimizer = optimizer or momentum(net)
    loss_of = nn.MSELoss()

    def forward(x, y):
        return loss_of(net(x), y)

    gradients = ms.value_and_grad(forward, None, net.trainable_params())
    for step, (x, y) in enumerate(tensors(arguments.steps), 1):
        loss, grads = gradients(x, y)
        optimizer(grads)
        told(step, loss)


def experimental(arguments, net):
    """An optimizer that is no nn.Optimizer; those of mint are made of it, and have no kernel on CPU."""
    eager(arguments, net, optim.Adam(net.trainable_params(), lr=0.01))


def jit(arguments, net):
    """The whole step in one graph, the optimizer in it."""
    optimizer = momentum(net)
    loss_of = nn.MSELoss()

    def forward(x, y):
        return loss_of(net(x), y)

    gradients = ms.value_and_grad(forward, None, net.trainable_params())

    @ms.jit(capture_mode=arguments.capture)
    def whole(x, y):
        loss, grads = gradients(x, y)
        return ops.depend(loss, optimizer(grads))

    for step, (x, y) in enumerate(tensors(arguments.steps), 1):
        told(step, whole(x, y))


def gan(arguments, net):
    """Two optimizers, the first of which rests in the second half."""
    other = network()
    cells = [nn.TrainOneStepCell(nn.WithLossCell(each, nn.MSELoss()), momentum(each)) for each in (net, other)]
    for step, (x, y) in enumerate(tensors(arguments.steps), 1):
        for which in (0, 1) if step <= arguments.steps // 2 else (1,):
            told(step, cells[which](x, y))


def recover(arguments, net):
    """A step that fails, is caught, and made again."""
    training = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), momentum(net))
    good = ms.Tensor(np.ones((BATCH, 1), np.float32))
    bad = ms.Tensor(np.ones((BATCH, 3, 5), np.float32))
    x = ms.Tensor(np.ones((BATCH, FEATURES), np.float32))
    for step in range(1, arguments.steps + 1):
        if step == arguments.at:
            try:
                training(x, bad)
            except ValueError as error:
                print(f"caught {type(error).__name__}", flush=True)
        told(step, training(x, good))


def mixed(arguments, net):
    """Model.train, then a loop, then Model.train."""
    optimizer = momentum(net)
    model = Model(net, loss_fn=nn.MSELoss(), optimizer=optimizer)
    model.train(1, batches(arguments.steps), dataset_sink_mode=False)
    eager(arguments, net, optimizer)
    model.train(1, batches(arguments.steps), dataset_sink_mode=False)


def save(arguments, net):
    """Checkpoints between steps."""
    training = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), momentum(net))
    for step, (x, y) in enumerate(tensors(arguments.steps), 1):
        told(step, training(x, y))
        if step == arguments.at:
            ms.save_checkpoint(net, "net.ckpt")
            ms.load_param_into_net(net, ms.load_checkpoint("net.ckpt"))


def logs(arguments, net):
    """Numbers of the job's own."""
    training = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), momentum(net))
    for step, (x, y) in enumerate(tensors(arguments.steps), 1):
        told(step, training(x, y))
        sys.modules["rankbeat_agent.hooks.user"].log({"reward": step / 2})


class Full(nn.Cell):
    """A network for which the device has no memory from a call on."""

    def __init__(self, net, at):
        super().__init__()
        self.net, self.at, self.calls = net, at, 0

    def construct(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise RuntimeError("Allocate memory failed, secret text that must stay here")
        return self.net(x)


def full_in_step(arguments, net):
    """The device's memory ends in the call that is a step."""
    cell(arguments, Full(net, arguments.at))


def full_between(arguments, net):
    """It ends before the call of the optimizer."""
    eager(arguments, Full(net, arguments.at))


def main():
    parser = argparse.ArgumentParser()
    styles = (cell, eager, experimental, jit, gan, recover, mixed, save, logs, full_in_step, full_between)
    parser.add_argument("style", choices=[style.__name__ for style in styles])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--pynative", action="store_true")
    parser.add_argument("--capture", choices=("ast", "bytecode"), default="ast")
    arguments = parser.parse_args()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE if arguments.pynative else ms.GRAPH_MODE)
    net = network()
    globals()[arguments.style](arguments, net)
    digest = hashlib.sha1()
    for parameter in net.trainable_params():
        digest.update(parameter.asnumpy().tobytes())
    print(f"weights {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
