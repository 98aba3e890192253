"""The /metrics text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry

import ring_support as support
from rankbeat_collector import outputs
from rankbeat_collector.model import ranks
from rankbeat_collector.model.ranks import Numbers, PodRings, Poll, Step, Totals
from rankbeat_collector.model.written import Written
from rankbeat_contract import metrics

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GOLDEN = "golden_metrics.txt"


ALL_NUMBERS: dict[str, Any] = {
    "latest": {
        "loss": Numbers(2.31),
        "perplexity": Numbers(10.07),
        "resident_memory_bytes": Numbers(1.5e9),
        "learning_rate": Numbers(0.0003),
        "loss_scale": Numbers(65536.0),
        "grad_norm": Numbers(0.9),
        "overflow_steps_total": Numbers(2.0),
        "skipped_steps_total": Numbers(3.0),
        "samples_per_step": Numbers(512.0),
        "device_memory_allocated_bytes": Numbers(3e10),
        "device_memory_peak_bytes": Numbers(4e10),
        "device_memory_reserved_bytes": Numbers(5e10),
        "device_memory_limit_bytes": Numbers(6e10),
        "checkpoint_duration_seconds": Numbers(1.5),
        "checkpoint_step": Numbers(500.0),
        "late_configuration_total": Numbers(1.0),
        "filters_refused": Numbers(0.0),
        "taps_refused_total": Numbers(1.0),
        "unresolved_paths_total": Numbers(1.0),
        "baseline_loss": Numbers(8.0, 0.5),
        "baseline_step_interval_seconds": Numbers(0.02, 0.001),
        "eval_accuracy": Numbers(0.75),
        "class_loss": Numbers(1.5, 0.5, 2.5),
        "user_reward": Numbers(1.25),
        "mine_ratio": Numbers(0.5),
    },
    "layers": {("local_norm", 0): Numbers(0.5, 0.1, 0.9), ("expert_load", 3): Numbers(0.25)},
}
"""Each number that an agent may give."""


def text(poll: Poll | None, counts: outputs.Counts | None = None) -> str:
    registry = CollectorRegistry()
    registry.register(outputs.PollCollector("n1", lambda: poll, counts or outputs.Counts(), 10.0))
    return generate_latest(registry).decode()


def lines(made: str, name: str) -> list[str]:
    return [line for line in made.splitlines() if line.startswith((name + "{", name + " "))]


def test_the_whole_text_of_a_node_with_two_ranks(request: pytest.FixtureRequest) -> None:
    state = support.a_state(step=512, step_mono_ns=9_990_000_000, agent_errors=3, refused=4)
    fields: dict[str, Any] = {"steps": (Step(512, 0.02, 0.001, 0.019, 1),), "steps_read": 1, "records_lost": 2}
    full = support.a_rank(state=state, loss=2.31, resident_memory_bytes=1.5e9, **fields, **ALL_NUMBERS)
    fresh = support.a_rank(
        support.a_pod("llm-1"),
        header=support.a_header(local_rank=-1),
        state=support.a_state(rank=1, world_size=-1, phase=0, cpu_seconds=math.nan),
    )
    totals = Totals(polls=20, records_lost=2, conflicts=1, refused=(("link", 4),))
    poll = support.a_poll(
        full,
        fresh,
        seconds=0.001,
        pods=(PodRings(full.pod, 1, outputs=Written(("full",), 9, 3, 2, 1)), PodRings(fresh.pod, 1)),
        totals=totals,
    )
    counts = outputs.Counts(last_push_wall=1_796_000_009.5, rows_dropped=7)
    counts.pushes["accepted"] = 4

    made = text(poll, counts)

    golden = request.path.with_name(GOLDEN)
    assert made == golden.read_text(encoding="utf-8")


def test_before_the_first_poll_nothing_is_said_of_ranks_pods_or_the_kubelets_folder() -> None:
    made = text(None)

    assert {line.split("{")[0] for line in made.splitlines() if not line.startswith("#")} == {
        "rankbeat_collector_pushes_total",
        "rankbeat_collector_report_rows_dropped_total",
        "rankbeat_collector_errors_total",
    }


def test_a_folder_that_cannot_be_read_and_unknown_pods_are_visible() -> None:
    made = text(support.a_poll(is_readable=False, has_pods=False))

    assert lines(made, metrics.COLLECTOR_ROOT_READABLE.name) == [
        'rankbeat_collector_kubelet_root_readable{node="n1"} 0.0'
    ]
    assert lines(made, metrics.COLLECTOR_PODS_KNOWN.name) == ['rankbeat_collector_pods_known{node="n1"} 0.0']
    assert lines(made, metrics.COLLECTOR_PODS.name) == []


def test_a_loss_that_is_nan_is_shown_and_said_to_be_no_number() -> None:
    made = text(support.a_poll(support.a_rank(loss=math.nan)))

    labels = '{monitor="llm",namespace="team-a",node="n1",rank="0"}'
    assert lines(made, "rankbeat_loss") == [f"rankbeat_loss{labels} NaN"]
    assert lines(made, "rankbeat_loss_is_finite") == [f"rankbeat_loss_is_finite{labels} 0.0"]


def test_a_loss_that_is_not_valid_on_this_rank_is_absent() -> None:
    made = text(support.a_poll(support.a_rank(loss=2.0, state=support.a_state(flags=2))))

    assert "rankbeat_loss" not in made


def test_what_follows_from_a_loss_is_absent_where_the_loss_is_not_valid() -> None:
    made = text(support.a_poll(support.a_rank(state=support.a_state(flags=2), **ALL_NUMBERS)))

    assert ("rankbeat_perplexity" in made, "rankbeat_baseline_loss" in made, "rankbeat_grad_norm" in made) == (
        False,
        False,
        True,
    )


def test_the_newest_numbers_of_names_and_layers_come_out_of_the_ring(tmp_path: Path) -> None:
    pod = support.a_pod()
    writer = support.RingWriter(support.ring_folder(tmp_path, pod) / "x.ring")
    for value in (0.5, 0.25):
        writer.record(kind=2, step=7, value=value, name_id=writer.name_id("learning_rate"))
        writer.record(
            kind=2, step=7, value=value, value2=0.1, value3=0.9, name_id=writer.name_id("local_norm"), layer=4
        )
        writer.record(kind=2, step=7, value=9.0, name_id=writer.name_id("local_norm"), layer=4, head=1)
    writer.state(names=2)

    (rank,) = support.a_poller(tmp_path, pod).poll().ranks

    assert (rank.latest["learning_rate"].value, dict(rank.layers)) == (0.25, {("local_norm", 4): (0.25, 0.1, 0.9)})


def test_a_ring_full_of_layers_has_a_limited_number_of_series(tmp_path: Path) -> None:
    pod = support.a_pod()
    writer = support.RingWriter(support.ring_folder(tmp_path, pod) / "x.ring", capacity=1000)
    for layer in range(600):
        writer.record(kind=2, step=7, value=1.0, name_id=writer.name_id("local_norm"), layer=layer)
    writer.state(names=1)

    (rank,) = support.a_poller(tmp_path, pod).poll().ranks

    assert len(rank.layers) == 512


def test_a_rank_without_a_number_has_no_series() -> None:
    made = text(support.a_poll(support.a_rank(state=support.a_state(rank=-1))))

    assert "rankbeat_rank_info" not in made


def test_the_series_of_a_rank_that_is_gone_vanish_after_two_push_intervals() -> None:
    gone = support.a_rank(gone_mono_ns=5_000_000_000)

    before = text(support.a_poll(gone, mono_ns=15_000_000_000))
    after = text(support.a_poll(gone, mono_ns=15_000_000_001))

    assert ("rankbeat_rank_info" in before, "rankbeat_rank_info" in after) == (True, False)


def test_the_newest_of_two_living_claims_of_one_rank_wins_and_is_a_conflict() -> None:
    old = support.a_rank(support.a_pod("old"))
    new = support.a_rank(support.a_pod("new"), header=support.a_header(claimed_mono_ns=2_000_000_000))

    assert ranks.winners([new, old]) == ((new,), frozenset({old.key}))


def test_a_dead_predecessor_is_no_conflict() -> None:
    old = support.a_rank(support.a_pod("old"), is_alive=False)
    new = support.a_rank(support.a_pod("new"), header=support.a_header(claimed_mono_ns=2_000_000_000))

    assert ranks.winners([new, old]) == ((new,), frozenset())


def test_a_ring_that_is_there_wins_over_one_that_is_gone_whatever_they_claim() -> None:
    gone = support.a_rank(header=support.a_header(claimed_mono_ns=9_000_000_000), gone_mono_ns=1)
    there = support.a_rank(support.a_pod("new"))

    assert ranks.winners([there, gone])[0] == (there,)


def test_ranks_of_two_monitors_do_not_meet() -> None:
    one, other = support.a_rank(), support.a_rank(support.a_pod("other", monitor="other"))

    assert ranks.winners([one, other]) == ((one, other), frozenset())


def test_a_conflict_is_counted_once_however_long_it_lasts(tmp_path: Path) -> None:
    pods = (support.a_pod("one"), support.a_pod("two"))
    one, two = (support.ring_folder(tmp_path, pod) / "x.ring" for pod in pods)
    writers = [support.RingWriter(one), support.RingWriter(two)]
    poller = support.a_poller(tmp_path, *pods)

    with support.a_living_process(one), support.a_living_process(two):
        counts = [poller.poll().totals.conflicts for _ in range(3)]

    assert (counts, len(writers)) == ([1, 1, 1], 2)
