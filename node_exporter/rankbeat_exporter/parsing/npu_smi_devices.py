"""What npu-smi and hccn_tool say of each NPU, to compare with: what stands in for the library, and a few lines more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_exporter.model.comparison import ToolDevice
from rankbeat_exporter.parsing import comparison, npu_smi
from rankbeat_exporter.parsing.npu_smi_reading import MEGAHERTZ, section_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankbeat_exporter.model.accelerator import Accelerator, ToolText

MORE = {"common": True, "memory": False}
"""Sub-commands of `info -t`, and whether a chip's id stands before its lines there."""
_MORE_LINES = {
    "aicore curfreq(mhz)": ("frequency_hertz", MEGAHERTZ),
    "aicore freq(mhz)": ("frequency_max_hertz", MEGAHERTZ),
    "hbm clock speed(mhz)": ("memory_frequency_hertz", MEGAHERTZ),
    "hbm temperature(c)": ("memory_temperature_celsius", 1.0),
}


def devices(accelerators: tuple[Accelerator, ...], texts: Mapping[str, ToolText]) -> tuple[ToolDevice, ...]:
    """accelerators: as the tools' texts alone have them."""
    return tuple(
        ToolDevice(one.device, one.uuid, one.pci_address, one.model, comparison.flat(one) | _more(one, texts))
        for one in accelerators
    )


def _more(one: Accelerator, texts: Mapping[str, ToolText]) -> dict[str, float]:
    found = {}
    for kind, is_id_first in MORE.items():
        text = texts.get(section_command(one.card, kind))
        if text is None or text.reason:
            continue
        for section in npu_smi.sections(text.output, is_id_first=is_id_first):
            for label, (figure, factor) in _MORE_LINES.items():
                number = npu_smi.number(section.lines.get(label))
                if number is not None and section.chip == one.chip:
                    found[figure] = number * factor
    return found
