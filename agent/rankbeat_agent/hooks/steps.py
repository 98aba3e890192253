"""One train() call as it runs: phases, step times, samples. began(), ended() and followed() are the step path."""

import os
from time import monotonic_ns, process_time
from typing import Any, Dict, List, Optional, Tuple, Type

from rankbeat_agent.hooks import rank, sampling
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import names, ring

_NAN = float("nan")
_SECOND_NS = 1e-9
FLUSH_NS = 250_000_000
"""Records reach the ring so often at least while steps end: the collector reads once a second."""
_PENDING_STEPS = 256

Parameters = Dict[str, Any]
"""MindSpore's callback parameters; reading a missing one as an attribute raises KeyError."""


def loss_of(outputs: Any) -> Optional[float]:
    """The loss as MindSpore's LossMonitor understands net_outputs: float, NaN as it is; None where there is none."""
    if isinstance(outputs, (tuple, list)):
        outputs = outputs[0] if outputs else None
    if isinstance(outputs, float):
        return outputs
    if not hasattr(outputs, "asnumpy"):
        return None
    # Never copy().asnumpy(): 1002 us against 0.6 us of item() (docs/sources.md, MindSpore).
    return float(outputs.item() if outputs.size == 1 else outputs.asnumpy().mean())


def global_step_of(optimizer: Any) -> int:
    """Steps that the optimizer has made, 0 if it does not say; only before training, it is a copy from the device."""
    counter = getattr(optimizer, "global_step", None)
    if counter is None or getattr(counter, "has_init", False) or not hasattr(counter, "asnumpy"):
        return 0
    return int(counter.asnumpy().reshape(-1)[0])


def total_steps_of(parameters: Parameters) -> int:
    """Steps that this train() call is going to make."""
    # Without sink mode batch_num may be sink_size (docs/sources.md, MindSpore).
    in_sink_mode = parameters.get("dataset_sink_mode")
    batches = parameters["batch_num"] if in_sink_mode else parameters["train_dataset"].get_dataset_size()
    return int(parameters["epoch_num"] * batches)


class Steps:
    """What the two callbacks have seen of the present train() call."""

    __slots__ = (
        "base",
        "depth",
        "ended_ns",
        "flush_ns",
        "loss_id",
        "memory_id",
        "next_sample",
        "number",
        "outer_phase",
        "page_bytes",
        "parameters",
        "pending",
        "process",
        "reads_loss",
        "sampling",
        "statm",
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
        """Since when the phase is `train` without a break, 0 if it is not."""
        self.loss_id = self.memory_id = self.statm = -1
        self.page_bytes = os.sysconf("SC_PAGE_SIZE")
        self.reads_loss = False
        self.sampling = sampling.Sampling(1, 0)
        self.parameters: Optional[Parameters] = None
        """MindSpore's callback parameters between the end of a step and the end of its callbacks."""

    def prepare(self, parameters: Parameters) -> None:
        """Claim the ring if init() did not, and start a segment: before the first step of a train() call."""
        self.process.claim()
        writer = self.process.writer
        if writer is None:
            return
        if writer.rank == ring.UNKNOWN:
            self.process.identify(writer)
        self.process.watch_exceptions()
        self.process.exit_class = ""
        self.depth = 1
        self.number = int(parameters["cur_step_num"])
        self.base = self.ended_ns = self.train_ns = 0
        self.parameters = None
        self.flush(writer)  # what an earlier train() that never ended has left
        writer.segment += 1
        writer.enter_phase(rank.BUILD)
        self._settle(writer, parameters)

    def _settle(self, writer: Writer, parameters: Parameters) -> None:
        """What may fail without making the steps unseen: each is counted and has a default."""
        for name, decide in (
            ("names", self._intern),
            ("timing", self._timing),
            ("global step", self._anchor),
            ("sampling", self._sampling),
        ):
            try:
                decide(writer, parameters)
            except Exception as error:  # noqa: BLE001, PERF203 - a door: what a user's optimizer or dataset raises
                self.process.count(name, error)

    def _intern(self, writer: Writer, _parameters: Parameters) -> None:
        if self.statm < 0:
            self.loss_id = writer.intern(names.SCALAR_LOSS)
            self.memory_id = writer.intern(names.SCALAR_RESIDENT_MEMORY, "bytes")
            self.statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def _timing(self, writer: Writer, parameters: Parameters) -> None:
        from mindspore import context  # noqa: PLC0415 - imported by the job

        # PyNative: Model.train puts a _StepSync before all callbacks. Graph mode is proven to be synchronised at
        # step end on CPU only; elsewhere durations are called dispatch times until someone with hardware knows better.
        in_graph_mode = context.get_context("mode") == context.GRAPH_MODE
        on_cpu = context.get_context("device_target") == "CPU"
        has_sync = any(type(callback).__name__ == "_StepSync" for callback in parameters["list_callback"])
        is_synced = has_sync or (in_graph_mode and on_cpu)
        writer.flags = (writer.flags & ~ring.TIMING_SYNCED) | (ring.TIMING_SYNCED if is_synced else 0)
        self.reads_loss = is_synced or in_graph_mode

    def _anchor(self, _writer: Writer, parameters: Parameters) -> None:
        self.base = max(0, global_step_of(parameters.get("optimizer")) - self.number)

    def _sampling(self, writer: Writer, parameters: Parameters) -> None:
        self.sampling = sampling.Sampling(1, 0)
        writer.total_steps = 0
        try:
            writer.total_steps = self.base + total_steps_of(parameters)
        finally:
            own_steps = max(0, writer.total_steps - self.base)
            try:
                text = sampling.configuration_text(os.environ.get(names.ENV_CONFIG, ""))
                self.sampling = sampling.sampling(text, own_steps)
            except (OSError, ValueError) as error:
                self.process.count("configuration", error)
                self.sampling = sampling.sampling("", own_steps)
            self.next_sample = self.sampling.next_step(self.base + self.number)

    def began(self, parameters: Parameters) -> None:
        """A step begins: after all other callbacks' step_begin."""
        writer = self.process.writer
        if writer is not None:
            writer.mark_entered(self.base + parameters["cur_step_num"], monotonic_ns())

    def ended(self, parameters: Parameters) -> None:
        """A step has ended: before all other callbacks' step_end."""
        writer = self.process.writer
        if writer is not None:
            now = monotonic_ns()
            self.parameters = parameters
            writer.mark_finished(self.base + parameters["cur_step_num"], now)
            writer.mark_phase(rank.CALLBACKS, now)

    def followed(self, parameters: Parameters) -> None:
        """All other callbacks' step_end are through."""
        writer = self.process.writer
        if writer is None:
            return
        self.parameters = None
        self.remember_step(writer, parameters)
        self.train_ns = now = monotonic_ns()
        writer.mark_phase(rank.TRAIN, now)
        if writer.step >= self.next_sample:
            self.sample(writer, parameters)
        elif now >= self.flush_ns or len(self.pending) >= _PENDING_STEPS:
            self.flush(writer)

    def remember_step(self, writer: Writer, parameters: Parameters) -> None:
        """Keep the times of the step that has ended for the next flush: packing them costs more than taking them."""
        number = parameters["cur_step_num"]
        steps = number - self.number  # more than one in sink mode, none after a rollback
        self.number = number
        ended = writer.step_mono_ns
        if self.train_ns and ended - self.train_ns > writer.longest_interval_ns:
            writer.longest_interval_ns = ended - self.train_ns
        self.pending.append((writer.step, steps, self.ended_ns, writer.entered_mono_ns, ended))
        self.ended_ns = ended

    def flush(self, writer: Writer) -> None:
        """Write the pending steps' records and publish the state."""
        pending, self.pending = self.pending, []
        for step, steps, before, entered, ended in pending:
            scale = _SECOND_NS / max(1, steps)
            interval, gap = ((ended - before) * scale, (entered - before) * scale) if before else (_NAN, _NAN)
            writer.note(ring.KIND_STEP, 0, step, ended, interval, gap, (ended - entered) * scale)
        now = monotonic_ns()
        self.flush_ns = now + FLUSH_NS
        writer.publish(now)

    def sample(self, writer: Writer, parameters: Parameters) -> None:
        """Note the numbers of a sampled step."""
        step = writer.step
        self.next_sample = self.sampling.next_step(step)
        now = monotonic_ns()
        writer.cpu_seconds = process_time()
        resident_pages = int(os.pread(self.statm, 64, 0).split()[1])
        writer.note(ring.KIND_SCALAR, self.memory_id, step, now, resident_pages * self.page_bytes, _NAN, _NAN)
        loss = loss_of(parameters.get("net_outputs")) if self.reads_loss else None
        if loss is not None:
            writer.note(ring.KIND_SCALAR, self.loss_id, step, now, loss, _NAN, _NAN)
        self.flush(writer)

    def paused(self, _parameters: Parameters) -> None:
        """Callbacks at the end of an epoch or of training: none of it is a step's time in `train`."""
        writer = self.process.writer
        if writer is not None:
            self.train_ns = 0
            self.flush(writer)
            writer.enter_phase(rank.CALLBACKS)

    def resumed(self, _parameters: Parameters) -> None:
        """An epoch begins: after all other callbacks' epoch_begin."""
        writer = self.process.writer
        if writer is not None and writer.phase == rank.CALLBACKS:
            writer.enter_phase(rank.TRAIN)
            self.train_ns = writer.phase_since_mono_ns

    def went_in(self) -> None:
        """train() or, inside fit(), an evaluation begins."""
        self.depth += 1
        writer = self.process.writer
        if self.depth > 1 and writer is not None:
            self.outer_phase = writer.phase
            self.ended_ns = self.train_ns = 0
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
        writer.enter_phase(rank.BETWEEN)
        if kind is not None and issubclass(kind, SystemExit) and getattr(value, "code", None):
            self.process.exit_class = kind.__name__

    def broke_off(self, kind: Optional[Type[BaseException]], _value: Optional[BaseException]) -> None:
        """An exception passes: note the step whose callbacks raised it, and its loss (LossMonitor raises on NaN)."""
        writer, parameters, self.parameters = self.process.writer, self.parameters, None
        # RuntimeError is how MindSpore reports a device or a collective that failed: reading could then block.
        if kind is None or parameters is None or writer is None:
            return
        self.remember_step(writer, parameters)
        if not issubclass(kind, RuntimeError):
            self.sample(writer, parameters)
