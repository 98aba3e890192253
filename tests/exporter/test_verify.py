"""`verify`: what is read beside what the vendor's tool prints. Library and tool are doubles of our own making."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbeat_exporter.model.accelerator import Accelerator
from rankbeat_exporter.model.comparison import ToolDevice
from rankbeat_exporter.parsing import comparison, npu_smi_devices, nvidia_smi

REPOSITORY = Path(__file__).parents[2]
TABLE = """\
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | {power}        42                0    / 0             |
| 0                         | 0000:C1:00.0  | 93          0    / 0          4096 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | Warning       | 95.3        42                0    / 0             |
| 0                         | 0000:C2:00.0  | NA          0    / 0          4096 / 65536         |
+===========================+===============+====================================================+
"""
COMMON = """\
        NPU ID                         : {npu}
        Chip Count                     : 1

        Chip ID                        : 0
        Aicore Freq(MHZ)               : 1800
        Aicore curFreq(MHZ)            : 1800
        Temperature(C)                 : 42
"""


@pytest.fixture
def npu_smi(tmp_path):
    """Writes a tool that prints the table, `-t common` for each NPU, and fails for what else it is asked."""

    def write(power="95.3", code=0):
        tool = tmp_path / "npu-smi"
        (tmp_path / "table").write_text(TABLE.format(power=power))
        for npu in range(2):
            (tmp_path / f"common{npu}").write_text(COMMON.format(npu=npu))
        tool.write_text(
            f'#!/bin/sh\ncd {tmp_path}\n[ {code} = 0 ] || {{ echo "dcmi module initialize failed. ret is -8005"; '
            f"exit {code}; }}\n"
            'case "$*" in info) cat table ;; "info -t common -i "*) cat common$5 ;; *) exit 1 ;; esac\n'
        )
        tool.chmod(0o755)
        return tool

    return write


@pytest.fixture
def verify(driver_root, script, tmp_path):
    """Runs `rankbeat-exporter verify`, or another command that starts it; gives exit code and output."""

    def run(*arguments, root=driver_root, program=("rankbeat_exporter", "verify")):
        script("cards 0 1\nchips 1\nutilization 93\n1/0 health 1\n")
        paths = os.pathsep.join(str(REPOSITORY / part) for part in ("node_exporter", "agent"))
        environment = {**os.environ, "PYTHONPATH": paths, "DCMI_DOUBLE_SCRIPT": str(script.path)}
        command = (sys.executable, "-m", *program, "--vendor", "huawei", "--npu-driver-root", str(root), *arguments)
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)  # noqa: PLW1510
        return ended.returncode, ended.stdout

    return run


def verdicts(text):
    """Device and figure -> verdict."""
    rows = (line.split() for line in text.splitlines())
    return {(row[0], row[1]): " ".join(row[5:]) for row in rows if len(row) > 5 and row[0].isdigit()}


def test_where_all_that_both_say_agrees_the_exit_code_is_0(verify, npu_smi, tmp_path):
    code, text = verify("--tool", str(npu_smi()), "--json", str(tmp_path / "report.json"))

    assert code == 0, text
    found = {(row.split()[0], row.split()[1]): row for row in text.splitlines() if row[:1].isdigit()}
    assert found[("0", "power_watts")].endswith("agrees")
    assert found[("1", "health_level")].endswith("agrees")
    assert found[("0", "frequency_hertz")].endswith("agrees")
    assert found[("1", "utilization_ratio")].endswith("only ours")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["exit_code"] == 0
    assert {row["verdict"] for row in report["vendors"][0]["rows"]} == {"agrees", "only ours"}


def test_a_unit_that_is_read_wrongly_is_named_and_the_exit_code_is_1(verify, npu_smi):
    code, text = verify("--tool", str(npu_smi(power="953")))

    assert code == 1
    assert [line.split()[:2] for line in text.splitlines() if line.endswith("DIFFERS")] == [["0", "power_watts"]]


@pytest.mark.parametrize("case", ["tool fails", "no tool", "no library"])
def test_where_nothing_can_be_compared_the_reason_is_said_and_the_exit_code_is_2(verify, npu_smi, tmp_path, case):
    tool = npu_smi(code=2 if case == "tool fails" else 0)
    if case == "no tool":
        tool.unlink()
    root = {"root": tmp_path} if case == "no library" else {}

    code, text = verify("--tool", str(tool), **root)

    reasons = {"tool fails": "ret is -8005", "no tool": "No such file", "no library": "LibraryNotFound"}
    assert code == 2
    assert reasons[case] in text


def test_where_npu_smi_stands_in_for_the_library_it_is_not_compared_with_itself(verify, npu_smi, tmp_path):
    (tmp_path / "driver/tools").mkdir(parents=True)
    (tmp_path / "driver/tools/npu-smi").symlink_to(npu_smi())

    code, text = verify("--tool", str(npu_smi()), root=tmp_path / "driver")

    assert code == 2
    assert "LibraryNotFound" in text or "not from the library" in text


def test_rankbeat_verify_node_starts_it_and_hands_its_exit_code_on(verify, npu_smi):
    tool = str(npu_smi(power="953"))

    code, text = verify("--tool", tool, program=("rankbeat", "verify", "node"))

    assert code == 1
    assert "DIFFERS" in text


def an_accelerator(**changes):
    given = {
        "device": "0", "uuid": "GPU-1", "model": "H200", "pci_address": "0000:1b:00.0", "card": 0, "chip": 0,
        "figures": {"power_watts": 100.0}, "error_codes": (),
    }  # fmt: skip
    return Accelerator(**{**given, **changes})


def test_a_tools_figure_between_our_two_readings_agrees():
    before, after = an_accelerator(), an_accelerator(figures={"power_watts": 300.0})
    tool = ToolDevice("0", "GPU-1", figures={"power_watts": 250.0})

    found = comparison.comparison((before,), (after,), (tool,))

    assert found.agrees
    assert found.compared == 1


def test_devices_are_matched_by_uuid_then_by_address_and_never_by_number_where_the_tool_gives_either():
    ours = an_accelerator(device="1")
    by_uuid = ToolDevice("7", "gpu-1", figures={"power_watts": 100.0})
    by_address = ToolDevice("7", "", "0000:1B:00.0", figures={"power_watts": 100.0})
    other = ToolDevice("1", "GPU-2", "0000:2b:00.0", "H200")

    assert comparison.comparison((ours,), (ours,), (by_uuid,)).agrees
    assert comparison.comparison((ours,), (ours,), (by_address,)).agrees
    assert comparison.comparison((ours,), (ours,), (other,)).unmatched == (
        "1 (H200) is not in the tool's list",
        "1 (H200) is only in the tool's list",
    )


def test_mig_instances_are_not_asked_of_a_tool_that_lists_gpus():
    instance = an_accelerator(device="0-1", uuid="MIG-1", instance_of="0")

    found = comparison.comparison((an_accelerator(), instance), (), (ToolDevice("0", "GPU-1"),))

    assert found.unmatched == ()


def test_nvidia_smis_words_for_unknown_are_no_figures():
    line = "0, GPU-1, 00000000:1B:00.0, NVIDIA H200, 31, 74.32, [N/A], 143771, [Not Supported], 345, 1980, nan\n"

    (found,) = nvidia_smi.devices(line)

    assert found == ToolDevice(
        "0", "GPU-1", "0000:1b:00.0", "NVIDIA H200",
        {
            "temperature_celsius": 31, "power_watts": 74.32, "memory_size_bytes": 143771 << 20,
            "frequency_hertz": 345e6, "frequency_max_hertz": 1980e6,
        },
    )  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "Failed to initialize NVML: Unknown Error\n", "0, GPU-1\n"]
)
def test_what_nvidia_smi_prints_without_a_device_is_no_device(text):
    assert nvidia_smi.devices(text) == ()


def test_two_chips_of_one_npu_are_two_devices_by_their_physical_ids():
    text = TABLE.format(power="-").replace("| Chip                      |", "| Chip  Phy-ID              |")
    text = text.replace("| 0                         | 0000:C1", "| 0     6                   | 0000:C1")
    text = text.replace("| 1     910B3", "| 0     910B3").replace(
        "| 0                         | 0000:C2", "| 1     7                   | 0000:C2"
    )

    found = npu_smi_devices.devices(text)

    assert {place: one.device for place, one in found.items()} == {(0, 0): "6", (0, 1): "7"}
    assert "power_watts" not in found[npu_smi_devices.Place(0, 0)].figures
