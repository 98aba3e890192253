"""What a report may hold."""

import math
from typing import Any

import pytest

from aggregator_builders import a_pod, a_rank, a_report
from rankbeat_aggregator.errors import InvalidReport
from rankbeat_aggregator.model import report as reports
from rankbeat_aggregator.model.report import Outputs, Taps


def test_unknown_is_null_absent_or_minus_one():
    rank = a_rank(0, step=None, entered_step=-1, median_interval_seconds=math.nan)
    del rank["total_steps"]

    (parsed,) = reports.parse(a_report("n0", [rank])).ranks

    assert (parsed.step, parsed.entered_step, parsed.median_interval_seconds, parsed.total_steps) == (None,) * 4


def test_fields_of_a_newer_collector_are_passed_over():
    report = a_report("n0", [a_rank(0, new_field=1)], other_field={})

    assert len(reports.parse(report).ranks) == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"node": ""}, "node"),
        ({"node": "n0\nx"}, "node"),
        ({"sent_wall": None}, "sent_wall"),
        ({"interval_seconds": 0}, "interval_seconds"),
        ({"interval_seconds": "5"}, "interval_seconds"),
        ({"exchange": 1}, "exchange"),
        ({"exchange": {"offset_seconds": 0.0, "delay_seconds": -1}}, "exchange.delay_seconds"),
        ({"clock": {"trusted": "yes"}}, "clock.trusted"),
        ({"ranks": {}}, "ranks"),
        ({"ranks": [1]}, "ranks[0]"),
        ({"ranks": [{}] * 4097}, "ranks"),
        ({"pods": [a_pod(a_rank(0), deleting=None)]}, "pods[0].deleting"),
        ({"pods": [a_pod(a_rank(0), namespace="a/b")]}, "pods[0].namespace"),
    ],
)
def test_what_the_collector_itself_says_is_checked(given: dict[str, Any], field: str):
    with pytest.raises(InvalidReport) as raised:
        reports.parse({**a_report("n0", []), **given})

    assert raised.value.field == field


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_a_body_that_is_no_object_is_refused(body: object):
    with pytest.raises(InvalidReport):
        reports.parse(body)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"rank": -2}, "rank"),
        ({"rank": True}, "rank"),
        ({"rank": 1 << 21}, "rank"),
        ({"world_size": 0}, "world_size"),
        ({"phase": "dancing"}, "phase"),
        ({"claimed_age_seconds": None}, "claimed_age_seconds"),
        ({"claimed_age_seconds": math.inf}, "claimed_age_seconds"),
        ({"phase_age_seconds": -1}, "phase_age_seconds"),
        ({"step": 1.5}, "step"),
        ({"step": 1 << 60}, "step"),
        ({"alive": 1}, "alive"),
        ({"run": "../x"}, "run"),
        ({"steps": [[1, 2]]}, "steps"),
        ({"steps": [[1, 2, 3, "x"]]}, "steps"),
        ({"steps": [[-1, 0.1, 0.1, 0.1]]}, "steps"),
        ({"steps": [[1, -0.1, 0.1, 0.1]]}, "steps"),
        ({"steps": [[1, 1, 1, 1]] * 257}, "steps"),
        ({"scalars": [[1, "Loss", 1.0]]}, "scalars"),
        ({"scalars": [[1, "loss", None]]}, "scalars"),
    ],
)
def test_a_ring_that_makes_no_sense_is_left_out_and_does_not_blind_its_node(given: dict[str, Any], field: str):
    parsed = reports.parse(a_report("n0", [a_rank(0), {**a_rank(1), **given}]))

    assert [rank.rank for rank in parsed.ranks] == [0]
    assert [error.field for error in parsed.refused] == [f"ranks[1].{field}"]


@pytest.mark.parametrize("exception", ["", None, "x" * 65, "{{ evil }}", "a b", 7])
def test_an_exception_that_is_no_class_name_is_not_passed_on(exception: object):
    (parsed,) = reports.parse(a_report("n0", [a_rank(0, exception=exception)])).ranks

    assert parsed.exception == ""


def test_step_rows_keep_what_is_not_known_as_nan():
    (parsed,) = reports.parse(a_report("n0", [a_rank(0, steps=[[1, None, math.nan, 0.1]])])).ranks

    assert parsed.steps.shape == (1, 3)
    assert math.isnan(parsed.steps[0, 1])
    assert math.isnan(parsed.steps[0, 2])


SAID = {"troubles": ["rows_lost", "full", "rm -rf"], "rows_written": 12, "rows_dropped": 3, "records_lost": 2}


def test_what_became_of_a_pod_s_outputs_is_known_words_and_counts():
    rank = a_rank()
    (pod,) = reports.parse(a_report("n1", [rank], pods=[a_pod(rank, outputs=SAID)])).pods
    (without,) = reports.parse(a_report("n1", [rank])).pods

    assert pod.outputs == Outputs(("full", "rows_lost"), 12, 3, 2)
    assert without.outputs is None


def test_taps_are_counts_and_places():
    taps = {"refused": 2, "unresolved_paths": [3, 1, 3, -1, 1.5, "x", 400]}
    (rank,) = reports.parse(a_report("n1", [a_rank(taps=taps)])).ranks
    (without,) = reports.parse(a_report("n1", [a_rank()])).ranks

    assert rank.taps == Taps(2, (1, 3))
    assert without.taps is None
