"""What the gradient norm's tap costs a step: equal compiled networks, two without it and two with it, called by turns.

Run by bench/step_overhead.py, in several processes; prints one JSON object. A 2-layer transformer, graph mode on CPU,
meant to take 23 ms a step. All are compiled in one process and share its caches, its core and the machine's drift; a
round holds a block of each in random order, and a block of a tapped one ends with the read of its norm, as a sampled
step does. Two equal networks differ by 1 to 2 % for as long as they live, by where their memory lies. So a round draws
which of the two is the control, pairs are compared with pairs, and another process lays all of them out anew.
"""

import argparse
import json
import math
import random
import statistics
import time
from typing import Any

import mindspore as ms
import mlp
import numpy as np
from mindspore import nn, ops

from rankbeat_agent.hooks import configuration, taps

WIDTH, LENGTH, HEADS, LAYERS, BATCH = 128, 32, 4, 2, 8
BLOCK_STEPS = 4
WARM_UP_STEPS = 20
PAIRS = ("off", "grad_norm")


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
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    mlp.pin_to_one_core()
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    cells = {("off", number): cell() for number in range(2)}
    taps.install(configuration.Configuration(signals=frozenset(("gradNorm",))))
    cells |= {("grad_norm", number): cell() for number in range(2)}
    chance = np.random.default_rng(1)
    tokens = ms.Tensor(chance.standard_normal((BATCH, LENGTH, WIDTH), dtype=np.float32))
    labels = ms.Tensor(chance.standard_normal((BATCH, 1), dtype=np.float32))

    def block(arm: tuple[str, int], steps: int) -> float:
        """Mean milliseconds of a step."""
        network = cells[arm]
        before = time.perf_counter()
        for _ in range(steps):
            network(tokens, labels).asnumpy()
        if arm[0] == "grad_norm" and not network.grad_reducer.after.item() > 0:
            raise RuntimeError("the tap has kept no norm")
        return (time.perf_counter() - before) * 1000 / steps

    for arm in cells:
        block(arm, WARM_UP_STEPS)
    order = list(cells)
    turns = random.Random(given.seed)
    spent: list[float] = []
    ratios: dict[str, list[float]] = {"off_again": [], "grad_norm": []}
    for _ in range(given.rounds):
        turns.shuffle(order)
        took = {arm: block(arm, BLOCK_STEPS) for arm in order}
        spent += [took["off", 0], took["off", 1]]
        off, tapped = (sum(math.log(took[pair, number]) for number in range(2)) / 2 for pair in PAIRS)
        control = turns.randrange(2)
        ratios["off_again"].append(math.log(took["off", control] / took["off", 1 - control]))
        ratios["grad_norm"].append(tapped - off)
    print(json.dumps({"step_ms": statistics.median(spent), "log_ratios": ratios}))


if __name__ == "__main__":
    main()
