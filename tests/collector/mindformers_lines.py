"""Run in the MindFormers environment: has MindFormers 2.1 itself print its loss lines, one per variant."""

from types import SimpleNamespace

import numpy as np
from mindformers.core.callback.callback import MFLossMonitor
from mindformers.pynative.callback.loss_callback import LossCallback


def monitor(**changes: object) -> MFLossMonitor:
    """A monitor with what printing needs; its own constructor asks a running trainer for the rest."""
    made = MFLossMonitor.__new__(MFLossMonitor)
    fields = {
        "learning_rate": 0.001,
        "loss_list": [4.0],
        "print_warning_flag": False,
        "mf_calculated": False,
        "tensor_writer": None,
        "print_separate_loss": False,
        "is_moe_model": True,
        "is_mtp_model": True,
    }
    for name, value in {**fields, **changes}.items():
        setattr(made, name, value)
    return made


def graph(made: MFLossMonitor, **changes: object) -> None:
    """One line of the graph mode's loss callback."""
    fields = {
        "cb_params": SimpleNamespace(dataset_sink_mode=False, get=lambda *_: None),
        "cur_epoch_num": 2,
        "origin_epochs": 2,
        "throughput": 131.5,
        "cur_step_num": 7,
        "steps_per_epoch": 10,
        "loss": 4.121618,
        "per_step_seconds": 30.4,
        "overflow": "False",
        "scaling_sens": 1.0,
        "time_remain": 1.0,
        "percent": 85.0,
        "global_norm": np.array([0.9454679], np.float32),
        "main_loss": None,
        "extra_loss": None,
        "mtp_loss": None,
        "indexer_loss": None,
    }
    made.print_output_info(**{**fields, **changes})


def pynative(**changes: object) -> None:
    """One line of the PyNative trainer's loss callback."""
    fields = {
        "cur_step": 7,
        "max_steps": 10,
        "consumed_samples": 56,
        "global_batch_size": 8,
        "loss": 4.121618,
        "step_time": 30,
        "learning_rate": 1e-05,
        "grad_norm": 0.945468,
        "throughput": 171.2,
    }
    LossCallback._print_log(LossCallback.__new__(LossCallback), {**fields, **changes})


graph(monitor())
graph(
    monitor(),
    cb_params=SimpleNamespace(dataset_sink_mode=True, get=lambda *_: None),
    cur_epoch_num=1,
    cur_step_num=10,
    loss=2.5,
    per_step_seconds=1234.0,
    overflow=np.array([True]),
    scaling_sens=np.array([65536.0]),
    global_norm=1.5,
)
graph(
    monitor(learning_rate=None),
    cur_epoch_num=1,
    cur_step_num=3,
    loss=3.25,
    per_step_seconds=5.0,
    scaling_sens="unavailable",
    global_norm=None,
)
graph(
    monitor(learning_rate=np.array([1e-05]), print_separate_loss=True),
    cur_epoch_num=1,
    cur_step_num=4,
    loss=3.25,
    per_step_seconds=7.0,
    global_norm=np.array([2.0]),
    main_loss=np.array([3.0]),
    extra_loss=np.array([0.25]),
    mtp_loss=np.array([0.125]),
    indexer_loss=np.array([0.0625]),
)
pynative()
pynative(cur_step=8, loss=None, step_time=31, load_balancing_loss=0.1, indexer_loss=0.2, grad_norm=0.5)
