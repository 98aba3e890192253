"""What is observed beside the times of a step: taken at sampled steps, written to the ring when steps are flushed."""

import sys
from time import process_time
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from rankbeat_agent.hooks import (
    baseline,
    configuration,
    deciding,
    evaluation,
    losses,
    memory,
    rank,
    rates,
    reading,
    sampling,
)
from rankbeat_agent.wire import records
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import names, ring

_NAN = float("nan")
_MAX_STEP = sys.maxsize
MEMORY_NS = 1_000_000_000
"""Memory is read so often at most: a cold read of /proc costs 30 us."""
CONSTANTS_NS = 10_000_000_000
"""What rarely changes is written again so often: the ring is circular, and a collector may come late."""
CONFIGURATION_NS = 2_000_000_000
OWN_NAMES = 40
"""Of the ring's names that the job's own never take."""

Parameters = Dict[str, Any]
Note = Tuple[int, int, int, float]
"""Name, step, time, value."""
Take = Callable[[int, Parameters, int], int]


class Signals:
    """Signals of the present train() call; counts and baselines of the whole process."""

    def __init__(self, process: rank.Rank) -> None:
        self.process = process
        self.notes: List[Note] = []
        """What is not in the ring yet; one list for life, _plain() holds its append."""
        self.ids: Dict[str, int] = {}
        self.has_refused_name = False
        self.constants: Dict[int, Tuple[float, float]] = {}
        """By name: value and value2, written again from time to time."""
        self.configuration = configuration.Configuration()
        self.meant = losses.Meaning()
        self.own: Dict[int, deciding.Own] = {}
        """What the monitor asks of single metrics that are sampled, by id."""
        self.others: Dict[str, deciding.Own] = {}
        """Of those that come by the clock, or when the job says them, by name."""
        self.rule = sampling.Rule(sampling.Sampling(1, 0))
        self.next_common = self.next_sample = 0
        self.take: Take = self._general
        self.reads_loss = self.reads_tensors = self.looks = False
        """looks: whether something is read at each step, not only at the sampled ones."""
        self.reads_each = False
        """Whether reading a step that is not sampled waits for nothing."""
        self.has_more = False
        """Whether the job's outputs are more than one number."""
        self.rate: Optional[rates.Reader] = None
        self.rate_step = self.rate_ns = 0
        self.total_steps = 0
        self.late = self.overflows = self.skipped = 0
        self.losses = baseline.Baseline()
        self.intervals = baseline.Baseline()
        self.memory_ns = self.constants_ns = self.configuration_ns = 0
        self.device: Optional[memory.Device] = None
        self.statm = -1
        self.console: Any = None
        self.custom: Any = None
        self.forensics: Any = None
        self.shapes: Any = None
        self.loss_id = self.perplexity_id = self.rate_id = -1

    def id_of(self, writer: Writer, name: str, unit: str = "") -> int:
        """The id of a name, interned when it is new.

        Raises: ValueError when the ring holds no further name.
        """
        known = self.ids.get(name)
        if known is None:
            known = self.ids[name] = records.intern(writer, name, unit, name.endswith("_total"))
        return known

    def id_of_jobs(self, writer: Writer, name: str) -> Optional[int]:
        """The id of a name that the job gave, None (counted once) where only our own may still be interned."""
        if name not in self.ids and writer.names >= ring.NAME_SLOTS - OWN_NAMES:
            if not self.has_refused_name:
                self.has_refused_name = True
                self.process.count("names", ValueError(f"no metric {name!r}: the job's names are too many"))
            return None
        return self.id_of(writer, name)

    # Before the first step of a train() call.

    def prepare(self, writer: Writer, parameters: Parameters, wanted: configuration.Configuration) -> None:
        """Decide what this train() call reads; each part that fails is counted and left out."""
        self.configuration = wanted
        self.loss_id = self.id_of(writer, names.SCALAR_LOSS)
        self.rate = None
        self.rate_step = self.rate_ns = self.memory_ns = self.constants_ns = 0
        self.looks = self.has_more = False
        self._decide(writer, parameters, deciding.PARTS)

    def _decide(self, writer: Writer, parameters: Parameters, parts: Iterable[Tuple[str, Any]]) -> None:
        for what, decide in parts:
            try:
                decide(self, writer, parameters)
            except Exception as error:  # noqa: BLE001, PERF203 - a door: what a user's optimizer or dataset raises
                self.process.count(what, error)

    def anchor(self, step: int, total_steps: int) -> None:
        """The sampling, for a train() call of total_steps (0: unknown) that begins after step."""
        self.total_steps = total_steps
        self.settle(step)

    def settle(self, step: int) -> None:
        """The rules of the present configuration, and what they make of the steps after step."""
        wanted = self.configuration
        self.rule = sampling.rule(wanted.sampling, wanted.change, self.total_steps)
        self.next_common = self.rule.next_step(step)
        for own in self.own.values():
            # What has no interval of its own follows the sampling, and its change.
            own.rule = self.rule
            if own.interval_steps:
                own.rule = sampling.Rule(sampling.Sampling(own.interval_steps, wanted.sampling.dense_first_steps))
            own.next_step = own.rule.next_step(step)
        self.choose()

    def first_step(self, writer: Writer, parameters: Parameters) -> None:
        """After the first step of a train() call: what its outputs are."""
        outputs = parameters.get("net_outputs")
        self.has_more = not hasattr(outputs, "item") or getattr(outputs, "size", 1) != 1
        self.reads_each = self.meant.has_own_monitor or bool(writer.flags & ring.TIMING_SYNCED)
        if self.reads_tensors and self.reads_each and losses.has_overflow(outputs):
            self.looks = True
        self.choose()

    def choose(self) -> None:
        """The next sampled step, and how its numbers are taken."""
        self.next_sample = self._soonest()
        asked = self.own or self.shapes or self.console or self.custom or self.configuration.has_taps
        is_plain = self.reads_loss and not self.has_more and self.perplexity_id < 0 and self.rule.change is None
        self.take = self._plain() if is_plain and not asked else self._general

    def _soonest(self) -> int:
        return min([self.next_common, *(own.next_step for own in self.own.values())])

    # At sampled steps.

    def _plain(self) -> Take:
        """Takes the loss alone, by far the most frequent case, in as few places as there can be (steps.py says why)."""
        append, loss_id, divisors = self.notes.append, self.loss_id, self.meant.divisors
        interval, dense = self.rule.sampling
        rate_step = self.rate_step if self.rate is not None else _MAX_STEP

        def take(step: int, parameters: Parameters, now_ns: int) -> int:
            nonlocal rate_step
            try:
                if step < rate_step:
                    loss = parameters["net_outputs"].item()
                    for divisor in divisors:
                        loss /= divisor
                    append((loss_id, step, now_ns, loss))
                    return step + 1 if step < dense else (step // interval + 1) * interval
            except (AttributeError, TypeError, ValueError):  # outputs that are another kind than those before
                pass
            self.next_common = step
            following = self._general(step, parameters, now_ns)
            rate_step = self.rate_step if self.rate is not None else _MAX_STEP
            return following

        return take

    def _general(self, step: int, parameters: Parameters, now_ns: int) -> int:
        writer = self.process.writer
        if writer is not None:
            self.sample(writer, step, parameters, now_ns)
        return self.next_sample

    def is_due(self, name_id: int, step: int) -> bool:
        """Whether the number of this name is sampled at this step: by its own interval if it has one."""
        own = self.own.get(name_id)
        return step >= (self.next_common if own is None else own.next_step)

    def add(self, name_id: int, step: int, now_ns: int, value: float) -> None:
        """Take a sampled number, if it is due and its filter lets it."""
        if self.forensics is not None:
            self.forensics.sampled[name_id] = (step, value)
        own = self.own.get(name_id)
        if self.is_due(name_id, step) and (own is None or own.keeps is None or own.keeps(value)):
            self.notes.append((name_id, step, now_ns, value))

    def takes(self, name: str, step: int, value: float) -> bool:
        """Whether to keep a number that comes at no sampled step."""
        own = self.others.get(name)
        return own is None or own.takes(step, value)

    def sample(self, writer: Writer, step: int, parameters: Parameters, now_ns: int) -> None:
        """Take what is due at this step."""
        first = len(self.notes)
        try:
            if self.reads_tensors:
                reading.outputs(self, writer, step, parameters, now_ns)
            reading.requested(self, writer, step, parameters, now_ns)
        finally:
            if step >= self.next_common:
                self.next_common = self.rule.next_step(step)
            for own in self.own.values():
                if step >= own.next_step:
                    own.next_step = own.rule.next_step(step)
            self.next_sample = self._soonest()
        if self.console is not None and len(self.notes) > first:
            by_id = {name_id: name for name, name_id in self.ids.items()}
            self.console.say(step, [(by_id[note[0]], note[3]) for note in self.notes[first:]])

    def loss_of(self, outputs: Any) -> Optional[float]:
        """The loss as the job's own log says it, None where there is none."""
        loss = losses.loss_of(outputs)
        if loss is not None:
            for divisor in self.meant.divisors:
                loss /= divisor
        return loss

    # At each step, where something asks for that.

    def look(self, writer: Writer, step: int, parameters: Parameters, *, is_sampled: bool) -> None:
        """Count overflows, and remember what forensics asks for."""
        outputs: Any = parameters.get("net_outputs")
        is_skipped = False
        is_read = self.reads_tensors and (is_sampled or self.reads_each)
        if is_read and losses.has_overflow(outputs):
            is_skipped = losses.is_left_out(outputs, self.meant.norm_limit)
            self.overflows += bool(losses.number(outputs[losses.OVERFLOW]))
            self.skipped += is_skipped
            # MindFormers' PyNative trainer counts by itself.
            skipped = parameters.get("skipped_steps", self.skipped)
            self.constants[self.id_of(writer, names.SCALAR_OVERFLOW_STEPS)] = (self.overflows, _NAN)
            self.constants[self.id_of(writer, names.SCALAR_SKIPPED_STEPS)] = (skipped, _NAN)
        if self.forensics is not None:
            loss = self.loss_of(outputs) if is_read and self.meant.is_valid else None
            if self.forensics.take(step, loss, writer.step_mono_ns, is_skipped=is_skipped):
                self.forensics.write(self.process, writer, self, outputs)

    # At flushes.

    def constant(self, writer: Writer, name: str, value: float, value2: float = _NAN) -> None:
        """Keep a number that rarely changes in the ring."""
        self.constants[self.id_of(writer, name)] = (value, value2)
        self.constants_ns = 0

    def evaluated(self, writer: Writer, step: int, results: Any, now_ns: int) -> None:
        """Note an evaluation's metrics."""
        if "evaluation" in self.configuration.signals:
            for name, value in evaluation.metrics(results):
                name_id = self.id_of_jobs(writer, name) if self.takes(name, step, value) else None
                if name_id is not None:
                    self.notes.append((name_id, step, now_ns, value))

    def flush(self, writer: Writer, now_ns: int) -> None:
        """Write what was taken since, and what is due by the clock."""
        writer.cpu_seconds = process_time()
        notes = self.notes
        try:
            for name_id, step, noted_ns, value in notes:
                records.note(writer, ring.KIND_SCALAR, name_id, step, noted_ns, value)
                if name_id == self.loss_id:
                    self.losses.take(value)
        finally:
            notes.clear()
        if now_ns >= self.memory_ns and self.statm >= 0:
            self.memory_ns = now_ns + MEMORY_NS
            step = max(0, writer.step)
            for name, value in memory.values(self.statm, self.device):
                if self.takes(name, step, value):
                    records.note(writer, ring.KIND_SCALAR, self.id_of(writer, name, "bytes"), step, now_ns, value)
        self._flush_constants(writer, now_ns)

    def _flush_constants(self, writer: Writer, now_ns: int) -> None:
        for which, name in (
            (self.losses, names.SCALAR_BASELINE_LOSS),
            (self.intervals, names.SCALAR_BASELINE_STEP_INTERVAL),
        ):
            if which.is_whole and name not in self.ids:
                self.constant(writer, name, which.mean, which.deviation)
        if now_ns >= self.constants_ns:
            self.constants_ns = now_ns + CONSTANTS_NS
            for name_id, (value, value2) in self.constants.items():
                records.note(writer, ring.KIND_SCALAR, name_id, max(0, writer.step), now_ns, value, value2)

    def refresh(self, writer: Writer, now_ns: int) -> bool:
        """Read the configuration again if it changed; whether what a train() call follows did.

        A rank that reads a change after the step from which it holds applies it at once, and counts that.
        """
        if now_ns < self.configuration_ns:
            return False
        self.configuration_ns = now_ns + CONFIGURATION_NS
        before = self.configuration
        if not configuration.SOURCE.refresh(self.process):
            return False
        wanted = configuration.SOURCE.present
        # What is read was decided when train() began; what is kept of it and said of it follows a change at once.
        changed = {field for field in deciding.FOLLOWING if getattr(wanted, field) != getattr(before, field)}
        self.configuration = before._replace(
            sampling=wanted.sampling, change=wanted.change, **{field: getattr(wanted, field) for field in changed}
        )
        if self.configuration == before:
            return False
        self._decide(writer, {}, [(field, deciding.FOLLOWING[field]) for field in sorted(changed)])
        change = wanted.change
        if wanted.sampling != before.sampling and change is not None and writer.step >= change.from_step:
            self.late += 1
            self.constant(writer, names.SCALAR_LATE_CONFIGURATION, self.late)
        self.settle(max(0, writer.step))
        return True
