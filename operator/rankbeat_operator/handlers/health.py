"""GET /healthz and GET /metrics of the operator itself."""

from aiohttp import web

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
    """Counters in Prometheus' text format."""
    reconciles = [
        f'rankbeat_operator_reconciles_total{{scope="{scope}",result="{result}"}} {count}'
        for (scope, result), count in sorted(context.health.reconciles.items())
    ]
    requests = [
        f'rankbeat_operator_api_requests_total{{method="{method}"}} {count}'
        for method, count in sorted(context.cluster.requests.items())
    ]
    gauges = [
        f"rankbeat_operator_monitors {len(context.knowledge.monitors)}",
        f"rankbeat_operator_aggregator_reachable {int(_is_aggregator_reachable(context))}",
        f"rankbeat_operator_fleet_valid {int(not context.knowledge.fleet_problem)}",
        f"rankbeat_operator_healthy {int(not problem(context))}",
    ]
    return "\n".join(
        (
            "# HELP rankbeat_operator_reconciles_total Reconciles by what they were about and how they ended.",
            "# TYPE rankbeat_operator_reconciles_total counter",
            *reconciles,
            "# HELP rankbeat_operator_api_requests_total Requests to the API server, watches not counted.",
            "# TYPE rankbeat_operator_api_requests_total counter",
            *requests,
            *(line for gauge in gauges for line in (f"# TYPE {gauge.split()[0]} gauge", gauge)),
            "",
        )
    )


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
