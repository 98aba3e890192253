"""Files that the operator reads: the installed agent, the install's values."""

import importlib.util
from pathlib import Path

import yaml

from rankbeat_contract import names, packing
from rankbeat_operator.errors import InvalidFleetError
from rankbeat_operator.model import fleet
from rankbeat_operator.model.fleet import Fleet


def installed_agent() -> packing.Packed:
    """The agent, packed from the packages that are installed beside the operator.

    Raises: ModuleNotFoundError if one is not installed.
    """
    return packing.packed({place: text for name in packing.PACKAGES for place, text in _package(name).items()})


def _package(name: str) -> dict[str, str]:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"package {name!r} is not installed, install the distribution rankbeat", name=name)
    folder = Path(spec.origin).parent
    files = {f"{name}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*.py")}
    placed = ((packing.place(path), file) for path, file in files.items())
    return {place: file.read_text(encoding="utf-8") for place, file in placed if place is not None}


def text(path: Path | None) -> str:
    """What the file holds, "" if there is none (yet): ConfigMaps are mounted when they come."""
    try:
        return path.read_text(encoding="utf-8") if path else ""
    except FileNotFoundError:
        return ""


def installed_fleet(folder: Path) -> Fleet | None:
    """The fleet of fleet.yaml, None where the install has none.

    Raises: InvalidFleetError.
    """
    written = text(folder / "fleet.yaml")
    if not written:
        return None
    try:
        document = yaml.safe_load(written)
    except yaml.YAMLError as error:
        raise InvalidFleetError("the top", f"is no YAML: {error}") from error
    return fleet.fleet(document)


def is_switched_off(folder: Path) -> bool:
    """Whether the install turned all injection off."""
    return text(folder / names.KILL_SWITCH_KEY).strip() == "disabled"
