"""Step files as MindSpore writes them, pod logs as the kubelet keeps them, and pollers that read both."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ring_support as support
from rankbeat_collector.ring import polling
from rankbeat_collector.tiers.polling import TieredPoller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankbeat_collector.model.pods import Pod

FOLDER = Path(__file__).parent
BEGUN_MS = 1_796_000_000_000
"""When the first step of a_step_file begins."""

MSRUN_LINES = [
    "Start worker process with rank id:0, log file:msrun_log/worker_0.log. Environment variable [RANK_ID=0] is exported"
]
"""What msrun says of a job with one worker."""

GRAPH_LINE = (
    "2026-11-29 19:17:18,303 - mindformers./output/log[mindformers/core/callback/callback.py:747] - INFO - "
    "{ Epoch:[  2/  2], step:[    7/   10], loss:[4.121618/4.092713], per_step_time: 30ms, lr: 0.000116977695, "
    "overflow cond: False, loss_scale: 1.0, global_norm: [0.9454679], train_throughput_per_npu: 0.000T"
)


def a_tier_pod(**changes: Any) -> Pod:
    """A pod that the agent is not in, whose monitor asks for both lower tiers."""
    fields: dict[str, Any] = {
        "name": "llm-0",
        "container": "train",
        "tiers": ("perfFile", "logTail"),
        "started_wall": 1_795_999_990.0,
    }
    return support.a_pod(**{**fields, **changes})


class Node:
    """A node's folders: the kubelet's, and that of all pods' logs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pods: tuple[Pod, ...] = ()
        for name in ("pods", "logs"):
            (root / name).mkdir()

    def poller(self, *pods: Pod, has_logs: bool = True) -> TieredPoller:
        self.pods = pods
        source = polling.kubelet_source(str(self.root), lambda: self.pods)
        return TieredPoller(polling.Poller(source), source.root, str(self.root / "logs") if has_logs else "")

    def perf_folder(self, pod: Pod, volume: str = "rankbeat", folder: str = "perf") -> Path:
        """The folder of a pod's step files, made."""
        place = self.root / "pods" / pod.uid / "volumes/kubernetes.io~empty-dir" / volume / folder
        place.mkdir(parents=True, exist_ok=True)
        return place

    def log_folder(self, pod: Pod, container: str = "train") -> Path:
        """The folder of a container's logs, made."""
        place = self.root / "logs" / f"{pod.namespace}_{pod.name}_{pod.uid}" / container
        place.mkdir(parents=True, exist_ok=True)
        return place


def perf_text(rank: int = 0, steps: int = 0, step_ms: int = 20, begun_ms: int = BEGUN_MS) -> str:
    """A step file: a first step of a second, then steps of step_ms, 1 ms between two."""
    lines = ["UUID:127.0.0.1_8118", "FRAMEWORK:MindSpore", f"GLOBAL RANKID:{rank}"]
    begin = begun_ms
    for index in range(steps):
        end = begin + (1000 if index == 0 else step_ms)
        lines.append(f"STEPTIME:{begin},{end}")
        begin = end + 1
    return "\n".join(lines) + "\n"


def cri(lines: Sequence[str], *, stream: str = "stdout", tag: str = "F", at: float = 1_796_000_100.0) -> str:
    """Entries of a log, one second from one to the next, beginning at `at` (epoch)."""
    entries = []
    for index, line in enumerate(lines):
        stamp = dt.datetime.fromtimestamp(at + index, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.123456789Z")
        entries.append(f"{stamp} {stream} {tag} {line}\n")
    return "".join(entries)


def graph_lines(steps: Sequence[int], *, loss: float = 2.5, prefix: str = "") -> list[str]:
    """Lines of MFLossMonitor at these steps of one epoch of 1000, half a second from one step to the next."""
    lines = []
    for step in steps:
        at = dt.datetime(2026, 11, 29, 19, 0, tzinfo=dt.UTC) + dt.timedelta(seconds=step / 2)
        written = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"
        lines.append(
            f"{prefix}{written} - mindformers./output/log[mindformers/core/callback/callback.py:747] - INFO - "
            f"{{ Epoch:[  1/  1], step:[{step:5d}/ 1000], loss:[{loss:5.6f}/{loss:5.6f}], per_step_time: 300ms, "
            f"lr: 0.0001, overflow cond: False, loss_scale: 1.0, global_norm: [0.9]"
        )
    return lines
