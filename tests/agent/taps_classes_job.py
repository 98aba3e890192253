"""A linear classifier's training for the tests of the loss by class; knows nothing of Rankbeat.

Linear, so that NumPy knows the logits of a step from the weights before it, in graph mode too.
"""

import argparse
import json

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.dataset import NumpySlicesDataset
from mindspore.train import Callback, Model

WIDTH, LENGTH, BATCH, CLASSES, MANY = 8, 3, 6, 5, 300
MASK = np.array([0.0] * (CLASSES - 1) + [-np.inf], np.float32)


class Network(nn.Cell):
    def __init__(self, kind):
        super().__init__()
        self.head = nn.Dense(WIDTH, MANY if kind == "many" else CLASSES)
        self.is_masked = kind == "masked"
        self.mask = ms.Tensor(MASK)

    def construct(self, inputs):
        logits = self.head(inputs)
        if self.is_masked:
            logits = logits + self.mask
        return logits if len(logits.shape) == 2 else logits.transpose((0, 2, 1))


class WithLoss(nn.Cell):
    """As MindSpore's documentation shows how to write one's own."""

    def __init__(self, backbone, loss):
        super().__init__()
        self._backbone = backbone
        self._loss_fn = loss

    def construct(self, inputs, labels):
        return self._loss_fn(self._backbone(inputs), labels)


class LossInside(nn.Cell):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def construct(self, inputs, labels):
        return ops.cross_entropy(self.network(inputs), labels)


def loss_of(kind):
    if kind in ("sparse", "dense", "unranked"):
        return nn.SoftmaxCrossEntropyWithLogits(sparse=kind != "dense", reduction="mean")
    if kind == "squares":
        return nn.MSELoss()
    if kind == "weighted":
        return nn.CrossEntropyLoss(ms.Tensor(np.arange(1, 1 + CLASSES), ms.float32), label_smoothing=0.1)
    return nn.CrossEntropyLoss(ignore_index=2 if kind == "ignored" else -100)


def labels_of(kind, chance, count):
    """Not each batch has all classes; of masked logits none has the last."""
    shape = (count, LENGTH) if kind == "pixels" else (count,)
    classes = chance.integers(0, CLASSES - 1 if kind == "masked" else CLASSES, shape)
    if kind in ("dense", "squares"):
        return np.eye(CLASSES, dtype=np.float32)[classes]
    if kind == "probabilities":
        return (np.eye(CLASSES)[classes] * 0.75 + np.eye(CLASSES)[classes[::-1]] * 0.25).astype(np.float32)
    if kind not in ("sparse", "ignored", "unranked"):
        classes[chance.random(shape) < 0.2] = -100
    return classes.astype(np.int32)


def by_class(logits, labels, ignored):
    """Mean negative log-likelihood of each class that has labels."""
    if logits.ndim > 2:
        logits = np.moveaxis(logits, 1, -1).reshape(-1, CLASSES)
    scores = np.log(np.exp(logits).sum(-1, keepdims=True)) - logits
    if labels.dtype == np.int32:
        labels = np.where(labels == ignored, -1, labels).reshape(-1, 1) == np.arange(CLASSES)
    return {
        each: float(np.average(scores[:, each], weights=labels[:, each]))
        for each in range(CLASSES)
        if labels[:, each].any()
    }


class Expected(Callback):
    def __init__(self, kind, network, found):
        super().__init__()
        self.kind, self.network, self.found = kind, network, found
        self.weights = None

    def on_train_step_begin(self, _run_context):
        self.weights = [parameter.asnumpy().astype(np.float64) for parameter in self.network.trainable_params()]

    def on_train_step_end(self, run_context):
        inputs, labels = (each.asnumpy() for each in run_context.original_args().train_dataset_element)
        weight, bias = self.weights
        logits = inputs @ weight.T + bias
        if self.kind == "masked":
            logits += MASK
        if self.kind == "pixels":
            logits = np.moveaxis(logits, -1, 1)
        if self.kind not in ("many", "squares"):
            self.found.append(by_class(logits, labels, 2 if self.kind == "ignored" else -100))


class Evaluating(Callback):
    """Evaluates at the end of each step, on labels that are all class 0."""

    def __init__(self, inputs):
        super().__init__()
        self.inputs = inputs
        self.model = None

    def on_train_step_end(self, _run_context):
        labels = np.zeros(len(self.inputs), np.int32)
        self.model.eval(NumpySlicesDataset((self.inputs, labels), shuffle=False).batch(BATCH), dataset_sink_mode=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--pynative", action="store_true")
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--half", action="store_true", help="mixed precision")
    given = parser.parse_args()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE if given.pynative else ms.GRAPH_MODE)
    chance = np.random.default_rng(1)
    inputs = chance.standard_normal((3 * BATCH, *([LENGTH] if given.kind == "pixels" else []), WIDTH), dtype=np.float32)
    data = NumpySlicesDataset((inputs, labels_of(given.kind, chance, len(inputs))), shuffle=False).batch(BATCH)
    network, loss, found = Network(given.kind), loss_of(given.kind), []
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.5, momentum=0.9)
    callbacks = [Expected(given.kind, network, found)]
    if given.kind == "inside":
        model = Model(LossInside(network), optimizer=optimizer)
    elif given.kind == "own":
        model = Model(nn.TrainOneStepCell(WithLoss(network, loss), optimizer))
    elif given.kind == "unranked":
        cell = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer)
        cell.set_inputs(ms.Tensor(shape=[None, WIDTH], dtype=ms.float32), ms.Tensor(shape=None, dtype=ms.int32))
        model = Model(cell)
    else:
        precision = {"amp_level": "O2", "loss_scale_manager": None} if given.half else {}
        model = Model(network, loss, optimizer, {"loss"} if given.evaluate else None, **precision)
    if given.evaluate:
        callbacks.append(Evaluating(inputs))
        callbacks[-1].model = model
    model.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
    print("ANSWER " + json.dumps({"steps": found}), flush=True)


if __name__ == "__main__":
    main()
