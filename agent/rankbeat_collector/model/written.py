"""What became of a pod's outputs, as the collector beside the job says it; the job may have forged that."""

import json
from typing import Any, NamedTuple, Tuple

from rankbeat_contract import outputs as contract

MAX_BYTES = 1 << 16
SILENT_SECONDS = 12 * contract.STATUS_SECONDS
"""A file that has not been written for a minute comes from a collector that stands, or from none."""
_MOST = 1 << 53
"""Larger counts are lies, and are not exact in JSON."""


class Written(NamedTuple):
    """Troubles, of rankbeat_contract.outputs.TROUBLES, and counts since that collector started."""

    troubles: Tuple[str, ...] = ()
    rows_written: int = 0
    rows_dropped: int = 0
    records_lost: int = 0
    entries_lost: int = 0


def written(text: bytes) -> Written:
    """What the file says; no word or number of any other kind is taken from it.

    Raises: ValueError.
    """
    try:
        said = json.loads(text)
    except RecursionError as error:
        raise ValueError("nests too deep") from error
    troubles = said.get("troubles") if isinstance(said, dict) else None
    if not isinstance(troubles, list):
        raise ValueError("is no status of outputs")  # noqa: TRY004 - of the file's content
    words = [each for each in troubles if isinstance(each, str)]
    return Written(
        tuple(each for each in contract.TROUBLES if each in words),
        _count(said.get("rows_written")),
        _count(said.get("rows_dropped")),
        _count(said.get("records_lost")),
        _count(said.get("entries_lost")),
    )


def silent(known: Written, age_seconds: float) -> Written:
    """The same, with the trouble that it is of old, if it is."""
    if age_seconds <= SILENT_SECONDS or "silent" in known.troubles:
        return known
    found = {*known.troubles, "silent"}
    return known._replace(troubles=tuple(each for each in contract.TROUBLES if each in found))


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        raise ValueError(f"{value!r} is no count")
    return value
