"""The formats as bytes: how a part begins, and what a row becomes."""

import base64
import csv
import io
import json
from typing import Any, Protocol, Sequence, Tuple

from rankbeat_collector.files import rows
from rankbeat_collector.files.rows import Row

SUFFIXES = {"jsonl": ".jsonl", "csv": ".csv", "protobuf": ".pb"}
"""Of a part's name; TensorBoard's files have a name of their own."""


class Encoder(Protocol):
    """One format, for one sequence of parts."""

    def head(self, coming: Sequence[Row]) -> bytes:
        """How a part begins that these rows will follow."""
        ...

    def fits(self, row: Row) -> bool:
        """Whether the present part can hold the row."""
        ...

    def row(self, row: Row) -> bytes:
        """The row, as it stands in a part."""
        ...


class JsonLines:
    """One JSON object per line."""

    def head(self, coming: Sequence[Row]) -> bytes:  # noqa: ARG002 - the protocol's
        return b""

    def fits(self, row: Row) -> bool:  # noqa: ARG002
        return True

    def row(self, row: Row) -> bytes:
        return (json.dumps(json_row(row), separators=(",", ":")) + "\n").encode()


def json_row(row: Row) -> Any:
    """The row as a JSON object; an extra's JSON as it is, other content in base64."""
    fields = rows.as_json(row)
    if row.extra is None:
        return fields
    fields.update(kind=row.extra.kind, name=row.extra.name)
    if row.extra.masked:
        fields["masked"] = json.loads(row.extra.masked)
    elif row.extra.kind == "image":
        fields["content"] = base64.b64encode(row.extra.content).decode()
    else:
        fields["content"] = json.loads(row.extra.content)
    return fields


class Csv:
    """A header, then one line per row. A new name makes a new part: a header cannot grow. Extras have no line."""

    def __init__(self) -> None:
        self._names: Tuple[str, ...] = ()
        self._columns: Tuple[str, ...] = ()

    def head(self, coming: Sequence[Row]) -> bytes:
        found = {name for row in coming for name in row.values}
        self._names = (*self._names, *sorted(found.difference(self._names)))
        self._columns = (*rows.FIELDS, *self._names)
        return _line(self._columns)

    def fits(self, row: Row) -> bool:
        return row.values.keys() <= set(self._names)

    def row(self, row: Row) -> bytes:
        if row.extra is not None:
            return b""
        numbers = ("" if name not in row.values else repr(float(row.values[name])) for name in self._names)
        return _line((*(_cell(value) for value in row[: len(rows.FIELDS)]), *numbers))


def _cell(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()
