"""MindFormers' own monitor_config, set by the TrainingMonitor: put over what the job loaded, in memory, in no file.

Only where spec.mindformers.monitorConfig asks; the job's own keys that it does not name stay as they are.
"""

import functools
import sys
from typing import Any, Callable, Dict

from rankbeat_agent.hooks import configuration, rank

_TRAINING = frozenset(("train", "finetune", "predict_with_train_model"))
"""run_mode of the templates that hold a monitor_config. Source: ConfigTemplate, mindformers 2.1.0."""


def _wanted(template: Any) -> Dict[str, Any]:
    """What the monitor asks for, as far as this MindFormers has the keys: at any other it would end the job."""
    asked = configuration.present().mindformers_monitor_config or {}
    known = frozenset(template.MonitorConfig.keys())
    unknown = sorted(set(asked) - known)
    if unknown:
        rank.RANK.count("mindformers", ValueError(f"this MindFormers has no monitor_config {', '.join(unknown)}"))
    return {key: value for key, value in asked.items() if key in known}


def _over_file(template: Any, config: Dict[str, Any]) -> None:
    """A configuration that was loaded from a file, before MindFormers fills in its defaults."""
    wanted = _wanted(template) if config.get("run_mode") in _TRAINING else {}
    if wanted:
        config["monitor_config"] = {**(config.get("monitor_config") or {}), **wanted}


def _over_trainer(template: Any, trainer: Any) -> None:
    """A configuration that came to Trainer as an object: nobody has filled in defaults there."""
    wanted, config = _wanted(template), trainer.config
    if not wanted:
        return
    if not isinstance(config.callbacks, list):
        raise ValueError(  # noqa: TRY004 - MindFormers would end the job where it adds its monitor to the list
            "monitor_config not set: the configuration has no list of callbacks"
        )
    whole = {**template.MonitorConfig.apply({}), **(config.monitor_config or {}), **wanted}
    config.monitor_config = type(config)(**whole)


def _guarded(note: Callable[..., None], *arguments: Any) -> None:
    try:
        note(*arguments)
    except Exception as error:  # noqa: BLE001 - a door: the job's own configuration holds
        rank.RANK.count("mindformers", error)


def patch_template(module: Any) -> None:
    """mindformers.tools.register.template: every configuration loaded from a file."""
    inner = module.ConfigTemplate.apply_template.__func__

    @functools.wraps(inner)
    def observed(cls: Any, config: Any) -> Any:
        _guarded(_over_file, module, config)
        return inner(cls, config)

    module.ConfigTemplate.apply_template = classmethod(observed)


def patch_trainer(module: Any) -> None:
    """mindformers.trainer.trainer: the configuration that training begins with, wherever it came from."""
    inner = module.Trainer._reassign_monitor_config  # noqa: SLF001 - the one place that reads it

    @functools.wraps(inner)
    def observed(self: Any) -> Any:
        _guarded(_over_trainer, sys.modules["mindformers.tools.register.template"], self)
        return inner(self)

    module.Trainer._reassign_monitor_config = observed  # noqa: SLF001
