"""What is asked of each NPU: symbols of both generations of libdcmi.so, arguments, results, and how often.

Signatures are those of the vendor's DCMI reference (hicann/driver, docs/*/Ascend_*_DCMI_API, one page a function) and
of dcmi_interface_api.h, in our own words. Not one was tried on hardware (docs/unverified.md).
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model.accelerator import Answer
from rankbeat_exporter.sources import dcmi_layouts as layouts

if TYPE_CHECKING:
    from _ctypes import _CData
    from collections.abc import Callable

    Value = int | str
    Results = tuple[_CData, ...]

LOGIC_ID, PHYSICAL_ID = "logic_id", "physical_id"
"""Keys of the two calls whose arguments stand in an order of their own."""
NPU_TYPE = 0
MAX_ERROR_CODES = 128
MAX_PROCESSES = 32
DIE_VDIE = 1
MEMORY_DDR, MEMORY_HBM = 0, 2
UTILIZATION_AICORE, UTILIZATION_VECTOR, UTILIZATION_OVERALL, UTILIZATION_CUBE = 2, 12, 13, 14
FREQUENCY_AICORE_CURRENT, FREQUENCY_AICORE_MAX, FREQUENCY_VECTOR = 7, 9, 12
MAIN_HCCS, HCCS_STATISTICS, HCCS_STATISTICS_U64 = 16, 3, 5
MAIN_PCIE, PCIE_ERRORS = 55, 1
NETWORK_PORT = 0
HEALTHY = Answer(0, (0,))
PROFILING_MS = 100
"""For how long a bandwidth call measures, and blocks."""
NANO = 10**9
"""Bandwidths of HCCS are fractions of GB/s; they travel as integers, bytes/s if a GB is 10^9."""

EACH_ROUND = 0.0
SOON, SOMETIMES, SELDOM = 15.0, 30.0, 60.0
ONCE = 600.0
"""Seconds between two calls. What an NPU is does not change; a call costs it 1 to 10 ms, a bandwidth PROFILING_MS.

Counters are rarely asked (the vendor's exporter: once a minute): what was counted meanwhile is not lost.
"""


class Call(NamedTuple):
    """One question to one NPU."""

    key: str
    symbol: str
    """Of the first generation (card, chip); empty where it has none."""
    symbol_v2: str
    """Of dcmiv2 (device); empty where it has none."""
    results: Callable[[], Results]
    """Fresh results, passed by reference after the arguments."""
    values: Callable[[Results], tuple[Value, ...]]
    arguments: tuple[int, ...] = ()
    """Between the ids and the results."""
    every_seconds: float = EACH_ROUND
    otherwise: str = ""
    """Key of the call that is made, and kept under this key, where this one is not supported."""
    is_wanted: Callable[[dict[str, Answer]], bool] = lambda _: True
    """Whether it makes sense for this NPU, by what it answered before."""
    is_per_card: bool = False
    """The card answers, not one of its chips."""
    arguments_after: tuple[int, ...] = ()
    is_identity: bool = False
    """Who the NPU is: asked in each round until it is known."""
    is_urgent: Callable[[dict[str, Answer]], bool] | None = None
    """Whether what the NPU answered before makes it be asked in each round, whatever its interval."""
    shared: str = ""
    """Key of the call that answers this one and others at once; this one is made where that one is not supported."""
    place: int = 0
    """Of this one's value in the shared answer."""


def _unsigned() -> Results:
    return (ctypes.c_uint(0xFFFFFFFF),)


def _signed() -> Results:
    return (ctypes.c_int(-1),)


def _integer(result: _CData) -> int:
    if not isinstance(result, ctypes.c_int | ctypes.c_uint):
        raise TypeError(result)
    return result.value


def _one(results: Results) -> tuple[Value, ...]:
    return (_integer(results[0]),)


def words(results: Results) -> tuple[Value, ...]:
    """All numbers and texts of a structure, in its order, reserved ones left out."""
    structure = results[0]
    if not isinstance(structure, ctypes.Structure):
        raise TypeError(structure)
    found: list[Value] = []
    for name in _fields(type(structure)):
        value = getattr(structure, name)
        if isinstance(value, int):
            found.append(value)
        else:
            found += map(_value, value if isinstance(value, ctypes.Array) else (value,))
    return tuple(found)


@functools.cache
def _fields(layout: type[ctypes.Structure]) -> tuple[str, ...]:
    return tuple(field[0] for field in layout._fields_ if not field[0].startswith(("reserve", "rsv")))


def _value(raw: float | bytes) -> Value:
    if isinstance(raw, bytes):
        return raw.decode("ascii", "replace")
    if isinstance(raw, int):
        return raw
    return round(raw * NANO) if math.isfinite(raw) else -1


def _counted(results: Results) -> tuple[Value, ...]:
    """(count, array): as many entries as the count says."""
    count, array = results
    if not isinstance(array, ctypes.Array):
        raise TypeError(array)
    return tuple(array[: min(max(_integer(count), 0), len(array))])


def _processes(results: Results) -> tuple[Value, ...]:
    """Process id, bytes, process id, bytes ..."""
    array, count = results
    if not isinstance(array, ctypes.Array):
        raise TypeError(array)
    known = array[: min(max(_integer(count), 0), len(array))]
    return tuple(value for each in known for value in (each.proc_id, each.proc_mem_usage))


def _structure(layout: type[ctypes.Structure], **preset: int) -> Callable[[], Results]:
    return lambda: (layout(**preset),)


def _sized(layout: type[ctypes.Structure]) -> Callable[[], Results]:
    """For dcmi_get_device_info: a buffer and its size."""
    return lambda: (layout(), ctypes.c_uint(ctypes.sizeof(layout)))


def _number(answers: dict[str, Answer], key: str, position: int = 0) -> int:
    answer = answers.get(key)
    value = answer.values[position] if answer and not answer.code and position < len(answer.values) else 0
    return value if isinstance(value, int) else 0


def _is_310p(answers: dict[str, Answer]) -> bool:
    """Whose power is that of its card, read from the card's controller."""
    chip = answers.get("chip")
    return bool(chip and not chip.code and len(chip.values) > 1 and str(chip.values[1]).startswith("310P"))


def _utilization(key: str, kind: int, place: int) -> Call:
    stem = "get_device_utilization_rate"
    return Call(key, f"dcmi_{stem}", f"dcmiv2_{stem}", _unsigned, _one, (kind,), shared=UTILIZATIONS.key, place=place)


def _frequency(key: str, kind: int, every_seconds: float = EACH_ROUND) -> Call:
    stem = "get_device_frequency"
    return Call(key, f"dcmi_{stem}", f"dcmiv2_{stem}", _unsigned, _one, (kind,), every_seconds)


def _ecc(key: str, kind: int, memory: str) -> Call:
    stem = "get_device_ecc_info"
    return Call(
        key, f"dcmi_{stem}", f"dcmiv2_{stem}", _structure(layouts.EccInfo), words, (kind,), SOMETIMES,
        is_wanted=lambda answers: _number(answers, memory) > 0,
    )  # fmt: skip


def _info(key: str, layout: type[ctypes.Structure], command: int, sub_command: int, otherwise: str = "") -> Call:
    stem = "get_device_info"
    return Call(
        key, f"dcmi_{stem}", f"dcmiv2_{stem}", _sized(layout), words, (command, sub_command), SOMETIMES, otherwise
    )


UTILIZATIONS = Call(
    "utilizations",
    "dcmi_get_device_multi_utilization_rate",
    "dcmiv2_get_device_multi_utilization_rate",
    _structure(layouts.Utilizations),
    words,
)
"""Percent of cube, vector, AI Core and the whole chip, as npu-smi asks them; the only door to the cube's on 910B."""
SHARED = {UTILIZATIONS.key: UTILIZATIONS}

IDENTITY = (
    Call(LOGIC_ID, "dcmi_get_device_logic_id", "", _signed, _one, (), ONCE, is_identity=True),
    Call(
        PHYSICAL_ID, "dcmi_get_device_phyid_from_logicid", "dcmiv2_get_chip_phy_id_by_dev_id", _unsigned, _one, (),
        ONCE, is_identity=True,
    ),
    Call(
        "chip", "dcmi_get_device_chip_info", "", _structure(layouts.ChipInfo), words, (), ONCE, is_identity=True
    ),
    Call(
        "chip", "", "dcmiv2_get_device_chip_info", _structure(layouts.ChipInfoV2), words, (), ONCE, is_identity=True
    ),
    Call(
        "die", "dcmi_get_device_die_v2", "dcmiv2_get_device_die_id", _structure(layouts.DieId), words, (DIE_VDIE,),
        ONCE, is_identity=True,
    ),
    Call(
        "pcie", "dcmi_get_device_pcie_info_v2", "dcmiv2_get_device_pcie_info", _structure(layouts.PcieInfoAll),
        lambda results: words(results)[4:8], (), ONCE, is_identity=True,
    ),
)  # fmt: skip

FIGURES = (
    Call("health", "dcmi_get_device_health", "dcmiv2_get_device_health", _unsigned, _one),
    Call(
        "errors", "dcmi_get_device_errorcode_v2", "dcmiv2_get_device_error_code_list",
        lambda: (ctypes.c_int(0), (ctypes.c_uint * MAX_ERROR_CODES)()), _counted, (), SOON,
        arguments_after=(MAX_ERROR_CODES,), is_urgent=lambda answers: answers["health"] != HEALTHY,
    ),
    _utilization("utilization", UTILIZATION_AICORE, 2),
    _utilization("vector_utilization", UTILIZATION_VECTOR, 1),
    _utilization("cube_utilization", UTILIZATION_CUBE, 0),
    _utilization("overall_utilization", UTILIZATION_OVERALL, 3),
    Call(
        "memory", "dcmi_get_device_hbm_info", "dcmiv2_get_device_hbm_info", _structure(layouts.HbmInfo), words, (),
        SOON,
    ),
    Call("temperature", "dcmi_get_device_temperature", "dcmiv2_get_device_temperature", _signed, _one, (), SOON),
    Call(
        "power", "dcmi_get_device_power_info", "dcmiv2_get_device_power_info", _signed, _one, (), SOON,
        is_wanted=lambda answers: not _is_310p(answers),
    ),
    _frequency("frequency", FREQUENCY_AICORE_CURRENT),
    Call("card_power", "dcmi_mcu_get_power_info", "", _signed, _one, (), SOON, is_wanted=_is_310p, is_per_card=True),
    Call(
        "network_health", "dcmi_get_device_network_health", "dcmiv2_get_device_network_health", _unsigned, _one, (),
        SOON,
    ),
    _frequency("frequency_max", FREQUENCY_AICORE_MAX, ONCE),
    _frequency("vector_frequency", FREQUENCY_VECTOR, SELDOM),
    Call("voltage", "dcmi_get_device_voltage", "dcmiv2_get_device_voltage", _unsigned, _one, (), SELDOM),
    Call("ddr", "dcmi_get_device_memory_info_v3", "", _structure(layouts.MemoryInfo), words, (), SELDOM),
    _ecc("ecc_hbm", MEMORY_HBM, "memory"),
    _ecc("ecc_ddr", MEMORY_DDR, "ddr"),
    Call(
        "processes", "dcmi_get_device_resource_info", "dcmiv2_get_device_proc_mem_info",
        lambda: ((layouts.ProcessMemory * MAX_PROCESSES)(), ctypes.c_int(0)), _processes, (), SOMETIMES,
    ),
    _info("hccs", layouts.HccsStatisticsU64, MAIN_HCCS, HCCS_STATISTICS_U64, "hccs_u32"),
    _info("pcie_errors", layouts.PcieLinkErrors, MAIN_PCIE, PCIE_ERRORS),
    Call(
        "packets", "dcmi_get_netdev_pkt_stats_info", "dcmiv2_get_netdev_pkt_stats_info",
        _structure(layouts.PacketStatistics), words, (NETWORK_PORT,), SOMETIMES,
    ),
    Call("mainboard", "dcmi_get_mainboard_id", "dcmiv2_get_mainboard_id", _unsigned, _one, (), ONCE),
    Call(
        "hccs_bandwidth", "dcmi_get_hccs_link_bandwidth_info", "",
        _structure(layouts.HccsBandwidth, profiling_time=PROFILING_MS), words, (), SELDOM,
    ),
    Call(
        "pcie_bandwidth", "dcmi_get_pcie_link_bandwidth_info", "dcmiv2_get_pcie_link_bandwidth_info",
        _structure(layouts.PcieBandwidth, profiling_time=PROFILING_MS), words, (), SELDOM,
    ),
)  # fmt: skip
"""In the order in which they are asked: the later ones wait where a round has no time left."""

OTHERWISE = {
    "hccs_u32": _info("hccs_u32", layouts.HccsStatistics, MAIN_HCCS, HCCS_STATISTICS),
}
