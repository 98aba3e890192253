"""NPUs as a snapshot tells of them: by the library, beside it by hccn_tool, in its place by npu-smi."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rankbeat_exporter.model.accelerator import LIBRARY, TOOL, Failure, Readings
from rankbeat_exporter.parsing import dcmi, dcmi_rows, hccn, network_counters, npu_smi_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rankbeat_exporter.model.accelerator import Snapshot, ToolText

HCCN_QUESTIONS = ("link", "speed", "link_stat", "optical", "net_health", "stat")
"""Of hccn_tool; the last two only where the library does not answer them."""
OUTPUT_UNKNOWN = "output_unknown"


def hccn_command(device: str, question: str) -> str:
    """The command for a physical id, as 910 and 910_93 take it."""
    return f"hccn_tool -i {device} -{question} -g"


def readings(snapshot: Snapshot) -> Readings:
    """What a snapshot without a reason says."""
    texts = {text.command: text for text in snapshot.texts}
    if not snapshot.chips and npu_smi_reading.INFO in texts:
        accelerators, failures = npu_smi_reading.accelerators(texts, snapshot.repeated_texts)
        source = TOOL
    else:
        read = tuple(dcmi.accelerator(chip) for chip in snapshot.chips)
        accelerators = tuple(reading for reading, _ in read)
        failures = tuple(failure for _, of_chip in read for failure in of_chip)
        source = LIBRARY
    merged, lost = [], list(failures)
    for reading in accelerators:
        rows = dict(reading.rows)
        lost += _add_network(reading.device, texts, rows, snapshot.repeated_texts)
        merged.append(replace(reading, rows=rows))
    return Readings(tuple(merged), tuple(lost), source)


def _add_network(
    device: str, texts: dict[str, ToolText], rows: dcmi_rows.Rows, repeated: tuple[str, ...]
) -> Iterator[Failure]:
    """Adds to rows what hccn_tool says of the device; the library's own figures come first."""
    for question, parse in _HCCN.items():
        text = texts.get(hccn_command(device, question))
        if text is None:
            continue
        found = () if text.reason else tuple(parse(text.output))
        if not found and text.command not in repeated:
            yield Failure(f"hccn_tool -{question}", text.reason or OUTPUT_UNKNOWN)
        known = set(rows)
        for figure, labels, number in found:
            if figure not in known:
                rows.setdefault(figure, {})[labels] = number


def _link(text: str) -> Iterator[dcmi_rows.Row]:
    if (is_up := hccn.link_is_up(text)) is not None:
        yield "link_up", (dcmi_rows.NETWORK_PORT,), float(is_up)


def _speed(text: str) -> Iterator[dcmi_rows.Row]:
    if (speed := hccn.speed_bytes_per_second(text)) is not None:
        yield "link_speed_bytes_per_second", (dcmi_rows.NETWORK_PORT,), speed


def _link_stat(text: str) -> Iterator[dcmi_rows.Row]:
    for to, count in hccn.link_changes(text).items():
        yield "link_changes_total", (dcmi_rows.NETWORK_PORT, to), float(count)


def _optical(text: str) -> Iterator[dcmi_rows.Row]:
    for (figure, *labels), number in hccn.optics(text).items():
        yield figure, (dcmi_rows.NETWORK_PORT, *labels), number


def _net_health(text: str) -> Iterator[dcmi_rows.Row]:
    if (state := hccn.network_state(text)) is not None:
        yield from dcmi_rows.network_health(state)


def _stat(text: str) -> Iterator[dcmi_rows.Row]:
    yield from network_counters.rows(dcmi_rows.NETWORK_PORT, hccn.counters(text))


_HCCN: dict[str, Callable[[str], Iterator[dcmi_rows.Row]]] = dict(
    zip(HCCN_QUESTIONS, (_link, _speed, _link_stat, _optical, _net_health, _stat), strict=True)
)
