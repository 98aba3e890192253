"""Where files go: path templates below the volume."""

import re
from pathlib import Path
from typing import Mapping

from rankbeat_collector.errors import SettingsError
from rankbeat_contract.outputs import PLACEHOLDERS

_FIELD = re.compile(r"\{([^{}]*)\}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def checked(where: str, template: str) -> str:
    """The template, if it names a place below the volume with known fields only.

    Raises: SettingsError.
    """
    unknown = [name for name in _FIELD.findall(template) if name not in PLACEHOLDERS]
    if unknown:
        fields = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise SettingsError(where, f"{template!r} holds {{{unknown[0]}}}, known are {fields}")
    bare = _FIELD.sub("x", template)
    parts = bare.split("/")
    if "{" in bare or "}" in bare or "\0" in bare:
        raise SettingsError(where, f"{template!r} is no path")
    if bare.startswith("/") or any(part in {"", ".", ".."} for part in parts):
        raise SettingsError(where, f"{template!r} is not below the volume, write a path such as runs/{{experiment}}")
    return template


def expanded(template: str, values: Mapping[str, str]) -> str:
    """The template with its fields filled in; what is no letter, digit, dot, dash or underscore becomes a dash."""
    return _FIELD.sub(lambda found: _component(values[found.group(1)]), template)


def _component(text: str) -> str:
    return _UNSAFE.sub("-", text).lstrip(".") or "unknown"


def below(root: Path, directory: str, template: str, values: Mapping[str, str]) -> Path:
    """The place that a template names, without number and suffix."""
    return root.joinpath(expanded(directory, values), expanded(template, values))
