"""HTTP push: batches of rows as JSON, in a thread of its own, retried with growing pauses; what is lost is counted."""

import json
import logging
import random
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping

from rankbeat_collector.files import encoders
from rankbeat_collector.files.rows import Row
from rankbeat_contract.outputs import Http

_log = logging.getLogger(__name__)

WAITING_BATCHES = 20
_TIMEOUT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 60.0
_AGAIN = frozenset((408, 425, 429))
RESULTS = ("accepted", "rejected", "failed")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What we post goes where the monitor says, nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Posting:
    """Rows in; POST {"experiment", "pod", "rows": [...]} out."""

    def __init__(
        self, asked: Http, whose: Mapping[str, str], random_share: Callable[[], float] = random.random
    ) -> None:
        self._asked = asked
        self.url = asked.url
        self._whose = dict(whose)
        self._random = random_share
        self._rows: List[Any] = []
        self._begun = 0.0
        self._batches: Deque[List[Any]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._opener = urllib.request.build_opener(_NoRedirect())
        self.rows_dropped = 0
        self.rows_posted = 0
        self.posts: Dict[str, int] = dict.fromkeys(RESULTS, 0)
        self.failing = ""
        self._thread = threading.Thread(target=self._run, name="posting", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self, new: List[Row], now: float) -> None:
        """Keep rows for the next batch."""
        if not self._rows:
            self._begun = now
        self._rows.extend(encoders.json_row(row) for row in new)
        while len(self._rows) >= self._asked.batch:
            self._offer(self._rows[: self._asked.batch])
            del self._rows[: self._asked.batch]
        self.flush(now)

    def flush(self, now: float) -> None:
        """Hand over what has waited for the flush interval."""
        if self._rows and now - self._begun >= self._asked.flush_seconds:
            self._offer(self._rows)
            self._rows = []

    def _offer(self, batch: List[Any]) -> None:
        with self._changed:
            self._batches.append(list(batch))
            while len(self._batches) > WAITING_BATCHES:
                self.rows_dropped += len(self._batches.popleft())
            self._changed.notify()

    def stop(self, seconds: float) -> None:
        """Post what waits for at most this long; the rest is lost and counted."""
        if self._rows:
            self._offer(self._rows)
            self._rows = []
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            self.rows_dropped += sum(len(batch) for batch in self._batches)
            self._batches.clear()

    def _run(self) -> None:
        failures = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._batches or self._stopping)
                if not self._batches:
                    return
                batch = self._batches[0]
            done = self._post(batch)
            with self._changed:
                if done and self._batches and self._batches[0] is batch:
                    self._batches.popleft()
                if not done and self._stopping:
                    return
            failures = 0 if done else failures + 1
            if failures:
                self._pause(failures)

    def _pause(self, failures: int) -> None:
        seconds = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10))
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds * (0.5 + self._random() / 2))

    def _post(self, batch: List[Any]) -> bool:
        """Whether the batch is done with: taken, or refused for good."""
        body = json.dumps({**self._whose, "sent": round(time.time(), 3), "rows": batch}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url, body, headers, method="POST")  # noqa: S310 - http(s), checked
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                answer.read(1 << 16)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 and error.code not in _AGAIN:
                return self._rejected(batch, error.code)
            return self._failed(f"answered {error.code}")
        except (OSError, ValueError) as error:
            return self._failed(f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - the door of the loop: http.client raises classes of its own
            return self._failed(f"{type(error).__name__}: {error}")
        if self.failing:
            _log.info("rows are posted again url=%s", self.url)
        self.failing = ""
        self.posts["accepted"] += 1
        self.rows_posted += len(batch)
        return True

    def _rejected(self, batch: List[Any], code: int) -> bool:
        if not self.posts["rejected"]:
            _log.warning("rows rejected url=%s status=%d; they are dropped", self.url, code)
        self.posts["rejected"] += 1
        self.rows_dropped += len(batch)
        return True

    def _failed(self, reason: str) -> bool:
        if not self.failing:
            _log.warning("rows not posted url=%s reason=%s; tried again", self.url, reason)
        self.failing = reason
        self.posts["failed"] += 1
        return False
