"""Gives a TrainOneStepCell the taps that the monitor asks for, and reads them at sampled steps."""

import json
import sys
import weakref
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

from rankbeat_agent.hooks import rank, user
from rankbeat_agent.hooks.taps import notes, selection
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import names

IN_GRAPH = frozenset(("gradNorm", "localNorms", "attentionEntropy", "attentionSparsity", "classLoss"))
BEFORE_STEPS = frozenset(("updateRatio", "expertLoad"))
"""Of these something is done when a sampled step begins."""
SIGNALS = IN_GRAPH | BEFORE_STEPS | frozenset(("histograms", "images"))
MAX_CELLS = 4
"""TrainOneStepCells of one process that get taps."""
CONSTANTS_NS = 10_000_000_000
"""What rarely changes is written again so often: the ring is circular, and a collector may come late."""


class Attached:
    """The taps of one TrainOneStepCell."""

    __slots__ = ("befores", "cell", "readers")

    def __init__(self, cell: Any) -> None:
        self.cell = weakref.ref(cell)
        self.readers: List[Tuple[str, Callable[[notes.Notes], None]]] = []
        """What is read at the end of a sampled step: name and how."""
        self.befores: List[Callable[[int], None]] = []
        """What is done when one begins."""


class Taps:
    """The taps of this process; refused: signal and why it was left out."""

    __slots__ = (
        "attached",
        "cells",
        "constants_ns",
        "file_said",
        "histograms",
        "images",
        "matched",
        "parameters",
        "refused",
        "signals",
    )

    def __init__(self, signals: FrozenSet[str], cells: Tuple[str, ...], parameters: Tuple[str, ...]) -> None:
        self.signals = signals
        self.cells = cells
        self.parameters = parameters
        self.attached: List[Attached] = []
        self.refused: Dict[str, str] = {}
        self.matched: Dict[int, int] = {}
        """By place of a pattern in spec.attention.cells: cells that it fits, of the last network that was tapped."""
        self.histograms: Any = None
        self.images: Any = None
        self.constants_ns = 0
        self.file_said: Dict[str, Any] = {}

    def refuse(self, signal: str, reason: str) -> None:
        """Leave a signal out: say why, once, and count it."""
        if signal not in self.refused:
            self.refused[signal] = reason
            self.constants_ns = 0
            rank.say(f"{signal} is not observed: {reason}")

    def attach(self, cell: Any) -> None:
        """Tap a TrainOneStepCell that was just made; what fails is left out."""
        if rank.RANK.is_off:
            return
        self.attached = [made for made in self.attached if made.cell() is not None]
        if len(self.attached) >= MAX_CELLS:
            self.refuse("taps", f"of more than {MAX_CELLS} training cells the first are tapped")
            return
        made = Attached(cell)
        self.attached.append(made)
        for signals, part in (
            (("gradNorm", "localNorms"), self._gradients),
            (("attentionEntropy", "attentionSparsity"), self._attention),
            (("classLoss",), self._classes),
            (("updateRatio",), self._updates),
            (("histograms",), self._histograms),
            (("images",), self._images),
            (("expertLoad",), self._experts),
        ):
            wanted = [signal for signal in signals if signal in self.signals]
            if wanted:
                try:
                    part(made, cell)
                except Exception as error:  # noqa: BLE001 - a door: training runs without this tap
                    for signal in wanted:
                        self.refuse(signal, str(error) if isinstance(error, ValueError) else repr(error))

    def _selected(self, cell: Any) -> List[selection.Selected]:
        """Parameters that the monitor means. Raises: ValueError where it means none."""
        found = selection.selected(cell.optimizer.parameters, self.parameters)
        if not found:
            raise ValueError("spec.parameters: no parameter has such a name")
        return found

    def _gradients(self, made: Attached, cell: Any) -> None:
        from rankbeat_agent.hooks.taps import gradients, modes  # noqa: PLC0415 - MindSpore must be whole

        sparse = modes.sparse(cell.network)
        wants_norm = "gradNorm" in self.signals and self._fits("gradNorm", sparse or modes.reduction())
        chosen: List[selection.Selected] = []
        if "localNorms" in self.signals and self._fits("localNorms", sparse or modes.sharding()):
            try:
                chosen = self._selected(cell)
            except ValueError as error:
                self.refuse("localNorms", str(error))
        if wants_norm or chosen:
            tapped = gradients.Gradients(cell, chosen, self.refuse, wants_norm=wants_norm)
            made.readers.append(("gradients", tapped.read))

    def _fits(self, signal: str, obstacle: str) -> bool:
        if obstacle:
            self.refuse(signal, obstacle)
        return not obstacle

    def _attention(self, made: Attached, cell: Any) -> None:
        from rankbeat_agent.hooks.taps import attention, modes  # noqa: PLC0415

        if not self._fits("attention", modes.sharding()):
            return
        tapped = attention.Attention(cell.network, self.cells, self.signals, self.refuse)
        self.matched = dict(enumerate(tapped.counts))
        self.constants_ns = 0
        for place in self.unresolved:
            path = f"spec.attention.cells[{place}] {self.cells[place]!r}"
            self.refuse(path, "no cell of the network has that path")
        if tapped.taps:
            made.readers.append(("attention", tapped.read))

    def _classes(self, made: Attached, cell: Any) -> None:
        from rankbeat_agent.hooks.taps import classes, modes  # noqa: PLC0415

        if self._fits("classLoss", modes.sharding()):
            made.readers.append(("class loss", classes.ClassLoss(cell.network, self.refuse).read))

    @property
    def unresolved(self) -> List[int]:
        """Places of the patterns in spec.attention.cells that fit no cell."""
        return [place for place, count in self.matched.items() if not count]

    def _updates(self, made: Attached, cell: Any) -> None:
        from rankbeat_agent.hooks.taps import weights  # noqa: PLC0415

        updates = weights.Updates(self._selected(cell), self.refuse)
        made.befores.append(updates.before)
        made.readers.append(("update ratio", updates.read))

    def _histograms(self, _made: Attached, cell: Any) -> None:
        from rankbeat_agent.hooks.taps import weights  # noqa: PLC0415

        self.histograms = weights.Histograms(self._selected(cell))

    def _images(self, _made: Attached, _cell: Any) -> None:
        from rankbeat_agent.hooks.taps import images  # noqa: PLC0415

        self.images = images.Images()

    def _experts(self, made: Attached, cell: Any) -> None:
        callbacks = sys.modules.get("mindformers.core.callback.callback")
        if callbacks is None:
            self.refuse("expertLoad", "MindFormers' callbacks are not there")
            return
        from rankbeat_agent.hooks.taps import experts  # noqa: PLC0415

        found = experts.Experts(cell.network)
        found.watch(callbacks)
        made.befores.append(found.before)
        made.readers.append(("experts", found.read))

    def _trained(self, network: Any) -> Optional[Attached]:
        """The taps of the cell that trains: network, or in it; None where it has none."""
        for _ in range(4):  # sink mode and parallel cells wrap it
            for made in self.attached:
                if network is not None and made.cell() is network:
                    return made
            network = getattr(network, "network", None)
        return None

    def before(self, cell: Any) -> None:
        """A step of cell begins: act if it is going to be sampled."""
        training = user.TRAINING
        writer = rank.RANK.writer
        if training is None or writer is None or writer.entered_step < training.next_sample:
            return
        made = self._trained(cell)
        for act in () if made is None else made.befores:
            try:
                act(writer.entered_step)
            except Exception as error:  # noqa: BLE001, PERF203 - a door
                rank.RANK.count("taps", error)

    def sample(self, writer: Writer, step: int, now_ns: int, _wanted: FrozenSet[str]) -> None:
        """Read the taps of the step that has ended, where tensors may be read at its end."""
        training = user.TRAINING
        if training is None or not training.signals.reads_tensors:
            return
        parameters = training.parameters
        noted = notes.Notes(writer, step, now_ns, training.signals)
        made = self._trained(parameters.get("train_network"))
        if made is None:
            self.refuse("taps", "training does not go through a TrainOneStepCell")
        for name, read in () if made is None else made.readers:
            try:
                read(noted)
            except Exception as error:  # noqa: BLE001, PERF203 - a door
                rank.RANK.count(name, error)
        if self.histograms is not None or self.images is not None:
            self._fill_side_file(step, now_ns, parameters)
        if now_ns >= self.constants_ns:
            self._say(noted)

    def _fill_side_file(self, step: int, now_ns: int, parameters: Dict[str, Any]) -> None:
        from rankbeat_agent.hooks import sidefile  # noqa: PLC0415 - only where asked for

        file = sidefile.present()
        if file is None:
            return
        if self.histograms is not None:
            self.histograms.write(file, step)
        if self.images is not None:
            self.images.write(file, step, now_ns, parameters.get("train_dataset_element"))

    def _say(self, noted: notes.Notes) -> None:
        """Note what was left out: numbers to the ring, words to the side file where there is one."""
        self.constants_ns = noted.now_ns + CONSTANTS_NS
        noted.constant(names.SCALAR_TAPS_REFUSED, len(self.refused))  # 0 too: silence would say nothing
        for place, count in self.matched.items():
            noted.constant(names.SCALAR_ATTENTION_CELLS, count, place)
        if self.matched:
            noted.constant(names.SCALAR_UNRESOLVED_PATHS, len(self.unresolved))
        from rankbeat_agent.hooks import sidefile  # noqa: PLC0415

        file = sidefile.present() if self.refused and self.file_said != self.refused else None
        if file is not None:
            from rankbeat_contract import side  # noqa: PLC0415

            self.file_said = dict(self.refused)
            file.write(side.DUMP, "taps_refused", noted.step, json.dumps(self.refused).encode())
