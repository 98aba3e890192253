"""A small transformer's training for the tests of taps, with one switch per case; knows nothing of Rankbeat."""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, get_rank, init
from mindspore.dataset import NumpySlicesDataset
from mindspore.train import Callback, CheckpointConfig, Model, ModelCheckpoint

WIDTH, LENGTH, HEADS, LAYERS, BATCH, CLASSES = 16, 8, 2, 2, 4, 5


class Attention(nn.Cell):
    def __init__(self, dropout):
        super().__init__()
        self.query, self.key, self.value = nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH)
        self.softmax = nn.Softmax(-1)
        self.dropout = nn.Dropout(p=dropout)

    def construct(self, tokens):
        batch, length, width = tokens.shape
        heads = (batch, length, HEADS, width // HEADS)
        query = self.query(tokens).reshape(heads).transpose((0, 2, 1, 3))
        key = self.key(tokens).reshape(heads).transpose((0, 2, 1, 3))
        value = self.value(tokens).reshape(heads).transpose((0, 2, 1, 3))
        seen = self.dropout(self.softmax(ops.matmul(query, key.transpose((0, 1, 3, 2)))))
        return ops.matmul(seen, value).transpose((0, 2, 1, 3)).reshape((batch, length, width))


class Layer(nn.Cell):
    def __init__(self, dropout):
        super().__init__()
        self.attention = Attention(dropout)
        self.norm = nn.LayerNorm((WIDTH,))
        self.feed_forward = nn.SequentialCell(nn.Dense(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Dense(2 * WIDTH, WIDTH))

    def construct(self, tokens):
        tokens = tokens + self.attention(self.norm(tokens))
        return tokens + self.feed_forward(tokens)


class Network(nn.Cell):
    def __init__(self, dropout, outputs):
        super().__init__()
        self.layers = nn.CellList([Layer(dropout) for _ in range(LAYERS)])
        self.head = nn.Dense(WIDTH, outputs)

    def construct(self, tokens):
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(tokens.mean(1))


class Sparse(nn.Cell):
    """Looks rows of a table up by the signs of its input."""

    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingLookup(2, WIDTH, sparse=True)
        self.head = nn.Dense(WIDTH, 1)

    def construct(self, tokens):
        return self.head(self.table((tokens[:, 0] > 0).astype(ms.int32)).mean(1))


class Expected(Callback):
    """What the values must be, by NumPy from what MindSpore returns: gradients, probabilities and weights."""

    def __init__(self, network, found, probabilities):
        super().__init__()
        self.network, self.found, self.probabilities = network, found, probabilities
        self.before = None

    def weights(self):
        return {parameter.name: parameter.asnumpy().copy() for parameter in self.network.trainable_params()}

    def on_train_step_begin(self, _run_context):
        self.before = self.weights()

    def on_train_step_end(self, run_context):
        parameters = run_context.original_args()
        after = self.weights()
        loss, *gradients = (
            parameters.net_outputs if isinstance(parameters.net_outputs, tuple) else [parameters.net_outputs]
        )
        row = {"step": parameters.cur_step_num, "loss": repr(float(loss.asnumpy()))}
        row["ratios"] = {
            name: float(np.linalg.norm(after[name] - before) / np.linalg.norm(before))
            for name, before in self.before.items()
            if np.linalg.norm(before) > 0
        }
        labels = np.asarray(parameters.train_dataset_element[1].asnumpy())
        if labels.dtype == np.int32:
            row["labels"] = [int((labels == each).sum()) for each in range(CLASSES)]
        if gradients:
            row["norms"] = {name: float(np.linalg.norm(value.asnumpy())) for name, value in gradients[0].items()}
        row["entropies"] = [
            [float(-(seen[:, head] * np.log(seen[:, head])).sum(-1).mean()) for head in range(HEADS)]
            for seen in self.probabilities[-LAYERS:]
        ]
        row["sparsities"] = [
            [float((seen[:, head] < 0.01).mean()) for head in range(HEADS)] for seen in self.probabilities[-LAYERS:]
        ]
        self.found.append(row)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--pynative", action="store_true")
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--return-grad", action="store_true", help="the cell returns its gradients beside the loss")
    parser.add_argument("--scale", type=float, default=0.0, help="fixed loss scale")
    parser.add_argument("--shard-later", action="store_true", help="the parallel mode changes before the step compiles")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument(
        "--dynamic", action="store_true", help="batches of a size that is not known when the step compiles"
    )
    parser.add_argument("--classes", action="store_true", help="classifies: labels are classes")
    parser.add_argument("--sparse", action="store_true", help="a table with sparse gradients instead")
    parser.add_argument("--images", action="store_true", help="a convolution on images instead")
    return parser.parse_args()


def data_of(given, rank, ranks):
    chance = np.random.default_rng(1)
    shape = (1, 6, 5) if given.images else (LENGTH, WIDTH)
    inputs = chance.standard_normal((BATCH * given.steps * ranks, *shape), dtype=np.float32)
    labels = inputs.reshape(len(inputs), -1).mean(1, keepdims=True)
    if given.classes:
        labels = chance.integers(0, CLASSES, len(inputs), dtype=np.int32)
    data = NumpySlicesDataset((inputs, labels), ["x", "y"], shuffle=False, num_shards=ranks, shard_id=rank)
    return data.batch(BATCH)


def cell_of(given):
    if given.images:
        network = nn.SequentialCell(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Dense(60, 1))
    else:
        network = Sparse() if given.sparse else Network(given.dropout, CLASSES if given.classes else 1)
    scale = {"loss_scale": given.scale} if given.scale else {}
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.01, momentum=0.9, **scale)
    if given.sparse:
        optimizer = nn.LazyAdam(network.trainable_params())
    with_loss = nn.WithLossCell(network, nn.CrossEntropyLoss() if given.classes else nn.MSELoss())
    cell = nn.TrainOneStepCell(with_loss, optimizer, sens=given.scale or None, return_grad=given.return_grad)
    if given.dynamic:
        labels = ([None], ms.int32) if given.classes else ([None, 1], ms.float32)
        tokens = ms.Tensor(shape=[None, LENGTH, WIDTH], dtype=ms.float32)
        cell.set_inputs(tokens, ms.Tensor(shape=labels[0], dtype=labels[1]))
    return network, cell


def main():
    given = arguments()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE if given.pynative else ms.GRAPH_MODE)
    rank, ranks = 0, 1
    if given.distributed:
        init()
        rank, ranks = get_rank(), get_group_size()
        ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True, device_num=ranks)
    network, cell = cell_of(given)
    if given.shard_later:
        ms.set_auto_parallel_context(parallel_mode="hybrid_parallel")  # of those that shard, the one that CPU compiles
    found, probabilities = [], []
    if given.pynative and not given.images:
        for layer in network.layers:
            layer.attention.softmax.register_forward_hook(
                lambda _cell, _inputs, seen: probabilities.append(seen.asnumpy())
            )
    callbacks = [Expected(network, found, probabilities)]
    if given.checkpoint:
        callbacks.append(ModelCheckpoint(directory="checkpoints", config=CheckpointConfig(save_checkpoint_steps=2)))
    Model(cell).train(1, data_of(given, rank, ranks), callbacks=callbacks, dataset_sink_mode=False)
    digest = hashlib.sha1()
    for parameter in network.trainable_params():
        digest.update(parameter.asnumpy().tobytes())
    answer = {"rank": rank, "weights": digest.hexdigest(), "steps": found}
    answer["taps"] = [name for name in sys.modules if name.startswith("rankbeat_agent.hooks.taps")]
    if given.checkpoint:
        newest = max(Path("checkpoints").glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns)
        answer["checkpoint"] = list(ms.load_checkpoint(str(newest)))
    print("ANSWER " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
