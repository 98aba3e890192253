"""Vendors' tools as real processes: scripts that stand in for them, at the places where the driver puts them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import held_process
from ascend_support import FIXTURES
from rankbeat_exporter.model.accelerator import Answer, RawChip, Snapshot
from rankbeat_exporter.parsing import ascend
from rankbeat_exporter.sources import ascend_tools, tools
from rankbeat_exporter.sources.unkillable import Unkillable

REPOSITORY = Path(__file__).parents[2]


def a_script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


@pytest.fixture
def run(tmp_path):
    """What becomes of a tool that is this shell script."""

    def one(text, command="npu-smi info", timeout_seconds=5.0):
        path = a_script(tmp_path / "npu-smi", text)
        return tools.Tools("/nowhere", timeout_seconds).run(path, command)

    return one


def test_a_tools_output_comes_with_its_command_and_it_finds_the_drivers_libraries(run):
    text = run('echo "$@" $LD_LIBRARY_PATH\n', "npu-smi info -t health -i 2")

    assert text == ("npu-smi info -t health -i 2", "", "info -t health -i 2 /nowhere\n")


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo 'ret is -8020'; exit 3\n", "exit_3"), ("kill -9 $$\n", "exit_-9"), ("yes\n", "too_long")],
)
def test_a_tool_that_fails_says_how(run, script, reason):
    assert run(script).reason == reason


def test_a_tool_that_is_not_there_is_said(tmp_path):
    assert tools.Tools("", 1.0).run(tmp_path / "none", "npu-smi info") == ("npu-smi info", "not_found", "")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_tool_that_hangs_costs_its_time_out_and_takes_what_it_started_along(run, tmp_path):
    begin = time.monotonic()
    text = run(f"sleep 61 & echo $! > {tmp_path}/pid; echo half a line; wait\n", timeout_seconds=0.3)
    took = time.monotonic() - begin

    assert text == ("npu-smi info", "timed_out", "")
    assert 0.3 <= took < 2.0
    started = int((tmp_path / "pid").read_text())
    while is_alive(started):  # it was killed, and may still be on its way
        assert time.monotonic() - begin < 10
        time.sleep(0.01)


def test_while_a_tool_cannot_be_killed_no_other_is_run(tmp_path, eventually):
    path = a_script(tmp_path / "npu-smi", f"exec {' '.join(held_process.command(tmp_path))}\n")
    unkillable = Unkillable()
    runner = tools.Tools("", 2.0, unkillable)

    first, second, left = runner.run(path, "npu-smi info"), runner.run(path, "npu-smi info -m"), unkillable.left()
    held_process.release(tmp_path)

    assert (first.reason, second.reason, len(left)) == ("timed_out", "ChildUnkillable", 1)
    eventually(lambda: not unkillable.left())


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A driver's folder with tools that print fixtures; asked holds what they were asked."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    asked = tmp_path / "asked"
    asked.touch()
    a_script(
        tmp_path / "driver/tools/npu-smi",
        f'echo "npu-smi $@" >> {asked}\ncase "$*" in\ninfo) cat {FIXTURES}/info_b_910b.txt;;\n'
        f'"info -m") cat {FIXTURES}/map_b.txt;;\n"info -t health -i 5") cat {FIXTURES}/health_910b.txt;;\n'
        f'"info -t phyid-remap -p 5") cat {FIXTURES}/remap_910b.txt;;\n'
        "esac\n",
    )
    a_script(
        tmp_path / "driver/tools/hccn_tool",
        f'echo "hccn_tool $@" >> {asked}\ncase "$3" in\n-link) cat {FIXTURES}/hccn_link_up.txt;;\n'
        f"-optical) cat {FIXTURES}/hccn_optical.txt;;\nesac\n",
    )
    return tmp_path / "driver", lambda: asked.read_text().splitlines()


@pytest.fixture
def device_nodes(tmp_path):
    """A folder like /dev of a node with two NPUs."""
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in ("davinci2", "davinci5", "davinci_manager", "davinci5_extra", "null"):
        (folder / name).touch()
    return folder


def completed(source, snapshot, eventually, texts):
    """The snapshot as soon as the tools' texts are there."""
    return eventually(lambda: len((found := source.completed(snapshot)).texts) >= texts and found)


def test_where_the_library_cannot_be_had_npu_smi_stands_in_for_it(driver, device_nodes, eventually):
    root, asked = driver
    source = ascend_tools.AscendTools(root, device_nodes=device_nodes)

    found = completed(source, Snapshot("LibraryNotFound", "none of ..."), eventually, 13)
    source.close()

    readings = ascend.readings(found)
    assert (found.reason, readings.source) == ("", "tool")
    assert [(one.card, one.device) for one in readings.accelerators] == [
        (2, "card2-chip0"), (5, "5"), (2944, "card2944-chip0")
    ]  # fmt: skip
    assert readings.accelerators[1].error_codes == (0x80DE1801, 0x80E01801, 0x110001024)
    assert asked()[:5] == [
        "npu-smi info", "npu-smi info -m", "npu-smi info -t phyid-remap -p 2", "npu-smi info -t phyid-remap -p 5",
        "npu-smi info -t health -i 2",
    ]  # fmt: skip


def test_a_driver_that_hangs_is_not_asked_by_the_tool(driver):
    root, asked = driver
    source = ascend_tools.AscendTools(root)

    found = source.completed(Snapshot("DriverHung"))
    time.sleep(0.3)
    source.close()

    assert (found.reason, found.texts, asked()) == ("DriverHung", (), [])


def test_beside_the_library_hccn_tool_is_asked_for_what_the_library_does_not_say(driver, eventually):
    root, asked = driver
    chip = RawChip(0, 0, {"physical_id": Answer(0, (6,)), "network_health": Answer(0, (0,)), "packets": Answer(-8255)})
    source = ascend_tools.AscendTools(root)

    found = completed(source, Snapshot("", chips=(chip,)), eventually, 5)
    source.close()

    assert asked() == [
        "hccn_tool -i 6 -link -g", "hccn_tool -i 6 -speed -g", "hccn_tool -i 6 -link_stat -g",
        "hccn_tool -i 6 -optical -g", "hccn_tool -i 6 -stat -g",
    ]  # fmt: skip
    (reading,) = ascend.readings(found).accelerators
    assert reading.rows["link_up"] == {("0",): 1.0}
    assert reading.rows["optical_bias_amperes"] == {("0", "0"): pytest.approx(0.007936)}


def test_without_tools_there_is_no_thread_and_nothing_is_added(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    if any(
        (Path(place) / tool).exists()
        for place in ("/usr/local/bin", "/usr/local/sbin")
        for tool in ("npu-smi", "hccn_tool")
    ):
        pytest.skip("this machine has the tools")
    source = ascend_tools.AscendTools(tmp_path)

    assert source.completed(Snapshot("LibraryNotFound")) == Snapshot("LibraryNotFound")
    assert source._thread is None


def test_a_text_that_is_too_old_is_forgotten(driver, eventually):
    root, _ = driver
    source = ascend_tools.AscendTools(root, 0.2, root / "dev")
    completed(source, Snapshot("LibraryNotFound"), eventually, 11)
    source.close()
    source._thread.join(5)

    time.sleep(0.7)

    assert source.completed(Snapshot("LibraryNotFound")) == Snapshot("LibraryNotFound")


def test_a_text_is_counted_once_and_shown_until_the_next(driver, eventually):
    root, _ = driver
    source = ascend_tools.AscendTools(root, device_nodes=root / "dev")
    completed(source, Snapshot("LibraryNotFound"), eventually, 11)

    again = source.completed(Snapshot("LibraryNotFound"))
    source.close()

    assert set(again.repeated_texts) == {text.command for text in again.texts}
    assert ascend.readings(again).failures == ()
