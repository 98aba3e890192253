"""What the agent makes of MindSpore's step counts, without a training."""

import pytest

import training_support as support
from rankbeat_agent.hooks import anchoring, rank, steps
from rankbeat_agent.wire import writer

NANOSECONDS = 1e9


@pytest.fixture
def seen(tmp_path):
    process = rank.Rank()
    process.writer = writer.claim(str(tmp_path), 32768, 0, 0, 0)
    yield steps.Steps(process)
    process.writer.let_go()


def flushed(seen, tmp_path, *pending):
    seen.pending.extend(pending)
    seen.flush(seen.process.writer)
    (ring,) = support.read_rings(tmp_path)
    return [
        (record.step, *(round(value * NANOSECONDS) for value in (record.value, record.value2, record.value3)))
        for record in ring.steps()
    ]


def test_a_steps_interval_runs_from_end_to_end_and_its_gap_to_its_begin(seen, tmp_path):
    assert flushed(seen, tmp_path, (7, 1, 1_000, 2_000, 9_000)) == [(7, 8_000, 1_000, 7_000)]


def test_a_sink_of_several_steps_is_noted_as_its_average_step(seen, tmp_path):
    assert flushed(seen, tmp_path, (8, 4, 1_000, 2_000, 9_000)) == [(8, 2_000, 250, 1_750)]


def test_after_a_rollback_the_next_step_counts_as_one(seen, tmp_path):
    assert flushed(seen, tmp_path, (3, -4, 1_000, 2_000, 9_000)) == [(3, 8_000, 1_000, 7_000)]


def test_the_length_of_a_training_in_sink_mode_is_its_sinks_times_their_size():
    parameters = {"dataset_sink_mode": True, "batch_num": 20, "epoch_num": 3}

    assert anchoring.total_steps_of(parameters) == 60


class _StepSync:
    """By name what Model.train puts before all callbacks in PyNative mode."""


@pytest.mark.parametrize(
    ("callbacks", "target", "in_graph_mode", "expected"),
    [
        pytest.param([], "CPU", True, (True, True), id="graph on CPU: waited for, read"),
        pytest.param([], "Ascend", True, (False, True), id="graph on NPU: not known to be waited for, read"),
        pytest.param([], "GPU", True, (False, True), id="graph on GPU: likewise"),
        pytest.param([_StepSync()], "Ascend", False, (True, True), id="PyNative: waited for, read"),
        pytest.param([], "Ascend", False, (False, False), id="PyNative without the wait: not read"),
    ],
)
def test_where_a_steps_end_is_synchronised_and_where_tensors_are_read(callbacks, target, in_graph_mode, expected):
    assert anchoring.timing(callbacks, target, in_graph_mode) == expected
