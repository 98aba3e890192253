"""The live table of ranks, read from Prometheus as any dashboard would."""

import math
from dataclasses import dataclass

from rich import box, table

from rankbeat_contract import names
from rankbeat_demo.prometheus import Prometheus


@dataclass(frozen=True, slots=True)
class Job:
    """What selects a job's series."""

    namespace: str
    monitor: str

    def series(self, metric: str) -> str:
        return f'{metric}{{namespace="{self.namespace}",monitor="{self.monitor}"}}'


def cell(value: float | None, unit: str = "", scale: float = 1.0, digits: int = 1) -> str:
    return "-" if value is None or math.isnan(value) else f"{value * scale:.{digits}f}{unit}"


def chip(prometheus: Prometheus, node: str) -> str:
    """Chips of a node in a few words: how many, how busy, how warm."""
    selector = f'{{node="{node}"}}'
    busy = prometheus.by_label(f"{names.NODE_ACCELERATOR_PREFIX}utilization_ratio{selector}", "device")
    warm = prometheus.by_label(f"{names.NODE_ACCELERATOR_PREFIX}temperature_celsius{selector}", "device")
    if not busy:
        return "none"
    return f"{len(busy)} chips, {100 * max(busy.values()):.0f} %, {max(warm.values(), default=math.nan):.0f} °C"


def clock(prometheus: Prometheus, node: str) -> str:
    """A node's clock in a few words."""
    trusted = prometheus.number(f'{names.NODE_CLOCK_TRUSTED}{{node="{node}"}}')
    if math.isnan(trusted):
        return "unknown"
    bound = prometheus.number(f'{names.NODE_CLOCK_ERROR_BOUND}{{node="{node}"}}')
    return f"{'trusted' if trusted else 'NOT trusted'} ±{cell(bound, ' ms', 1000)}"


def ranks(prometheus: Prometheus, job: Job) -> table.Table:
    """One row a rank: where it is, how its step divides, what its node says."""
    found = {name: prometheus.by_label(job.series(name), "rank") for name in _COLUMNS}
    phases = {labels["rank"]: labels["phase"] for labels, _ in prometheus.vector(job.series(names.RANK_PHASE))}
    nodes = {labels["rank"]: labels["node"] for labels, _ in prometheus.vector(job.series(names.RANK_INFO))}
    view = table.Table(box=box.SIMPLE, title=f"{job.namespace}/{job.monitor}", title_justify="left")
    for title in ("rank", "node", "phase", "step", "loss", "step time", "gap", "in step", "memory", "clock", "devices"):
        view.add_column(title, justify="right" if title not in {"node", "phase", "clock", "devices"} else "left")
    for rank in sorted(nodes, key=int):
        values = {name: found[name].get(rank) for name in _COLUMNS}
        view.add_row(
            rank,
            nodes[rank],
            phases.get(rank, "-"),
            cell(values[names.RANK_STEP], digits=0),
            cell(values[names.RANK_LOSS], digits=4),
            cell(values[names.RANK_STEP_INTERVAL], " ms", 1000),
            cell(values[names.RANK_GAP], " ms", 1000),
            cell(values[names.RANK_IN_STEP], " ms", 1000),
            cell(values[names.RANK_RESIDENT_MEMORY], " MiB", 2**-20, 0),
            clock(prometheus, nodes[rank]),
            chip(prometheus, nodes[rank]),
        )
    return view


_COLUMNS = (
    names.RANK_STEP,
    names.RANK_LOSS,
    names.RANK_STEP_INTERVAL,
    names.RANK_GAP,
    names.RANK_IN_STEP,
    names.RANK_RESIDENT_MEMORY,
)
