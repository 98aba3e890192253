"""output, output_type, export_dir and their like: what is written, and where."""

import re
from typing import Any, Dict, Mapping

from rankbeat_contract import outputs, units, words
from rankbeat_contract.translation.outcomes import Draft, Refused, count, fields, shown, switch, text, texts

FORMATS: Mapping[str, str] = {
    "json": "jsonl",
    "jsonl": "jsonl",
    "json_file": "jsonl",
    "file": "jsonl",
    "csv": "csv",
    "protobuf": "protobuf",
    "pb": "protobuf",
    "tensorboard": "tensorboard",
    "tb": "tensorboard",
}
_CONSOLE = ("stdout", "console", "log")
_NOT_WRITTEN = "output: {console, file, file_path}"
_ENDINGS = {".json": "jsonl", ".jsonl": "jsonl", ".csv": "csv", ".pb": "protobuf"}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B?)?", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}|[{}]")
LEAST_FILE_BYTES = 64 << 10
MOST_FILE_BYTES = 1 << 40


def output(draft: Draft, key: str, value: object) -> None:
    """output: {console: true, file: true, file_path: ...}."""
    known = ("console", "file", "file_path")
    for field, entry in fields(value).items():
        path = f"{key}.{field}"
        if field not in known:
            raise Refused(f"output has no field {field!r}{words.nearest(field, known)}; known is {_NOT_WRITTEN}")
        if field == "file_path":
            file_path(draft, path, entry)
        elif not switch(entry):
            draft.keeps(path, "nothing is written there without being asked for")
        elif field == "console":
            console(draft, path)
        else:
            asked(draft, path, "jsonl")


def output_type(draft: Draft, key: str, value: object) -> None:
    """output_type: [stdout, tensorboard, json_file]; export_format: json."""
    for name in texts(value):
        if name in _CONSOLE:
            console(draft, key)
        elif name in FORMATS:
            asked(draft, key, FORMATS[name])
        else:
            raise Refused(f"there is no output {name!r}{words.nearest(name, (*_CONSOLE, *FORMATS))}")


def console(draft: Draft, key: str) -> None:
    """A console line; finish() knows for which ranks."""
    draft.console = key


def asked(draft: Draft, key: str, form: str) -> None:
    """Files of this format."""
    draft.formats.setdefault(form, "")
    draft.note(key, "translated", f"spec.outputs.files: format {form}, with spec.collector.mode: sidecar")


def file_path(draft: Draft, key: str, value: object) -> None:
    """A path of files; its ending says the format."""
    path = text(value)
    stem, form = path, "jsonl"
    for ending, of_ending in _ENDINGS.items():
        if path.endswith(ending):
            stem, form = path[: -len(ending)], of_ending
    place(draft, key, stem, form)


def place(draft: Draft, key: str, path: str, form: str) -> None:
    """Files of this format go to path."""
    relative = inside(path)
    if draft.formats.get(form):
        raise Refused(f"another key has said where {form} files go: write one of the two")
    draft.formats[form] = relative
    draft.note(key, "translated", f"spec.outputs.files: format {form}, path {relative}")


def inside(path: str) -> str:
    """path below the volume.

    Raises: Refused where it leaves the volume, or holds what is not filled in.
    """
    for found in _PLACEHOLDER.finditer(path):
        if found[1] not in outputs.PLACEHOLDERS:
            known = ", ".join("{%s}" % name for name in outputs.PLACEHOLDERS)
            raise Refused(f"{found[0]!r} in {path!r} is not filled in, known are {known}")
    if path.endswith((".fifo", ".pipe")):
        raise Refused(f"{path!r} is a pipe: who opens it to write waits for a reader; name a folder")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise Refused(f"{path!r} is no path below the volume of spec.outputs.volume")
    return "/".join(parts)


def directory(draft: Draft, key: str, value: object) -> None:
    """export_dir, log_dir: a folder in the training container becomes a folder of the volume."""
    draft.sets(key, "outputs.directory", inside(text(value)))


def of_format(form: str) -> Any:
    """Handler of a key that names the folder of files of one format."""

    def handle(draft: Draft, key: str, value: object) -> None:
        place(draft, key, inside(text(value)) + "/rank-{rank}", form)

    return handle


def log_rank(draft: Draft, key: str, value: object) -> None:
    """Which ranks write: -1 is all."""
    ranks = value if isinstance(value, list) else [value]
    if value != -1 and not (ranks and all(type(rank) is int and rank >= 0 for rank in ranks)):
        raise Refused(f"{shown(value)!r} is no rank, write a number from 0, or -1 for all")
    draft.ranks = (key, "all" if value == -1 else ",".join(map(str, ranks)))


def max_file_size(draft: Draft, key: str, value: object) -> None:
    """Bytes, or a text such as 100MB."""
    found = _SIZE.fullmatch(str(value))
    if found is None or isinstance(value, bool):
        raise Refused(f"{shown(value)!r} is no size, write for example 64Mi")
    size = int(float(found[1]) * 1024 ** "KMGT".index(found[2].upper() or "K") * (1024 if found[2] else 1))
    if not LEAST_FILE_BYTES <= size <= MOST_FILE_BYTES:
        raise Refused(f"{shown(value)!r} is {size} bytes, write a size from 64Ki to 1Ti")
    _every_file(draft, key, "maxFileSize", units.size_text(size))


def flush_interval(unit: str) -> Any:
    """Handler of a flush interval in ms or s."""

    def handle(draft: Draft, key: str, value: object) -> None:
        _every_file(draft, key, "flushInterval", f"{count(value)}{unit}")

    return handle


def write_strategy(draft: Draft, key: str, value: object) -> None:
    """batched is how it is done anyway."""
    strategy = text(value)
    if strategy in ("batched", "async", "buffered"):
        draft.keeps(key, "files and HTTP are always written in batches, by another process")
    elif strategy in ("immediate", "realtime", "sync"):
        _every_file(draft, key, "flushInterval", "1s")
    else:
        raise Refused(f"there is no strategy {strategy!r}, write batched or immediate")


def batch_size(draft: Draft, key: str, value: object) -> None:
    """Records in one request; files are flushed by time."""
    draft.files["_batch"] = count(value)
    draft.keeps(key, "files are flushed by time (flushInterval); of HTTP it becomes spec.outputs.http.batch")


def http_url(draft: Draft, key: str, value: object) -> None:
    url = text(value)
    if not url.startswith(("http://", "https://")):
        raise Refused(f"{url!r} is no address, write http://... or https://...")
    draft.sets(key, "outputs.http.url", url)


def _every_file(draft: Draft, key: str, field: str, value: str) -> None:
    if draft.files.get(field, value) != value:
        raise Refused(f"another key has set {field} to {draft.files[field]}: write one of the two")
    draft.files[field] = value
    draft.note(key, "translated", f"spec.outputs.files: {field} {value}")


def finish(draft: Draft) -> None:
    """What several keys say together: the console's ranks, the files with the sizes and times that hold for all."""
    batch = draft.files.pop("_batch", None)
    wanted = draft.spec.setdefault("outputs", {})
    if batch is not None and "http" in wanted:
        wanted["http"]["batch"] = batch
    if not draft.formats and (draft.files or "directory" in wanted):
        draft.formats["jsonl"] = ""
    if draft.formats:
        wanted["files"] = [_entry(draft, form, path) for form, path in draft.formats.items()]
    if draft.formats or "http" in wanted:
        draft.spec["collector"] = {"mode": "sidecar"}
    _ranks(draft)
    if not wanted:
        del draft.spec["outputs"]


def _ranks(draft: Draft) -> None:
    """log_rank is about the console and files; rank series are always those of all ranks."""
    key, ranks = draft.ranks
    if draft.console:
        draft.sets(draft.console, "outputs.console.ranks", ranks or "auto")
    if ranks == "all" and (draft.formats or "http" in draft.spec["outputs"]):
        draft.sets(key, "outputs.ranks", "all")
    elif key and not draft.console:
        draft.keeps(
            key, "no console line is asked for; series are of all ranks, files of one unless outputs.ranks is all"
        )


def _entry(draft: Draft, form: str, path: str) -> Dict[str, Any]:
    entry: Dict[str, Any] = {"format": form, **({"path": path} if path else {}), **draft.files}
    size = units.size_bytes(entry.get("maxFileSize", "64Mi"))
    return {
        **entry,
        **({"maxTotalSize": units.size_text(16 * size)} if size > outputs.File(form).max_total_bytes else {}),
    }
