"""What drivers for dynamic resource allocation publish of a node's devices: ResourceSlices of resource.k8s.io/v1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_exporter.model.assignment import Claimed
from rankbeat_exporter.parsing.objects import mapping, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def attributes(answer: Mapping[str, object]) -> dict[Claimed, dict[str, str]]:
    """Texts and whole numbers among the attributes of every device in a list of slices.

    Where a pool is being replaced slices of two generations stand beside each other: the newer says what holds.
    """
    specs = sorted((mapping(one.get("spec")) for one in rows(answer.get("items"))), key=_generation)
    return {
        Claimed(str(spec.get("driver")), str(mapping(spec.get("pool")).get("name")), str(device.get("name"))): dict(
            _texts(mapping(device.get("attributes")))
        )
        for spec in specs
        for device in rows(spec.get("devices"))
    }


def _generation(spec: Mapping[str, object]) -> int:
    generation = mapping(spec.get("pool")).get("generation")
    return generation if isinstance(generation, int) else 0


def _texts(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        text = mapping(value).get("string", mapping(value).get("int"))
        if isinstance(text, str | int):
            yield name, str(text)
