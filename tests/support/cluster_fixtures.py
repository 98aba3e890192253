"""Fixtures of the real Kubernetes: `control_plane` and `kube` (seconds), `cluster` and `cluster_kube` (pods run).

A pytest plugin: pytest -p cluster_fixtures (registered in pyproject.toml). Imports stand in the fixtures: every session
loads this file, few need the kubernetes client, whose import takes most of a second.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import kube as clients
    from rankbeat_cluster import cluster as clusters
    from rankbeat_cluster import loopback


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[loopback.LoopbackControlPlane]:
    """One control plane per test process: .kubeconfig, .server, .stop(), .restart()."""
    from rankbeat_cluster import loopback, ports

    with ports.block() as base_port, loopback.control_plane(tmp_path_factory.mktemp("plane"), base_port) as running:
        yield running


@pytest.fixture(scope="session")
def kube(control_plane: loopback.LoopbackControlPlane) -> Iterator[clients.Kube]:
    """An official client of `control_plane`, which makes fresh namespaces."""
    import kube as clients

    made = clients.of(control_plane.kubeconfig)
    with made.api_client:
        yield made


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Cluster]:
    """One whole cluster of one node per test process; its image store stays in the cache between sessions."""
    from rankbeat_cluster import cluster as clusters
    from rankbeat_cluster import start

    name = f"test-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with clusters.cluster(start.Wanted(tmp_path_factory.mktemp("cluster"), name=name)) as running:
        yield running


@pytest.fixture(scope="session")
def cluster_kube(cluster: clusters.Cluster) -> Iterator[clients.Kube]:
    """An official client of `cluster`, which makes fresh namespaces."""
    import kube as clients

    made = clients.of(cluster.kubeconfig)
    with made.api_client:
        yield made
