"""Taps beside MindFormers' own training cell, loss monitor and expert balancing."""

import json
import re
from pathlib import Path

import pytest

import training_support as support

JOB = Path(__file__).with_name("taps_mindformers_job.py")
LINE = re.compile(
    r"step:\[ *(\d+)/.*?lm_loss: ([-\w.+]+), load_balancing_loss: ([-\w.+]+), .*?global_norm: \[?([-\w.+]+)\]?"
)
"""MFLossMonitor's line: step, separate losses, global norm."""

pytestmark = support.TRAINS_MINDFORMERS


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    agent = support.pod_folder(tmp_path_factory.mktemp("pod") / "agent")

    def trained(*arguments):
        """Ring, the job's own lines by step, and what its routers counted."""
        folder = tmp_path_factory.mktemp("job")
        (folder / "rings").mkdir()
        (folder / "monitor.json").write_text(json.dumps({"version": 2, "signals": ["loss", "gradNorm", "expertLoad"]}))
        python = support.mindformers_python()
        more = {"PATH": f"{python.parent}:/usr/bin:/bin", "RANKBEAT_CONFIG": str(folder / "monitor.json")}
        variables = support.environment(agent, folder / "rings", **more)
        done = support.run([str(python), str(JOB), *arguments], variables, folder)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        lines = {int(step): values for step, *values in LINE.findall(done.stdout)}
        answer = json.loads(re.search(r"^ANSWER (.*)$", done.stdout, re.MULTILINE).group(1))
        (ring,) = support.read_rings(folder / "rings")
        return ring, lines, answer["loads"]

    return trained


@pytest.fixture(scope="module")
def without_clipping(train):
    return train()


@pytest.fixture(scope="module")
def with_clipping(train):
    return train("--clip")


def test_where_mindformers_returns_the_norm_it_is_taken_and_nothing_is_tapped(with_clipping):
    ring, lines, _ = with_clipping

    taken = [record for record in ring.records if record.kind == 2 and ring.names[record.name_id].name == "grad_norm"]
    assert [record.step for record in taken] == [1, 2, 3, 4]
    assert ring.scalars("grad_norm") == {
        step: pytest.approx(float(values[2]), rel=1e-5) for step, values in lines.items()
    }


def test_where_it_does_not_the_tap_gives_the_same(without_clipping, with_clipping):
    tapped, taken = without_clipping[0].scalars("grad_norm"), with_clipping[0].scalars("grad_norm")

    assert {values[2] for values in without_clipping[1].values()} == {"None"}
    assert tapped == pytest.approx(taken, rel=1e-5)


def test_separate_losses_are_those_of_the_jobs_own_line(without_clipping):
    ring, lines, _ = without_clipping

    assert len(lines) == 4
    for step, (main, balance, _) in lines.items():
        assert ring.scalars("lm_loss")[step] == pytest.approx(float(main), abs=1e-6)
        assert ring.scalars("load_balancing_loss")[step] == pytest.approx(float(balance), abs=1e-6)


def test_expert_load_is_each_experts_share_as_counted_before_mindformers_clears_it(without_clipping):
    ring, _, loads = without_clipping

    found = {
        (record.step, record.layer, record.head): record.value
        for record in ring.records
        if record.kind == 2 and record.head >= 0 and ring.names[record.name_id].name == "expert_load"
    }
    assert found == {
        (step, layer, expert): pytest.approx(load, abs=1e-6)
        for step, layers in enumerate(loads, 1)
        for layer, row in enumerate(layers)
        for expert, load in enumerate(row)
    }
