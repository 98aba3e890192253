"""Deployment and Service rankbeat-aggregator."""

from rankbeat_contract import names
from rankbeat_operator.model.fleet import Fleet
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.plan.fleet import pods
from rankbeat_operator.plan.fleet.pods import Release

TLS_SECRET = "rankbeat-aggregator-tls"  # noqa: S105 the Secret's name
_TLS_PATH = "/etc/rankbeat/tls"


def objects(fleet: Fleet, release: Release) -> tuple[Manifest, ...]:
    return (_service(fleet, release), _deployment(fleet, release))


def _service(fleet: Fleet, release: Release) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pods.metadata(names.AGGREGATOR, fleet, release),
        "spec": {
            "selector": pods.selector(names.AGGREGATOR),
            "ports": [
                {"name": "https", "port": names.PORT_AGGREGATOR, "targetPort": "https", "protocol": "TCP"},
                {"name": "metrics", "port": names.PORT_AGGREGATOR_METRICS, "targetPort": "metrics", "protocol": "TCP"},
            ],
        },
    }


def _deployment(fleet: Fleet, release: Release) -> Manifest:
    """One replica: a window of reports lives in its memory, and two would each see half."""
    rest: Manifest = {
        "containers": [_container(fleet, release)],
        "volumes": [pods.api_access(), {"name": "tls", "secret": {"secretName": TLS_SECRET}}, pods.scratch()],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pods.metadata(names.AGGREGATOR, fleet, release),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": pods.selector(names.AGGREGATOR)},
            "strategy": {"type": "Recreate"},
            "template": pods.template(names.AGGREGATOR, fleet, fleet.aggregator, rest),
        },
    }


def _container(fleet: Fleet, release: Release) -> Manifest:
    return {
        "name": "aggregator",
        "image": fleet.aggregator_image,
        "imagePullPolicy": fleet.image_pull_policy,
        "command": ["python3", "-m", "rankbeat_aggregator"],
        "args": [
            f"--tls-cert={_TLS_PATH}/tls.crt",
            f"--tls-key={_TLS_PATH}/tls.key",
            f"--reporter-user=system:serviceaccount:{release.namespace}:{names.NODE}",
            f"--reader-user=system:serviceaccount:{release.namespace}:{names.OPERATOR}",
        ],
        "ports": [
            {"name": "https", "containerPort": names.PORT_AGGREGATOR},
            {"name": "metrics", "containerPort": names.PORT_AGGREGATOR_METRICS},
        ],
        "resources": fleet.aggregator.resources,
        "livenessProbe": pods.probe("/healthz", names.PORT_AGGREGATOR_METRICS),
        "readinessProbe": pods.probe("/healthz", names.PORT_AGGREGATOR_METRICS, period_seconds=2),
        "securityContext": pods.RESTRICTED,
        "volumeMounts": [
            pods.mount("api-access", pods.API_ACCESS_PATH),
            pods.mount("tls", _TLS_PATH),
            pods.SCRATCH_MOUNT,
        ],
    }
