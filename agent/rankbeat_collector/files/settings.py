"""`outputs` and `monitors` of monitor.json, read strictly: what is wrong is refused by name."""

import json
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional, Tuple

from rankbeat_collector.errors import SettingsError
from rankbeat_collector.files import places
from rankbeat_contract import outputs as contract


@dataclass(frozen=True)
class Monitor:
    """A custom monitor that runs in the collector."""

    name: str
    path: str
    """`pkg.mod:Class`"""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outputs:
    """All that a collector beside the job writes."""

    experiment: str = "default"
    directory: str = ""
    all_ranks: bool = False
    files: Tuple[contract.File, ...] = ()
    http: Optional[contract.Http] = None
    encrypted: bool = False
    masked: bool = False
    audit: bool = False
    monitors: Tuple[Monitor, ...] = ()


def outputs(text: str) -> Outputs:
    """What monitor.json asks for; an empty text asks for nothing.

    Raises: SettingsError that names the field.
    """
    try:
        content = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise SettingsError("monitor.json", f"is no JSON: {error}") from error
    top = _object("monitor.json", content)
    given = _object("outputs", top.get("outputs") or {})
    directory = _text("outputs.directory", given.get("directory", ""))
    ranks = given.get("ranks", "one")
    if ranks not in {"one", "all"}:
        raise SettingsError("outputs.ranks", f"is {ranks!r}, write one or all")
    http = given.get("http")
    return Outputs(
        experiment=_text("experiment", top.get("experiment", "")) or "default",
        directory=places.checked("outputs.directory", directory) if directory else "",
        all_ranks=ranks == "all",
        files=tuple(
            _file(f"outputs.files[{number}]", each) for number, each in _numbered("outputs.files", given.get("files"))
        ),
        http=None if not http else _http(_object("outputs.http", http)),
        encrypted=bool(given.get("encrypted", False)),
        masked=bool(given.get("masked", False)),
        audit=bool(given.get("audit", False)),
        monitors=tuple(_monitors(top.get("monitors"))),
    )


def changed(before: str, after: str) -> Tuple[str, ...]:
    """Names of the fields in which two readable monitor.json differ, such as outputs.files[0].format."""
    old, new = (dict(_leaves("", json.loads(text) if text.strip() else {})) for text in (before, after))
    return tuple(sorted(name for name in {*old, *new} if name not in old or name not in new or old[name] != new[name]))


def _leaves(name: str, value: Any) -> Iterator[Tuple[str, Any]]:
    """Each value that holds no other, by its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(f"{name}[{number}]", inner)
    else:
        yield name, value


def _file(where: str, raw: Any) -> contract.File:
    given = _object(where, raw)
    default = contract.File(_text(f"{where}.format", given.get("format", "")))
    if default.format not in contract.FORMATS:
        raise SettingsError(f"{where}.format", f"is {default.format!r}, write one of {', '.join(contract.FORMATS)}")
    return contract.File(
        format=default.format,
        path=places.checked(f"{where}.path", _text(f"{where}.path", given.get("path") or default.path)),
        max_file_bytes=int(_number(where, given, "maxFileBytes", default.max_file_bytes)),
        max_total_bytes=int(_number(where, given, "maxTotalBytes", default.max_total_bytes)),
        max_age_seconds=_number(where, given, "maxAgeSeconds", default.max_age_seconds),
        flush_seconds=_number(where, given, "flushSeconds", default.flush_seconds, 0),
    )


def _http(given: Mapping[str, Any]) -> contract.Http:
    default = contract.Http(_text("outputs.http.url", given.get("url", "")))
    if not default.url.startswith(("http://", "https://")):
        raise SettingsError("outputs.http.url", f"is {default.url!r}, write http://HOST/PATH or https://HOST/PATH")
    return contract.Http(
        url=default.url,
        batch=int(_number("outputs.http", given, "batch", default.batch)),
        flush_seconds=_number("outputs.http", given, "flushSeconds", default.flush_seconds, 0),
    )


def _monitors(raw: Any) -> Tuple[Monitor, ...]:
    found = []
    for number, each in _numbered("monitors", raw):
        where = f"monitors[{number}]"
        given = _object(where, each)
        path = _text(f"{where}.class", given.get("class", ""))
        if given.get("where", "collector") != "collector":
            continue
        if path.count(":") != 1 or not all(part.isidentifier() for part in path.replace(":", ".").split(".")):
            raise SettingsError(f"{where}.class", f"is {path!r}, write package.module:Class")
        name = _text(f"{where}.name", given.get("name", ""))
        found.append(Monitor(name, path, _object(f"{where}.options", given.get("options") or {})))
    return tuple(found)


def _numbered(where: str, raw: Any) -> Tuple[Tuple[int, Any], ...]:
    if not isinstance(raw or [], list):
        raise SettingsError(where, f"is a {type(raw).__name__}, write a list")
    return tuple(enumerate(raw or []))


def _object(where: str, raw: Any) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise SettingsError(where, f"is a {type(raw).__name__}, write an object")
    return raw


def _text(where: str, raw: Any) -> str:
    if not isinstance(raw, str):
        raise SettingsError(where, f"is {raw!r}, write text")
    return raw


def _number(where: str, given: Mapping[str, Any], key: str, default: float, *least: float) -> float:
    """given[key], from 1 or from least."""
    raw = given.get(key, default)
    lowest = least[0] if least else 1
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not raw >= lowest:
        raise SettingsError(f"{where}.{key}", f"is {raw!r}, write a number from {lowest}")
    return float(raw)
