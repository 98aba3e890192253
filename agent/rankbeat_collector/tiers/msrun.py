"""Whose lines stand in a pod's log, as far as the log itself tells.

msrun writes each worker's output to a file of its own; with --join it copies those that --tail_worker_log names (all by
default) to the pod's log, line by line and without a word about whose they are. It does say which workers it starts and
which it does not copy, so a log that holds one worker's lines is known. Source: mindspore 2.10,
parallel/cluster/process_entity/_api.py.
"""

import re
from typing import Optional, Set

_STARTED = re.compile(r"Start worker process with rank id: ?(\d{1,7}), log file:")
_UNNAMED = re.compile(r"Start worker process with rank id: ?None, log file:")
_LEFT_OUT = re.compile(r"doesn't contain this worker (\d{1,7})\.")
_LAST_STAGE = "the loss on the last card is valid"
_FIRST_RANK = "loss is valid only on rank 0"
MARKS = (b"Start worker process", b"doesn't contain this worker", b"the last card is valid", b"valid only on rank 0")
"""What a line must hold to be one of these."""
_MAX_WORKERS = 1024


class Workers:
    """What the lines so far say of the workers whose output is in the log."""

    def __init__(self) -> None:
        self._started: Set[int] = set()
        self._left_out: Set[int] = set()
        self._has_unnamed = False
        self._valid_rank = ""

    def accept(self, text: str) -> None:
        """Takes note of a line."""
        started, left_out = _STARTED.search(text), _LEFT_OUT.search(text)
        if started is not None and len(self._started) < _MAX_WORKERS:
            self._started.add(int(started[1]))
        elif left_out is not None and len(self._left_out) < _MAX_WORKERS:
            self._left_out.add(int(left_out[1]))
        elif _UNNAMED.search(text):
            self._has_unnamed = True
        elif _LAST_STAGE in text:
            self._valid_rank = "last"
        elif _FIRST_RANK in text:
            self._valid_rank = "first"

    @property
    def rank(self) -> Optional[int]:
        """The rank of all lines that name none, None where several may be mixed."""
        copied = self._started - self._left_out
        return next(iter(copied)) if len(copied) == 1 and not self._has_unnamed else None

    def has_valid_loss(self, rank: Optional[int]) -> bool:
        """Whether MindFormers vouches for the loss of this rank.

        With pipeline stages the last card's loss is the job's, and no log says which one that is.
        """
        if not self._valid_rank:
            return True
        return self._valid_rank == "first" and rank == 0
