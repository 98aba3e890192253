"""Verdicts over real TLS."""

import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from operator_builders import NOW
from rankbeat_operator.errors import AggregatorError
from rankbeat_operator.kube import pki, verdicts
from rankbeat_operator.kube.pki import Pair

JOB = {"namespace": "team-a", "monitor": "llm", "job": "llm", "job_uid": "j1", "step": 7}


@pytest.fixture(scope="module")
def signer() -> Pair:
    return pki.authority(time.time())


@pytest.fixture
async def server(signer: Pair, tmp_path: Path) -> AsyncIterator[dict]:
    """An aggregator: what it answers, where it is, and what it has seen."""
    pair = pki.serving(signer, ("localhost",), time.time())
    (tmp_path / "tls.crt").write_text(pair.certificate)
    (tmp_path / "tls.key").write_text(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    answer = {"status": 200, "body": {"started_wall": NOW, "nodes": [], "jobs": [JOB]}, "seen": []}

    async def handler(request: web.Request) -> web.Response:
        answer["seen"].append((request.path, request.headers["Authorization"]))
        return web.json_response(answer["body"], status=answer["status"])

    app = web.Application()
    app.router.add_get("/v1/verdicts", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0, ssl_context=context)
    await site.start()
    answer["url"] = f"https://localhost:{runner.addresses[0][1]}"
    yield answer
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("abc\n")
    return path


async def test_verdicts_come_with_our_token_over_a_certificate_of_our_authority(server, session, token, signer):
    found = await verdicts.fetched(session, server["url"], token, signer.certificate)

    assert found.jobs["team-a", "llm", "j1"].step == 7
    assert server["seen"] == [("/v1/verdicts", "Bearer abc")]


async def test_a_certificate_of_somebody_else_is_not_trusted(server, session, token):
    with pytest.raises(AggregatorError, match="its certificate is not trusted"):
        await verdicts.fetched(session, server["url"], token, pki.authority(NOW).certificate)

    assert server["seen"] == []


async def test_a_refusal_is_told_in_the_aggregators_words(server, session, token, signer):
    server.update(status=403, body={"error": "token's user is not rankbeat-operator"})

    with pytest.raises(AggregatorError, match=r"it answered 403: .*not rankbeat-operator"):
        await verdicts.fetched(session, server["url"], token, signer.certificate)


async def test_an_answer_of_another_shape_is_told(server, session, token, signer):
    server.update(body={"jobs": [{}]})

    with pytest.raises(AggregatorError, match="not what /v1/verdicts gives"):
        await verdicts.fetched(session, server["url"], token, signer.certificate)


async def test_nobody_listening_no_token_and_no_authority_are_told(session, token, signer):
    with pytest.raises(AggregatorError, match="cannot connect to https://localhost:9"):
        await verdicts.fetched(session, "https://localhost:9", token, signer.certificate)
    with pytest.raises(AggregatorError, match="No such file"):
        await verdicts.fetched(session, "https://localhost:9", token.with_name("none"), signer.certificate)
    with pytest.raises(AggregatorError, match="authority is not known yet"):
        await verdicts.fetched(session, "https://localhost:9", token, "")
