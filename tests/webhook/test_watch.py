"""Caches behind a real API server."""

import time

import pytest

from rankbeat_webhook import watch
from rankbeat_webhook.model import raw

pytestmark = pytest.mark.controlplane


def label(manifest):
    return watch.Kept(raw.text(manifest, "metadata", "name"), raw.labels(manifest, "metadata", "labels").get("a", ""))


def wait(is_so, seconds=10.0):
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < seconds
        time.sleep(0.01)


@pytest.fixture
def follow(kube):
    caches = []

    def started(path, page=watch.PAGE):
        cache = watch.Cache("test", kube.api_client, path, label, page)
        caches.append(cache)
        cache.start()
        return cache

    yield started
    for cache in caches:
        cache.stop()


def configmap(kube, namespace, name, value):
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {"a": value}},
        }
    )


def test_a_list_longer_than_a_page_is_read_whole_and_then_followed(kube, follow):
    namespace = kube.namespace()
    for number in range(5):
        configmap(kube, namespace, f"c{number}", str(number))

    cache = follow(f"/api/v1/namespaces/{namespace}/configmaps", page=2)
    wait(lambda: cache.is_synced)
    assert {f"c{number}": str(number) for number in range(5)}.items() <= dict(cache._values).items()

    configmap(kube, namespace, "c0", "new")
    kube.resource("v1", "ConfigMap").delete(name="c1", namespace=namespace)

    wait(lambda: (cache.get("c0"), cache.get("c1")) == ("new", None))
    assert cache.age_seconds < 5.0


def test_only_what_the_query_selects_is_kept(kube, follow):
    namespace = kube.namespace()
    configmap(kube, namespace, "one", "1")
    configmap(kube, namespace, "two", "2")

    cache = follow(f"/api/v1/namespaces/{namespace}/configmaps?fieldSelector=metadata.name%3Dtwo")

    wait(lambda: cache.is_synced)
    assert cache.values() == ("2",)


def test_a_path_that_is_not_served_is_asked_for_again_and_never_ready(kube, follow, caplog):
    cache = follow("/apis/example.com/v1/none")

    wait(lambda: caplog.text.count("watch failed cache=test") > 1)

    assert (cache.is_synced, cache.age_seconds, cache.values()) == (False, None, ())


def test_a_quiet_watch_ends_at_once_when_it_is_stopped(kube, follow):
    cache = follow("/api/v1/namespaces?labelSelector=never")
    wait(lambda: cache.is_synced)
    begun = time.monotonic()

    cache.stop()

    assert time.monotonic() - begun < 2.0
