"""Length-delimited protobuf: rows.proto."""

from typing import List, Sequence

from rankbeat_collector.files import rows, schema
from rankbeat_collector.files.rows import Row


class Protobuf:
    """Length-delimited messages Row, rows.proto."""

    def head(self, coming: Sequence[Row]) -> bytes:  # noqa: ARG002
        return b""

    def fits(self, row: Row) -> bool:  # noqa: ARG002
        return True

    def row(self, row: Row) -> bytes:
        message = schema.ROW(**dict(zip(rows.FIELDS, row[: len(rows.FIELDS)])))
        for name, value in row.values.items():
            message.values.add(name=name, value=value)
        if row.extra is not None:
            message.extra.kind, message.extra.name, message.extra.content, message.extra.masked = row.extra
        body: bytes = message.SerializeToString()
        return varint(len(body)) + body


def varint(number: int) -> bytes:
    """number as a base-128 varint."""
    parts: List[int] = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*parts, number))
