"""NPUs under npu-exporter's names: the same table makes the rules that map that exporter's series to ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rankbeat_contract import metrics, vendor_names
from rankbeat_exporter.collectors.devices import DevicesCollector
from rankbeat_exporter.collectors.npu_exporter_series import npu_exporter_families
from rankbeat_exporter.collectors.pods import PodsView
from rankbeat_exporter.model.accelerator import Snapshot, ToolText
from rankbeat_exporter.model.assignment import Assignment, Held, Holder
from rankbeat_exporter.sources import dcmi, dcmi_places

REPOSITORY = Path(__file__).parents[2]
FIRST = ("0", "910B3-Ascend", "D0B1E000-D0B1E001-D0B1E002-D0B1E003-D0B1E004", "0000:C1:00.0", "", "", "")


@pytest.fixture
def shown(driver_root, script, monkeypatch):
    """Samples by metric's name: what the double gives under a script, of the first chip or without labels."""
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))

    def families(text="", pods=None, texts=()):
        script(text)
        chips = dcmi.Dcmi(dcmi_places.library_paths(driver_root)).chips()
        collector = DevicesCollector(lambda: (Snapshot("", chips=chips, texts=texts),), 60.0)
        collector.collect()
        found = npu_exporter_families(collector.view(), pods or PodsView())
        return {one.metric.name: (one.metric.labels, dict(one.rows)) for one in found}

    return families


def numbers(families, labels=FIRST):
    return {name: rows[labels] for name, (_, rows) in families.items() if labels in rows}


def test_a_chip_has_npu_exporters_labels_names_and_units(shown):
    found = shown(
        "0/0 utilization 87\n0/0 voltage 85\n0/0 hbm_used 57001\n0/0 processes 12:1048576\n0/0 ecc hbm 1 5 1 9 2 3 4\n"
    )

    assert found["npu_chip_info_temperature"][0] == vendor_names.NPU_LABELS
    expected = {
        "npu_chip_info_utilization": 87.0,
        "npu_chip_info_temperature": 42.0,
        "npu_chip_info_power": 95.3,
        "npu_chip_info_voltage": 0.85,
        "npu_chip_info_aicore_current_freq": 1800.0,
        "npu_chip_info_hbm_used_memory": 57001.0,
        "npu_chip_info_hbm_total_memory": 65536.0,
        "npu_chip_info_hbm_ecc_single_bit_error_cnt": 5.0,
        "npu_chip_info_hbm_ecc_total_double_bit_error_cnt": 2.0,
        "npu_chip_info_health_status": 1.0,
        "npu_chip_info_network_status": 1.0,
        "npu_chip_info_process_info_num": 1.0,
        "npu_chip_info_name": 1.0,
    }
    assert {name: number for name, number in numbers(found).items() if name in expected} == expected
    assert found["machine_npu_nums"] == ((), {(): 2.0})
    assert found["npu_chip_info_process_info"][1] == {(*FIRST, "12", ""): 1.0}


def test_what_is_unknown_is_absent_where_npu_exporter_may_write_minus_one(shown):
    found = shown("temperature 0x7ffd\nhealth 0xFFFFFFFF\nnetwork_health 0xFF\nhbm_size 0\n")

    assert not {name for name in numbers(found) if re.search("temp|health|network_status|hbm", name)}


def test_error_codes_are_numbers_of_up_to_ten_metrics_and_none_is_no_metric(shown):
    codes = " ".join(str(0x80E01800 + number) for number in range(12))

    assert not [name for name in shown() if "error_code" in name]
    found = numbers(shown(f"0/0 errors {codes}\n"))
    assert [found[f"npu_chip_info_error_code{end}"] for end in ("", "_1", "_9")] == [
        2162169856.0,
        2162169857.0,
        2162169865.0,
    ]
    assert "npu_chip_info_error_code_10" not in found


def test_a_310ps_chips_bear_their_cards_power_as_there(shown):
    found = shown("chips 2\nchip_name 310P3\nhbm_size 0\nddr_size 100\n0/-1 card_power 722\n1/-1 card_power 800\n")

    assert sorted(found["npu_chip_info_power"][1].values()) == [72.2, 72.2, 80.0, 80.0]


def test_links_speeds_and_optics_have_their_units_back(shown):
    texts = (
        ToolText("hccn_tool -i 0 -link -g", "", "link status: UP\n"),
        ToolText("hccn_tool -i 0 -speed -g", "", "Speed: 200000 Mb/s\n"),
        ToolText("hccn_tool -i 0 -optical -g", "", "Vcc : 3300.1 mV\nTx Power0 : 1.02 mW\n"),
    )

    found = numbers(shown("hccs_bandwidth 3 1.5 0.25\n", texts=texts))

    assert found["npu_chip_info_link_status"] == 1.0
    assert found["npu_chip_link_speed"] == 200000.0
    assert found["npu_chip_optical_vcc"] == pytest.approx(3300.1)
    assert found["npu_chip_optical_tx_power_0"] == pytest.approx(1.02)
    assert found["npu_chip_info_hccs_bandwidth_info_tx_3"] == 1.5


def test_pcie_throughputs_have_one_more_label(shown):
    labels, rows = shown("pcie_bandwidth 1 9 4\n")["npu_chip_info_pcie_tx_p_bw"]

    assert labels == (*vendor_names.NPU_LABELS, "pcie_bw_type")
    assert [rows[(*FIRST, kind)] for kind in ("minPcieBw", "maxPcieBw", "avgPcieBw")] == [1.0, 9.0, 4.0]


def test_a_chip_that_a_container_has_is_shown_as_the_containers_too(shown):
    holder = Holder("team-a", "llm-0", "train")
    pods = PodsView(assignment=Assignment(held=(Held("huawei", "0", holder, "kubelet", 0),)))

    found = shown("utilization 50\n", pods)

    assert found["container_npu_utilization"][1] == {(*FIRST[:4], *holder): 50.0}
    assert found["container_npu_total_memory"][1] == {(*FIRST[:4], *holder): 65536.0}
    assert "container_npu_utilization" not in shown()


def test_each_vendors_name_maps_to_a_figure_of_ours_and_all_its_labels():
    known = {**metrics.ACCELERATOR_FIGURES, **metrics.ACCELERATOR_PARTS, **metrics.ACCELERATOR_ROWS}
    device = metrics.ACCELERATOR_INFO.labels[:8]

    for one in (*vendor_names.NPU, *vendor_names.GPU):
        metric = known[one.figure]
        assert metric.labels == (*device, *(label for label, _ in one.labels)), one
        assert one.factor > 0


def test_every_rule_records_a_series_that_the_exporter_has_itself():
    known = {metric.name for metric in metrics.TABLE}
    recorded = set(re.findall(r'record: "(.*)"', (REPOSITORY / "alerts/external.yaml").read_text()))

    assert recorded <= known
    assert len(recorded) > 40
