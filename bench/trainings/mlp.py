"""The training of bench/step_overhead.py and of its children: an MLP on one core of a CPU, in graph mode."""

import os
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.dataset import NumpySlicesDataset
from mindspore.train import Callback, Model

AGENT = Path(__file__).resolve().parents[2] / "agent"
sys.path.insert(0, str(AGENT))  # the MindSpore environment knows nothing of Rankbeat, as in a training image

try:
    import mindformers
    from mindformers.core.callback import MFLossMonitor
    from mindformers.core.context import build_context
except ImportError:  # the training environment of tests and demo
    mindformers = None

FEATURES, HIDDEN, BATCH = 128, 256, 64
CONDITIONS = f"MLP {FEATURES}-{HIDDEN}-{HIDDEN}-1, batch {BATCH}, graph mode, CPU"


def pin_to_one_core() -> int:
    """Keep this process on its last core, as msrun binds a worker; the core.

    On all of them MindSpore's threads spin for each other and a step takes 1.5 to 4.8 ms instead of 2.4 to 3.6
    (2 cores, 2026-11-30). On one, what we cost has nowhere to hide.
    """
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def loss_monitor(length: int) -> Callback:
    """MFLossMonitor in a context that MindFormers would otherwise make itself, with PyNative mode and all cores."""
    core = pin_to_one_core()
    affinity = {"device_0": {"affinity_cpu_list": [f"{core}-{core}"]}}
    context = {"mode": ms.GRAPH_MODE, "device_target": "CPU", "affinity_config": affinity}
    build_context(mindformers.MindFormerConfig(use_parallel=False, context=context))
    return MFLossMonitor(1e-4, origin_epochs=1, dataset_size=length, global_batch_size=BATCH)


def training(length: int) -> tuple[Model, Any]:
    """The network, its loss and optimizer; and a dataset of length batches."""
    features = np.random.default_rng(1).standard_normal((BATCH * 64, FEATURES), dtype=np.float32)
    data = NumpySlicesDataset((features, np.sin(features[:, :1])), ["x", "y"], shuffle=False).batch(BATCH)
    layers = [nn.Dense(FEATURES, HIDDEN), nn.ReLU(), nn.Dense(HIDDEN, HIDDEN), nn.ReLU(), nn.Dense(HIDDEN, 1)]
    network = nn.SequentialCell(*layers)
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=1e-4, momentum=0.9)
    return Model(network, loss_fn=nn.MSELoss(), optimizer=optimizer), data.repeat(-(-length // 64)).take(length)
