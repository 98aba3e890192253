"""`verify`: what is read beside what the vendor's tool prints. Library and tool are doubles of our own making."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbeat_exporter.model.accelerator import Accelerator, Snapshot, ToolText
from rankbeat_exporter.model.comparison import ToolDevice
from rankbeat_exporter.parsing import ascend, comparison, npu_smi_devices, nvidia_smi

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
MAP = "NPU ID  Chip ID  Chip Logic ID  Chip Phy-ID  Chip Name\n0 0 0 0 Ascend 910B3\n1 0 1 1 Ascend 910B3\n"
FIRST = """\
        NPU ID                         : {npu}
        Chip Count                     : 1

        Chip ID                        : 0
"""
SECTIONS = {
    "common": f"{FIRST}Aicore Freq(MHZ) : 1800\nAicore curFreq(MHZ) : 1800\nTemperature(C) : 42\n",
    "memory": "NPU ID : {npu}\nHBM Clock Speed(MHz) : 1600\nHBM Temperature(C) : 46\nChip ID : 0\n",
    "usages": "NPU ID : {npu}\nAivector Usage Rate(%) : 17\nHBM Bandwidth Usage Rate(%) : 0\nChip ID : 0\n",
    "health": "NPU ID : {npu}\nHealth Status : Warning\nError Code : 80E01801 80DE1801\nChip ID : 0\n",
    "ecc": "NPU ID : {npu}\nHBM Single Bit Error Count : 5\nHBM Double Bit Isolated Pages Count : 2\nChip ID : 0\n",
}
HCCN = {
    "link": "link status: UP\n",
    "optical": "optical info:\npresent : present\n",
    "net_health": "net health status: Success\n",
    "stat": "packet statistics:\nroce_new_pkt_rty_num:7\n",
}
READ = """\
cards 0 1
chips 1
utilization 93
vector_utilization 17
ecc hbm 1 5 0 7 0 2 2
errors 0x80E01801 0x80DE1801
packets roce_new_pkt_rty_num 7
1/0 health 1
"""


@pytest.fixture
def npu_smi(tmp_path):
    """Writes tools that print the table, sections and network texts, and fail for what else they are asked."""

    def write(power="95.3", code=0, **other):
        tool, texts = tmp_path / "tools/npu-smi", {"table": TABLE.format(power=power), "map": MAP}
        for npu in range(2):
            texts |= {f"{kind}{npu}": other.get(kind, text).format(npu=npu) for kind, text in SECTIONS.items()}
        texts |= {f"-{question}": other.get(question, text) for question, text in HCCN.items()}
        tool.parent.mkdir(exist_ok=True)
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        tool.write_text(
            f'#!/bin/sh\ncd {tmp_path}\n[ {code} = 0 ] || {{ echo "dcmi module initialize failed. ret is -8005"; '
            f"exit {code}; }}\n"
            'case "$*" in info) cat table ;; "info -m") cat map ;; "info -t "*) cat $3$5 ;; *) exit 1 ;; esac\n'
        )
        hccn = tool.with_name("hccn_tool")
        hccn.write_text(f"#!/bin/sh\ncd {tmp_path}\ncat ./$3\n")
        for path in (tool, hccn):
            path.chmod(0o755)
        return tool

    return write


@pytest.fixture
def verify(driver_root, script, tmp_path):
    """Runs `rankbeat-exporter verify`, or another command that starts it; gives exit code and output."""

    def run(*arguments, root=driver_root, program=("rankbeat_exporter", "verify")):
        script(READ)
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
    for figure in (
        "memory_frequency_hertz",
        "vector_utilization_ratio",
        "error_codes",
        "ecc_errors_total{corrected}",
        "isolated_pages{uncorrected}",
        "network_healthy",
        "network_errors_total{0,retransmit}",
    ):
        assert found[("1", figure)].endswith("agrees"), text
    assert "hccn_tool -speed: exit_1" in text
    assert "hccn_tool -link:" not in text
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["exit_code"] == 0
    assert {row["verdict"] for row in report["vendors"][0]["rows"]} == {"agrees", "only ours"}


@pytest.mark.parametrize(
    ("kind", "before", "after", "figure"),
    [
        ("memory", "1600", "160", "memory_frequency_hertz"),
        ("usages", ": 17", ": 71", "vector_utilization_ratio"),
        ("health", " 80DE1801", "", "error_codes"),
        ("ecc", ": 5", ": 4", "ecc_errors_total{corrected}"),
        ("net_health", "Success", "Receive timeout", "network_healthy"),
        ("stat", ":7", ":8", "network_errors_total{0,retransmit}"),
    ],
)
def test_each_command_that_there_is_a_parser_for_is_compared(verify, npu_smi, kind, before, after, figure):
    text_of_tool = {**SECTIONS, **HCCN}[kind].replace(before, after)

    code, text = verify("--tool", str(npu_smi(**{kind: text_of_tool})))

    assert code == 1
    assert {line.split()[1] for line in text.splitlines() if line.endswith("DIFFERS")} == {figure}


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

    reasons = {"tool fails": "ret is -8005", "no tool": "no such file", "no library": "LibraryNotFound"}
    assert code == 2
    assert reasons[case] in text


def test_where_npu_smi_stands_in_for_the_library_it_is_not_compared_with_itself(verify, npu_smi, tmp_path):
    (tmp_path / "driver/tools").mkdir(parents=True)
    (tmp_path / "driver/tools/npu-smi").symlink_to(npu_smi())

    code, text = verify("--tool", str(npu_smi()), root=tmp_path / "driver")

    assert code == 2
    assert "LibraryNotFound" in text


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


GPU_LINE = {
    "index": "0", "uuid": "GPU-d0b1e000-0000-0000-0000-000000000000", "pci.bus_id": "00000000:1B:00.0",
    "name": "NVIDIA H100 80GB HBM3", "temperature.gpu": "61", "power.draw": "412.50", "power.limit": "700.00",
    "memory.total": "81559", "utilization.gpu": "87", "clocks.sm": "1980", "clocks.max.sm": "1980",
    "clocks.mem": "2619", "utilization.memory": "41", "temperature.memory": "55", "ecc.mode.current": "Enabled",
    "ecc.errors.corrected.volatile.total": "0", "ecc.errors.uncorrected.volatile.total": "0",
    "ecc.errors.corrected.aggregate.total": "0", "ecc.errors.uncorrected.aggregate.total": "0",
    "retired_pages.pending": "No", "mig.mode.current": "Disabled", "pcie.link.gen.max": "5",
    "pcie.link.width.current": "16", "pcie.link.width.max": "16",
}  # fmt: skip


def a_gpu_line(**changes):
    """A line of nvidia-smi, with changes by field, `__` for a dot."""
    changed = {name.replace("__", "."): text for name, text in changes.items()}
    return ", ".join((GPU_LINE | changed)[name] for name in (*nvidia_smi.FIELDS, *nvidia_smi.NUMBERS)) + "\n"


def test_nvidia_smis_words_for_unknown_are_no_figures():
    line = a_gpu_line(power__limit="[N/A]", utilization__gpu="[Not Supported]", clocks__mem="nan")

    (found,) = nvidia_smi.devices(line)
    (whole,) = nvidia_smi.devices(a_gpu_line())

    assert whole.pci_address == "0000:1b:00.0"
    assert whole.figures.keys() - found.figures.keys() == {
        "power_limit_watts", "utilization_ratio", "memory_frequency_hertz"
    }  # fmt: skip
    assert (found.figures["ecc_enabled"], found.figures["mig_enabled"]) == (1.0, 0.0)


@pytest.fixture
def verify_gpus(doubles, tmp_path):
    """Runs `rankbeat-exporter verify` over the double of NVML beside an nvidia-smi that prints this; see verify."""
    doubles.build_nvml(tmp_path / "lib64")
    (tmp_path / "script.txt").write_text("gpus 1\n")

    def run(line):
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\necho '{line}'\n")
        tool.chmod(0o755)
        paths = os.pathsep.join(str(REPOSITORY / part) for part in ("node_exporter", "agent"))
        environment = {**os.environ, "PYTHONPATH": paths, "NVML_DOUBLE_SCRIPT": str(tmp_path / "script.txt")}
        command = (sys.executable, "-m", "rankbeat_exporter", "verify", "--vendor", "nvidia", "--tool", str(tool))
        command += ("--nvidia-driver-root", str(tmp_path))
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)  # noqa: PLW1510
        return ended.returncode, ended.stdout

    return run


def test_every_field_that_nvidia_smi_is_asked_for_is_compared_with_a_figure_of_ours(verify_gpus):
    code, text = verify_gpus(a_gpu_line())

    assert code == 0, text
    assert {one.figure for one in nvidia_smi.NUMBERS.values()} <= {
        row[1] for row in map(str.split, text.splitlines()) if row[-1:] == ["agrees"]
    }


@pytest.mark.parametrize(
    ("field", "said", "figure"),
    [
        ("ecc__errors__uncorrected__aggregate__total", "3", "ecc_lifetime_errors_total{uncorrected}"),
        ("mig__mode__current", "Enabled", "mig_enabled"),
    ],
)
def test_a_gpus_figure_that_differs_is_named(verify_gpus, field, said, figure):
    code, text = verify_gpus(a_gpu_line(**{field: said}))

    assert code == 1
    assert [line.split()[1] for line in text.splitlines() if line.endswith("DIFFERS")] == [figure]


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

    chips = ascend.readings(Snapshot("", texts=(ToolText("npu-smi info", "", text),))).accelerators
    found = npu_smi_devices.devices(chips, {})

    assert [one.device for one in found] == ["6", "7"]
    assert "power_watts" not in found[0].figures
