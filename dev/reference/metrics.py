"""docs/metrics.md, from rankbeat_contract.metrics."""

from rankbeat_contract import metrics
from reference import markdown

SAYS = {
    metrics.RANKS: "One series per rank, from the rank's own process. Join `rankbeat_rank_info` for pod and job.",
    metrics.COLLECTOR: "How the collector of a node fares.",
    metrics.PODS: "How the outputs of a collector beside a job fare, as the node's collector reads it from the pod.",
    metrics.OUTPUTS: "The same in more detail, by that collector itself; served only where it is given a port.",
    metrics.CLOCK: "How far a node's clock may be off, and why that is believed.",
    metrics.DEVICES: "One series per accelerator, the same names for every vendor.",
    metrics.EXPORTERS: "How each collector of the two exporters fares.",
    metrics.JOBS: "One series per job: what the alerts and the dashboard read.",
    metrics.AGGREGATOR: "How the aggregator fares.",
    metrics.OPERATOR: "How the operator fares.",
    metrics.WEBHOOK: "How the webhook fares.",
}
UNKNOWN = "What is not known is absent; 0 is never written for it. Labels that Prometheus adds are not listed."


def page() -> str:
    return markdown.page("Metrics", "agent/rankbeat_contract/metrics", UNKNOWN, *map(_section, metrics.PROGRAMS))


def _section(program: str) -> str:
    rows = [
        (markdown.code(one.name), one.kind, ", ".join(map(markdown.code, one.labels)), one.help)
        for one in metrics.TABLE
        if one.program == program
    ]
    title = program[0].upper() + program[1:]
    return f"## {title}\n\n{SAYS[program]}\n\n{markdown.table(('name', 'kind', 'labels', 'meaning'), rows)}"
