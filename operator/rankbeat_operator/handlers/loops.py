"""The operator's own tasks: workers on the queue, resync, verdict polling."""

import asyncio
import logging
import random

import aiohttp

from rankbeat_operator.errors import AggregatorError, ApiError
from rankbeat_operator.handlers import certificates, fleet, listed, monitors, namespaces
from rankbeat_operator.handlers.context import Context, Key, Scope, known_monitor
from rankbeat_operator.kube import files, kinds, verdicts
from rankbeat_operator.model.observed import Aggregator

LOG = logging.getLogger(__name__)

WORKERS = 4
RECONCILE_SECONDS = 120.0
"""A reconcile that takes longer is given up; each of its requests has a timeout of its own."""
RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
MISSES = 3
"""Polls that may fail before the aggregator counts as not answering."""


async def work(context: Context) -> None:
    """Reconciles one key after the other, for ever."""
    failures: dict[Key, int] = {}
    while True:
        key = await context.keys.next()
        try:
            async with asyncio.timeout(RECONCILE_SECONDS):
                await _reconcile(context, key)
        except ApiError as error:
            LOG.warning("reconcile failed key=%s error=%s", key, error)
            _retry(context, key, failures)
        except Exception:
            LOG.exception("reconcile failed key=%s", key)
            _retry(context, key, failures)
        else:
            failures.pop(key, None)
            _count(context, key, "success")
        finally:
            context.keys.done(key)


def _retry(context: Context, key: Key, failures: dict[Key, int]) -> None:
    failures[key] = failures.get(key, 0) + 1
    context.keys.add(key, RETRY_SECONDS[min(failures[key], len(RETRY_SECONDS)) - 1])
    _count(context, key, "error")


def _count(context: Context, key: Key, result: str) -> None:
    counts = context.health.reconciles
    counts[key.scope, result] = counts.get((key.scope, result), 0) + 1


async def _reconcile(context: Context, key: Key) -> None:
    match key.scope:
        case Scope.MONITOR:
            await monitors.reconcile(context, key.namespace, key.name)
        case Scope.NAMESPACE:
            await namespaces.reconcile(context, key.namespace)
        case Scope.RELEASE:
            await namespaces.reconcile_release(context)
        case Scope.FLEET:
            await fleet.reconcile(context)
        case Scope.CERTIFICATES:
            await certificates.reconcile(context)


async def resync(context: Context) -> None:
    """Everything once in a while, whatever the watches say; and whether they say what a list says."""
    while True:
        try:
            await _resync(context)
            context.health.resync = context.clock()
        except ApiError as error:
            LOG.warning("resync failed error=%s", error)
        await asyncio.sleep(context.settings.resync_seconds * random.uniform(0.8, 1.2))  # noqa: S311 jitter


async def _resync(context: Context) -> None:
    context.keys.add(Key(Scope.CERTIFICATES))
    context.keys.add(Key(Scope.FLEET))
    await listed.refresh(context)
    context.keys.add(Key(Scope.RELEASE))
    every = await context.cluster.listed(kinds.MONITORS)
    found = {(m["metadata"]["namespace"], m["metadata"]["name"]): known_monitor(m) for m in every}
    knowledge, health = context.knowledge, context.health
    if found == knowledge.monitors:
        health.stale_since = None
    elif health.stale_since is None:
        health.stale_since = context.clock()
    for namespace, name in found:
        context.keys.add(Key(Scope.MONITOR, namespace, name))
    with_agents = listed.namespaces_with_agents(context)
    for namespace in {*with_agents, *knowledge.opted_in, *(namespace for namespace, _ in found)}:
        context.keys.add(Key(Scope.NAMESPACE, namespace))


async def poll_verdicts(context: Context) -> None:
    """The aggregator's verdicts; monitors whose verdict changed get their turn."""
    misses = 0
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                await _poll(context, session)
                misses = 0
            except AggregatorError as error:
                misses += 1
                if misses == MISSES:
                    _lose(context, str(error))
            context.health.verdicts = context.clock()
            await asyncio.sleep(context.settings.verdict_seconds)


async def _poll(context: Context, session: aiohttp.ClientSession) -> None:
    settings, knowledge = context.settings, context.knowledge
    authorities = files.text(settings.ca_file) + knowledge.authorities
    found = await verdicts.fetched(session, settings.aggregator_url, settings.token_file, authorities)
    before, was_lost = knowledge.verdicts, knowledge.aggregator is None or bool(knowledge.aggregator.problem)
    knowledge.verdicts = found.jobs
    knowledge.aggregator = Aggregator(since=context.wall())
    changed = {job[:2] for job in {*before, *found.jobs} if before.get(job) != found.jobs.get(job)}
    for namespace, name in knowledge.monitors if was_lost else changed & knowledge.monitors.keys():
        context.keys.add(Key(Scope.MONITOR, namespace, name))


def _lose(context: Context, problem: str) -> None:
    """What was said last is no longer true of now."""
    knowledge = context.knowledge
    LOG.warning("aggregator does not answer error=%s", problem)
    knowledge.verdicts = {}
    knowledge.aggregator = Aggregator(problem, knowledge.aggregator.since if knowledge.aggregator else None)
    for namespace, name in knowledge.monitors:
        context.keys.add(Key(Scope.MONITOR, namespace, name))
