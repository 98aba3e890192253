"""Clocks: what one push tells about the aggregator's, and what the local clock service says about ours."""

import math
from typing import Dict, Mapping, NamedTuple, Optional

Json = Mapping[str, object]


class Exchange(NamedTuple):
    """A completed clock exchange, seconds."""

    offset_seconds: float
    """Aggregator's clock minus ours."""
    delay_seconds: float
    """Time on the way, both ways together: the offset is off by half of it at most."""


def exchange(sent_wall: float, answer: Json, received_wall: float) -> Optional[Exchange]:
    """What four times tell: sent and received by our clock, `received_wall` and `sent_wall` of the answer by the other.

    None if the answer does not hold two finite times.
    """
    there, back = finite(answer.get("received_wall")), finite(answer.get("sent_wall"))
    if there is None or back is None:
        return None
    return Exchange(
        offset_seconds=((there - sent_wall) + (back - received_wall)) / 2,
        delay_seconds=max(0.0, (received_wall - sent_wall) - (back - there)),
    )


def clock(said: object) -> Optional[Dict[str, object]]:
    """The local clock service's answer with the fields that a report holds, None if it is none."""
    if not isinstance(said, dict) or not isinstance(said.get("trusted"), bool):
        return None
    return {
        "trusted": said["trusted"],
        "reason": str(said.get("reason", ""))[:63],
        "source": str(said.get("source", ""))[:63],
        "offset_seconds": finite(said.get("offset_seconds")),
        "error_bound_seconds": finite(said.get("error_bound_seconds")),
    }


def finite(value: object) -> Optional[float]:
    """value as a finite float, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def delay_seconds(interval_seconds: float, failures: int, jitter: float) -> float:
    """Seconds from one push to the next: the interval, after failures up to four of them. jitter: 0..1, uniform."""
    if failures == 0:
        return interval_seconds
    return interval_seconds * min(4.0, 2.0 ** (failures - 1)) * (0.5 + 0.5 * jitter)
