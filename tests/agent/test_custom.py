"""The job's own monitors in the training process: fed with tensors at sampled steps, disabled when they raise."""

import json
import sys
from pathlib import Path

import pytest

import training_support as support
from rankbeat_agent.hooks import custom, rank
from rankbeat_contract import names

JOB = Path(__file__).with_name("job.py")
CLASSES = '''
import numpy

calls = []

class Weights:
    """The largest weight."""

    def open(self, context):
        calls.append((context.experiment, context.name, context.place))
        self.factor = context.options.get("factor", 1.0)

    def record(self, row):
        network = row["parameters"]["train_network"]
        weights = [each for each in network.trainable_params() if each.name.endswith("weight")]
        largest = max(abs(each.asnumpy()).max() for each in weights)
        return {"largest": float(largest) * self.factor}

    def close(self):
        print("closed", flush=True)


class Step:
    def record(self, row):
        return {"step": row["step"], "rank": row["rank"]}


class Fails:
    def record(self, row):
        raise SystemExit(7)


class Text:
    def record(self, row):
        return {"Not A Name": 1.0}
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a module of the job's own, new in each test."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CLASSES)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def asked(name, path, **changes):
    return {"name": name, "class": path, "where": "process", **changes}


def opened(*monitors):
    made = custom.Custom(rank.Rank())
    made.open(monitors, "llm")
    return made


def test_numbers_are_named_after_the_monitor(own):
    made = opened(asked("own", f"{own}:Step"), asked("other", f"{own}:Step", where="collector"))

    assert made.sample(7, {}) == {"own_step": 7.0, "own_rank": -1.0}


@pytest.mark.parametrize(
    ("path", "error"),
    [("Fails", "SystemExit"), ("Text", "ValueError"), ("Absent", "AttributeError")],
)
def test_one_that_does_not_work_is_disabled_and_said_once_and_the_others_go_on(path, error, own, capsys):
    made = opened(asked("bad", f"{own}:{path}"), asked("good", f"{own}:Step"))

    values = [made.sample(step, {}) for step in (1, 2)]

    said = [line for line in capsys.readouterr().err.splitlines() if "disabled" in line]
    assert [value["good_step"] for value in values] == [1.0, 2.0]
    assert made.disabled == {"bad": error}
    assert len(said) == 1
    assert f"({own}:{path})" in said[0]


def test_monitors_are_opened_once_in_a_process(own):
    made = opened(asked("own", f"{own}:Weights"))

    made.open((asked("own", f"{own}:Weights"),), "llm")
    made.close()

    assert sys.modules[own].calls == [("llm", "own", "process")]


@pytest.mark.training
@pytest.mark.skipif(not support.mindspore_python().exists(), reason="no MindSpore environment: run `make setup`")
def test_in_a_real_training_its_numbers_reach_the_ring_and_a_broken_one_hurts_nothing(tmp_path):
    (tmp_path / "own_monitors.py").write_text(CLASSES)
    monitors = [
        asked("own", "own_monitors:Weights", options={"factor": 2.0}),
        asked("bad", "own_monitors:Fails"),
    ]
    config = tmp_path / "monitor.json"
    config.write_text(json.dumps({"version": 2, "experiment": "llm", "monitors": monitors}))
    (tmp_path / "rings").mkdir()
    variables = support.environment(
        support.pod_folder(tmp_path / "agent"), tmp_path / "rings", **{names.ENV_CONFIG: str(config)}
    )
    variables["PYTHONPATH"] += f":{tmp_path}"

    done = support.run([str(support.mindspore_python()), str(JOB), "--steps", "20"], variables, tmp_path)
    (ring,) = support.read_rings(tmp_path / "rings")

    values = ring.scalars("own_largest")
    assert done.returncode == 0, done.stderr
    assert "closed" in done.stdout
    assert list(values) == list(range(1, 21))
    assert [value for value in values.values() if not 0.0 < value < 10.0] == []
    assert done.stderr.count("monitor 'bad' (own_monitors:Fails) disabled: SystemExit(7)") == 1
