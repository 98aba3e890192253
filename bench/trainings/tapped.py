"""What the gradient norm's tap costs a step: two equal compiled networks without it and one with it, called by turns.

Run by bench/step_overhead.py; prints one JSON object. A 2-layer transformer, graph mode on CPU, meant to take 23 ms a
step. All are compiled in one process and share its caches, its core and the machine's drift; a round holds a block
of each in random order, and a block of the tapped one ends with the read of its norm, as a sampled step does.
"""

import argparse
import json
import math
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mindspore as ms
import numpy as np
import step_overhead
from mindspore import nn, ops

from rankbeat_agent.hooks import configuration, taps

WIDTH, LENGTH, HEADS, LAYERS, BATCH = 128, 32, 4, 2, 8
BLOCK_STEPS = 4
WARM_UP_STEPS = 20
ARMS = ("off", "off_again", "grad_norm")


class Attention(nn.Cell):  # type: ignore[misc] # MindSpore has no types
    """Self-attention of HEADS heads."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH)
        self.out = nn.Dense(WIDTH, WIDTH)
        self.softmax = nn.Softmax(-1)

    def construct(self, tokens: Any) -> Any:
        batch, length, width = tokens.shape
        heads = (batch, length, HEADS, width // HEADS)
        query = self.query(tokens).reshape(heads).transpose((0, 2, 1, 3))
        key = self.key(tokens).reshape(heads).transpose((0, 2, 1, 3))
        value = self.value(tokens).reshape(heads).transpose((0, 2, 1, 3))
        seen = ops.matmul(self.softmax(ops.matmul(query, key.transpose((0, 1, 3, 2)))), value)
        return self.out(seen.transpose((0, 2, 1, 3)).reshape((batch, length, width)))


class Layer(nn.Cell):  # type: ignore[misc]
    """Attention and feed-forward, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.first, self.second = nn.LayerNorm((WIDTH,)), nn.LayerNorm((WIDTH,))
        self.feed_forward = nn.SequentialCell(nn.Dense(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dense(4 * WIDTH, WIDTH))

    def construct(self, tokens: Any) -> Any:
        tokens = tokens + self.attention(self.first(tokens))
        return tokens + self.feed_forward(self.second(tokens))


class Network(nn.Cell):  # type: ignore[misc]
    """LAYERS layers and one number."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList([Layer() for _ in range(LAYERS)])
        self.head = nn.Dense(WIDTH, 1)

    def construct(self, tokens: Any) -> Any:
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(tokens.mean(1))


def cell() -> nn.TrainOneStepCell:
    network = Network()
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=1e-3, momentum=0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer).set_train()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    step_overhead.pin_to_one_core()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    cells = {"off": cell(), "off_again": cell()}
    taps.install(configuration.Configuration(signals=frozenset(("gradNorm",))))
    cells["grad_norm"] = cell()
    tap = cells["grad_norm"].grad_reducer
    chance = np.random.default_rng(1)
    tokens = ms.Tensor(chance.standard_normal((BATCH, LENGTH, WIDTH), dtype=np.float32))
    labels = ms.Tensor(chance.standard_normal((BATCH, 1), dtype=np.float32))

    def block(arm: str, steps: int) -> float:
        """Mean milliseconds of a step."""
        before = time.perf_counter()
        for _ in range(steps):
            cells[arm](tokens, labels).asnumpy()
        if arm == "grad_norm" and not tap.after.item() > 0:
            raise RuntimeError("the tap has kept no norm")
        return (time.perf_counter() - before) * 1000 / steps

    for arm in ARMS:
        block(arm, WARM_UP_STEPS)
    order = list(ARMS)
    turns = random.Random(20261130)
    spent: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for _ in range(given.rounds):
        turns.shuffle(order)
        for arm in order:
            spent[arm].append(block(arm, BLOCK_STEPS))
    # Two equal networks differ by 1 to 2 % for as long as they live, by where their memory lies: the tapped one is
    # compared with both.
    ratios = {
        "off_again": [math.log(again / off) for off, again in zip(spent["off"], spent["off_again"], strict=True)],
        "grad_norm": [
            math.log(tapped / math.sqrt(off * again))
            for off, again, tapped in zip(spent["off"], spent["off_again"], spent["grad_norm"], strict=True)
        ],
    }
    print(json.dumps({"step_ms": statistics.median(spent["off"]), "log_ratios": ratios}))


if __name__ == "__main__":
    main()
