"""Who a bearer token is: TokenReview by the API server, remembered for a minute."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rankbeat_aggregator.errors import Forbidden, ReviewUnavailable

log = logging.getLogger(__name__)

NODE_CLAIM = "authentication.kubernetes.io/node-name"
"""Extra of the user that TokenReview names, on API servers from 1.30 on."""

KEPT_SECONDS = 60.0
KEPT_REFUSED_SECONDS = 10.0
KEPT_UNREACHABLE_SECONDS = 600.0
"""An identity stays good this long after its last review while the API server cannot be asked."""
DEADLINE_SECONDS = 5.0
KEPT_TOKENS = 16384
LONGEST_TOKEN = 16384
THREADS = 4
MOST_PENDING = 256
"""Reviews waiting at once; more are turned away, so that a flood of invented tokens costs no memory."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user that the API server vouches for, with our audience."""

    user: str
    node: str | None


Review = Callable[[str], Identity | None]
"""Asks the API server, blocking: None if the token is not good for us. Raises OSError if it cannot be asked."""


@dataclass(slots=True)
class _Known:
    identity: Identity | None
    reviewed: float


class Tokens:
    """The identities behind tokens. Keeps hashes, never a token."""

    def __init__(self, review: Review, clock: Callable[[], float]) -> None:
        self._review = review
        self._clock = clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._pending: dict[bytes, asyncio.Future[Identity | None]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="token-review")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def identity(self, authorization: str) -> Identity:
        """The identity behind an Authorization header.

        Raises: Forbidden (401) if there is none, ReviewUnavailable if that cannot be known.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not 0 < len(token) <= LONGEST_TOKEN:
            raise Forbidden(401, "no bearer token, send the projected ServiceAccount token")
        key = hashlib.sha256(token.encode()).digest()
        found = self._cached(key) or await self._reviewed(key, token)
        if found.identity is None:
            raise Forbidden(401, "token is not valid for audience rankbeat-aggregator")
        return found.identity

    def _cached(self, key: bytes) -> _Known | None:
        known = self._known.get(key)
        if known is None:
            return None
        kept = KEPT_SECONDS if known.identity else KEPT_REFUSED_SECONDS
        return known if self._clock() - known.reviewed < kept else None

    async def _reviewed(self, key: bytes, token: str) -> _Known:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                identity = await asyncio.shield(self._pending.get(key) or self._ask(key, token))
        except (OSError, TimeoutError) as error:
            return self._old(key, error)
        known = self._known[key] = _Known(identity, self._clock())
        self._known.move_to_end(key)
        while len(self._known) > KEPT_TOKENS:
            self._known.popitem(last=False)
        return known

    def _ask(self, key: bytes, token: str) -> asyncio.Future[Identity | None]:
        if len(self._pending) >= MOST_PENDING:
            raise ReviewUnavailable(f"{MOST_PENDING} token reviews are waiting for the API server")
        asked = asyncio.get_running_loop().run_in_executor(self._threads, self._review, token)
        self._pending[key] = asked
        asked.add_done_callback(lambda done: self._settled(key, done))
        return asked

    def _settled(self, key: bytes, done: asyncio.Future[Identity | None]) -> None:
        self._pending.pop(key, None)
        if not done.cancelled() and done.exception() is not None:
            log.warning("event=token_review_failed error=%r", done.exception())

    def _old(self, key: bytes, error: Exception) -> _Known:
        known = self._known.get(key)
        if known and known.identity and self._clock() - known.reviewed < KEPT_UNREACHABLE_SECONDS:
            return known
        raise ReviewUnavailable("the API server did not review the token") from error
