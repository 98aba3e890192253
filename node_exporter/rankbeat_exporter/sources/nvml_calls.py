"""The calls of NVML that a reading is made of, each under a short name, with the raw values that it gives."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pynvml

from rankbeat_exporter.model.accelerator import CODE_HUNG, CODE_MALFORMED, Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.sources.call_watch import CallWatch

Handle = object
"""A pointer of the library: to a GPU, a MIG instance, an event set."""
Values = tuple[int | str, ...]

ESSENTIAL = frozenset({"init", "count"})
"""Calls without which nothing can be read: tried each time, also after they hung."""
ALL_LINKS = 0xFFFFFFFF
MAX_LINKS = 64
NO_LINK = -1
UNKNOWN_MEMORY = -1
LINK_ERRORS = (
    pynvml.NVML_NVLINK_ERROR_DL_REPLAY,
    pynvml.NVML_NVLINK_ERROR_DL_RECOVERY,
    pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT,
)


class Call(NamedTuple):
    """values raises what pynvml raises.

    unless: a call whose good answer makes this one needless. given: one whose values this one needs to be made.
    """

    name: str
    values: Callable[..., Values]
    unless: str = ""
    given: str = ""


class Library:
    """The way into pynvml: every call is watched, and one that hung before is left out, by its name and device."""

    def __init__(self, watch: CallWatch) -> None:
        self.watch = watch
        self.left_out: frozenset[str] = frozenset()

    def answer(self, name: str, function: Callable[[], object]) -> Answer:
        """The function's result, or the library's code where it raised: 13 also for a symbol that the library lacks.

        name: as hung calls are named; a result that is neither number nor text nor a tuple of them is left away.
        """
        if name in self.left_out and name not in ESSENTIAL:
            return Answer(CODE_HUNG)
        try:
            with self.watch.watched(name):
                found = function()
        except pynvml.NVMLError as error:
            return Answer(int(error.value))
        except pynvml.NVMLLibraryMismatchError:
            return Answer(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        except UnicodeDecodeError:
            return Answer(CODE_MALFORMED)
        if isinstance(found, tuple):
            return Answer(0, found)
        return Answer(0, (found,) if isinstance(found, int | str) else ())

    def answers(self, handle: Handle, device: str, calls: tuple[Call, ...]) -> dict[str, Answer]:
        """Each call's answer. A GPU that is lost is asked nothing more: every answer would be the same."""
        found: dict[str, Answer] = {}
        for call in calls:
            if (call.unless and not found[call.unless].code) or (call.given and found[call.given].code):
                continue
            given = (found[call.given].values,) if call.given else ()
            found[call.name] = self.answer(f"{call.name} {device}", partial(call.values, handle, *given))
            if found[call.name].code == pynvml.NVML_ERROR_GPU_IS_LOST:
                break
        return found


def _single(function: Callable[..., int | str], *arguments: int) -> Callable[[Handle], Values]:
    return lambda handle: (function(handle, *arguments),)


def _newest(*functions: Callable[[Handle], int]) -> Callable[[Handle], Values]:
    """The first of the functions that the library has, newest first."""

    def values(handle: Handle) -> Values:
        for function in functions[:-1]:
            try:
                return (function(handle),)
            except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
                continue
        return (functions[-1](handle),)

    return values


def _fields(*fields: tuple[int, int]) -> Callable[[Handle], Values]:
    """Field values by (field, scope), whole numbers; the first that has a code of its own raises it."""

    def values(handle: Handle) -> Values:
        found = pynvml.nvmlDeviceGetFieldValues(handle, fields)
        for one in found:
            if one.nvmlReturn:
                raise pynvml.NVMLError(one.nvmlReturn)
        return tuple(_whole(one) for one in found)

    return values


_MEMBERS = {
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


def _whole(one: pynvml.c_nvmlFieldValue_t) -> int:
    """The union's member that its type names; none of our fields is a floating-point number."""
    member = _MEMBERS.get(one.valueType)
    if member is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return int(getattr(one.value, member))


def _utilization(handle: Handle) -> Values:
    found = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return found.gpu, found.memory


def _memory(handle: Handle) -> Values:
    found = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return found.total, found.used


def _memory_reserved(handle: Handle) -> Values:
    return (pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).reserved,)


def _violation(policy: int) -> Callable[[Handle], Values]:
    return lambda handle: (pynvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime,)


def _pci(handle: Handle) -> Values:
    return (pynvml.nvmlDeviceGetPciInfo(handle).busId,)


def _processes(handle: Handle) -> Values:
    """Their number, and the memory of all of them, -1 where that of one is not known."""
    memories = [one.usedGpuMemory for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    return len(memories), UNKNOWN_MEMORY if None in memories else sum(memories)


def _link_states(handle: Handle) -> Values:
    """1 or 0 for each link from 0, -1 where the GPU has none of the number; the library says where numbers end."""
    states: list[int] = []
    for link in range(MAX_LINKS):
        try:
            states.append(int(pynvml.nvmlDeviceGetNvLinkState(handle, link)))
        except pynvml.NVMLError_InvalidArgument:
            break
        except pynvml.NVMLError_NotSupported:
            states.append(NO_LINK)
    if not any(state != NO_LINK for state in states):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return tuple(states)


def _link_errors(handle: Handle, states: Values) -> Values:
    """Sums over the links that are up, in the order of LINK_ERRORS: all of them or, where one fails, none."""
    up = [link for link, state in enumerate(states) if state == 1]
    return tuple(sum(pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind) for link in up) for kind in LINK_ERRORS)


IDENTITY_CALLS = (
    Call("uuid", _single(pynvml.nvmlDeviceGetUUID)),
    Call("name", _single(pynvml.nvmlDeviceGetName)),
    Call("pci", _pci),
)
INSTANCE_CALLS = (
    Call("memory", _memory),
    Call("memory_reserved", _memory_reserved),
    Call("processes", _processes),
)
POLICIES = {
    "power": pynvml.NVML_PERF_POLICY_POWER,
    "thermal": pynvml.NVML_PERF_POLICY_THERMAL,
    "sync_boost": pynvml.NVML_PERF_POLICY_SYNC_BOOST,
    "board_limit": pynvml.NVML_PERF_POLICY_BOARD_LIMIT,
    "reliability": pynvml.NVML_PERF_POLICY_RELIABILITY,
}
_ECC = {
    "ecc_corrected": (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC),
    "ecc_uncorrected": (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC),
    "ecc_lifetime_corrected": (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_AGGREGATE_ECC),
    "ecc_lifetime_uncorrected": (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_AGGREGATE_ECC),
}
GPU_CALLS = (
    Call("utilization", _utilization),
    *INSTANCE_CALLS,
    Call(
        "temperature",
        _newest(
            lambda handle: pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU),
            lambda handle: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        ),
    ),
    Call("memory_temperature", _fields((pynvml.NVML_FI_DEV_MEMORY_TEMP, 0))),
    Call("power", _single(pynvml.nvmlDeviceGetPowerUsage)),
    Call("power_limit", _single(pynvml.nvmlDeviceGetEnforcedPowerLimit)),
    Call("energy", _single(pynvml.nvmlDeviceGetTotalEnergyConsumption)),
    Call("frequency", _single(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM)),
    Call("frequency_max", _single(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM)),
    Call("memory_frequency", _single(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM)),
    Call(
        "throttle",
        _newest(
            pynvml.nvmlDeviceGetCurrentClocksEventReasons,
            pynvml.nvmlDeviceGetCurrentClocksThrottleReasons,
        ),
    ),
    *(Call(f"violation_{name}", _violation(policy)) for name, policy in POLICIES.items()),
    Call("ecc_mode", lambda handle: tuple(pynvml.nvmlDeviceGetEccMode(handle))),
    *(Call(name, _single(pynvml.nvmlDeviceGetTotalEccErrors, *kinds)) for name, kinds in _ECC.items()),
    Call("remapped_rows", lambda handle: tuple(pynvml.nvmlDeviceGetRemappedRows(handle))),
    Call("retired_pages_pending", _single(pynvml.nvmlDeviceGetRetiredPagesPendingStatus)),
    Call("pcie_generation", _single(pynvml.nvmlDeviceGetCurrPcieLinkGeneration)),
    Call("pcie_generation_max", _single(pynvml.nvmlDeviceGetMaxPcieLinkGeneration)),
    Call("pcie_width", _single(pynvml.nvmlDeviceGetCurrPcieLinkWidth)),
    Call("pcie_width_max", _single(pynvml.nvmlDeviceGetMaxPcieLinkWidth)),
    Call("pcie_replays", _single(pynvml.nvmlDeviceGetPcieReplayCounter)),
    Call(
        "pcie_bytes",
        _fields((pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0), (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0)),
    ),
    # These two listen for 20 ms each, so only where bytes are not counted.
    Call("pcie_transmit", _single(pynvml.nvmlDeviceGetPcieThroughput, pynvml.NVML_PCIE_UTIL_TX_BYTES), "pcie_bytes"),
    Call("pcie_receive", _single(pynvml.nvmlDeviceGetPcieThroughput, pynvml.NVML_PCIE_UTIL_RX_BYTES), "pcie_bytes"),
    Call("nvlink_states", _link_states),
    Call(
        "nvlink_kibibytes",
        _fields(
            (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
            (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
        ),
    ),
    Call("nvlink_errors", _link_errors, given="nvlink_states"),
    Call("mig_mode", lambda handle: tuple(pynvml.nvmlDeviceGetMigMode(handle))),
)
