"""What drivers for dynamic resource allocation publish of a node's devices: ResourceSlices of resource.k8s.io/v1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rankbeat_exporter.model.assignment import Claimed


def attributes(answer: Mapping[str, object]) -> dict[Claimed, dict[str, str]]:
    """Texts and whole numbers among the attributes of every device in a list of slices.

    Where a pool is being replaced slices of two generations stand beside each other: the newer says what holds.
    """
    specs = sorted((_mapping(one.get("spec")) for one in _rows(answer.get("items"))), key=_generation)
    return {
        Claimed(str(spec.get("driver")), str(_mapping(spec.get("pool")).get("name")), str(device.get("name"))): dict(
            _texts(_mapping(device.get("attributes")))
        )
        for spec in specs
        for device in _rows(spec.get("devices"))
    }


def _generation(spec: Mapping[str, object]) -> int:
    generation = _mapping(spec.get("pool")).get("generation")
    return generation if isinstance(generation, int) else 0


def _texts(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        text = _mapping(value).get("string", _mapping(value).get("int"))
        if isinstance(text, str | int):
            yield name, str(text)


def _mapping(given: object) -> Mapping[str, object]:
    return given if isinstance(given, Mapping) else {}


def _rows(given: object) -> list[Mapping[str, object]]:
    return [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []
