"""Ascend NPUs by libdcmi.so through ctypes. It answers raw numbers: what they mean is decided in parsing.dcmi.

Signatures and layouts are those of the vendor's DCMI reference (hicann/driver, docs/zh/Ascend_910B_DCMI_API, one page a
function) and of dcmi_interface_api.h in Ascend/mind-cluster, in our own words. Not one was tried on hardware.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import NamedTuple

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.accelerator import CODE_NO_FUNCTION, Answer, RawChip

MAX_CARDS = 64
MAX_ERROR_CODES = 128
MAX_DEVICES_IN_CARD = 16
NPU_TYPE = 0
DIE_VDIE = 1
UTILIZATION_AICORE = 2
FREQUENCY_AICORE_CURRENT, FREQUENCY_AICORE_MAX = 7, 9
RETRYABLE = frozenset({-8006, -8012, -8017, -8020})
"""Time-out, not ready, upgrading, occupied."""
ATTEMPTS = 3
RETRY_SECONDS = 0.01


class ChipInfo(ctypes.Structure):
    """struct dcmi_chip_info: three names of 32 bytes and the number of AI cores."""

    _fields_ = (
        ("chip_type", ctypes.c_char * 32),
        ("chip_name", ctypes.c_char * 32),
        ("chip_ver", ctypes.c_char * 32),
        ("aicore_cnt", ctypes.c_uint),
    )


class HbmInfo(ctypes.Structure):
    """struct dcmi_hbm_info: MB, MHz, MB, degrees Celsius, percent."""

    _fields_ = (
        ("memory_size", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("memory_usage", ctypes.c_ulonglong),
        ("temp", ctypes.c_int),
        ("bandwith_util_rate", ctypes.c_uint),
    )


class PcieInfoAll(ctypes.Structure):
    """struct dcmi_pcie_info_all, 64 bytes."""

    _fields_ = (
        ("venderid", ctypes.c_uint),
        ("subvenderid", ctypes.c_uint),
        ("deviceid", ctypes.c_uint),
        ("subdeviceid", ctypes.c_uint),
        ("domain", ctypes.c_int),
        ("bdf_busid", ctypes.c_uint),
        ("bdf_deviceid", ctypes.c_uint),
        ("bdf_funcid", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 32),
    )


class DieId(ctypes.Structure):
    """struct dcmi_die_id: five words."""

    _fields_ = (("soc_die", ctypes.c_uint * 5),)


class _Inventory(NamedTuple):
    code: int
    chips: tuple[tuple[int, int], ...] = ()


def library_paths(driver_root: Path) -> tuple[Path, ...]:
    """Where libdcmi.so may lie, best first."""
    return (
        driver_root / "lib64/driver/libdcmi.so",
        Path("/usr/local/dcmi/libdcmi.so"),
    )


def library_search_path(driver_root: Path) -> str:
    """LD_LIBRARY_PATH for the process that loads it: libdcmi.so needs its neighbours, libdrvdsmi_host.so and others."""
    return ":".join(str(driver_root / part) for part in ("lib64/driver", "lib64/common", "lib64"))


class Dcmi:
    """A loaded and initialised library."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        """Raises: CannotMeasure(LibraryNotFound | LibraryUnloadable | InitFailed)."""
        path = next((path for path in paths if path.exists()), None)
        if path is None:
            raise CannotMeasure(accelerator.LIBRARY_NOT_FOUND, f"none of {', '.join(map(str, paths))}")
        try:
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise CannotMeasure(accelerator.LIBRARY_UNLOADABLE, str(error)) from error
        code = self._call("dcmi_init")
        if code:
            raise CannotMeasure(accelerator.INIT_FAILED, f"dcmi_init answered {code}")

    def chips(self) -> tuple[RawChip, ...]:
        """All NPUs, read one after the other; none where the library says that there is none.

        Raises: CannotMeasure(InventoryFailed).
        """
        inventory = self._inventory()
        if inventory.code:
            raise CannotMeasure(accelerator.INVENTORY_FAILED, f"the card list answered {inventory.code}")
        return tuple(RawChip(card, device, self._answers(card, device)) for card, device in inventory.chips)

    def _inventory(self) -> _Inventory:
        """Card ids are not contiguous; a card's NPUs are 0 to device_id_max - 1, its MCU comes after them."""
        count, cards = ctypes.c_int(0), (ctypes.c_int * MAX_CARDS)()
        code = self._call("dcmi_get_card_list", ctypes.byref(count), cards, ctypes.c_int(MAX_CARDS))
        if code == CODE_NO_FUNCTION:
            code = self._call("dcmi_get_card_num_list", ctypes.byref(count), cards, ctypes.c_int(MAX_CARDS))
        if code:
            return _Inventory(code)
        chips = []
        for card in cards[: min(max(count.value, 0), MAX_CARDS)]:
            number = self._devices_in_card(card)
            if number.code:
                return _Inventory(number.code)
            chips += [(card, device) for device in range(int(number.values[0])) if self._is_npu(card, device)]
        return _Inventory(0, tuple(chips))

    def _devices_in_card(self, card: int) -> Answer:
        number, mcu, cpu = ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1)
        code = self._call("dcmi_get_device_id_in_card", ctypes.c_int(card), *map(ctypes.byref, (number, mcu, cpu)))
        if code == CODE_NO_FUNCTION:
            code = self._call("dcmi_get_device_num_in_card", ctypes.c_int(card), ctypes.byref(number))
        return Answer(code, (min(max(number.value, 0), MAX_DEVICES_IN_CARD),))

    def _is_npu(self, card: int, device: int) -> bool:
        """A chip whose type cannot be read stays listed: it is in the inventory, and its failures are to be seen."""
        answer = self._number("dcmi_get_device_type", card, device)
        return bool(answer.code) or answer.values[0] == NPU_TYPE

    def _answers(self, card: int, device: int) -> dict[str, Answer]:
        logic = self._logic_id(card, device)
        return {
            "logic_id": logic,
            "physical_id": self._physical_id(logic),
            "chip": self._chip(card, device),
            "die": self._die(card, device),
            "pcie": self._pcie(card, device),
            "health": self._number("dcmi_get_device_health", card, device),
            "errors": self._errors(card, device),
            "utilization": self._number("dcmi_get_device_utilization_rate", card, device, UTILIZATION_AICORE),
            "memory": self._memory(card, device),
            "temperature": self._number("dcmi_get_device_temperature", card, device, is_signed=True),
            "power": self._number("dcmi_get_device_power_info", card, device, is_signed=True),
            "frequency": self._number("dcmi_get_device_frequency", card, device, FREQUENCY_AICORE_CURRENT),
            "frequency_max": self._number("dcmi_get_device_frequency", card, device, FREQUENCY_AICORE_MAX),
        }

    def _call(self, symbol: str, *arguments: object) -> int:
        """The call's return code, after a few attempts where it asks for patience."""
        try:
            function = self._library[symbol]
        except AttributeError:
            return CODE_NO_FUNCTION
        code = 0
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(RETRY_SECONDS)
            code = int(function(*arguments))
            if code not in RETRYABLE:
                break
        return code

    def _number(
        self, symbol: str, card: int, device: int, kind: int | None = None, *, is_signed: bool = False
    ) -> Answer:
        number = ctypes.c_int(-1) if is_signed else ctypes.c_uint(0xFFFFFFFF)
        kinds = () if kind is None else (ctypes.c_int(kind),)
        code = self._call(symbol, ctypes.c_int(card), ctypes.c_int(device), *kinds, ctypes.byref(number))
        return Answer(code, () if code else (number.value,))

    def _logic_id(self, card: int, device: int) -> Answer:
        """The one call whose result stands first."""
        number = ctypes.c_int(-1)
        code = self._call("dcmi_get_device_logic_id", ctypes.byref(number), ctypes.c_int(card), ctypes.c_int(device))
        return Answer(code, () if code else (number.value,))

    def _physical_id(self, logic: Answer) -> Answer:
        if logic.code:
            return logic
        number = ctypes.c_uint(0xFFFFFFFF)
        code = self._call(
            "dcmi_get_device_phyid_from_logicid", ctypes.c_uint(int(logic.values[0])), ctypes.byref(number)
        )
        return Answer(code, () if code else (number.value,))

    def _chip(self, card: int, device: int) -> Answer:
        chip = ChipInfo()
        code = self._call("dcmi_get_device_chip_info", ctypes.c_int(card), ctypes.c_int(device), ctypes.byref(chip))
        names = (name.decode("ascii", "replace") for name in (chip.chip_type, chip.chip_name, chip.chip_ver))
        return Answer(code, () if code else (*names, chip.aicore_cnt))

    def _die(self, card: int, device: int) -> Answer:
        die = DieId()
        arguments = (ctypes.c_int(card), ctypes.c_int(device), ctypes.c_int(DIE_VDIE), ctypes.byref(die))
        code = self._call("dcmi_get_device_die_v2", *arguments)
        return Answer(code, () if code else tuple(die.soc_die))

    def _pcie(self, card: int, device: int) -> Answer:
        pcie = PcieInfoAll()
        code = self._call("dcmi_get_device_pcie_info_v2", ctypes.c_int(card), ctypes.c_int(device), ctypes.byref(pcie))
        return Answer(code, () if code else (pcie.domain, pcie.bdf_busid, pcie.bdf_deviceid, pcie.bdf_funcid))

    def _errors(self, card: int, device: int) -> Answer:
        count, codes = ctypes.c_int(0), (ctypes.c_uint * MAX_ERROR_CODES)()
        arguments = (
            ctypes.c_int(card),
            ctypes.c_int(device),
            ctypes.byref(count),
            codes,
            ctypes.c_uint(MAX_ERROR_CODES),
        )
        code = self._call("dcmi_get_device_errorcode_v2", *arguments)
        return Answer(code, () if code else tuple(codes[: min(max(count.value, 0), MAX_ERROR_CODES)]))

    def _memory(self, card: int, device: int) -> Answer:
        memory = HbmInfo()
        code = self._call("dcmi_get_device_hbm_info", ctypes.c_int(card), ctypes.c_int(device), ctypes.byref(memory))
        values = (memory.memory_size, memory.freq, memory.memory_usage, memory.temp, memory.bandwith_util_rate)
        return Answer(code, () if code else values)
