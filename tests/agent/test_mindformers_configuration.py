"""MindFormers' own monitor_config from a TrainingMonitor, with the real MindFormers."""

import hashlib
import json
from pathlib import Path

import pytest

from rankbeat_contract import mindformers
from training_support import environment, mindformers_python, run

pytestmark = pytest.mark.training

JOB_YAML = """\
run_mode: train
use_legacy: True
output_dir: ./output
trainer: {type: CausalLanguageModelingTrainer, model_name: llama}
callbacks:
  - type: MFLossMonitor
monitor_config:
  dump_path: ./mine
  step_interval: 3
"""
ASKED = {"monitor_on": True, "weight_state_format": "log", "step_interval": 5, "of_another_version": 1}
LOADED = """\
import json
from mindformers.tools import MindFormerConfig
loaded = MindFormerConfig("job.yaml").monitor_config
keys = ("monitor_on", "weight_state_format", "step_interval", "dump_path")
print("RESULT", json.dumps({key: loaded[key] for key in keys}))
"""
TRAINER = """\
import json
from mindformers.tools import MindFormerConfig
from mindformers.trainer.trainer import Trainer

trainer = Trainer.__new__(Trainer)  # its __init__ builds a model; what is under test is how it reads its configuration
trainer.config = MindFormerConfig(callbacks=[{"type": "MFLossMonitor"}], monitor_config={"dump_path": "./mine"})
trainer._reassign_monitor_config()
from mindformers.core.callback import TrainingStateMonitor
added = trainer.config.callbacks[-1]
monitor = TrainingStateMonitor(origin_epochs=1, config=added["config"], step_interval=added["step_interval"])
print("RESULT", json.dumps([added["type"], monitor.step_interval, sorted(monitor.weight_state_format), monitor.target]))
"""
KEYS = """\
import json
from mindformers.tools.register.template import MonitorConfig, StableRankConfig
print("RESULT", json.dumps([sorted(MonitorConfig.keys()), sorted(StableRankConfig.keys())]))
"""


def result(program: str, folder: Path, agent: Path | None, asked: object = None):
    """What the program says, and its standard error."""
    (folder / "job.yaml").write_text(JOB_YAML)
    (folder / "rings").mkdir()
    configuration = {"version": 2, **({"mindformers": {"monitorConfig": asked}} if asked else {})}
    (folder / "monitor.json").write_text(json.dumps(configuration))
    variables = environment(agent, folder / "rings", RANKBEAT_CONFIG=str(folder / "monitor.json"))
    done = run(
        [str(mindformers_python()), "-c", program],
        {**variables, "PATH": f"{mindformers_python().parent}:/usr/bin:/bin"},
        folder,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT ")), done.stderr


def test_it_is_put_over_the_loaded_configuration_and_the_file_stays(agent, tmp_path):
    loaded, stderr = result(LOADED, tmp_path, agent, ASKED)

    assert loaded == {"monitor_on": True, "weight_state_format": "log", "step_interval": 5, "dump_path": "./mine"}
    assert "this MindFormers has no monitor_config of_another_version" in stderr
    content = (tmp_path / "job.yaml").read_bytes()
    assert hashlib.sha256(content).digest() == hashlib.sha256(JOB_YAML.encode()).digest()


def test_what_is_not_asked_for_leaves_the_jobs_own(agent, tmp_path):
    loaded, _ = result(LOADED, tmp_path, agent)

    assert loaded == {"monitor_on": False, "weight_state_format": None, "step_interval": 3, "dump_path": "./mine"}


def test_a_configuration_that_is_no_file_gets_mindformers_monitor_too(agent, tmp_path):
    told, _ = result(TRAINER, tmp_path, agent, ASKED)

    assert told == ["TrainingStateMonitor", 5, ["log"], [".*"]]


def test_the_keys_that_the_operator_checks_are_those_of_mindformers(tmp_path):
    (monitor, stable_rank), _ = result(KEYS, tmp_path, None)

    assert monitor == sorted(mindformers.KEYS)
    assert stable_rank == sorted(mindformers.SECTIONS["stable_rank_config"])
