"""The HTTP surface over real TLS."""

import math
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator_builders import a_pod, a_rank, a_report, not_arrived, stalled
from rankbeat_aggregator.server.tls import Certificate, Files
from rankbeat_cluster import pki
from rankbeat_contract.monitor import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    Client = Any


async def test_a_report_is_answered_with_the_clock(aggregator: "Client"):
    status, answer = await aggregator.post(a_report("n0", [a_rank(0)]))

    assert status == 200
    assert answer["received_wall"] <= answer["sent_wall"]


@pytest.mark.parametrize(
    ("token", "status", "result"),
    [(None, 401, "unauthenticated"), ("nobody", 401, "unauthenticated"), ("other", 403, "forbidden"),
     ("operator", 403, "forbidden"), ("n1", 403, "forbidden")],
    ids=["none", "unknown", "other user", "operator", "other node"],
)  # fmt: skip
async def test_only_the_nodes_own_collector_may_report(
    aggregator: "Client", token: str | None, status: int, result: str
):
    answered, answer = await aggregator.post(a_report("n0", [a_rank(0)]), token)

    assert answered == status
    assert answer.keys() == {"error"}
    assert aggregator.program.service.counts.reports == {result: 1}
    assert aggregator.program.service.fleet.nodes == {}


async def test_a_token_of_an_old_server_without_a_node_claim_is_accepted_and_counted(aggregator: "Client"):
    status, _ = await aggregator.post(a_report("n0", [a_rank(0)]), "old")

    assert status == 200
    assert "rankbeat_aggregator_reports_without_node_claim_total 1.0" in (await aggregator.plain("/metrics"))[1]


@pytest.mark.parametrize("token", [None, "nobody", "n0"])
async def test_only_the_operator_may_read_verdicts(aggregator: "Client", token: str | None):
    status, _ = await aggregator.verdicts(token)

    assert status in {401, 403}


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 422), (b"{", 422), (b"\xff\xfe", 422), (b"[" * 100_000, 422), (b"null", 422), (b'{"node": "n0"}', 422),
     (b" " * (8 << 20), 422), (b" " * ((8 << 20) + 1), 413)],
    ids=["empty", "cut", "no utf-8", "deep", "null", "missing", "8 MiB", "more"],
)  # fmt: skip
async def test_a_body_that_is_no_report_is_refused_with_a_reason(aggregator: "Client", body: bytes, status: int):
    answered, answer = await aggregator.post(body)

    assert answered == status
    assert answer["error"]


async def test_a_ring_that_makes_no_sense_is_counted_and_the_rest_taken(aggregator: "Client"):
    status, _ = await aggregator.post(a_report("n0", [a_rank(0), {**a_rank(1), "phase": "x"}]))

    assert status == 200
    assert aggregator.program.service.counts.reports == {"partial": 1}
    (job,) = aggregator.program.service.fleet.jobs.values()
    assert list(job.processes) == ["run-0"]


async def test_a_token_is_reviewed_once_a_minute(aggregator: "Client"):
    for _ in range(3):
        assert (await aggregator.post(a_report("n0", [])))[0] == 200
        assert (await aggregator.post(a_report("n0", []), "nobody"))[0] == 401

    assert aggregator.reviewer.asked == ["n0", "nobody"]


async def test_without_an_api_server_unknown_tokens_are_told_to_come_again(aggregator: "Client"):
    await aggregator.post(a_report("n0", []))
    aggregator.reviewer.is_down = True

    assert (await aggregator.post(a_report("n0", [])))[0] == 200
    assert (await aggregator.post(a_report("n1", []), "n1"))[0] == 503


async def test_verdicts_have_the_shape_of_the_interface(aggregator: "Client"):
    service = aggregator.program.service
    service.fleet.started -= 60.0
    await aggregator.post(a_report("n0", [stalled(0, 30, scalars=[[500, "loss", 2.31]])]))
    await aggregator.post(a_report("n1", [not_arrived(1, 30)]), "n1")
    service.evaluate()

    status, answer = await aggregator.verdicts()

    assert status == 200
    assert [node["node"] for node in answer["nodes"]] == ["n0", "n1"]
    assert answer["nodes"][0]["clock"] == {"trusted": True, "reason": "Quorum", "error_bound_seconds": 0.001}
    (job,) = answer["jobs"]
    (incident,) = job.pop("incidents")
    assert job == {
        "namespace": "team-a", "monitor": "llm", "job": "llm", "job_uid": "uid-1", "attempt": 1, "ranks_expected": 2,
        "ranks_reporting": 2, "step": 512, "step_interval_seconds": 0.02, "total_steps": 4000, "loss": 2.31,
        "phase": "train", "reason": "", "pods_without_ring": [], "tiers": {"llm-0": "callback", "llm-1": "callback"},
        "agent_errors": 0, "records_lost": 0, "outputs": {}, "taps": None,
    }  # fmt: skip
    assert incident.pop("started_wall") == pytest.approx(service.clock.wall() - 30, abs=5)
    assert incident.pop("message").startswith("rank 1 has not entered step 513, which 1 of 2 ranks are in, for ")
    assert incident == {
        "kind": "hang", "level": 2, "evidence": "not_arrived", "suspects": [{"rank": 1, "node": "n1", "pod": "llm-1"}]
    }  # fmt: skip


async def a_hang(aggregator: "Client") -> str:
    service = aggregator.program.service
    service.fleet.started -= 60.0
    await aggregator.post(a_report("n0", [stalled(0, 30, scalars=[[500, "loss", float("nan")]])]))
    await aggregator.post(a_report("n1", [not_arrived(1, 30)]), "n1")
    service.evaluate()
    return str((await aggregator.plain("/metrics"))[1])


def samples(text: str) -> dict[str, float]:
    """Samples of jobs by name and labels; those whose value is a time, and the labels of all, left out."""
    moving = {"rankbeat_job_stall_seconds", "rankbeat_job_incident_started_timestamp_seconds"}
    found = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = ",".join(f"{name}={one.labels[name]}" for name in one.labels if name not in JOB_LABELS)
            if one.name.startswith("rankbeat_job") and one.name not in moving:
                assert one.labels.items() >= JOB_LABELS.items()
                found[f"{one.name.removeprefix('rankbeat_job_')}{{{labels}}}"] = one.value
    return found


JOB_LABELS = {"namespace": "team-a", "monitor": "llm", "job_uid": "uid-1"}


async def test_series_of_a_job_that_hangs(aggregator: "Client"):
    found = samples(await a_hang(aggregator))

    assert math.isnan(found.pop("loss{}"))
    assert found == {
        "info{experiment=,job=llm}": 1,
        "paused{}": 0,
        "attempt{}": 1,
        "ranks_expected{}": 2,
        "ranks_reporting{}": 2,
        "step_min{}": 512,
        "step_max{}": 512,
        "step_interval_seconds{}": 0.02,
        "loss_is_finite{}": 0,
        "phase{phase=train}": 2,
        "limit_seconds{limit=hang}": 20,
        "limit_seconds{limit=rank_missing}": 60,
        "incident_level{kind=hang}": 2,
        "incident_level{kind=crash}": 0,
        "incident_level{kind=nan_loss}": 1,
        "incident_level{kind=rank_missing}": 0,
        "suspect{evidence=not_arrived,kind=hang,node=n1,pod=llm-1,rank=1}": 1,
        "suspect{evidence=none,kind=nan_loss,node=n0,pod=llm-0,rank=0}": 1,
    }


OUTPUTS = {"troubles": ["full"], "rows_written": 12, "rows_dropped": 3, "records_lost": 2, "entries_lost": 1}
HEALTHY = {**OUTPUTS, "troubles": []}


async def test_what_became_of_outputs_and_taps_is_told_by_pod_and_counted(aggregator: "Client"):
    taps = {"refused": 2, "unresolved_paths": [1]}
    first, second = a_rank(0, taps=taps), a_rank(1, taps={"refused": 0, "unresolved_paths": []})
    await aggregator.post(a_report("n0", [first], pods=[a_pod(first, outputs=OUTPUTS)]))
    await aggregator.post(a_report("n1", [second], pods=[a_pod(second, outputs=HEALTHY)]), "n1")
    aggregator.program.service.evaluate()

    (job,) = (await aggregator.verdicts())[1]["jobs"]
    found = samples((await aggregator.plain("/metrics"))[1])

    assert job["outputs"] == {
        "llm-0": {"troubles": ["full"], "rows_written": 12, "rows_lost": 6},
        "llm-1": {"troubles": [], "rows_written": 12, "rows_lost": 6},
    }
    assert job["taps"] == {"ranks": 2, "ranks_refusing": 1, "refused": 2, "unresolved_paths": [1]}
    assert (found["outputs_troubled_pods{reason=full}"], found["outputs_troubled_pods{reason=io}"]) == (1, 0)
    assert found["taps_refused{}"] == 2


async def test_the_last_word_of_a_pod_that_is_over_stays_and_troubles_nobody_any_longer(aggregator: "Client"):
    rank = a_rank(0)
    await aggregator.post(a_report("n0", [rank], pods=[a_pod(rank, outputs=OUTPUTS)]))
    await aggregator.post(a_report("n0", [rank], pods=[a_pod(rank, phase="Succeeded")]))
    aggregator.program.service.evaluate()

    (job,) = (await aggregator.verdicts())[1]["jobs"]
    text = (await aggregator.plain("/metrics"))[1]

    assert job["outputs"]["llm-0"]["troubles"] == ["full"]
    assert "rankbeat_job_outputs_troubled_pods" not in text


async def test_a_paused_monitors_levels_are_zero_and_nobody_is_named(aggregator: "Client"):
    aggregator.program.service._settings = lambda _namespace, _name: Settings(paused=True)

    text = await a_hang(aggregator)

    found = samples(text)
    assert (found["paused{}"], found["incident_level{kind=hang}"]) == (1, 0)
    assert not any(name.startswith("suspect") for name in found)
    assert (await aggregator.verdicts())[1]["jobs"][0]["incidents"][0]["level"] == 0


async def test_what_cannot_be_judged_is_absent(aggregator: "Client"):
    """A young aggregator knows the job and says nothing of its health."""
    await aggregator.post(a_report("n0", [stalled(0, 30)]))
    aggregator.program.service.evaluate()

    text = (await aggregator.plain("/metrics"))[1]

    assert "rankbeat_job_info{" in text
    assert "rankbeat_job_incident_level" not in text
    assert "rankbeat_job_loss" not in text
    assert "rankbeat_aggregator_monitors_age_seconds" not in text


async def test_health_is_that_of_the_judging(aggregator: "Client"):
    aggregator.program.service.evaluate()
    assert await aggregator.plain("/healthz") == (200, "ok\n")

    aggregator.program.service.counts.evaluation_mono -= 11.0
    assert await aggregator.plain("/healthz") == (503, "judging is stuck\n")


async def test_a_death_is_judged_at_once(aggregator: "Client"):
    await aggregator.post(a_report("n0", [a_rank(0)]))
    aggregator.program.service.evaluate()
    aggregator.program.service._due.clear()

    await aggregator.post(a_report("n0", [a_rank(0, alive=False, claimed_age_seconds=105.0)]))

    assert aggregator.program.service._due.is_set() or aggregator.program.service.counts.evaluations > 1


def serial(port: int) -> int:
    """Serial number of the certificate that the port shows to a new connection."""
    from cryptography import x509  # noqa: PLC0415 - one test needs it

    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode()).serial_number


async def test_a_changed_certificate_is_shown_to_new_connections_and_old_ones_go_on(
    aggregator: "Client", tmp_path: Path, in_thread: "Callable[..., Any]"
):
    await aggregator.post(a_report("n0", []))
    before = await in_thread(serial, aggregator.program.port)
    folder = tmp_path / "tls"
    for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
        (folder / name).unlink()
    pki.issue(pki.authority(folder, "ca"), folder / "tls", ("new", ""), (), ("127.0.0.1",))

    aggregator.certificate.refresh()

    assert await in_thread(serial, aggregator.program.port) != before
    assert (await aggregator.post(a_report("n0", [])))[0] == 200


def test_a_certificate_without_its_key_is_not_taken_up(tmp_path: Path):
    authority = pki.authority(tmp_path, "ca")
    pki.issue(authority, tmp_path / "tls", ("a", ""))
    certificate = Certificate(Files(tmp_path / "tls.crt", tmp_path / "tls.key"))
    pki.issue(authority, tmp_path / "next", ("b", ""))
    (tmp_path / "next.crt").rename(tmp_path / "tls.crt")

    assert certificate.refresh() is False

    (tmp_path / "next.key").rename(tmp_path / "tls.key")
    assert certificate.refresh() is True
