"""One process as a rank: who it is, and whose phases count; without a training."""

import sys
import threading
import types

import pytest

import training_support as support
from rankbeat_agent.hooks import loops, phases, rank
from rankbeat_agent.wire import writer

MANAGEMENT = "mindspore.communication.management"


@pytest.fixture
def process(tmp_path):
    """A rank whose ring is claimed."""
    process = rank.Rank()
    process.writer = process.held = writer.claim(str(tmp_path), 32768, 0, 0, 0)
    process.thread = threading.get_ident()
    yield process
    process.held.let_go()


def in_a_group(monkeypatch, number, size, *, is_initialised=True):
    """MindSpore's module as it would answer: on CPU a group cannot change its size."""
    group = types.SimpleNamespace(INITED=is_initialised)
    functions = {"get_rank": lambda: number, "get_group_size": lambda: size}
    monkeypatch.setitem(sys.modules, MANAGEMENT, types.SimpleNamespace(GlobalComm=group, **functions))


def test_rank_and_world_size_follow_a_group_that_has_changed(process, tmp_path, monkeypatch):
    in_a_group(monkeypatch, number=3, size=4)
    phases.identify(process.writer)
    in_a_group(monkeypatch, number=1, size=2)
    phases.identify(process.writer)
    process.writer.enter_phase(rank.BUILD)

    (ring,) = support.read_rings(tmp_path)

    assert (ring.state.rank, ring.state.world_size) == (1, 2)


def test_a_rank_that_has_left_its_group_stays_who_it_was(process, monkeypatch):
    in_a_group(monkeypatch, number=3, size=4)
    phases.identify(process.writer)
    in_a_group(monkeypatch, number=0, size=0, is_initialised=False)

    phases.identify(process.writer)

    assert (process.writer.rank, process.writer.world_size) == (3, 4)


def test_a_phase_ends_where_it_began_and_is_announced_once(process):
    process.writer.enter_phase(rank.CALLBACKS)

    outer, inner = process.went_into(rank.LOAD), process.went_into(rank.LOAD)
    within = process.writer.phase
    phases.came_back(process, outer)

    assert (outer, inner, within, process.writer.phase) == (rank.CALLBACKS, None, rank.LOAD, rank.CALLBACKS)


def test_what_another_thread_saves_is_no_phase_of_the_rank(process):
    process.writer.enter_phase(rank.TRAIN)
    found = []

    saving = threading.Thread(target=lambda: found.append(process.went_into(rank.CHECKPOINT)))
    saving.start()
    saving.join()

    assert (found, process.writer.phase) == ([None], rank.TRAIN)


def test_after_the_end_no_phase_begins(process):
    process.writer.enter_phase(rank.FAILED)

    assert (process.went_into(rank.CHECKPOINT), process.writer.phase) == (None, rank.FAILED)


@pytest.mark.parametrize(
    ("calls", "counted"),
    [
        pytest.param("AAAA", "AAAA", id="one optimizer"),
        pytest.param("ABABAB", "AAA", id="two by turns"),
        pytest.param("AABAAB", "AAAA", id="the first more often"),
        pytest.param("ABBABB", "ABBB", id="the second more often, from its second call in a row on"),
        pytest.param("ABABBBB", "AABBB", id="the first rests"),
        pytest.param("ABCABCBCBC", "AABB", id="the first of three rests"),
    ],
)
def test_of_several_optimizers_the_calls_of_one_are_steps(process, calls, counted):
    loop = loops.Loop(process)
    cells = {name: object() for name in "ABC"}
    loop.leader = id(cells["A"])

    assert "".join(name for name in calls if loop.is_step(cells[name])) == counted
