"""The configuration's file: TOML, looked at by its modification time."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from rankbeat_exporter.errors import InvalidConfiguration
from rankbeat_exporter.parsing.configuration import configuration
from rankbeat_serving.stamp import file_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from rankbeat_exporter.model.configuration import Configuration
    from rankbeat_serving.stamp import Stamp


class ConfigurationFile:
    """Reads the file when it changed since it was read last."""

    def __init__(self, path: Path, node: str) -> None:
        self._path = path
        self._node = node
        self._seen: Stamp | str | None = ""

    def changed(self) -> Configuration | None:
        """The configuration, where the file is another than at the last call; None where it is the same.

        Raises: InvalidConfiguration, once for each change.
        """
        stamp = file_stamp(self._path)
        if stamp == self._seen:
            return None
        self._seen = stamp
        return read(self._path, self._node)


def read(path: Path, node: str) -> Configuration:
    """What the file asks for.

    Raises: InvalidConfiguration.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfiguration(str(path), f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidConfiguration(str(path), f"is no TOML: {error}") from error
    return configuration(document, node)
