"""What a healthy NPU of the double reads, texts of npu-smi and hccn_tool of our own making, and a fuzzer for them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from rankbeat_exporter.model.accelerator import ToolText
from rankbeat_exporter.parsing import npu_smi_reading

FIXTURES = Path(__file__).parents[1] / "exporter/fixtures/ascend"
MUTATIONS = 10_000
MIB = 2**20
GIB = 2**30
HEALTHY = {
    "health_level": 0.0,
    "utilization_ratio": 0.0,
    "vector_utilization_ratio": 0.0,
    "cube_utilization_ratio": 0.0,
    "overall_utilization_ratio": 0.0,
    "memory_size_bytes": 64.0 * GIB,
    "memory_frequency_hertz": 1.6e9,
    "memory_used_bytes": 4.0 * GIB,
    "memory_temperature_celsius": 46.0,
    "memory_bandwidth_utilization_ratio": 0.0,
    "temperature_celsius": 42.0,
    "power_watts": 95.3,
    "voltage_volts": 0.88,
    "frequency_hertz": 1.8e9,
    "frequency_max_hertz": 1.8e9,
    "vector_frequency_hertz": 1.8e9,
    "ecc_enabled": 1.0,
    "pcie_replays_total": 0.0,
    "utilization_withheld": 0.0,
    "processes": 0.0,
    "process_memory_bytes": 0.0,
    "pcie_transmit_bytes_per_second": 0.0,
    "pcie_receive_bytes_per_second": 0.0,
}


def fixture(name):
    return (FIXTURES / f"{name}.txt").read_text()


def read_npu_smi(info, **others):
    """Accelerators and failures of the main table's text and of others by command, `_` for spaces and dashes."""
    texts = {npu_smi_reading.INFO: ToolText(npu_smi_reading.INFO, "", info)}
    texts |= {command: ToolText(command, "", text) for command, text in others.items()}
    return npu_smi_reading.accelerators(texts)


def mutated(text, chance):
    """The text with some characters, spans or lines changed, lost, doubled or moved."""
    for _ in range(chance.randint(1, 6)):
        kind = chance.randrange(7)
        lines = text.splitlines(keepends=True) or [""]
        at = chance.randrange(len(lines))
        place = chance.randrange(len(text) + 1)
        end = min(len(text), place + chance.randint(1, 12))
        if kind == 0:
            text = text[:place] + chance.choice("0123456789|+-=:/.NAx \t\n\r\0é") + text[place + 1 :]
        elif kind == 1:
            text = text[:place] + text[end:]
        elif kind == 2:
            text = text[:end] + text[place:]
        elif kind == 3:
            del lines[at]
            text = "".join(lines)
        elif kind == 4:
            lines.insert(chance.randrange(len(lines)), lines[at])
            text = "".join(lines)
        elif kind == 5:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            text = "".join(lines)
        else:
            text = text[:place]
    return text


@lru_cache(maxsize=64)
def said(text):
    """All numbers in a text, as they stand there."""
    return {float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", text) if len(word) < 25}
