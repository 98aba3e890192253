"""How a new version of the webhook takes over: the chart's part of it."""

import pytest
import yaml

import webhook_install as install

pytestmark = pytest.mark.controlplane  # the real Helm


def rendered(*templates: str) -> dict[tuple[str, str], dict]:
    chosen = [f"--show-only=templates/{name}" for name in templates]
    documents = yaml.safe_load_all(install.helm("template", "rankbeat", str(install.CHART), *chosen))
    return {(one["kind"], one["metadata"]["name"]): one for one in documents if one}


def test_old_replicas_serve_until_new_ones_are_ready():
    spec = rendered("webhook.yaml")["Deployment", "rankbeat-webhook"]["spec"]

    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    probe = spec["template"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["path"] == "/readyz"


def test_the_webhook_reads_config_maps_of_the_release_namespace_only():
    objects = rendered("rbac.yaml")

    assert objects["Role", "rankbeat-webhook"]["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    ]
    cluster_wide = objects["ClusterRole", "rankbeat-webhook"]["rules"]
    assert not any("configmaps" in rule.get("resources", ()) for rule in cluster_wide)
