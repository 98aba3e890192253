"""One train() call as it runs: phases, step times, samples.

began(), ended() and followed() are the step path. They run where training has just thrown everything else out of the
processor's caches, so that what counts is how many different places they touch: each is one closure, asks MindSpore for
its parameters once in a train() call, and what is taken is written to the ring only when it is flushed.
"""

from time import monotonic_ns
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from rankbeat_agent.hooks import phases, rank
from rankbeat_agent.wire import records
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import ring

_NAN = float("nan")
_SECOND_NS = 1e-9
FLUSH_NS = 250_000_000
"""Records reach the ring so often at least while steps end: the collector reads once a second."""

Parameters = Dict[str, Any]
"""MindSpore's callback parameters; reading a missing one as an attribute raises KeyError."""


class Steps:
    """What the two callbacks have seen of the present train() call."""

    __slots__ = (
        "base",
        "depth",
        "doors",
        "ended_ns",
        "flush_ns",
        "has_ended",
        "looks",
        "next_sample",
        "number",
        "outer_phase",
        "parameters",
        "pending",
        "process",
        "signals",
        "take",
        "train_ns",
    )

    def __init__(self, process: rank.Rank) -> None:
        self.process = process
        self.depth = 0
        """1 inside train(), 2 inside the evaluation of fit()."""
        self.outer_phase = rank.BUILD
        self.base = self.number = self.next_sample = 0
        self.ended_ns = 0
        """End of the last step, 0 where the next interval would hold more than training."""
        self.flush_ns = 0
        self.pending: List[Tuple[int, int, int, int, int]] = []
        """Steps that are not in the ring yet: step, steps since the one before, its end (0: none), begin, end."""
        self.train_ns = 0
        """Since when the phase had been `train` without a break as the step ended, 0 if it was not."""
        self.signals: Any = None
        """signals.Signals, from the first train() on."""
        self.take: Callable[[int, Parameters, int], int] = _nothing
        """Takes a sampled step's numbers: step, parameters, time; the next step to be sampled."""
        self.looks = False
        """Whether signals look at each step, not only at sampled ones."""
        self.parameters: Parameters = {}
        """MindSpore's callback parameters: one object for the whole train() call."""
        self.has_ended = False
        """Whether the step has ended and its callbacks have not."""
        self.doors = _doors(self)
        """Callbacks' methods for the begin of a step, its end, the end of its callbacks."""

    def prepare(self, parameters: Parameters) -> None:
        """Claim the ring if init() did not, and start a segment: before the first step of a train() call."""
        self.process.claim()
        writer = self.process.writer
        if writer is None:
            return
        phases.starts_training(self.process, writer)
        self.depth = 1
        self.number = int(parameters["cur_step_num"])
        self.base = self.ended_ns = 0
        self.has_ended = False
        self.flush(writer)  # what an earlier train() that never ended has left
        self.parameters = parameters
        writer.segment += 1
        writer.enter_phase(rank.BUILD)
        self._settle(writer, parameters)

    def _settle(self, writer: Writer, parameters: Parameters) -> None:
        """What may fail without making the steps unseen: each is counted and has a default."""
        # Only what trains needs these, and it compiles a graph next: a start of the process waits for none of them.
        from rankbeat_agent.hooks import anchoring, configuration, signals, user  # noqa: PLC0415

        if self.signals is None:
            self.signals = signals.Signals(self.process)
        user.TRAINING = self
        noted = self.signals
        writer.total_steps = 0
        noted.reads_tensors = False
        try:
            self.base = max(0, anchoring.global_step_of(parameters.get("optimizer")) - self.number)
        except Exception as error:  # noqa: BLE001 - a door: what a user's optimizer raises
            self.process.count("global step", error)
        try:
            noted.reads_tensors = anchoring.reads_tensors(writer, parameters)
        except Exception as error:  # noqa: BLE001 - a door
            self.process.count("timing", error)
        try:
            total_steps = anchoring.total_steps_of(parameters)
            writer.total_steps = self.base + total_steps if total_steps else 0
        except Exception as error:  # noqa: BLE001 - a door: what a user's dataset raises
            self.process.count("length", error)
        try:
            noted.prepare(writer, parameters, configuration.present(self.process))
            noted.anchor(self.base + self.number, max(0, writer.total_steps - self.base))
        except Exception as error:  # noqa: BLE001 - a door
            self.process.count("signals", error)
        self.follow_signals()
        self.looks = True  # at the first step, whose outputs say whether there is something to look at

    def follow_signals(self) -> None:
        """Take from now on what signals has settled."""
        self.next_sample = self.signals.next_sample
        self.take = self.signals.take

    def began(self, parameters: Parameters) -> None:
        """A step begins: after all other callbacks' step_begin."""
        self.parameters = parameters
        self.doors[0](None, None)

    def ended(self, parameters: Parameters) -> None:
        """A step has ended: before all other callbacks' step_end."""
        self.parameters = parameters
        self.doors[1](None, None)

    def followed(self, parameters: Parameters) -> None:
        """All other callbacks' step_end are through."""
        self.parameters = parameters
        self.doors[2](None, None)

    def remember_step(self, writer: Writer) -> None:
        """Keep the times of the step that has ended for the next flush: packing them costs more than taking them."""
        number = self.parameters["cur_step_num"]
        steps = number - self.number  # more than one in sink mode, none after a rollback
        self.number = number
        ended = writer.step_mono_ns
        train_ns = self.train_ns
        if train_ns and ended - train_ns > writer.longest_interval_ns:
            writer.longest_interval_ns = ended - train_ns
        self.pending.append((writer.step, steps, self.ended_ns, writer.entered_mono_ns, ended))
        self.ended_ns = ended

    def look(self, writer: Writer) -> None:
        """What signals take at each step; after the first one they know whether there is anything."""
        parameters = self.parameters
        if self.pending[-1][2] == 0:  # the first step of a stretch
            self.signals.first_step(writer, parameters)
            self.follow_signals()
        self.looks = self.signals.looks
        if self.looks:
            self.signals.look(writer, writer.step, parameters, is_sampled=writer.step >= self.next_sample)

    def flush(self, writer: Writer) -> None:
        """Write the pending steps' records and samples, and publish the state."""
        pending, self.pending = self.pending, []
        now = monotonic_ns()
        self.flush_ns = now + FLUSH_NS
        noted = self.signals
        for step, steps, before, entered, ended in pending:
            scale = _SECOND_NS / max(1, steps)
            interval, gap = ((ended - before) * scale, (entered - before) * scale) if before else (_NAN, _NAN)
            records.note(writer, ring.KIND_STEP, 0, step, ended, interval, gap, (ended - entered) * scale)
            if noted is not None and before:
                noted.intervals.take(interval)
        try:
            if noted is not None:
                noted.flush(writer, now)
                if noted.refresh(writer, now):
                    self.follow_signals()
        finally:
            writer.publish(now)

    def paused(self, parameters: Parameters) -> None:
        """Callbacks at the end of an epoch or of training: none of it is a step's time in `train`."""
        writer = self.process.writer
        if writer is not None:
            self.evaluated(parameters.get("eval_results"))
            self.flush(writer)
            writer.enter_phase(_CALLBACKS)

    def evaluated(self, results: Any) -> None:
        """Note the metrics of an evaluation, by the names that the job gave them; what is no dict has none."""
        writer = self.process.writer
        if writer is not None and isinstance(results, dict) and self.signals is not None:
            self.signals.evaluated(writer, max(0, writer.step), results, monotonic_ns())
            self.flush(writer)

    def resumed(self, _parameters: Parameters) -> None:
        """An epoch begins: after all other callbacks' epoch_begin."""
        writer = self.process.writer
        if writer is not None and writer.phase == _CALLBACKS:
            writer.enter_phase(_TRAIN)

    def went_in(self) -> None:
        """train() or, inside fit(), an evaluation begins."""
        self.depth += 1
        writer = self.process.writer
        if self.depth > 1 and writer is not None:
            self.outer_phase = writer.phase
            self.ended_ns = 0
            writer.enter_phase(rank.EVAL)

    def came_out(self, kind: Optional[Type[BaseException]], value: Optional[BaseException]) -> None:
        """It has ended, by an exception of class kind or with None."""
        self.depth = max(0, self.depth - 1)
        writer = self.process.writer
        if writer is None:
            return
        if self.depth > 0:
            writer.enter_phase(self.outer_phase)
            return
        self.flush(writer)
        phases.left_training(self.process, writer, kind, value)

    def broke_off(self, kind: Optional[Type[BaseException]], value: Optional[BaseException]) -> None:
        """An exception passes: note the step whose callbacks raised it, and its loss (LossMonitor raises on NaN)."""
        writer, has_ended, self.has_ended = self.process.writer, self.has_ended, False
        if kind is None or writer is None or self.signals is None:
            return
        self.failed(value)
        if not has_ended:
            return
        self.remember_step(writer)
        # RuntimeError is how MindSpore reports a device or a collective that failed: reading could then block.
        if not issubclass(kind, RuntimeError):
            self.signals.next_common = 0  # sampled, wherever the interval is
            self.signals.sample(writer, writer.step, self.parameters, monotonic_ns())
            self.next_sample = writer.step
            if self.looks:
                self.look(writer)

    def failed(self, value: Optional[BaseException]) -> None:
        """An exception passes, or ends the process: forensics may have to say something of it."""
        writer, noted = self.process.writer, self.signals
        if writer is not None and noted is not None and noted.forensics is not None:
            noted.forensics.failed(self.process, writer, noted, value)


_TRAIN, _CALLBACKS = rank.TRAIN, rank.CALLBACKS


def _nothing(step: int, _parameters: Parameters, _now_ns: int) -> int:
    return step + 1


def _doors(  # noqa: C901 - three bodies, each whole in one place for the reason above
    seen: Steps,
) -> Tuple[Callable[..., None], ...]:
    """The step path: callback methods for the begin of a step, its end, and the end of its callbacks; they never raise.

    They take the parameters that prepare() was given: RunContext.original_args() gives no others.
    """
    process, clock, train, callbacks = seen.process, monotonic_ns, rank.TRAIN, rank.CALLBACKS
    mark_entered, mark_ended = records.mark_entered, records.mark_ended

    def on_step_begin(_callback: Any, _run_context: Any) -> None:
        try:
            writer = process.writer
            if writer is not None:
                mark_entered(writer, seen.base + seen.parameters["cur_step_num"], clock())
        except Exception as error:  # noqa: BLE001 - a door
            process.count("step begin", error)

    def on_step_end(_callback: Any, _run_context: Any) -> None:
        try:
            writer = process.writer
            if writer is not None:
                now = clock()
                seen.has_ended = True
                # What announced another phase in between, a checkpoint say, has made the stretch in `train` shorter.
                seen.train_ns = writer.phase_since_mono_ns if writer.phase == train else 0
                mark_ended(writer, seen.base + seen.parameters["cur_step_num"], now, callbacks)
        except Exception as error:  # noqa: BLE001 - a door
            process.count("step end", error)

    def on_callbacks_end(_callback: Any, _run_context: Any) -> None:
        try:
            writer = process.writer
            if writer is None:
                return
            seen.has_ended = False
            seen.remember_step(writer)
            now = clock()
            writer.mark_phase(train, now)
            step = writer.step
            if seen.looks:
                seen.look(writer)
            if step >= seen.next_sample:
                seen.next_sample = step + 1  # where a reading raises, the next step is tried
                seen.next_sample = seen.take(step, seen.parameters, now)
            if now >= seen.flush_ns or len(seen.pending) >= 256:
                seen.flush(writer)
        except Exception as error:  # noqa: BLE001 - a door
            process.count("callbacks", error)

    return on_step_begin, on_step_end, on_callbacks_end
