"""How the collector beside a job is started."""

import argparse
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Sequence, Tuple

from rankbeat_collector.errors import SettingsError
from rankbeat_contract import names
from rankbeat_contract import outputs as contract

_CONFIG = f"{names.CONFIG_PATH}/{names.MONITOR_CONFIG_KEY}"


@dataclass(frozen=True)
class Settings:
    """What the collector beside a job is started with."""

    rings: str
    config: str
    """Path of monitor.json, empty where text says it all."""
    text: str
    """In place of a file: what monitor.json would hold."""
    out: Path
    encryption_key: str
    masking_key: str
    status_file: str
    monitor_paths: Tuple[str, ...]
    poll_seconds: float
    listen: Optional[Tuple[str, int]]
    is_once: bool
    namespace: str
    pod: str
    node: str


def settings(command: str, arguments: Sequence[str]) -> Settings:
    """Settings of a command line. Raises: SettingsError; SystemExit on --help or an unknown option."""
    about = "Reads the rings of one folder and writes the outputs that monitor.json asks for."
    parser = argparse.ArgumentParser(prog=f"rankbeat-collector {command}", description=about)
    (_add_local if command == "local" else _add_sidecar)(parser)
    _add_common(parser)
    given = parser.parse_args(arguments)
    if not 0.05 <= given.poll_interval <= 5:
        raise SettingsError("--poll-interval", "poll every 0.05 to 5 s")
    out = Path(given.out).absolute()
    return Settings(
        rings=given.rings,
        config=given.config,
        text=_local_text(given) if command == "local" and not given.config else "",
        out=out,
        encryption_key=given.encryption_key_file,
        masking_key=given.masking_key_file,
        status_file=given.status_file,
        monitor_paths=(*given.monitor_path, str(out / "monitors")),
        poll_seconds=given.poll_interval,
        listen=(given.host, given.port) if given.port else None,
        is_once=command == "local" and given.once,
        namespace=given.namespace,
        pod=given.pod,
        node=given.node,
    )


def _add_sidecar(parser: argparse.ArgumentParser) -> None:
    environment = os.environ
    rings, out = (
        environment.get(names.ENV_RING_DIR, names.RING_PATH),
        environment.get(names.ENV_OUTPUT, names.OUTPUT_PATH),
    )
    parser.add_argument("--rings", default=rings, metavar="DIR", help=f"[{names.ENV_RING_DIR}, {names.RING_PATH}]")
    parser.add_argument("--out", default=out, metavar="DIR", help=f"[{names.ENV_OUTPUT}, {names.OUTPUT_PATH}]")
    config = environment.get(names.ENV_CONFIG, _CONFIG)
    parser.add_argument(
        "--config", default=config, metavar="FILE", help=f"monitor.json [{names.ENV_CONFIG}, {_CONFIG}]"
    )


def _add_local(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rings", required=True, metavar="DIR", help="folder of ring files")
    parser.add_argument("--out", required=True, metavar="DIR", help="where files go")
    parser.add_argument("--config", default="", metavar="FILE", help="a monitor.json, in place of the next three")
    parser.add_argument("--formats", default="jsonl", help=f"with commas: {', '.join(contract.FORMATS)} [jsonl]")
    parser.add_argument("--experiment", default="default")
    parser.add_argument("--ranks", choices=("one", "all"), default="all")
    parser.add_argument("--once", action="store_true", help="write what is there, then end")


def _add_common(parser: argparse.ArgumentParser) -> None:
    environment, host = os.environ, socket.gethostname()
    secrets = Path(names.KEYS_PATH)
    parser.add_argument("--encryption-key-file", default=str(secrets / names.KEY_ENCRYPTION), metavar="FILE")
    parser.add_argument("--masking-key-file", default=str(secrets / names.KEY_MASKING), metavar="FILE")
    parser.add_argument("--status-file", default="", metavar="FILE", help="JSON of how the outputs fare, every 5 s")
    parser.add_argument("--monitor-path", action="append", default=[], metavar="DIR", help="where monitors are found")
    parser.add_argument("--poll-interval", type=float, default=0.5, metavar="SECONDS")
    parser.add_argument("--host", default="", help="address to listen on; any by default")
    parser.add_argument("--port", type=int, default=0, help="serve /metrics; without it no port is opened")
    parser.add_argument("--namespace", default=environment.get(names.ENV_POD_NAMESPACE, ""))
    parser.add_argument("--pod", default=environment.get(names.ENV_POD_NAME, host))
    parser.add_argument("--node", default=environment.get(names.ENV_NODE, host))


def _local_text(given: Any) -> str:
    files = [{"format": each.strip()} for each in given.formats.split(",")]
    return json.dumps({"experiment": given.experiment, "outputs": {"ranks": given.ranks, "files": files}})
