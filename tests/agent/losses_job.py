"""What MindFormers' own MFLossMonitor makes of an output, and what we make of it: one line per case, for the test."""

import itertools
import json

import mindspore as ms
import numpy as np
from mindformers.core.callback import MFLossMonitor
from mindspore import Tensor

from rankbeat_agent.hooks import losses

LOSS = 7.3


def main():
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    cases = itertools.product((1, 2), (1, 4), (1, 2), (1, 8), (False, True), (False, True))
    for stages, micro, interleave, accumulation, per_token, is_several in cases:
        ms.reset_auto_parallel_context()
        if stages > 1:
            ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, pipeline_stages=stages)
        monitor = MFLossMonitor(
            1e-4,
            micro_batch_num=micro,
            micro_batch_interleave_num=interleave,
            origin_epochs=1,
            dataset_size=10,
            global_batch_size=64,
            gradient_accumulation_steps=accumulation,
            calculate_per_token_loss=per_token,
        )
        output = Tensor(np.array([LOSS, LOSS + 1] if is_several else LOSS, np.float32))
        theirs = float(monitor._fix_loss_for_parallel(np.mean(output.asnumpy())))
        parameters = {"list_callback": [monitor], "train_network": None}
        meant = losses.meaning(parameters, 7, 8)
        ours = losses.loss_of((output, False, 1.0, 1e-4, None))
        for divisor in meant.divisors:
            ours /= divisor
        print(json.dumps({"theirs": theirs, "ours": ours, "divisors": meant.divisors}), flush=True)
    valid_ranks()


def valid_ranks():
    """Which of eight ranks hold a valid loss."""
    for stages, scheduler in ((1, ""), (2, "1f1b"), (4, "1f1b"), (4, "zero_bubble_v")):
        ms.reset_auto_parallel_context()
        if stages > 1:
            config = {"pipeline_interleave": scheduler == "zero_bubble_v", "pipeline_scheduler": scheduler}
            ms.set_auto_parallel_context(
                parallel_mode="semi_auto_parallel", device_num=8, pipeline_stages=stages, pipeline_config=config
            )
        found = [losses.meaning({"list_callback": []}, rank, 8) for rank in range(8)]
        valid = [rank for rank, meant in enumerate(found) if meant.is_valid]
        print(
            json.dumps({"stages": stages, "scheduler": scheduler, "valid": valid, "first": found[0].first_valid_rank})
        )


if __name__ == "__main__":
    main()
