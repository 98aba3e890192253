"""docs/values.md, from the chart's values.yaml: every value with its default and the comment above it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from reference import markdown

SAYS = (
    "Set them with `--set NAME=VALUE` or a file for `--values`; what is not here is refused. `values-demo.yaml` beside "
    "the defaults shows a filled one. `resources`, `nodeSelector`, `tolerations` and `priorityClassName` are those of "
    "Kubernetes' pods."
)


def page(values: Path) -> str:
    text = values.read_text()
    tree = yaml.compose(text, yaml.SafeLoader)
    if not isinstance(tree, yaml.MappingNode):
        raise TypeError(f"{values} holds no mapping")
    rows = _rows(tree, "", text.splitlines())
    source = "charts/helm/rankbeat/values.yaml"
    return markdown.page("Helm values", source, SAYS, markdown.table(("value", "default", "meaning"), rows))


def _rows(node: yaml.MappingNode, path: str, lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for key, value in node.value:
        name = f"{path}{key.value}"
        comment = _comment(lines, key.start_mark.line)
        is_group = isinstance(value, yaml.MappingNode) and not value.flow_style
        default = "" if is_group else markdown.code(_flow(value))
        if comment or not is_group:
            yield markdown.code(name), default, comment
        if is_group:
            yield from _rows(value, f"{name}.", lines)


def _comment(lines: Sequence[str], line: int) -> str:
    """The comment that ends above a line."""
    first = line
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(text.strip().removeprefix("#").strip() for text in lines[first:line])


def _flow(node: yaml.Node) -> str:
    """A value as one would write it on one line."""
    if isinstance(node, yaml.ScalarNode):
        return f'"{node.value}"' if node.style else str(node.value)
    if isinstance(node, yaml.MappingNode):
        return "{" + ", ".join(f"{key.value}: {_flow(value)}" for key, value in node.value) + "}"
    return "[" + ", ".join(map(_flow, node.value)) + "]"
