"""Custom monitors in the collector: the job's own classes, never trusted to work."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import files_support as support
from rankbeat_collector.files import custom
from rankbeat_collector.files.settings import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLASSES = """
calls = []

class Doubled:
    def open(self, context):
        self.factor = context.options["factor"]
        calls.append(("open", context.experiment, context.name, context.place))
    def record(self, row):
        calls.append(("record", row["step"], row["rank"]))
        return {"loss": row["loss"] * self.factor} if "loss" in row else None
    def close(self):
        calls.append(("close",))

class Bare:
    def record(self, row):
        return None

class Fails:
    def record(self, row):
        raise SystemExit("no more")

class Text:
    def record(self, row):
        return {"a": "1"}

class BadName:
    def record(self, row):
        return {"A-B": 1.0}

class Nothing:
    pass
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[str]:
    """The name of a module of the job's own."""
    (tmp_path / "own_monitors.py").write_text(CLASSES)
    sys.path.append(str(tmp_path))
    yield "own_monitors"
    sys.path.remove(str(tmp_path))
    sys.modules.pop("own_monitors", None)


def running(*paths: str, **options: object) -> custom.Running:
    return custom.Running({f"m{place}": Monitor(f"m{place}", path, options) for place, path in enumerate(paths)}, "llm")


def test_a_monitor_is_opened_fed_and_closed_and_its_numbers_stand_beside_the_rows_own(own: str) -> None:
    made = running(f"{own}:Doubled", factor=2)

    (row,) = made.enriched([support.a_row(7, values={"loss": 1.5})])
    made.close()

    assert row.values == {"loss": 1.5, "m0_loss": 3.0}
    assert sys.modules[own].calls == [("open", "llm", "m0", "collector"), ("record", 7, 0), ("close",)]
    assert made.disabled == {}


def test_open_and_close_may_be_left_out(own: str) -> None:
    made = running(f"{own}:Bare")

    assert made.enriched([support.a_row(1)]) == [support.a_row(1)]
    made.close()
    assert made.disabled == {}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Fails", "SystemExit"),
        ("Text", "MonitorError"),
        ("BadName", "MonitorError"),
        ("Nothing", "MonitorError"),
        ("Absent", "AttributeError"),
    ],
)
def test_a_monitor_that_does_not_work_is_disabled_by_name_and_the_others_go_on(
    name: str, error: str, own: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = running(f"{own}:{name}", f"{own}:Doubled", factor=1)

    rows = made.enriched([support.a_row(step) for step in (1, 2)])

    assert made.disabled == {"m0": error}
    assert [row.values["m1_loss"] for row in rows] == [row.values["loss"] for row in rows]
    assert f"class={own}:{name}" in caplog.text
