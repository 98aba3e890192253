"""Ascend NPUs by libdcmi.so through ctypes. It answers raw numbers: what they mean is decided in parsing.dcmi.

Which functions there are, and where they are documented, stands in sources.dcmi_calls. Not one was tried on hardware.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.accelerator import CODE_HUNG, CODE_NO_FUNCTION, Answer, RawChip
from rankbeat_exporter.sources import dcmi_calls as calls
from rankbeat_exporter.sources import dcmi_ub_calls
from rankbeat_exporter.sources.call_watch import CallWatch
from rankbeat_exporter.sources.dcmi_schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from rankbeat_exporter.sources.dcmi_calls import Call
    from rankbeat_exporter.sources.dcmi_schedule import Chip

MAX_CARDS = 64
MAX_DEVICES_IN_CARD = 16
NUMBERS_SECONDS = 60.0
RETRYABLE = frozenset({-8006, -8012, -8017, -8020})
"""Time-out, not ready, upgrading, occupied."""
ATTEMPTS = 3
RETRY_SECONDS = 0.01
NOT_SUPPORTED = frozenset({CODE_NO_FUNCTION, -8001, -8255})
"""Answers to a function, or to a kind of it, that this library or this chip does not have."""


class _Inventory(NamedTuple):
    code: int
    chips: tuple[Chip, ...] = ()


class _Question(NamedTuple):
    """A call of one chip, as far as it is the same each time."""

    name: str
    """As it is named if it hangs."""
    function: Callable[..., int] | None
    before: tuple[int, ...]
    after: tuple[int, ...]
    """Arguments before and after the references to the results."""


class Dcmi:
    """A loaded and initialised library. generation is 2 where its dcmiv2 functions list the NPUs (950)."""

    def __init__(
        self,
        paths: tuple[Path, ...],
        watch: CallWatch | None = None,
        skipped: Iterable[str] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """skipped: as for chips().

        Raises: CannotMeasure(LibraryNotFound | LibraryUnloadable | InitFailed).
        """
        path = next((path for path in paths if path.exists()), None)
        if path is None:
            raise CannotMeasure(accelerator.LIBRARY_NOT_FOUND, f"none of {', '.join(map(str, paths))}")
        try:
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise CannotMeasure(accelerator.LIBRARY_UNLOADABLE, str(error)) from error
        self._watch = watch or CallWatch(0.0, lambda _: None)
        self._skipped = frozenset(skipped)
        self._listed: tuple[Chip, ...] = ()
        self._numbers: dict[int, int] = {}
        """NPUs in each card, kept while all of them answer whatever is asked, and for NUMBERS_SECONDS at most."""
        self._numbers_end = 0.0
        self._now = now
        self._types: dict[tuple[int, int, int], int] = {}
        self._shared: dict[tuple[str, Chip], Answer] = {}
        self._questions: dict[tuple[str, Chip], _Question] = {}
        self.generation = 1
        with self._watch.round():
            self._initialise()
        self._schedule = Schedule(tuple(self._calls()), self._ask, now)

    def chips(self, skipped: Iterable[str] = ()) -> tuple[RawChip, ...]:
        """All NPUs, read one after the other; none where the library says that there is none.

        skipped: calls that are not to be made, named as hung calls are; what nothing can be read without, dcmi_init and
        the lists, is asked each time.
        Raises: CannotMeasure(InventoryFailed).
        """
        self._skipped = frozenset(skipped)
        self._shared = {key: answer for key, answer in self._shared.items() if answer.code in NOT_SUPPORTED}
        with self._watch.round():
            inventory = self._inventory()
            if inventory.code:
                raise CannotMeasure(accelerator.INVENTORY_FAILED, f"the card list answered {inventory.code}")
            if inventory.chips != self._listed:  # another may stand in its place
                self._listed = inventory.chips
                self._types.clear()
                self._shared.clear()
            rounds = self._schedule.rounds(inventory.chips)
        for (card, _), found in rounds.items():
            if any(answer.code and answer.code not in NOT_SUPPORTED for answer in found.answers.values()):
                self._numbers.pop(card, None)
        return tuple(RawChip(*chip, found.answers, found.repeated) for chip, found in rounds.items())

    def _initialise(self) -> None:
        code = self._call("dcmi_init")
        if code == CODE_NO_FUNCTION or (not code and not self._inventory().chips):
            self._try_second_generation(code)
        elif code:
            raise CannotMeasure(accelerator.INIT_FAILED, f"dcmi_init answered {code}")

    def _try_second_generation(self, first: int) -> None:
        """A library of both generations that lists nothing keeps the first."""
        code = self._call("dcmiv2_init")
        if not code:
            self.generation = 2
            if first or self._inventory().chips:
                return
            self.generation = 1
        elif first:
            raise CannotMeasure(accelerator.INIT_FAILED, f"dcmi_init answered {first}, dcmiv2_init {code}")

    def _calls(self) -> Iterable[Call]:
        for call in (*calls.IDENTITY, *calls.FIGURES, *dcmi_ub_calls.CALLS):
            if self._symbol(call):
                yield call

    def _symbol(self, call: Call) -> str:
        return call.symbol if self.generation == 1 else call.symbol_v2

    def _inventory(self) -> _Inventory:
        """Card ids are not contiguous; a card's NPUs are 0 to device_id_max - 1, its MCU comes after them."""
        if self.generation != 1:
            return self._devices()
        count, cards = ctypes.c_int(0), (ctypes.c_int * MAX_CARDS)()
        code = self._call("dcmi_get_card_list", ctypes.byref(count), cards, MAX_CARDS)
        if code == CODE_NO_FUNCTION:
            code = self._call("dcmi_get_card_num_list", ctypes.byref(count), cards, MAX_CARDS)
        if code:
            return _Inventory(code)
        chips = []
        if self._now() >= self._numbers_end:
            self._numbers, self._numbers_end = {}, self._now() + NUMBERS_SECONDS
        for card in cards[: min(max(count.value, 0), MAX_CARDS)]:
            if card not in self._numbers:
                code, number = self._devices_in_card(card)
                if code:
                    return _Inventory(code)
                self._numbers[card] = number
            chips += [(card, device) for device in range(self._numbers[card]) if self._is_npu(card, device)]
        return _Inventory(0, tuple(chips))

    def _devices(self) -> _Inventory:
        """dcmiv2 numbers NPUs without cards: the device's number stands for the card."""
        count, devices = ctypes.c_int(0), (ctypes.c_int * MAX_CARDS)()
        code = self._call("dcmiv2_get_device_list", devices, ctypes.byref(count), MAX_CARDS)
        listed = devices[: min(max(count.value, 0), MAX_CARDS)]
        return _Inventory(code, () if code else tuple((device, 0) for device in listed if self._is_npu(device, 0)))

    def _devices_in_card(self, card: int) -> tuple[int, int]:
        """(code, number of NPUs)."""
        number, mcu, cpu = ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1)
        numbers, name = map(ctypes.byref, (number, mcu, cpu)), f"devices_in_card {card}"
        code = self._call("dcmi_get_device_id_in_card", card, *numbers, name=name)
        if code == CODE_NO_FUNCTION:
            code = self._call("dcmi_get_device_num_in_card", card, ctypes.byref(number), name=name)
        return code, min(max(number.value, 0), MAX_DEVICES_IN_CARD)

    def _is_npu(self, card: int, device: int) -> bool:
        """A chip whose type cannot be read stays listed: it is in the inventory, and its failures are to be seen."""
        place, name = (self.generation, card, device), f"type {card}/{device}"
        if name in self._skipped:
            return True
        if place not in self._types:
            kind = ctypes.c_int(-1)
            symbol = "dcmi_get_device_type" if self.generation == 1 else "dcmiv2_get_device_type"
            if self._call(symbol, *self._ids((card, device)), ctypes.byref(kind), name=name):
                return True
            self._types[place] = kind.value
        return self._types[place] == calls.NPU_TYPE

    def _ids(self, chip: Chip) -> tuple[int, ...]:
        return chip if self.generation == 1 else chip[:1]

    def _ask(self, call: Call, chip: Chip, answers: dict[str, Answer]) -> Answer:
        """One call's answer; where it is not supported, that of the call that stands in for it."""
        question = self._questions.get((call.key, chip)) or self._question(call, chip)
        if question.name in self._skipped:
            return Answer(CODE_HUNG)
        if call.key == calls.PHYSICAL_ID and self.generation == 1 and answers[calls.LOGIC_ID].code:
            return answers[calls.LOGIC_ID]
        if call.shared:
            together = self._together(call.shared, chip, answers)
            if together.code not in NOT_SUPPORTED:
                return Answer(together.code, together.values[call.place : call.place + 1])
        results = call.results()
        references: tuple[object, ...] = tuple(map(ctypes.byref, results))
        before = question.before
        if call.key == calls.LOGIC_ID:
            references, before = (*references, *before), ()
        elif call.key == calls.PHYSICAL_ID and self.generation == 1:
            before = (int(answers[calls.LOGIC_ID].values[0]),)
        code = self._made(question.name, question.function, *before, *references, *question.after)
        if code in NOT_SUPPORTED and call.otherwise:
            other = self._ask(calls.OTHERWISE[call.otherwise], chip, answers)
            return Answer(code) if other.code else other
        return Answer(code, () if code else call.values(results))

    def _together(self, key: str, chip: Chip, answers: dict[str, Answer]) -> Answer:
        """The shared call's answer, asked once a round; one that this chip does not have is not asked again."""
        found = self._shared.get((key, chip))
        if found is None:
            found = self._shared[key, chip] = self._ask(calls.SHARED[key], chip, answers)
        return found

    def _question(self, call: Call, chip: Chip) -> _Question:
        ids = self._ids(chip)[:1] if call.is_per_card else self._ids(chip)
        found = self._questions[call.key, chip] = _Question(
            name=f"{call.key} {chip[0]}/{chip[1]}",
            function=getattr(self._library, self._symbol(call), None),
            before=(*ids, *call.arguments),
            after=call.arguments_after,
        )
        return found

    def _call(self, symbol: str, *arguments: object, name: str = "") -> int:
        return self._made(name or symbol, getattr(self._library, symbol, None), *arguments)

    def _made(self, name: str, function: Callable[..., int] | None, *arguments: object) -> int:
        """The call's return code, after a few attempts where it asks for patience. name: as it is named if it hangs.

        Integers become C's int, as ctypes passes them.
        """
        if function is None:
            return CODE_NO_FUNCTION
        with self._watch.watched(name):
            code = function(*arguments)
            for _ in range(ATTEMPTS - 1):
                if code not in RETRYABLE:
                    break
                time.sleep(RETRY_SECONDS)
                code = function(*arguments)
        return code
