"""Keys that are refused whatever their value, with the reason and what does it instead."""

from typing import Mapping

from rankbeat_contract import metrics, names

_UTILIZATION = metrics.ACCELERATOR_FIGURES["utilization_ratio"].name
_TEMPERATURE = metrics.ACCELERATOR_FIGURES["temperature_celsius"].name
_MEMORY = metrics.ACCELERATOR_FIGURES["memory_used_bytes"].name
_MEMORY_SIZE = metrics.ACCELERATOR_FIGURES["memory_size_bytes"].name
_POWER = metrics.ACCELERATOR_FIGURES["power_watts"].name
_FREQUENCY = metrics.ACCELERATOR_FIGURES["frequency_hertz"].name


def _device(metric: str) -> str:
    return (
        f"a training process cannot see it; rankbeat-devices exports {metric} of every accelerator, with no key to set"
    )


DEVICE_METRICS: Mapping[str, str] = {
    "npu_utilization": _device(_UTILIZATION),
    "aicore_utilization": _device(_UTILIZATION),
    "gpu_utilization": _device(_UTILIZATION),
    "device_utilization": _device(_UTILIZATION),
    "utilization": _device(_UTILIZATION),
    "temperature": _device(_TEMPERATURE),
    "npu_temperature": _device(_TEMPERATURE),
    "gpu_temperature": _device(_TEMPERATURE),
    "npu_memory": _device(f"{_MEMORY} and {_MEMORY_SIZE}"),
    "gpu_memory": _device(f"{_MEMORY} and {_MEMORY_SIZE}"),
    "hbm_usage": _device(f"{_MEMORY} and {_MEMORY_SIZE}"),
    "power": _device(_POWER),
    "frequency": _device(_FREQUENCY),
}
"""What hardware_metrics and device_monitor ask for, answered with the exporter's metric."""

_ALL_DEVICES = _device(f"{_UTILIZATION}, {_MEMORY}, {_TEMPERATURE} and {_POWER}")
_ALERTS = "; alerts go to Alertmanager: its receivers page, mail and post, never a training step"
_GRAPH = "it is compiled into the graph and the dataset of the job; change it in the job, then start the job again"
_ACTS = "it would change what the job does, and on one rank alone it stops the job; Rankbeat shows and pages"
_SCRIPT = "it belongs to the job's own script or YAML file and has nothing to do with monitoring"
_ABSENT = "MindSpore has no such thing, an article made it up"

_THRESHOLD = f"{_ALL_DEVICES}; a threshold is a PrometheusRule on one of them"

CALLBACKS = f"{_SCRIPT}: MindFormers' callbacks list needs `type`; a class of yours goes to spec.monitors"
"""Of an entry of `callbacks` that has no answer of its own."""

REFUSALS: Mapping[str, str] = {
    **dict.fromkeys(("device_monitor", "gpu_monitor", "npu_monitor", "gpu_util"), _ALL_DEVICES),
    **dict.fromkeys(("GpuUtilCallback", "alert_threshold"), _THRESHOLD),
    "use_ascend_c": f"monitoring kernels on the device: {_ABSENT}; leave it out",
    "ascend_c_kernels": f"monitoring kernels on the device: {_ABSENT}; leave it out",
    "monitor_kernel": f"monitoring kernels on the device: {_ABSENT}; leave it out",
    "monitor_hook": f"{_ABSENT}: set_context refuses it; taps are asked for by spec.signals",
    "register_hooks": f"{_ABSENT}; taps are asked for by spec.signals",
    "hook_list": f"{_ABSENT}; whether the agent is attached is condition AgentLoaded",
    "zero_copy": "values go through a memory-mapped ring already, there is nothing to choose",
    "mmap": "values go through a memory-mapped ring already, there is nothing to choose",
    "auto_tune": f"{_ACTS}",
    "adaptive": f"{_ACTS}",
    "AdaptiveMonitor": f"{_ABSENT}: set_lr and set_grad_clip do not exist",
    **dict.fromkeys(("set_lr", "set_grad_clip"), f"{_ABSENT}: learning rate and clipping are the job's own"),
    **dict.fromkeys(
        ("monitor", "Monitor", "_monitor"), f"{_ABSENT}: Model has no argument monitor; the agent attaches by itself"
    ),
    "BaseMonitor": "there is no mindformers.monitor, an article made it up; a class of yours goes to spec.monitors",
    "config": "MindFormers' Trainer has no argument config (it is args); a monitor's keys stand here by themselves",
    "auto_reduce_batch_size": f"batch size: {_GRAPH}",
    "early_stop": f"{_ACTS}; MindSpore's own EarlyStopping callback does it inside Model.fit",
    "early_stopping": f"{_ACTS}; MindSpore's own EarlyStopping callback does it inside Model.fit",
    "control_file": f"{_ACTS}",
    "jit_level": f"{_SCRIPT}: MindSpore's jit_config holds it",
    "tensorboard": f"{_SCRIPT}: MindFormers' section of that name; our event files are output_type: tensorboard",
    "runner_config": _SCRIPT,
    "trainer": _SCRIPT,
    "epochs": _SCRIPT,
    "learning_rate": _SCRIPT,
    "sink_size": _SCRIPT,
    "sink_mode": _SCRIPT,
    "run_mode": _SCRIPT,
    "data_masking": "masking needs a key: write spec.outputs.masking: {secretName: ..., key: ...}",
    "encryption": "encryption needs a key: write spec.outputs.encryption: {secretName: ..., key: ...}",
    "webhook": f"a request inside a step would hold the step up{_ALERTS}",
    "webhook_url": f"a request inside a step would hold the step up{_ALERTS}",
    "notify": f"it does not belong into a training process{_ALERTS}",
    "wecom": f"it does not belong into a training process{_ALERTS}",
    "dingtalk": f"it does not belong into a training process{_ALERTS}",
    "live_server": "a server in a training process is inherited by its dataset workers; the collector serves /metrics",
    "server_port": "a server in a training process is inherited by its dataset workers; the collector serves /metrics",
    "start_tensorboard": "a training process starts no server; point TensorBoard at the volume of spec.outputs.volume",
    "ntp_server": "clocks are the platform's: install value clock.servers; trust is rankbeat_node_clock_trusted",
    "loss_threshold": f"what a high loss is differs by job: write a PrometheusRule on {names.JOB_LOSS};"
    " a loss that is no number is an incident already",
    "track_allocations": "MindSpore's memory tracker does it: MS_ALLOC_CONF in the job's environment, Ascend only",
    "AccuracyCallback": "it needs the job's dataset; what Model.fit evaluates is signal evaluation, by default",
}
"""Rows X and N of what articles promise, and what would change the job."""
