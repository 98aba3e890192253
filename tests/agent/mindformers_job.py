"""MindFormers trains a Llama of two layers on CPU, in graph mode; the job knows nothing of Rankbeat."""

import argparse
from pathlib import Path

import numpy as np
from mindformers import MindFormerConfig, Trainer
from mindformers.core.context import build_context
from mindspore import nn
from mindspore.communication import get_group_size, get_rank
from mindspore.dataset import GeneratorDataset

BATCH, LENGTH, VOCABULARY = 2, 16, 64


def check_overflow_as_a_cpu_can():
    """The default check is an operator of NPUs; what is set here is what MindSpore finds on newer ones."""
    made = nn.TrainOneStepWithLossScaleCell.__init__

    def init(self, *args, **kwargs):
        made(self, *args, **kwargs)
        self.ascend_910b_target = True
        self._ascend_check_overflow_mode = "INFNAN_MODE"
        self.enable_allfinite = False

    nn.TrainOneStepWithLossScaleCell.__init__ = init


def dataset(steps, rank, ranks):
    tokens = np.random.default_rng(seed=1).integers(3, VOCABULARY, (steps * BATCH * ranks, LENGTH + 1), dtype=np.int32)
    rows = [(row,) for row in tokens]
    shard = GeneratorDataset(rows, ["input_ids"], shuffle=False, num_shards=ranks, shard_id=rank)
    return shard.batch(BATCH, drop_remainder=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--distributed", action="store_true")
    arguments = parser.parse_args()
    check_overflow_as_a_cpu_can()
    config = MindFormerConfig(str(Path(__file__).with_name("llama.yaml")))
    config.use_parallel = arguments.distributed
    # Before the Trainer, which would otherwise make a context of its own, in PyNative mode.
    build_context(config)
    rank, ranks = (get_rank(), get_group_size()) if arguments.distributed else (0, 1)
    Trainer(args=config, train_dataset=dataset(arguments.steps, rank, ranks)).train()


if __name__ == "__main__":
    main()
