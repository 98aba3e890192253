"""XIDs of GPUs, counted one by one, and the scrape of a GPU node."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from gpu_support import events
from rankbeat_exporter.collectors.devices import DevicesCollector
from rankbeat_exporter.collectors.devices_series import DevicesSeries
from rankbeat_exporter.model.accelerator import Answer, Event, RawChip
from rankbeat_exporter.parsing import nvml as meaning


def test_each_xid_counts_also_the_same_one_again_and_has_its_time(start_gpus, eventually):
    """dcgm-exporter issue 500: a gauge of the last XID cannot show the second of a kind."""
    gpus = start_gpus()
    gpus.child.close()
    gpus.snapshot("gpu0 xids 13\n")  # older than the child

    begin = time.time()
    one = events(gpus, "gpu0 xids 13 31\n", 1, eventually)
    two = events(gpus, "gpu0 xids 13 31 31\ngpu1 xids 79\n", 3, eventually)
    end = time.time()

    assert [(event.device, event.code, event.count) for event in one] == [("0", 31, 1)]
    assert [(event.device, event.code, event.count) for event in two] == [("0", 31, 2), ("1", 79, 1)]
    assert all(begin <= event.last_seconds <= end for event in two)
    assert (two[1].uuid, two[1].model) == ("GPU-d0b1e000-0000-0000-0000-000000000010", "NVIDIA H100 80GB HBM3")


def test_xids_of_a_gpu_that_fell_off_the_bus_stay_counted_over_a_new_child(start_gpus, eventually):
    gpus = start_gpus()
    events(gpus, "gpu1 xids 79\n", 1, eventually)

    gpus.snapshot("gpus 1\nhang nvmlDeviceGetCount_v2\n")
    gpus.script("gpus 1\n")
    after = eventually(lambda: (found := gpus.child.snapshot()) and not found.reason and found)

    assert after.restarts == 1
    assert [(event.device, event.code, event.count) for event in after.events] == [("1", 79, 1)]


def test_an_xid_that_ends_the_inventory_is_told_after_it(start_gpus, eventually):
    gpus = start_gpus()
    gpus.script("gpu1 xids 79\nreturn nvmlDeviceGetCount_v2 999\n")
    time.sleep(0.3)  # the driver tells it within 10 ms, while nobody asks

    assert gpus.child.snapshot().reason == "InventoryFailed"
    assert [(one.device, one.code, one.count) for one in events(gpus, "gpu1 xids 79\n", 1, eventually)] == [
        ("1", 79, 1)
    ]


def test_without_events_there_is_no_count_of_xids(start_gpus):
    gpus = start_gpus()
    gpus.child.close()

    first, failures = gpus.read("return nvmlDeviceRegisterEvents 3\n")[0]

    assert "xid_errors_total" not in first.figures
    assert failures == (("xid_watch", "3"),)


def xid_figures(gpus, text):
    """(device, its count of XIDs or None, code of the failure to watch them) under the script."""
    return [
        (one.device, one.figures.get("xid_errors_total"), dict(failures).get("xid_watch"))
        for one, failures in gpus.read(text)
    ]


def test_while_no_wait_for_events_succeeds_there_is_no_count_and_the_code_is_said(start_gpus, eventually):
    gpus = start_gpus()
    failing = "return nvmlEventSetWait_v2 15\n"

    eventually(lambda: xid_figures(gpus, failing) == [("0", None, "15"), ("1", None, "15")])

    eventually(lambda: xid_figures(gpus, "") == [("0", 0.0, None), ("1", 0.0, None)])


def test_a_lost_gpu_whose_waits_fail_leaves_the_others_watched(start_gpus, eventually):
    """NVIDIA/k8s-test-infra 746: after XID 79 a wait answers 15 at once, for a set with that GPU in it."""
    gpus = start_gpus()
    lost = "gpu1 lost\ngpu1 xids 79\n"
    gpus.read()

    eventually(lambda: xid_figures(gpus, lost) == [("0", 0.0, None), ("1", None, "15")])
    found = events(gpus, f"{lost}gpu0 xids 31\n", 2, eventually)

    assert sorted((one.device, one.code, one.count) for one in found) == [("0", 31, 1), ("1", 79, 1)]


def test_a_gpus_xids_are_its_own():
    gpu, _ = meaning.accelerator(
        RawChip(0, 0, {"uuid": Answer(0, ("GPU-a",)), "utilization": Answer(0, (1, 1)), "xid_watch": Answer(0)})
    )
    found = (
        Event("0", "GPU-a", "", 31, 2, 1.0),
        Event("0", "GPU-a", "", 79, 1, 1.0),
        Event("1", "GPU-b", "", 31, 5, 1.0),
    )

    assert meaning.with_xids(gpu, found).figures["xid_errors_total"] == 3.0


class Clock:
    """Time that does not pass: (wall, monotonic)."""

    def __call__(self):
        return 1796018231.25, 100.0


def test_the_scrape_of_a_gpu_node(start_gpus, eventually):
    """GPU 0 is throttled by its heat and had an XID, GPU 1 is lost. To accept a change: UPDATE_GOLDEN=1."""
    gpus = start_gpus()
    gpus.read()
    text = "gpu0 throttle 0x40\ngpu0 clock 1200\ngpu0 xids 31 31\ngpu1 lost\n"
    found = events(gpus, text, 2, eventually)
    eventually(lambda: xid_figures(gpus, text)[1][2] == "15")
    snapshot = replace(gpus.child.snapshot(), events=tuple(replace(one, last_seconds=1796018230.5) for one in found))
    collector = DevicesCollector(lambda: (snapshot,), 21.0, Clock())

    collector.collect()

    golden = Path(__file__).parent / "golden/devices-nvidia.txt"
    lines = [
        f"{one.metric.name}{{{','.join(map('='.join, zip(one.metric.labels, values, strict=True)))}}} {number:g}"
        for one in DevicesSeries("n1", collector.view).collect()
        for values, number in one.rows
    ]
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text("\n".join(lines) + "\n")
    assert lines == golden.read_text().splitlines()


def test_gpus_are_served_beside_a_hang_and_with_their_xids(program, doubles, tmp_path, get, free_port, eventually):
    socket, script = tmp_path / "vendor.sock", tmp_path / "script.txt"
    doubles.build_nvml(tmp_path / "lib64")
    script.write_text("")
    vendor = ("vendor", "--vendor", "nvidia", "--nvidia-driver-root", str(tmp_path), "--socket", str(socket))
    serving = ("devices", "--socket", str(socket), "--port", str(free_port), "--interval", "200ms", "--node", "n1")

    def holds(text):
        return lambda: text in (get(free_port, "/metrics") or "")

    with (
        program(*serving),
        program(*vendor, "--deadline", "1s", environment={"NVML_DOUBLE_SCRIPT": str(script)}),
    ):
        eventually(holds('rankbeat_node_accelerators{node="n1",vendor="nvidia"} 2.0'))

        script.write_text("gpu1 xids 79\ngpu1 hang nvmlDeviceGetPowerUsage\n")
        eventually(holds('rankbeat_node_accelerator_call_failures_total{call="power",code="-99997",node="n1"'))

        text = get(free_port, "/metrics")
    assert 'vendor="nvidia",xid="79"} 1.0' in text
    assert 'rankbeat_node_accelerators{node="n1",vendor="nvidia"} 2.0' in text
