"""Deliveries of the receiver: which of them page a person, and what they say."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Page:
    """One firing alert of one delivery to the pager."""

    received_wall: float
    alert: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def pages(lines: Iterable[str]) -> tuple[Page, ...]:
    """Every firing alert that was delivered to /page, in order of delivery."""
    found = []
    for line in lines:
        delivery = json.loads(line)
        if delivery["path"] != "/page":
            continue
        found += [
            Page(delivery["received"], alert["labels"]["alertname"], alert["labels"], alert["annotations"])
            for alert in delivery["body"]["alerts"]
            if alert["status"] == "firing"
        ]
    return tuple(found)


def read_pages(deliveries: Path) -> Sequence[Page]:
    """Pages in a receiver's file; none while it is absent."""
    return pages(deliveries.read_text().splitlines()) if deliveries.exists() else ()
