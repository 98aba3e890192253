"""Tables and text in Markdown."""

from collections.abc import Iterable, Sequence

INDENT = "\N{EM SPACE}"
"""Kept at the beginning of a cell, where spaces are not."""


def page(title: str, source: str, *parts: str) -> str:
    """A whole page. source: the file that it is made from."""
    note = f"Made from `{source}` by `make generate`."
    return "\n\n".join((f"# {title}", note, *parts)) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(_row(cells) for cells in (heads, ["---"] * len(heads), *rows))


def code(text: str) -> str:
    """text as code, "" for none."""
    return f"`{text}`" if text else ""


def one_line(text: str) -> str:
    return " ".join(text.split())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
