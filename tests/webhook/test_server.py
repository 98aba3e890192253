"""The server over real TLS: what comes in, what goes out, and that nothing ever denies a pod."""

import asyncio
import base64
import contextlib
import io
import json
import ssl

import aiohttp
import pytest
from aiohttp import web

import webhook_builders as build
from rankbeat_webhook import errors, server

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
ALLOWED = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {"uid": UID, "allowed": True},
}


class Served:
    """A running server and a client of it."""

    def __init__(self, folder):
        self.ages = {"jobs": 1.0}
        self.obstacle = ""
        self.metrics = server.Metrics(lambda: self.ages)
        self.certificates = server.Certificates(folder)

    async def post(self, body):
        async with self.client.post(f"{self.url}/v1/pods", data=io.BytesIO(body)) as answer:
            return answer.status, await answer.text()

    async def review(self, body):
        status, text = await self.post(json.dumps(body).encode())
        assert status == 200
        return json.loads(text)

    async def probe(self, path):
        async with self.client.get(f"{self.probes}{path}") as answer:
            return answer.status, await answer.text()

    def sample(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)


@contextlib.asynccontextmanager
async def serving(folder, view):
    served = Served(folder)
    served.pem = build.write_certificate(folder)
    served.certificates.refresh()
    reviews = web.AppRunner(server.Reviews(build.SETTINGS, view, served.metrics).app())
    probes = web.AppRunner(server.probes_app(served.metrics, lambda: served.obstacle))
    try:
        await reviews.setup()
        await web.TCPSite(reviews, "127.0.0.1", 0, ssl_context=served.certificates.context).start()
        await probes.setup()
        await web.TCPSite(probes, "127.0.0.1", 0).start()
        served.url = f"https://127.0.0.1:{reviews.addresses[0][1]}"
        served.probes = f"http://127.0.0.1:{probes.addresses[0][1]}"
        context = ssl.create_default_context(cadata=served.pem.decode())
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, force_close=True)
        ) as served.client:
            yield served
    finally:
        await reviews.cleanup()
        await probes.cleanup()


def known(_pod):
    return build.a_view(build.a_monitor(), opted_in=True)


async def test_a_selected_pod_is_answered_with_its_patch(tmp_path):
    async with serving(tmp_path, known) as served:
        answer = await served.review(build.a_review(build.a_pod()))

        operations = json.loads(base64.b64decode(answer["response"].pop("patch")))
        assert answer["response"].pop("patchType") == "JSONPatch"
        assert answer == ALLOWED
        assert operations == [dict(each) for each in build.decided(build.a_pod()).operations]
        assert served.sample("rankbeat_webhook_injections_total", result="injected", reason="Injected") == 1
        assert served.sample("rankbeat_webhook_request_seconds_count") == 1


@pytest.mark.parametrize(
    ("manifest", "labels"),
    [
        (build.a_pod(labels={"app": "x"}), {"result": "untouched", "reason": "NotSelected"}),
        (build.a_pod(labels={"rankbeat.io/state": "x"}), {"result": "untouched", "reason": "AlreadyInjected"}),
    ],
)
async def test_a_pod_that_is_not_ours_is_answered_without_a_patch(tmp_path, manifest, labels):
    async with serving(tmp_path, known) as served:
        assert await served.review(build.a_review(manifest)) == ALLOWED
        assert served.sample("rankbeat_webhook_injections_total", **labels) == 1


async def test_a_skipped_pod_is_counted_by_its_reason(tmp_path):
    async with serving(tmp_path, known) as served:
        await served.review(build.a_review(build.a_pod(build.a_container(command=None))))

        assert served.sample("rankbeat_webhook_injections_total", result="skipped", reason="NoCommand") == 1


def broken(_pod):
    raise RuntimeError("the cache is gone")


WRONG = {
    "another operation": build.a_review(build.a_pod(), operation="UPDATE"),
    "another resource": build.a_review(build.a_pod(), resource={"resource": "configmaps"}),
    "no pod": build.a_review({}),
    "containers of a wrong type": build.a_review({"spec": {"containers": {"a": 1}}}),
    "another kind": build.a_review(build.a_pod()) | {"kind": "Pod"},
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
async def test_a_request_that_is_no_new_pod_is_allowed_and_counted(tmp_path, body):
    async with serving(tmp_path, known) as served:
        assert await served.review(body) == ALLOWED
        assert served.sample("rankbeat_webhook_injections_total", result="failed", reason="InternalError") == 1


async def test_a_fault_of_ours_is_allowed_and_counted(tmp_path):
    async with serving(tmp_path, broken) as served:
        assert await served.review(build.a_review(build.a_pod())) == ALLOWED
        assert served.sample("rankbeat_webhook_injections_total", result="failed", reason="InternalError") == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"request": 1}'])
async def test_bytes_that_are_no_review_are_allowed_for_nobody(tmp_path, body):
    async with serving(tmp_path, known) as served:
        status, text = await served.post(body)

        assert status == 200
        assert json.loads(text)["response"] == {"uid": "", "allowed": True}


async def test_pieces_of_a_pod_of_wrong_types_are_read_as_absent(tmp_path):
    manifest = {
        "metadata": {"labels": ["x"], "ownerReferences": {}},
        "spec": {"containers": [1, {"env": 3}], "volumes": 1},
    }

    async with serving(tmp_path, known) as served:
        assert await served.review(build.a_review(manifest)) == ALLOWED


async def test_a_body_over_the_limit_is_refused_before_it_is_read_whole(tmp_path):
    async with serving(tmp_path, known) as served:
        status, text = await served.post(b" " * (server.BODY_BYTES + 1))

        assert (status, json.loads(text)["response"]) == (200, {"uid": "", "allowed": True})


async def test_a_large_pod_is_still_patched(tmp_path):
    manifest = build.a_pod(build.a_container(env=[{"name": f"V{n}", "value": "x" * 1000} for n in range(1500)]))

    async with serving(tmp_path, known) as served:
        assert "patch" in (await served.review(build.a_review(manifest)))["response"]


async def test_a_job_that_comes_a_moment_later_is_waited_for(tmp_path):
    asked = []

    def late(_pod):
        asked.append(1)
        return build.a_view(build.a_monitor(), job=build.a_job(backoffLimit=1) if len(asked) > 3 else None)

    manifest = build.a_pod(build.a_container(command=["msrun"]), owner=build.a_job_owner())
    async with serving(tmp_path, late) as served:
        await served.review(build.a_review(manifest))

        assert served.sample("rankbeat_webhook_injections_total", result="injected", reason="Injected") == 1


async def test_a_job_that_never_comes_is_waited_for_well_below_the_server_s_timeout(tmp_path):
    manifest = build.a_pod(build.a_container(command=["msrun"]), owner=build.a_job_owner())

    async with serving(tmp_path, known) as served, asyncio.timeout(server.DEADLINE_SECONDS):
        await served.review(build.a_review(manifest))

        assert served.sample("rankbeat_webhook_injections_total", result="skipped", reason="ShellNotProven") == 1


async def served_certificate(served):
    host, port = served.url.removeprefix("https://").split(":")
    return await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))


async def test_a_changed_certificate_is_served_to_new_connections(tmp_path):
    async with serving(tmp_path, known) as served:
        assert await served_certificate(served) == served.pem.decode()
        assert served.certificates.refresh() is False

        renewed = build.write_certificate(tmp_path)

        assert served.certificates.refresh() is True
        assert await served_certificate(served) == renewed.decode()


async def test_a_pair_that_does_not_belong_together_changes_nothing(tmp_path):
    async with serving(tmp_path, known) as served:
        key = (tmp_path / "tls.key").read_bytes()
        build.write_certificate(tmp_path)
        (tmp_path / "tls.key").write_bytes(key)

        with pytest.raises(errors.CertificateError, match=r"no usable tls\.crt"):
            served.certificates.refresh()
        assert await served_certificate(served) == served.pem.decode()


def test_a_missing_certificate_says_where_it_should_be(tmp_path):
    with pytest.raises(errors.CertificateError, match=str(tmp_path)):
        server.Certificates(tmp_path).refresh()


async def test_probes_and_metrics(tmp_path):
    async with serving(tmp_path, known) as served:
        served.ages = {"jobs": 1.0, "monitors": 61.0, "config_maps": None}
        assert await served.probe("/healthz") == (200, "ok\n")
        assert await served.probe("/readyz") == (200, "ok\n")
        served.obstacle = "stopping"
        assert await served.probe("/readyz") == (503, "stopping\n")

        _, text = await served.probe("/metrics")

        assert [line for line in text.splitlines() if line.startswith("rankbeat_webhook_cache")] == [
            'rankbeat_webhook_cache_age_seconds{cache="jobs"} 1.0',
            'rankbeat_webhook_cache_age_seconds{cache="monitors"} 61.0',
            'rankbeat_webhook_cache_stale{cache="jobs"} 0.0',
            'rankbeat_webhook_cache_stale{cache="monitors"} 1.0',
        ]


class Needs:
    """A replica's readiness, by what is there."""

    def __init__(self, **there):
        self.there = there
        self.metrics = server.Metrics(dict)
        needs = tuple(server.Need(what, f"{what} comes", lambda what=what: self.there[what]) for what in there)
        self.readiness = server.Readiness(needs, self.metrics)

    def missing(self):
        return [need.what for need in self.readiness.missing()]

    def waiting(self):
        return {
            what: self.metrics.registry.get_sample_value("rankbeat_webhook_waiting", {"what": what})
            for what in self.there
        }


def test_a_replica_waits_for_all_that_it_needs_and_the_metric_says_for_what():
    needs = Needs(caches=False, agent=False)
    assert needs.missing() == ["caches", "agent"]

    needs.there["caches"] = True

    assert needs.missing() == ["agent"]
    assert needs.waiting() == {"caches": 0, "agent": 1}


def test_a_replica_that_was_ready_stays_so_whatever_goes():
    needs = Needs(caches=True, agent=True)
    assert needs.missing() == []

    needs.there["agent"] = False

    assert needs.missing() == []
    assert needs.waiting() == {"caches": 0, "agent": 0}


def test_what_came_and_went_before_all_was_there_is_waited_for_again():
    needs = Needs(caches=False, agent=True)
    assert needs.missing() == ["caches"]

    needs.there = {"caches": True, "agent": False}

    assert needs.missing() == ["agent"]
