"""docs/trainingmonitor.md, from the CustomResourceDefinition."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from reference import markdown

HEADS = ("field", "type", "default", "meaning")
SPELLED_DEFAULT = re.compile(r"\s*\bDefault: (?P<default>\S+)$")
"""A default that the operator fills in, not the API server: the last word of the description."""
Schema = Mapping[str, Any]


def page(crd: Path) -> str:
    definition = yaml.safe_load(crd.read_text())["spec"]
    (version,) = definition["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    title = f"{definition['names']['kind']} ({definition['group']}/{version['name']})"
    about = f"```text\n{schema['description']}\n```"
    fields = schema["properties"]
    sections = (_section(name, fields[name]) for name in ("spec", "status"))
    return markdown.page(title, f"crds/{crd.name}", about, *sections)


def _section(name: str, schema: Schema) -> str:
    return f"## {name}\n\n{schema['description']}\n\n{markdown.table(HEADS, _rows(schema, 0))}"


def _rows(schema: Schema, depth: int) -> Iterator[tuple[str, ...]]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield _row(name, field, depth, is_required=name in required)
        yield from _rows(field.get("items", field), depth + 1)


def _row(name: str, field: Schema, depth: int, *, is_required: bool) -> tuple[str, ...]:
    text = markdown.one_line(field["description"])
    spelled = SPELLED_DEFAULT.search(text)
    default = _json(field["default"]) if "default" in field else spelled["default"] if spelled else ""
    return (
        2 * depth * markdown.INDENT + markdown.code(name),
        _type(field),
        "required" if is_required else markdown.code(default),
        SPELLED_DEFAULT.sub("", text),
    )


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "enum" in field:
        return ", ".join(map(markdown.code, field["enum"]))
    if "type" not in field:
        return "any"
    if field["type"] == "array":
        return f"list of {field['items']['type']}s"
    if "additionalProperties" in field:
        return f"map of {field['additionalProperties']['type']}s"
    return str(field["type"])


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
