"""MindFormers' own training cell, loss monitor and expert balancing on a network of two layers of experts, on CPU."""

import argparse
import json
import types

import mindspore as ms
import numpy as np
from mindformers import MindFormerConfig
from mindformers.core.callback.callback import MFLossMonitor, TopkBiasBalanceCallback
from mindformers.core.context import build_context
from mindformers.wrapper import MFTrainOneStepCell
from mindformers_job import check_overflow_as_a_cpu_can
from mindspore import Parameter, Tensor, nn, ops
from mindspore.dataset import NumpySlicesDataset
from mindspore.train import Callback, Model

WIDTH, EXPERTS, LAYERS, BATCH = 8, 4, 2, 16


class Router(nn.Cell):
    """Counts, as MindFormers' routers do, which share of the tokens each expert gets."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Dense(WIDTH, EXPERTS)
        self.expert_load = Parameter(Tensor(np.zeros(EXPERTS), ms.float32), requires_grad=False)
        self.topk_bias = Parameter(Tensor(np.zeros(EXPERTS), ms.float32), requires_grad=False)

    def construct(self, tokens):
        chosen = self.gate(tokens).argmax(-1)
        ops.assign_add(self.expert_load, (chosen.expand_dims(-1) == ops.arange(EXPERTS)).astype(ms.float32).mean(0))
        return ops.softmax(self.gate(tokens))


def inside(**cells):
    """A cell that holds cells under the names that TopkBiasBalanceCallback goes by."""
    cell = nn.Cell()
    for name, each in cells.items():
        setattr(cell, name, each)
    return cell


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        routers = [Router() for _ in range(LAYERS)]
        layers = [inside(feed_forward=inside(routed_experts=inside(router=inside(router=each)))) for each in routers]
        self.model = inside(layers=nn.CellList(layers))
        self.head = nn.Dense(EXPERTS, WIDTH)

    def get_gpt_transformer_config(self):
        return types.SimpleNamespace(
            moe_aux_loss_coeff=0.01,
            moe_layer_freq=1,
            num_layers=LAYERS,
            mtp_num_layers=0,
            moe_router_load_balancing_type="aux",
        )

    def construct(self, tokens):
        spread = tokens
        balance = ops.zeros((1,), ms.float32)
        for layer in self.model.layers:
            shares = layer.feed_forward.routed_experts.router.router(spread)
            spread = spread + self.head(shares)
            balance = balance + 0.01 * ops.square(shares.mean(0)).sum().reshape((1,))
        loss = ops.square(spread).mean().reshape((1,))
        nothing = ops.zeros((1,), ms.float32)
        return loss, nothing, balance, nothing


class Loads(Callback):
    """What the routers have counted, before MindFormers clears it."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.found = []

    def on_train_step_end(self, _run_context):
        routers = [layer.feed_forward.routed_experts.router.router for layer in self.network.model.layers]
        self.found.append([router.expert_load.asnumpy().tolist() for router in routers])


def copy_as_from_an_npu():
    """On CPU asnumpy() shares the parameter's memory, which MindFormers clears before it prints what it has read."""
    shared = ms.Tensor.asnumpy
    Parameter.asnumpy = lambda self: shared(self).copy()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clip", action="store_true")
    given = parser.parse_args()
    check_overflow_as_a_cpu_can()
    copy_as_from_an_npu()
    build_context(
        MindFormerConfig(use_legacy=False, use_parallel=False, context={"mode": ms.GRAPH_MODE, "device_target": "CPU"})
    )
    ms.set_seed(1)
    network = Network()
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.01, momentum=0.9)
    cell = MFTrainOneStepCell(
        network,
        optimizer,
        use_clip_grad=given.clip,
        max_grad_norm=1e3,
        scale_sense=Tensor(8.0),
        print_separate_loss=True,
    )
    monitor = MFLossMonitor(
        0.01, origin_epochs=1, dataset_size=4, global_batch_size=BATCH, print_separate_loss=True, is_moe_model=True
    )
    monitor.mf_calculated = True  # it counts the operations of its own models only
    loads = Loads(network)
    balance = TopkBiasBalanceCallback(balance_via_topk_bias=True, topk_bias_update_rate=0.01, expert_num=EXPERTS)
    tokens = np.random.default_rng(1).standard_normal((4 * BATCH, WIDTH), dtype=np.float32)
    data = NumpySlicesDataset((tokens,), ["tokens"], shuffle=False).batch(BATCH)
    Model(cell).train(1, data, callbacks=[loads, monitor, balance], dataset_sink_mode=False)
    print("ANSWER " + json.dumps({"loads": loads.found}), flush=True)


if __name__ == "__main__":
    main()
