"""What the agent costs a training step and the start of a process.

    make bench-step-overhead    (build/mindspore/bin/python bench/step_overhead.py [--rounds N])

One training on CPU (MLP, graph mode, meant to take 2.6 ms a step) in which blocks of steps alternate, in random order,
between arms: `off` and `off_again` (no agent: the A/A control), `agent`, MindSpore's LossMonitor(1) and, where
MindFormers is installed, its MFLossMonitor. A round holds one block of each arm, so that a drift of the machine meets
all alike. A round's ratio is the mean step of the arm's block over that of `off`: the mean, since a median would not
see the steps that flush and sample. `ratio` is the geometric mean of the rounds' ratios without their lowest and
highest tenth, its 95 % interval from a bootstrap over rounds. It is for `interval: auto`: samples of the whole run
fall into the agent's share of it, so its blocks hold several times what a run holds; flushes are as frequent as there.
Exit 1 and `inconclusive` when an A/A interval excludes 1 or is wider than 0.005 to either side.

Before it, in processes of their own: `ratio_grad_norm`, the gradient norm's tap in a compiled transformer step, with an
A/A control too, its interval over processes (bench/trainings/tapped.py); and, as factors without an interval,
SummaryCollector(10) and TrainingStateMonitor (bench/trainings).

`start_ms` is what the start of a process costs that imports MindSpore, `start_idle_ms` of one that does not; the ring
is claimed later, at init() or train(): `claim_ms`, and what training needs is compiled when it begins, beside the job's
own graph: `train_begin_ms`.

Microseconds are the machine's. Two of 2026-11-30, the same step path: 6.5 and 12.7 us, where a step took 2.6 ms and
LossMonitor(1) 134 us; 21 and 45 us on a first-generation EPYC of 2 GHz, with 7.9 ms and 359 us. The ratio stays.
"""

import argparse
import datetime as dt
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import starting
from mindspore.train import Callback, LossMonitor, RunContext
from trainings import mlp

from rankbeat_agent.hooks import model, rank, sampling, steps

REPO = Path(__file__).resolve().parents[1]
BLOCK_STEPS = 10
TRIMMED = 0.1
"""Share of the rounds left out at either end."""
WARM_UP_STEPS = 500
AA_LIMIT = 0.005
BOOTSTRAPS = 2000
TAPPED_PROCESSES = 5
STUDENT = 2.776
"""97.5 % quantile of Student's t with TAPPED_PROCESSES - 1 degrees of freedom."""
TRAININGS = 3
"""Of each kind in collected()."""


ARMS = ("off", "off_again", "agent", "LossMonitor", *(["MFLossMonitor"] if mlp.mindformers else []))


class Schedule:
    """Which arm each step belongs to, and when the steps ended."""

    def __init__(self, rounds: int) -> None:
        chance = random.Random(20261130)
        self.arms = ["off"] * WARM_UP_STEPS
        self.blocks: list[dict[str, int]] = []
        """Per round, the first step of each arm's block."""
        for _ in range(rounds):
            order = list(ARMS)
            chance.shuffle(order)
            self.blocks.append({})
            for arm in order:
                self.blocks[-1][arm] = len(self.arms)
                self.arms += [arm] * BLOCK_STEPS
        self.arm = "off"
        self.ended_ns: list[int] = []

    def log_ratios(self, arm: str) -> list[float]:
        """Per round, the logarithm of the mean step of arm over the mean step of `off`."""
        return [math.log(self._mean(block[arm]) / self._mean(block["off"])) for block in self.blocks]

    def median_ms(self, arm: str) -> float:
        return statistics.median(self._mean(block[arm]) for block in self.blocks) / 1e6

    def _mean(self, first: int) -> float:
        # A step runs from the end of the one before, where its arm was chosen and the callbacks that follow are that
        # arm's already, to its own end.
        return (self.ended_ns[first + BLOCK_STEPS - 1] - self.ended_ns[first - 1]) / BLOCK_STEPS


class Clock(Callback):  # type: ignore[misc] # MindSpore has no types
    """First in the list: when each step ended, and whose turn the next one is."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule

    def on_train_step_end(self, _run_context: RunContext) -> None:
        schedule = self.schedule
        schedule.ended_ns.append(time.monotonic_ns())
        following = len(schedule.ended_ns)
        schedule.arm = schedule.arms[following] if following < len(schedule.arms) else "off"


class Switch(Callback):  # type: ignore[misc] # MindSpore has no types
    """An arm's callback, on while it is its turn; the switch itself costs all arms the same."""

    def __init__(self, schedule: Schedule, arm: str, inner: Callback) -> None:
        super().__init__()
        self.schedule, self.arm, self.inner = schedule, arm, inner

    def on_train_begin(self, run_context: RunContext) -> None:
        self.inner.on_train_begin(run_context)

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        self.inner.on_train_epoch_begin(run_context)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        if self.schedule.arm == self.arm:
            self.inner.on_train_step_begin(run_context)

    def on_train_step_end(self, run_context: RunContext) -> None:
        if self.schedule.arm == self.arm:
            self.inner.on_train_step_end(run_context)


class Cost(Callback):  # type: ignore[misc] # MindSpore has no types
    """After the compared steps, in the training that goes on: the agent's calls timed in place, microseconds."""

    def __init__(self, schedule: Schedule, seen: steps.Steps, head: Callback, tail: Callback) -> None:
        super().__init__()
        self.schedule, self.seen, self.head, self.tail = schedule, seen, head, tail
        self.begin_ns = 0
        self.microseconds: dict[str, list[float]] = {"sampled": [], "unsampled": []}

    def on_train_step_begin(self, run_context: RunContext) -> None:
        if len(self.schedule.ended_ns) >= len(self.schedule.arms):
            before = time.perf_counter_ns()
            self.tail.on_train_step_begin(run_context)
            self.begin_ns = time.perf_counter_ns() - before

    def on_train_step_end(self, run_context: RunContext) -> None:
        if len(self.schedule.ended_ns) > len(self.schedule.arms):
            if not self.microseconds["sampled"] and not self.microseconds["unsampled"]:
                self._sample_every_second_step()
            is_sampled = run_context.original_args()["cur_step_num"] >= self.seen.next_sample
            before = time.perf_counter_ns()
            self.head.on_train_step_end(run_context)
            self.tail.on_train_step_end(run_context)
            spent_ns = self.begin_ns + time.perf_counter_ns() - before
            self.microseconds["sampled" if is_sampled else "unsampled"].append(spent_ns / 1000)

    def _sample_every_second_step(self) -> None:
        signals = self.seen.signals
        signals.rule = sampling.Rule(sampling.Sampling(2, 0))
        signals.next_common = 0
        signals.choose()
        self.seen.follow_signals()


def train(rounds: int, costed_steps: int) -> tuple[Schedule, Cost]:
    """The measured training, in this process."""
    schedule = Schedule(rounds)
    length = len(schedule.arms) + costed_steps
    mlp.pin_to_one_core()
    monitor = mlp.loss_monitor(length) if mlp.mindformers else None
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    steps.FLUSH_NS *= len(ARMS)  # on in one of so many blocks: else nearly every block of ten steps would hold a flush
    seen = steps.Steps(rank.RANK)
    head_class, tail_class = model.head_and_tail(Callback, seen)
    head, tail = head_class(), tail_class()
    cost = Cost(schedule, seen, head, tail)
    arms = [("agent", head), ("LossMonitor", LossMonitor(1)), ("agent", tail)]
    if monitor:
        arms.insert(2, ("MFLossMonitor", monitor))
    callbacks = [Clock(schedule), *(Switch(schedule, arm, inner) for arm, inner in arms), cost]

    training, data = mlp.training(length)
    training.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
    return schedule, cost


def ratio(log_ratios: np.ndarray) -> np.ndarray:
    """Geometric mean along the last axis, without the lowest and highest tenth."""
    count = log_ratios.shape[-1]
    left_out = int(TRIMMED * count)
    return np.exp(np.sort(log_ratios, axis=-1)[..., left_out : count - left_out].mean(axis=-1))


def interval(log_ratios: np.ndarray) -> tuple[float, float]:
    """95 % interval of the ratio, by bootstrap."""
    drawn = np.random.default_rng(7).integers(0, len(log_ratios), (BOOTSTRAPS, len(log_ratios)))
    low, high = np.percentile(ratio(log_ratios[drawn]), [2.5, 97.5])
    return float(low), float(high)


def child(script: str, *arguments: str) -> dict[str, Any]:
    """What a training of its own says; the output above its last line is MindSpore's and MindFormers'."""
    command = [sys.executable, str(REPO / "bench/trainings" / script), *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(said.splitlines()[-1]))


def say(part: str) -> None:
    """Which part has begun, on stderr: all of them take 10 to 25 minutes."""
    print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} {part}", file=sys.stderr, flush=True)


def tapped(rounds: int) -> dict[str, Any]:
    """The gradient norm's tap: figures and intervals. rounds: of each of TAPPED_PROCESSES."""
    found = []
    for seed in range(TAPPED_PROCESSES):
        say(f"gradient norm, process {seed + 1} of {TAPPED_PROCESSES}")
        found.append(child("tapped.py", f"--rounds={rounds}", f"--seed={seed}"))
    again, with_tap = (np.asarray([one["log_ratios"][arm] for one in found]) for arm in ("off_again", "grad_norm"))
    # Where networks lie in memory is drawn once a process: the tap's interval is one over processes.
    means = np.log(ratio(with_tap))
    half_width = STUDENT * means.std(ddof=1) / math.sqrt(TAPPED_PROCESSES)
    low, high = (float(np.exp(means.mean() + side * half_width)) for side in (-1, 1))
    control = interval(again.ravel())
    return {
        "figures": {
            "ratio_grad_norm": float(np.exp(means.mean())),
            "ratio_grad_norm_high": high,
            "transformer_aa_ratio": float(ratio(again.ravel())),
            "transformer_aa_half_width": (control[1] - control[0]) / 2,
            "transformer_step_ms": statistics.median(one["step_ms"] for one in found),
        },
        "intervals_95": {"grad_norm": (low, high), "transformer_off_again": control},
    }


def is_conclusive(control: tuple[float, float]) -> bool:
    """Of an A/A control's interval."""
    return control[0] <= 1 <= control[1] and (control[1] - control[0]) / 2 <= AA_LIMIT


def collected() -> dict[str, float]:
    """Mean step with another monitor over that without, each in trainings of its own by turns; medians of TRAININGS."""
    monitors = ["none", "SummaryCollector", *(["TrainingStateMonitor"] if mlp.mindformers else [])]
    spent: dict[str, list[float]] = {monitor: [] for monitor in monitors}
    for turn in range(TRAININGS):
        say(f"{', '.join(monitors)}: trainings {turn + 1} of {TRAININGS}")
        for monitor in monitors:
            spent[monitor].append(child("collected.py", f"--monitor={monitor}")["mean_ms"])
    off = statistics.median(spent["none"])
    return {
        f"ratio_{monitor}": statistics.median(values) / off for monitor, values in spent.items() if monitor != "none"
    }


def measured(rounds: int, costed_steps: int, tapped_rounds: int) -> dict[str, Any]:
    """Everything that the JSON file holds."""
    tap, others = tapped(tapped_rounds), collected()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        folder = Path(scratch)
        (folder / "rings").mkdir()
        say("start of a process")
        start = starting.milliseconds(starting.pod_folder(folder / "agent"), folder / "rings")
        os.environ["RANKBEAT_RING_DIR"] = str(folder / "rings")
        say(f"step, {rounds} rounds")
        shown = os.dup(1)
        with (folder / "output").open("w") as output:
            os.dup2(output.fileno(), 1)
            try:
                schedule, cost = train(rounds, costed_steps)
            finally:
                sys.stdout.flush()
                os.dup2(shown, 1)
    logarithms = {arm: np.asarray(schedule.log_ratios(arm)) for arm in ARMS[1:]}
    intervals = {arm: interval(values) for arm, values in logarithms.items()}
    ratios = {arm: float(ratio(values)) for arm, values in logarithms.items()}
    low, high = intervals["off_again"]
    controls = (intervals["off_again"], tap["intervals_95"]["transformer_off_again"])
    return {
        "verdict": "conclusive" if all(map(is_conclusive, controls)) else "inconclusive",
        "figures": {
            "unsampled_us": statistics.median(cost.microseconds["unsampled"]),
            "sampled_us": statistics.median(cost.microseconds["sampled"]),
            "ratio": ratios["agent"],
            "ratio_high": intervals["agent"][1],
            "aa_ratio": ratios["off_again"],
            "aa_half_width": (high - low) / 2,
            **starting.figures(start),
            "ratio_LossMonitor": ratios["LossMonitor"],
            **({"ratio_MFLossMonitor": ratios["MFLossMonitor"]} if "MFLossMonitor" in ratios else {}),
            **others,
            **tap["figures"],
            "step_ms": schedule.median_ms("off"),
            "rounds": rounds,
        },
        "intervals_95": {arm: list(bounds) for arm, bounds in {**intervals, **tap["intervals_95"]}.items()},
        "start_medians_ms": start,
        "machine": {
            "cpu": platform.machine(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg()[0],
            "python": platform.python_version(),
        },
        "conditions": f"{mlp.CONDITIONS}, interval: auto",
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def table(result: dict[str, Any]) -> str:
    """The figures for people."""
    units = {"us": "us", "ms": "ms"}
    rows = []
    for name, value in result["figures"].items():
        rows.append(f"  {name:<20} {value:>10.4f} {units.get(name.rsplit('_', 1)[-1], '')}")
    for arm, (low, high) in result["intervals_95"].items():
        rows.append(f"  {arm + ' / off':<20} [{low:.4f}, {high:.4f}]")
    return "\n".join([f"{result['verdict']}: {result['conditions']}", *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2500, help="about 0.16 s each")
    parser.add_argument("--costed-steps", type=int, default=1000)
    parser.add_argument("--tapped-rounds", type=int, default=40, help="about 0.4 s each, in each of 5 processes")
    parser.add_argument("--out", type=Path, default=REPO / "build/bench/step-overhead.json")
    arguments = parser.parse_args()
    result = measured(arguments.rounds, arguments.costed_steps, arguments.tapped_rounds)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))
    return 0 if result["verdict"] == "conclusive" else 1


if __name__ == "__main__":
    sys.exit(main())
