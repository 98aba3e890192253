"""What each known line of training says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_collector.tiers import loss_lines
from rankbeat_collector.tiers.loss_lines import LossLine
from tier_support import GRAPH_LINE

WRITTEN = 1795979838.303
"""2026-11-29 19:17:18,303 as if in UTC."""

GRAPH = {
    "not sunk": (
        (
            "{ Epoch:[  2/  2], step:[    7/   10], loss:[4.121618/4.092713], per_step_time: 30ms, lr: 0.000116977695, "
            "overflow cond: False, loss_scale: 1.0, global_norm: [0.9454679], train_throughput_per_npu: 0.000T"
        ),
        LossLine(
            17,
            20,
            (("loss", 4.121618), ("learning_rate", 0.000116977695), ("grad_norm", 0.9454679), ("loss_scale", 1.0)),
            0.03,
        ),
    ),
    "sink mode": (
        (
            "{ Epoch:[  1/  3], step:[   10/   10], loss: 4.121618, per_step_time: 30ms, lr: 1e-05, "
            "overflow cond: False, "
            "loss_scale: 65536.0, global_norm: 0.9"
        ),
        LossLine(
            10, 30, (("loss", 4.121618), ("learning_rate", 1e-05), ("grad_norm", 0.9), ("loss_scale", 65536.0)), 0.03
        ),
    ),
    "no learning rate, no norm, no scale": (
        (
            "{ Epoch:[  1/  1], step:[    1/   10], loss:[4.121618/4.092713], per_step_time: 3012ms, "
            "overflow cond: False, "
            "loss_scale: unavailable, global_norm: None"
        ),
        LossLine(1, 10, (("loss", 4.121618),), 3.012),
    ),
    "arrays of one number": (
        (
            "{ Epoch:[  1/  1], step:[    2/   10], loss:[4.1/4.0], per_step_time: 5ms, lr: [1.e-05], "
            "overflow cond: [ True], loss_scale: [1024.], global_norm: [ 12.]"
        ),
        LossLine(
            2, 10, (("loss", 4.1), ("learning_rate", 1e-05), ("grad_norm", 12.0), ("loss_scale", 1024.0)), 0.005, True
        ),
    ),
    "separate losses": (
        (
            "{ Epoch:[  1/  1], step:[    3/   10], loss:[5.000000/5.100000], lm_loss: 4.500000, "
            "load_balancing_loss: 0.300000, "
            "mtp_loss: 0.200000, indexer_loss: 0.100000, per_step_time: 30ms, lr: 1e-05, overflow cond: True, "
            "loss_scale: 1.0, global_norm: [inf]"
        ),
        LossLine(
            3, 10, (("loss", 5.0), ("learning_rate", 1e-05), ("grad_norm", math.inf), ("loss_scale", 1.0)), 0.03, True
        ),
    ),
    "infinite": (
        (
            "{ Epoch:[  1/  1], step:[    4/   10], loss:[  inf/  inf], per_step_time: 30ms, overflow cond: False, "
            "loss_scale: unavailable, global_norm: None"
        ),
        LossLine(4, 10, (("loss", math.inf),), 0.03),
    ),
    "more steps than the column is wide": (
        (
            "{ Epoch:[  1/  1], step:[123456/1000000], loss:[2.1/2.2], per_step_time: 30ms, overflow cond: False, "
            "loss_scale: unavailable, global_norm: None"
        ),
        LossLine(123456, 1000000, (("loss", 2.1),), 0.03),
    ),
}

OTHERS = {
    "PyNative": (
        (
            "{ step:[    7/   10], consumed_samples: 56, global_batch_size: 8, loss:   4.121618, "
            "per_step_time:     30ms, "
            "lr: 1.000000e-05, grad_norm:   0.945468, throughput: 171.20T }"
        ),
        LossLine(7, 10, (("loss", 4.121618), ("learning_rate", 1e-05), ("grad_norm", 0.945468)), 0.03),
    ),
    "PyNative with more losses": (
        (
            "{ step:[    7/   10], consumed_samples: 56, global_batch_size: 8, loss:   4.121618, "
            "per_step_time:     30ms, "
            "load_balancing_loss:   0.100000, indexer_loss:   0.200000, mtp_1_loss:   0.300000, "
            "lr: 1.000000e-05, grad_norm: NaN }"
        ),
        LossLine(7, 10, (("loss", 4.121618), ("learning_rate", 1e-05), ("grad_norm", math.nan)), 0.03),
    ),
    "PyNative, not the last stage": (
        (
            "{ step:[    7/   10], consumed_samples: 56, global_batch_size: 8, "
            "loss: N/A (non-last PP stage, refer to last "
            "stage for real loss), per_step_time:     30ms, lr: 1.000000e-05, grad_norm:   0.945468 }"
        ),
        LossLine(7, 10, (("learning_rate", 1e-05), ("grad_norm", 0.945468)), 0.03),
    ),
    "any loop": (
        "[Monitor] step: 50, loss: 2.31, learning_rate: 1e-4, grad_norm: 0.9",
        LossLine(50, 0, (("loss", 2.31), ("learning_rate", 1e-4), ("grad_norm", 0.9))),
    ),
    "any loop that says its rank": (
        "[Rankbeat] rank: 3, step: 50, loss: nan",
        LossLine(50, 0, (("loss", math.nan),), rank=3),
    ),
    "any loop with a step alone": ("[Monitor] step: 50", LossLine(50)),
}

LINES = {**GRAPH, **OTHERS}


def same(one: LossLine | None, other: LossLine) -> bool:
    """Equal, NaN being NaN."""
    return repr(one) == repr(other)


@pytest.mark.parametrize(("text", "expected"), LINES.values(), ids=LINES)
def test_a_line_of_training_gives_its_numbers(text: str, expected: LossLine) -> None:
    assert same(loss_lines.loss_line(text), expected)


def test_the_time_at_which_the_program_wrote_it_is_kept_for_differences() -> None:
    found = loss_lines.loss_line(GRAPH_LINE)

    assert found is not None
    assert (found.step, found.written_seconds, found.rank) == (17, pytest.approx(WRITTEN), None)


def test_a_rank_in_the_path_before_the_line_is_its_rank() -> None:
    found = loss_lines.loss_line("output/log/rank_3/info.log:" + GRAPH_LINE)

    assert found is not None
    assert found.rank == 3


@pytest.mark.parametrize(
    "text",
    [
        "  85.0% |█████     | 131.52618 samples/s/p  0:00:00 }",
        "epoch: 1 step: 1, loss is 2.302585",
        "INFO step: [1/2] loss: 1.0",
        "{ Epoch:[  1/  1], step:[    0/   10], loss:[1.0/1.0], per_step_time: 1ms",
        "[Monitor] step: x, loss: 1",
        "[Monitor] loss: 1",
        "",
    ],
)
def test_other_lines_say_nothing(text: str) -> None:
    assert loss_lines.loss_line(text) is None


@given(st.sampled_from([text for text, _ in LINES.values()]), st.data())
def test_a_line_of_training_with_any_damage_is_read_or_refused_but_never_fails(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, len(text)))
    damaged = text[:at] + data.draw(st.text(max_size=20)) + text[end:]

    found = loss_lines.loss_line(damaged)

    assert found is None or (found.step > 0 and all(isinstance(value, float) for _, value in found.values))


@given(st.text(alphabet="{[]}:,/ +-.0123456789eEpochstlsrankmy", max_size=loss_lines.MAX_BYTES))
def test_any_text_of_the_lines_letters_is_read_in_no_time(text: str) -> None:
    loss_lines.loss_line("{ Epoch:[1/1], step:[1/1], loss:[" + text)
