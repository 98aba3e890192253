"""Documents of the side file that people open as they are: run.json."""

import json
import logging
import os
from pathlib import Path
from typing import Iterable

from rankbeat_collector.files.rows import Row

_log = logging.getLogger(__name__)


def write_runs(folder: Path, new: Iterable[Row]) -> None:
    """Write what was started to folder/run-RUN.json, whole. What fails is logged: the rows hold it too."""
    for row in new:
        if row.extra is None or row.extra.kind != "run":
            continue
        path = folder / f"run-{row.run}.json"
        temporary = folder / f".{path.name}.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(json.loads(row.extra.content), indent=2) + "\n", encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            _log.warning("run not written path=%s error=%r", path, error)
