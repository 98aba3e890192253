"""Files that a collector wrote, as a pandas frame."""

import json
import warnings
from pathlib import Path
from typing import Any, Collection, Dict, List, Optional, Union

from rankbeat_collector.files import audit, keys, merging, reading
from rankbeat_collector.files.reading import Read
from rankbeat_collector.files.rows import FIELDS, Row

_FIRST = ("rank", "step", "layer", "head", "time", "attempt", "run", "segment")
"""Columns that every frame has; -1 is the job's summary, no layer, no head."""


def load(
    path: Union[str, Path],
    *,
    key_file: Union[str, Path, None] = None,
    ranks: Optional[Collection[int]] = None,
    extras: bool = False,
) -> Any:
    """A frame of all output files at path, a file or a folder: JSON lines, CSV, protobuf, TensorBoard, sealed or not.

    One row for each rank, step, layer and head, in that order, merged over files, ranks and attempts: where several
    attempts, processes or train() calls made the same step, the last one's numbers stand. `rank` -1: the job's summary.
    A number that was not sampled at a step is NaN, and so is a sampled NaN; TensorBoard keeps 32-bit numbers.
    ranks: only these. extras: instead of numbers what is none: columns kind, name, content, masked.
    `frame.attrs["cut"]` names files whose end is missing, because their writer was killed or still writes.

    Raises: FileNotFoundError; ValueError where a file is no output, or was changed, or is encrypted with another key;
    ModuleNotFoundError with the extra to install.
    """
    pandas = _module("pandas", "pandas")
    place = Path(path)
    key = None if key_file is None else keys.key_from(Path(key_file))
    files = [_read(file, key) for file in reading.outputs_in(place)]
    _note(place)
    merged = merging.merged(row for file in files for row in file.rows if ranks is None or row.rank in ranks)
    wanted = [row for row in merged if (row.extra is not None) == extras]
    frame = pandas.DataFrame.from_records(
        [_extra(row) if extras else _numbers(row) for row in wanted], columns=_columns(wanted, extras=extras)
    )
    frame.attrs["cut"] = [str(file.path) for file in files if file.was_cut]
    return frame


def _read(path: Path, key: Optional[keys.Key]) -> Read:
    try:
        return reading.read(path, key)
    except ModuleNotFoundError as error:
        extra = {"cryptography": "encryption", "tensorboardX": "tensorboard"}.get(error.name or "", "pandas")
        raise ModuleNotFoundError(
            f"{path} needs {error.name}: pip install 'rankbeat[{extra}]'", name=error.name
        ) from error


def _module(name: str, extra: str) -> Any:
    import importlib  # noqa: PLC0415 - an extra, which may not be there

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name} is not installed: pip install 'rankbeat[{extra}]'", name=error.name
        ) from error


def _note(path: Path) -> None:
    """Say in the audit log, if there is one, who looked."""
    try:
        audit.note_view(path, "rankbeat.load")
    except OSError as error:
        warnings.warn(f"the audit log above {path} does not know of this view: {error}", stacklevel=3)


def _columns(wanted: List[Row], *, extras: bool) -> List[str]:
    if extras:
        return [*_FIRST, "kind", "name", "content", "masked"]
    return [*_FIRST, *sorted({name for row in wanted for name in row.values})]


def _fields(row: Row) -> Dict[str, Any]:
    return dict(zip(FIELDS, row[: len(FIELDS)]))


def _numbers(row: Row) -> Dict[str, Any]:
    return {**row.values, **_fields(row)}


def _extra(row: Row) -> Dict[str, Any]:
    extra = row.extra
    assert extra is not None
    content: Any = None
    if not extra.masked:
        content = extra.content if extra.kind == "image" else json.loads(extra.content)
    return {
        **_fields(row),
        "kind": extra.kind,
        "name": extra.name,
        "content": content,
        "masked": json.loads(extra.masked) if extra.masked else None,
    }
