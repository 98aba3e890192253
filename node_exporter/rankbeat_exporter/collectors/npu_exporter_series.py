"""NPUs under the names, in the units and with the labels of npu-exporter, for dashboards that were made for it.

All are gauges, counters too, as there. What is unknown is absent, where npu-exporter may write -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_contract import metrics, vendor_names
from rankbeat_contract.metrics import Metric
from rankbeat_exporter.collectors.families import Family, family
from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI
from rankbeat_exporter.model.assignment import Holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rankbeat_contract.vendor_names import VendorName
    from rankbeat_exporter.collectors.devices import DevicesView
    from rankbeat_exporter.model.accelerator import Accelerator
    from rankbeat_exporter.model.pods import PodsView

    Chips = tuple[tuple[tuple[str, ...], Accelerator], ...]
    Row = tuple[tuple[str, ...], float]

NOBODY = Holder("", "", "")
HELP = "As npu-exporter has it."
MAX_ERROR_CODES = 10
"""Metrics that it has for them."""
PROCESS_LABELS = ("process_id", "container_id")


def npu_exporter_families(view: DevicesView, pods: PodsView) -> Iterable[Family]:
    """Nothing where no NPU is known."""
    holders = pods.assignment.holders()
    known = next((one.accelerators for one in view.vendors if one.vendor == VENDOR_HUAWEI), None)
    if known is None:
        return
    chips = tuple((_labels(one, holders.get((VENDOR_HUAWEI, one.device), NOBODY)), one) for one in known)
    yield _family("machine_npu_nums", (), [((), float(len(known)))])
    by_name: dict[str, list[VendorName]] = {}
    for each in vendor_names.NPU:
        by_name.setdefault(each.name, []).append(each)
    for name, columns in by_name.items():
        rows = [row for column in columns for row in _rows(chips, column)]
        if rows:
            more = tuple(label for label, _ in columns[0].more_labels)
            yield _family(name, (*vendor_names.NPU_LABELS, *more), rows)
    yield from _states(chips)
    yield from _of_containers(chips)


def _family(name: str, labels: tuple[str, ...], rows: Iterable[Row]) -> Family:
    return family(Metric(name, metrics.GAUGE, labels, HELP, metrics.DEVICES), rows)


def _labels(one: Accelerator, holder: Holder) -> tuple[str, ...]:
    """model_name is name-type-version there: 910B3-Ascend-V1; ours has no version."""
    model = "-".join(reversed(one.model.split(" ", 1)))
    return (one.device, model, one.uuid, one.pci_address.upper(), *holder)


def _rows(chips: Chips, column: VendorName) -> Iterator[Row]:
    more = tuple(value for _, value in column.more_labels)
    for labels, one in chips:
        number = _number(one, column)
        if number is not None:
            yield (*labels, *more), number / column.factor


def _number(one: Accelerator, column: VendorName) -> float | None:
    """In our units. A 310P bears its card's power, as there: its sum over chips counts each card twice."""
    labels = tuple(value for _, value in column.labels)
    if column.figure in metrics.ACCELERATOR_PARTS:
        return one.parts.get(column.figure, {}).get(labels[0])
    if column.figure in metrics.ACCELERATOR_ROWS:
        return one.rows.get(column.figure, {}).get(labels)
    if column.figure == "power_watts":
        return one.figures.get("power_watts", one.card_power_watts)
    return one.figures.get(column.figure)


def _states(chips: Chips) -> Iterable[Family]:
    """What is no figure times a factor."""
    names = vendor_names.NPU_LABELS
    levels = [(labels, one.figures.get("health_level")) for labels, one in chips]
    health = [(labels, float(not level)) for labels, level in levels if level is not None]
    network = [(labels, healthy) for labels, one in chips for healthy in one.rows.get("network_healthy", {}).values()]
    yield _family("npu_chip_info_name", tuple("name" if name == "model_name" else name for name in names), [
        (labels, 1.0) for labels, _ in chips
    ])  # fmt: skip
    yield _family("npu_chip_info_health_status", names, health)
    if network:
        yield _family("npu_chip_info_network_status", names, network)
    for place in range(MAX_ERROR_CODES):
        codes = [(labels, float(code)) for labels, one in chips for code in (one.error_codes or ())[place : place + 1]]
        if codes:
            yield _family("npu_chip_info_error_code" + (f"_{place}" if place else ""), names, codes)
    processes = [
        ((*labels, pid, ""), used / vendor_names.MEBIBYTE)
        for labels, one in chips
        for (pid,), used in one.rows.get("process_memory_by_pid_bytes", {}).items()
    ]
    if processes:
        yield _family("npu_chip_info_process_info", (*names, *PROCESS_LABELS), processes)


def _of_containers(chips: Chips) -> Iterable[Family]:
    """The same again of chips that a container has."""
    held = tuple((labels, one) for labels, one in chips if labels[-1])
    for name, figure, factor in (
        ("container_npu_utilization", "utilization_ratio", vendor_names.PERCENT),
        ("container_npu_total_memory", "memory_size_bytes", vendor_names.MEBIBYTE),
        ("container_npu_used_memory", "memory_used_bytes", vendor_names.MEBIBYTE),
    ):
        rows = [(labels, one.figures[figure] / factor) for labels, one in held if figure in one.figures]
        if rows:
            yield _family(name, vendor_names.NPU_LABELS, rows)
