"""The operator's own metrics."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from kubernetes import client
from rankbeat_contract import metrics, packing
from rankbeat_operator.handlers import health
from rankbeat_operator.handlers.context import Context, Settings
from rankbeat_operator.handlers.keys import Keys
from rankbeat_operator.kube.cluster import Cluster
from rankbeat_operator.kube.events import Events


def an_operator() -> Context:
    """One that has not spoken to any server."""
    cluster = Cluster(client.ApiClient())
    return Context(
        settings=Settings("rankbeat", Path("/none"), "https://localhost:9", Path("/none"), None, 0),
        cluster=cluster,
        events=Events(cluster, lambda: 0.0),
        agent=packing.packed({}),
        keys=Keys(lambda: 0.0),
        clock=lambda: 0.0,
        wall=lambda: 0.0,
    )


def test_the_operator_serves_the_metrics_of_the_table():
    context = an_operator()
    context.health.reconciles[("monitor", "success")] = 3
    context.cluster.requests["GET"] = 2

    families = list(text_string_to_metric_families(health.metrics(context)))

    table = [one for one in metrics.TABLE if one.program == metrics.OPERATOR]
    assert [(one.name.removesuffix("_total"), one.kind, one.help) for one in table] == [
        (one.name, one.type, one.documentation) for one in families
    ]
    samples = {sample.name: (sample.labels, sample.value) for one in families for sample in one.samples}
    assert samples["rankbeat_operator_reconciles_total"] == ({"scope": "monitor", "result": "success"}, 3)
    assert samples["rankbeat_operator_api_requests_total"] == ({"method": "GET"}, 2)
    assert samples["rankbeat_operator_monitors"] == ({}, 0)
