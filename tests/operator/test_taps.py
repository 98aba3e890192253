"""Condition TapsInstalled: what is tapped inside the step, or the paths and the log that say why not."""

from typing import Any

import pytest

from operator_builders import a_monitor, a_verdict, seen
from rankbeat_agent.hooks import patches
from rankbeat_contract import monitor as contract
from rankbeat_operator.model.condition import Condition
from rankbeat_operator.model.verdicts import Taps
from rankbeat_operator.plan import taps

ATTENTION = ("*.attention.softmax", "*.attn.prob")


def monitor(*signals: str):
    return a_monitor(settings=contract.Settings(signals=signals, attention_cells=ATTENTION))


def installed(said: Taps | None, **changes: Any) -> Condition:
    observed = seen(verdict=a_verdict(taps=said, **changes))
    (found,) = taps.conditions(monitor("loss", "attentionEntropy", "gradNorm"), observed)
    return found


@pytest.mark.parametrize("signals", [None, (), ("loss", "memory")], ids=["default", "none", "others"])
def test_it_is_not_there_where_nothing_is_tapped(signals: tuple[str, ...] | None):
    asked = a_monitor(settings=contract.Settings(signals=signals))

    assert list(taps.conditions(asked, seen())) == []


def test_the_signals_that_are_taps_are_those_of_the_agent():
    assert set(patches.TAPS) == contract.TAP_SIGNALS


def test_all_taps_in_place():
    found = installed(Taps(ranks=2))

    assert found == Condition("TapsInstalled", "True", "Installed", "2 ranks tap what spec.signals asks for")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ranks_reporting": 0}, "NoReports"),
        ({}, "NoSamples"),
        ({"tiers": {"llm-0-x": "heartbeat", "llm-1-y": "callback"}}, "NoSamples"),
    ],
)
def test_what_no_rank_has_said_is_unknown(changes: dict[str, Any], reason: str):
    found = installed(None, **changes)

    assert (found.status, found.reason) == ("Unknown", reason)


def test_a_loop_of_the_job_s_own_has_no_taps():
    found = installed(None, tiers={"llm-0-x": "heartbeat", "llm-1-y": "heartbeat"})

    assert (found.status, found.reason) == ("False", "LoopOfItsOwn")


def test_a_path_that_fits_no_cell_is_named_as_the_spec_has_it():
    found = installed(Taps(2, 2, 1, (1,)))

    assert (found.status, found.reason) == ("False", "PathsUnresolved")
    assert found.message == (
        "on 2 of 2 ranks no cell of the network has the path spec.attention.cells[1] '*.attn.prob': compare with"
        " net.cells_and_names(); the job's log says why: kubectl logs POD | grep 'is not observed'"
    )


def test_signals_that_cannot_be_tapped_are_counted_beside_the_paths():
    alone, both = installed(Taps(2, 1, 2)), installed(Taps(2, 2, 2, (0,)))

    assert (alone.reason, both.reason) == ("TapsRefused", "PathsUnresolved")
    assert "on 1 of 2 ranks 2 of spec.signals cannot be tapped in this job" in alone.message
    assert "spec.attention.cells[0]" in both.message
    assert "1 of spec.signals cannot be tapped in this job" in both.message


def test_a_place_that_the_spec_no_longer_has_is_not_named():
    found = installed(Taps(2, 2, 1, (5,)))

    assert (found.status, found.reason) == ("False", "TapsRefused")
    assert "spec.attention.cells" not in found.message
