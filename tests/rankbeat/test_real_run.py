"""From a real training to a frame: the losses of rankbeat.load are those that the job itself printed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rankbeat
import training_support as support
from rankbeat_contract import names

JOB = Path(__file__).parents[1] / "agent/job.py"
LOSS = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)

pytestmark = support.TRAINS


def test_two_attempts_of_a_real_training_become_one_frame(tmp_path):
    config = tmp_path / "monitor.json"
    files = [{"format": kind} for kind in ("jsonl", "csv", "protobuf", "tensorboard")]
    signals = ["loss", "learningRate", "memory", "run"]
    config.write_text(json.dumps({"version": 2, "experiment": "real", "signals": signals, "outputs": {"files": files}}))
    rings = tmp_path / "rings"
    rings.mkdir()
    agent = support.pod_folder(tmp_path / "agent")
    printed = {}
    for attempt, steps in ((0, 30), (1, 20)):
        variables = support.environment(
            agent, rings, **{names.ENV_CONFIG: str(config), names.ENV_ATTEMPT: str(attempt)}
        )
        done = support.run([str(support.mindspore_python()), str(JOB), "--steps", str(steps)], variables, tmp_path)
        assert done.returncode == 0, done.stderr
        printed[attempt] = {int(step): float(loss) for step, loss in LOSS.findall(done.stdout)}

    command = ["local", "--rings", rings, "--out", tmp_path / "out", "--config", config, "--once"]
    subprocess.run([sys.executable, "-m", "rankbeat_collector", *map(str, command)], check=True, capture_output=True)
    frame = rankbeat.load(tmp_path / "out", ranks=[0])

    losses = {int(step): loss for step, loss in zip(frame["step"], frame["loss"], strict=True)}
    runs = [json.loads(path.read_text()) for path in (tmp_path / "out/real").glob("run-*.json")]
    assert losses == {**printed[0], **printed[1]}
    assert frame["attempt"].tolist() == [1] * 20 + [0] * 10
    assert frame["learning_rate"].dropna().unique() == pytest.approx([0.05])
    assert frame["step_interval_seconds"].count() == 29
    assert [any("job.py" in part for part in run["argv"]) for run in runs] == [True, True]
