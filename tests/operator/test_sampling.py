"""A sampling that changes while a job runs holds from one step on, the same for all ranks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_builders import JOB_UID, a_job, a_monitor, a_verdict, seen
from rankbeat_contract import monitor as contract
from rankbeat_operator.model import sampling as model
from rankbeat_operator.model.observed import Aggregator
from rankbeat_operator.model.planned import Change, Planned, Sampling
from rankbeat_operator.model.sampling import Progress
from rankbeat_operator.plan import sampling, tenants
from rankbeat_operator.plan.sampling import DELIVERY_SECONDS, planned

OLD, NEW, NEWER = Sampling(0, 100), Sampling(50, 10), Sampling(7, 0)
RUN = f"{JOB_UID}/1"
HELD = Planned(NEW, Change(1000, OLD, RUN))
"""NEW was asked for, and holds from step 1000 on."""


def at(step: int | None, interval_seconds: float | None = 1.0, run: str = RUN) -> Progress:
    return Progress(run, True, step, interval_seconds)


UNKNOWN = Progress(f"{JOB_UID}/", is_known=False)
NOT_STARTED = Progress()


def test_a_first_configuration_holds_at_once():
    assert planned(NEW, None, at(500)) == Planned(NEW)


def test_what_has_not_changed_needs_no_step():
    assert planned(OLD, Planned(OLD), at(500)) == Planned(OLD)


@pytest.mark.parametrize(
    ("interval_seconds", "steps"),
    [(1.0, 181), (0.01, 18_001), (60.0, 4), (3600.0, 2)],
    ids=["1 s", "10 ms", "1 m", "1 h"],
)
def test_a_change_holds_when_every_rank_has_read_it(interval_seconds, steps):
    assert planned(NEW, Planned(OLD), at(500, interval_seconds)) == Planned(NEW, Change(500 + steps, OLD, RUN))


def test_the_margin_covers_the_kubelets_delay_and_its_cache():
    assert DELIVERY_SECONDS >= 1.5 * 60 + 60 + 10


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(NOT_STARTED, id="no job"),
        pytest.param(at(None, None), id="no step yet"),
        pytest.param(UNKNOWN, id="nobody knows"),
    ],
)
def test_a_change_before_the_first_step_holds_at_once(job):
    assert planned(NEW, Planned(OLD), job) == Planned(NEW)


def test_a_change_waits_for_the_pace_of_the_job_to_be_known():
    assert planned(NEW, Planned(OLD), at(1, None)) == Planned(OLD)


@pytest.mark.parametrize(
    "job", [at(900), at(999, 0.1), at(950, None), at(None, None), UNKNOWN, Progress(is_known=False)], ids=str
)
def test_a_change_that_is_due_stays_as_it_was_decided(job):
    assert planned(NEW, HELD, job) == HELD


@pytest.mark.parametrize("step", [900, 999])
def test_a_second_change_waits_for_the_first(step):
    assert planned(NEWER, HELD, at(step)) == HELD


def test_a_second_change_holds_from_a_step_of_its_own():
    assert planned(NEWER, HELD, at(1000)) == Planned(NEWER, Change(1181, NEW, RUN))


def test_of_several_quick_changes_the_last_one_counts_and_what_was_in_between_is_never_written():
    first = planned(NEW, Planned(OLD), at(819))
    second = planned(NEWER, first, at(820))
    third = planned(OLD, second, at(821))

    assert first == second == third == HELD
    assert planned(OLD, third, at(1000)) == Planned(OLD, Change(1181, NEW, RUN))


def test_a_change_taken_back_before_it_holds_is_a_change_too():
    assert planned(OLD, HELD, at(820)) == HELD


@pytest.mark.parametrize(("step", "is_there"), [(1000, True), (1180, True), (1181, False)])
def test_a_change_stays_until_a_rank_that_reads_it_late_has_read_it(step, is_there):
    assert planned(NEW, HELD, at(step)) == Planned(NEW, HELD.change if is_there else None)


@pytest.mark.parametrize(
    "job", [at(3, run=f"{JOB_UID}/2"), at(3, run="another/1"), NOT_STARTED], ids=["attempt", "job", "over"]
)
def test_a_change_ends_with_the_run_whose_steps_it_speaks_of(job):
    assert planned(NEW, HELD, job) == Planned(NEW)


def test_the_change_of_another_job_says_nothing_about_this_one():
    held = Planned(NEW, Change(1000, OLD, "another/1"))

    assert planned(NEW, held, UNKNOWN) == Planned(NEW)


def test_what_was_decided_is_read_back_from_the_config_map():
    config_map = tenants.configuration(a_monitor(), HELD)

    assert model.written(config_map) == HELD
    assert json.loads(config_map["data"]["monitor.json"]) == {
        "version": 2,
        "sampling": {"intervalSteps": 50, "denseFirstSteps": 10},
        "change": {"fromStep": 1000, "previous": {"intervalSteps": 0, "denseFirstSteps": 100}},
    }


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"sampling": {}}', '{"sampling": {"intervalSteps": "x", "denseFirstSteps": 1}}', "[" * 9999],
    ids=["empty", "cut", "list", "nothing", "no sampling", "no number", "deep"],
)
def test_a_config_map_that_somebody_wrote_over_counts_as_none(text):
    assert model.written({"metadata": {}, "data": {"monitor.json": text}}) is None


def test_a_config_map_that_is_not_there_counts_as_none():
    assert model.written(None) is None


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param(seen(), Progress(RUN, True, 512, 0.5), id="training"),
        pytest.param(seen(verdict=None), UNKNOWN, id="nothing is known"),
        pytest.param(seen(verdict=None, aggregator=Aggregator("refused")), UNKNOWN, id="no aggregator"),
        pytest.param(seen(workload=None, verdict=None), NOT_STARTED, id="no job"),
        pytest.param(seen(workload=a_job(finished="Complete")), NOT_STARTED, id="over"),
        pytest.param(seen(verdict=a_verdict(attempt=3)), Progress(f"{JOB_UID}/3", True, 512, 0.5), id="third attempt"),
        pytest.param(None, Progress(is_known=False), id="just started"),
    ],
)
def test_how_far_a_job_is(observed, expected):
    assert model.progress(observed) == expected


_SAMPLINGS = st.builds(Sampling, st.integers(0, 50), st.integers(0, 50))


@given(st.lists(st.tuples(_SAMPLINGS, st.integers(0, 400)), max_size=20), st.lists(st.integers(0, 180), max_size=20))
def test_ranks_that_read_any_file_written_in_the_last_minutes_agree_at_every_step(wishes, delays):
    """Property: at each step, all files that a rank may still hold say the same of the sampling in force."""
    held, step, written = Planned(OLD), 1, [(0, Planned(OLD))]
    for wish, steps in wishes:
        step += steps
        after = planned(wish, held, at(step))
        if after != held:
            written.append((step, after))
        held = after

    last = step + 400
    for now in range(1, last, 13):
        known = [file for since, file in written if since <= now]
        # A rank holds the newest file, or one that was the newest within the last DELIVERY_SECONDS (1 s a step).
        replaced = [since for since, _ in written[1:] if since <= now] + [last]
        could_hold = [file for file, gone in zip(known, replaced, strict=True) if now - gone <= DELIVERY_SECONDS]
        assert len({_in_force(file, now) for file in could_hold}) == 1


def _in_force(file: Planned, step: int) -> Sampling:
    return file.change.previous if file.change is not None and step < file.change.from_step else file.sampling


def test_the_margin_is_bounded_for_steps_of_no_length():
    assert sampling.margin_steps(0.0) == 1 + DELIVERY_SECONDS * 10_000


def test_the_configuration_of_a_monitor_has_its_own_sampling():
    wanted = contract.Settings(interval_steps=50, experiment="a")

    content = json.loads(tenants.configuration(a_monitor(settings=wanted), Planned(OLD))["data"]["monitor.json"])

    assert content == {
        "version": 2,
        "experiment": "a",
        "sampling": {"intervalSteps": 0, "denseFirstSteps": 100},
    }
