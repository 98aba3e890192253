"""spec.outputs: what the collector beside the job writes, and where."""

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from rankbeat_contract import units

FORMATS = ("jsonl", "csv", "protobuf", "tensorboard")
DEFAULT_PATH = "{experiment}/rank-{rank}"
PLACEHOLDERS = ("experiment", "rank", "node", "attempt")
"""What may stand in braces in a path."""
VOLUME_KINDS = ("persistentVolumeClaim", "name", "hostPath")
STATUS_FILE = "outputs.json"
"""In a pod's ring folder: how the outputs fare, by the collector beside the job, every STATUS_SECONDS."""
STATUS_SECONDS = 5.0
TROUBLES = (
    "key_missing",
    "key_invalid",
    "settings",
    "unwritable",
    "full",
    "vanished",
    "io",
    "http",
    "silent",
    "rows_lost",
    "audit",
    "monitor",
)
"""What outputs may suffer from, what keeps most from being written first: the only words of the status file that leave
the pod. silent: the file has not been written for long. rows_lost: rows, records or entries were lost lately."""


class File(NamedTuple):
    """One kind of files. path: below the directory, without the ending, with PLACEHOLDERS in braces."""

    format: str
    path: str = DEFAULT_PATH
    max_file_bytes: int = 64 << 20
    max_total_bytes: int = 1 << 30
    max_age_seconds: float = 7 * 24 * 3600.0
    flush_seconds: float = 5.0


class Http(NamedTuple):
    """Where records are posted, batch at a time."""

    url: str
    batch: int = 500
    flush_seconds: float = 5.0


class Outputs(NamedTuple):
    """What a monitor's outputs ask for.

    console_ranks: "" without a console line, else auto, all or ranks with commas between.
    volume: as the spec has it, one key of VOLUME_KINDS; the webhook mounts it.
    ranks: one or all. encryption, masking: the Secret's key, as the spec has it.
    """

    console_ranks: str = ""
    volume: Optional[Mapping[str, Any]] = None
    directory: str = ""
    ranks: str = "one"
    files: Tuple[File, ...] = ()
    http: Optional[Http] = None
    encryption: Optional[Mapping[str, Any]] = None
    masking: Optional[Mapping[str, Any]] = None
    is_audited: bool = False

    @property
    def needs_collector(self) -> bool:
        """Whether a collector beside the job has something to write."""
        return bool(self.files or self.http or self.is_audited)


def outputs(spec: Mapping[str, Any]) -> Outputs:
    """The outputs in `spec.outputs`.

    Raises: ValueError on a value that the schema would have refused.
    """
    console, http = spec.get("console"), spec.get("http")
    files = tuple(_file(entry, f"spec.outputs.files[{place}]") for place, entry in enumerate(spec.get("files") or ()))
    if files and not spec.get("volume"):
        raise ValueError("spec.outputs.files has no place to go, write spec.outputs.volume")
    return Outputs(
        console_ranks="" if console is None else str(console.get("ranks", "auto")),
        volume=spec.get("volume"),
        directory=str(spec.get("directory", "")),
        ranks=str(spec.get("ranks", "one")),
        files=files,
        http=None if http is None else _http(http),
        encryption=spec.get("encryption"),
        masking=spec.get("masking"),
        is_audited=bool(spec.get("audit", False)),
    )


def _file(entry: Mapping[str, Any], field: str) -> File:
    defaults = File(str(entry.get("format", "")))
    if defaults.format not in FORMATS:
        raise ValueError(f"{field}.format is {defaults.format!r}, write one of {', '.join(FORMATS)}")
    found = File(
        format=defaults.format,
        path=str(entry.get("path", defaults.path)),
        max_file_bytes=_size(entry, "maxFileSize", defaults.max_file_bytes),
        max_total_bytes=_size(entry, "maxTotalSize", defaults.max_total_bytes),
        max_age_seconds=_duration(entry, "maxAge", defaults.max_age_seconds),
        flush_seconds=_duration(entry, "flushInterval", defaults.flush_seconds),
    )
    if found.max_total_bytes < found.max_file_bytes:
        raise ValueError(f"{field}.maxTotalSize is less than maxFileSize, no file would be kept: write a larger one")
    return found


def _http(entry: Mapping[str, Any]) -> Http:
    defaults = Http(str(entry["url"]))
    return Http(
        defaults.url,
        int(entry.get("batch", defaults.batch)),
        _duration(entry, "flushInterval", defaults.flush_seconds),
    )


def _size(entry: Mapping[str, Any], field: str, default: int) -> int:
    return units.size_bytes(entry[field]) if field in entry else default


def _duration(entry: Mapping[str, Any], field: str, default: float) -> float:
    return units.duration_seconds(entry[field]) if field in entry else default


def configuration(wanted: Outputs) -> Dict[str, Any]:
    """`outputs` of the configuration file, empty where the collector has nothing to write."""
    if not wanted.needs_collector:
        return {}
    http = wanted.http
    return {
        "directory": wanted.directory,
        "ranks": wanted.ranks,
        "files": [_file_configuration(file) for file in wanted.files],
        **({} if http is None else {"http": _http_configuration(http)}),
        "encrypted": wanted.encryption is not None,
        "masked": wanted.masking is not None,
        "audit": wanted.is_audited,
    }


def _file_configuration(file: File) -> Dict[str, Any]:
    return {
        "format": file.format,
        "path": file.path,
        "maxFileBytes": file.max_file_bytes,
        "maxTotalBytes": file.max_total_bytes,
        "maxAgeSeconds": file.max_age_seconds,
        "flushSeconds": file.flush_seconds,
    }


def _http_configuration(http: Http) -> Dict[str, Any]:
    return {"url": http.url, "batch": http.batch, "flushSeconds": http.flush_seconds}
