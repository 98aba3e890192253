"""From nothing to an installed Rankbeat: cluster, images, receiver, chart."""

import functools
import sys
from pathlib import Path

from rankbeat_demo import cluster
from rankbeat_demo.progress import Progress, wait_for

NAMESPACE = "rankbeat-system"
RELEASE = "rankbeat"
CHART = cluster.ROOT / "charts/helm/rankbeat"
RECEIVER_PORT = 9099
PROMETHEUS_PORT = 19090
ALERTMANAGER_PORT = 19093
DRIVER_ROOT = "/var/lib/rankbeat-demo/ascend-driver"
OUR_IMAGES = ("operator", "node", "aggregator", "prometheus", "alertmanager", "trainer")


def deliveries() -> Path:
    return cluster.state() / "deliveries.jsonl"


def start_cluster(progress: Progress) -> None:
    with progress.step("cluster", "starting Kubernetes (etcd, apiserver, controllers, kubelet, containerd, DNS, NTP)"):
        cluster.cluster("up", "--node-label", "accelerator=huawei-Ascend910", timeout_seconds=300)
    with progress.step("images", f"loading images ({', '.join(OUR_IMAGES)})"):
        cluster.cluster("load-image", *cluster.image_tars(OUR_IMAGES), timeout_seconds=600)


def restart_stale(installed: str) -> None:
    """Restarts our programs if they run an older image: its tag stays `dev`, so Kubernetes does not see a change."""
    running = cluster.state() / "installed-images"
    if running.exists() and running.read_text() != installed:
        for kind in ("deployment", "daemonset"):
            cluster.kubectl("-n", NAMESPACE, "rollout", "restart", kind)
            cluster.kubectl("-n", NAMESPACE, "rollout", "status", kind, "--timeout=120s", timeout_seconds=130)
    running.write_text(installed)


def start_devices(progress: Progress) -> None:
    """Puts the double of the NPU driver's library where a driver would be on the node."""
    with progress.step("devices", "putting two NPU doubles on the node (a C library with the driver's ABI)"):
        built = cluster.BUILD / "ascend-driver"
        cluster.run(sys.executable, str(cluster.ROOT / "dev/doubles/build.py"), str(built))
        cluster.on_node("sh", "-c", f"mkdir -p {DRIVER_ROOT} && cp -r {built}/. {DRIVER_ROOT}")


def start_receiver(progress: Progress) -> None:
    """Starts the pager's receiver inside the node's namespaces, where pods can reach it."""
    with progress.step("receiver", f"starting the pager's receiver on {cluster.NODE_ADDRESS}:{RECEIVER_PORT}"):
        deliveries().unlink(missing_ok=True)
        receiver = cluster.ROOT / "dev/demo/rankbeat_demo/receiver.py"
        command = f"setsid {sys.executable} {receiver} {RECEIVER_PORT} {deliveries()} </dev/null >/dev/null 2>&1 &"
        cluster.on_node("sh", "-c", command)


def install_chart(progress: Progress) -> None:
    with progress.step("helm", "helm install rankbeat --values values-demo.yaml"):
        cluster.run(
            cluster.program("helm"),
            *("upgrade", "--install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--create-namespace"),
            *("--values", str(CHART / "values-demo.yaml"), "--wait", "--timeout", "3m"),
            timeout_seconds=200,
        )
        restart_stale(cluster.image_digests(OUR_IMAGES))
    with progress.step("fleet", "waiting for what the operator deploys (aggregator, collectors, exporters)"):
        for kind in ("deployment/rankbeat-aggregator", "daemonset/rankbeat-node", "daemonset/rankbeat-devices"):
            wait_for(kind, functools.partial(exists, kind), 60)
            cluster.kubectl("-n", NAMESPACE, "rollout", "status", kind, "--timeout=120s", timeout_seconds=130)


def exists(kind: str) -> bool:
    try:
        cluster.kubectl("-n", NAMESPACE, "get", kind)
    except cluster.CommandError:
        return False
    return True


def forward(port: int, service: str, target_port: int) -> str:
    """Opens 127.0.0.1:port for a Service of the release; returns the address to open in a browser."""
    found = cluster.kubectl("-n", NAMESPACE, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
    cluster.cluster("forward", str(port), f"{found}:{target_port}")
    return f"http://127.0.0.1:{port}"


def forward_all() -> tuple[str, str]:
    """Addresses of Prometheus and Alertmanager on this machine."""
    return (
        forward(PROMETHEUS_PORT, "rankbeat-prometheus", 9090),
        forward(ALERTMANAGER_PORT, "rankbeat-alertmanager", 9093),
    )
