"""A pod as the API server says it, reduced to what may name devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rankbeat_exporter.model.assignment import Container, Pod
from rankbeat_exporter.parsing import ascend_annotations
from rankbeat_exporter.parsing.objects import mapping, rows

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = ("ASCEND_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
ENDED = ("Succeeded", "Failed")
_COUNT = re.compile(r"[0-9]{1,6}")
_ANNOTATION_FIELD = re.compile(r"metadata\.annotations\['([^']+)'\]")


def pod(given: Mapping[str, object]) -> Pod | None:
    """The pod; None where it has ended, or is no pod at all."""
    metadata, spec, status = (mapping(given.get(part)) for part in ("metadata", "spec", "status"))
    if status.get("phase") in ENDED or not metadata.get("uid"):
        return None
    notes = {name: text for name, text in mapping(metadata.get("annotations")).items() if isinstance(text, str)}
    beside = [one for one in rows(spec.get("initContainers")) if one.get("restartPolicy") == "Always"]
    return Pod(
        uid=str(metadata["uid"]),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        containers=tuple(_container(one, notes) for one in (*rows(spec.get("containers")), *beside)),
        annotations={name: text for name, text in notes.items() if name in _READ},
        address=str(status.get("podIP") or ""),
        rank_tables=tuple(
            name
            for name in (str(mapping(one.get("configMap")).get("name", "")) for one in rows(spec.get("volumes")))
            if name.startswith(ascend_annotations.RANK_TABLE_PREFIX)
        ),
    )


_READ = frozenset({ascend_annotations.REAL, ascend_annotations.KLT_DEV, *ascend_annotations.CONFIGURATIONS})


def _container(given: Mapping[str, object], notes: Mapping[str, str]) -> Container:
    limits = mapping(mapping(given.get("resources")).get("limits"))
    environment = {}
    for variable in rows(given.get("env")):
        name = variable.get("name")
        if name in VARIABLES:
            environment[str(name)] = _value(variable, notes)
    return Container(
        name=str(given.get("name", "")),
        limits={
            name: int(str(count)) for name, count in limits.items() if "/" in name and _COUNT.fullmatch(str(count))
        },
        environment={name: text for name, text in environment.items() if text},
        is_privileged=mapping(given.get("securityContext")).get("privileged") is True,
    )


def _value(variable: Mapping[str, object], notes: Mapping[str, str]) -> str:
    """As written, or from the annotation that it refers to."""
    path = mapping(mapping(variable.get("valueFrom")).get("fieldRef")).get("fieldPath")
    referred = _ANNOTATION_FIELD.fullmatch(str(path)) if path else None
    return notes.get(referred[1], "") if referred else str(variable.get("value") or "")
