"""GET /healthz and GET /metrics of the operator itself."""

from collections.abc import Iterable

from aiohttp import web

from rankbeat_contract import metrics as table
from rankbeat_contract.metrics import Metric
from rankbeat_operator.handlers import loops
from rankbeat_operator.handlers.context import Context

STALE_SECONDS = 120.0
"""Four resyncs, or a watch that has shown nothing of what lists have shown for so long."""


def problem(context: Context) -> str:
    """Why the operator is no longer at work, "" while it is."""
    now, health = context.clock(), context.health
    if health.stale_since is not None and now - health.stale_since > STALE_SECONDS:
        return f"watch of TrainingMonitors is stale since {now - health.stale_since:.0f} s"
    if health.resync is not None and now - health.resync > STALE_SECONDS + 2 * context.settings.resync_seconds:
        return f"last resync is {now - health.resync:.0f} s ago"
    if health.verdicts is not None and now - health.verdicts > STALE_SECONDS:
        return f"aggregator was last asked {now - health.verdicts:.0f} s ago"
    stuck = [key for key, started in context.keys.started.items() if now - started > loops.RECONCILE_SECONDS + 60]
    return f"reconcile of {stuck[0]} does not end" if stuck else ""


def metrics(context: Context) -> str:
    """Metrics in Prometheus' text format."""
    health, knowledge = context.health, context.knowledge
    gauges = (
        (table.OPERATOR_MONITORS, len(knowledge.monitors)),
        (table.OPERATOR_AGGREGATOR_REACHABLE, int(_is_aggregator_reachable(context))),
        (table.OPERATOR_FLEET_VALID, int(not knowledge.fleet_problem)),
        (table.OPERATOR_HEALTHY, int(not problem(context))),
    )
    families = (
        _family(table.OPERATOR_RECONCILES, sorted(health.reconciles.items())),
        _family(
            table.OPERATOR_API_REQUESTS, [((key,), count) for key, count in sorted(context.cluster.requests.items())]
        ),
        *(_family(metric, [((), value)]) for metric, value in gauges),
    )
    return "".join(families)


def _family(metric: Metric, rows: Iterable[tuple[tuple[str, ...], int]]) -> str:
    """HELP, TYPE and samples; rows have the values of metric.labels."""
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    for values, value in rows:
        labels = ",".join(f'{name}="{text}"' for name, text in zip(metric.labels, values, strict=True))
        lines.append(f"{metric.name}{{{labels}}} {value}" if labels else f"{metric.name} {value}")
    return "\n".join((*lines, ""))


def _is_aggregator_reachable(context: Context) -> bool:
    aggregator = context.knowledge.aggregator
    return aggregator is not None and not aggregator.problem


def application(context: Context) -> web.Application:
    """The server's routes."""

    async def healthz(_: web.Request) -> web.Response:
        why = problem(context)
        return web.Response(text=why or "ok", status=503 if why else 200)

    async def counters(_: web.Request) -> web.Response:
        return web.Response(text=metrics(context), content_type="text/plain", charset="utf-8")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/metrics", counters)])
    return app


async def serve(context: Context) -> web.AppRunner:
    """The running server; the caller cleans it up."""
    runner = web.AppRunner(application(context), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=context.settings.port).start()
    return runner
