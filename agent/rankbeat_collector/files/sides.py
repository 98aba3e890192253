"""What the side file beside a ring holds, as rows."""

import json
from typing import Optional

from rankbeat_collector.files import images, rows
from rankbeat_collector.files.rows import Extra, Row
from rankbeat_contract import ring, side


def extra_row(header: ring.Header, state: ring.State, entry: side.Entry) -> Optional[Row]:
    """The row of an entry of the side file beside a ring; None for a payload that is not what its kind says."""
    content = _content(entry)
    if content is None:
        return None
    return Row(
        step=entry.step,
        time=rows.wall_seconds(header, entry.mono_ns),
        rank=state.rank,
        attempt=header.attempt,
        run=header.run_id[: rows.RUN_LETTERS],
        segment=state.segment,
        extra=Extra(side.KINDS[entry.kind], entry.name, content),
    )


def _content(entry: side.Entry) -> Optional[bytes]:
    try:
        if entry.kind == side.HISTOGRAM:
            low, high, counts = side.unpack_histogram(entry.payload)
            return json.dumps({"low": low, "high": high, "counts": counts}).encode()
        if entry.kind == side.IMAGE:
            is_png = images.png_shape(entry.payload) is not None
            return entry.payload if is_png else images.png(*side.unpack_image(entry.payload))
        if entry.kind in side.KINDS:
            json.loads(entry.payload)
            return entry.payload
    except ValueError:
        pass
    return None
