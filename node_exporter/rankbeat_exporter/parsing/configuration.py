"""The configuration that a parsed file holds. What nobody would read is refused, with the names that are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_contract import names, units
from rankbeat_exporter.errors import InvalidConfiguration
from rankbeat_exporter.model.accelerator import VENDORS
from rankbeat_exporter.model.configuration import ClockSection, Configuration, DevicesSection, WebSection
from rankbeat_serving import access
from rankbeat_serving.access import Access, AccessError

if TYPE_CHECKING:
    from collections.abc import Mapping

Section = dict[str, object]

_CLOCK = ("enabled", "servers", "chrony", "round_interval", "offset_limit", "error_limit")
_JOIN = ("pod_resources", "npu_resources", "rank_tables", "npu_exporter_names")
_DEVICES = ("enabled", "interval", "deadline", "vendors", "npu_driver_root", "nvidia_driver_root", "socket", *_JOIN)
_WEB = ("port", "address", *Access._fields)
_LONGEST_SECONDS = 3600.0


def configuration(document: Mapping[str, object], node: str) -> Configuration:
    """What the document asks for. node: this machine's name, unless the document gives one.

    Raises: InvalidConfiguration.
    """
    top = _known(dict(document), "the file", ("node", "web", "clock", "devices"))
    clock, devices = _section(top, "clock", _CLOCK), _section(top, "devices", _DEVICES)
    found = Configuration(
        node=_text(top, "node", "", node) or node,
        web=_web(_section(top, "web", _WEB)),
        clock=_clock(clock) if _boolean(clock, "enabled", "clock") else None,
        devices=_devices(devices) if _boolean(devices, "enabled", "devices") else None,
    )
    if found.clock is None and found.devices is None:
        raise InvalidConfiguration("clock.enabled and devices.enabled", "are both false: there is nothing to do")
    return found


def checked_web(web: WebSection) -> WebSection:
    """The section, where its parts fit each other.

    Raises: InvalidConfiguration.
    """
    if not 0 < web.port < 1 << 16:
        raise InvalidConfiguration("web.port", f"is {web.port}, write 1 to 65535")
    try:
        access.checked(web.access)
    except AccessError as error:
        raise InvalidConfiguration(web_fields(error), error.reason) from error
    return web


def web_fields(error: AccessError) -> str:
    """What a fault of the section's files is called."""
    return " and ".join(f"web.{field}" for field in error.fields)


def _web(section: Section) -> WebSection:
    port = section.get("port", names.PORT_DEVICES)
    if isinstance(port, bool) or not isinstance(port, int):
        raise InvalidConfiguration("web.port", f"is {port!r}, write a number")
    files = Access(*(_text(section, key, "web", "") for key in Access._fields))
    return checked_web(WebSection(port, _text(section, "address", "web", ""), files))


def _clock(section: Section) -> ClockSection:
    default = ClockSection()
    return ClockSection(
        servers=_texts(section, "servers", "clock"),
        chrony=_text(section, "chrony", "clock", default.chrony),
        round_interval_seconds=_duration(section, "round_interval", "clock", default.round_interval_seconds),
        offset_limit_seconds=_duration(section, "offset_limit", "clock", default.offset_limit_seconds),
        error_limit_seconds=_duration(section, "error_limit", "clock", default.error_limit_seconds),
    )


def _devices(section: Section) -> DevicesSection:
    default = DevicesSection()
    vendors = _texts(section, "vendors", "devices")
    if unknown := [vendor for vendor in vendors if vendor not in VENDORS]:
        raise InvalidConfiguration("devices.vendors", f"has {unknown[0]!r}, write some of {', '.join(VENDORS)}")
    return DevicesSection(
        interval_seconds=_duration(section, "interval", "devices", default.interval_seconds),
        deadline_seconds=_duration(section, "deadline", "devices", default.deadline_seconds),
        vendors=vendors,
        npu_driver_root=_text(section, "npu_driver_root", "devices", default.npu_driver_root),
        nvidia_driver_root=_text(section, "nvidia_driver_root", "devices", ""),
        socket=_text(section, "socket", "devices", ""),
        pod_resources=_text(section, "pod_resources", "devices", ""),
        npu_resources=_texts(section, "npu_resources", "devices"),
        rank_tables=_boolean(section, "rank_tables", "devices", default=False),
        npu_exporter_names=_boolean(section, "npu_exporter_names", "devices", default=False),
    )


def _known(section: Section, where: str, known: tuple[str, ...]) -> Section:
    if unknown := sorted(set(section) - set(known)):
        raise InvalidConfiguration(where, f"has {', '.join(map(repr, unknown))}, write only {', '.join(known)}")
    return section


def _section(top: Section, key: str, known: tuple[str, ...]) -> Section:
    given = top.get(key, {})
    if not isinstance(given, dict):
        raise InvalidConfiguration(key, f"is {given!r}, write a table [{key}]")
    return _known(given, f"[{key}]", known)


def _boolean(section: Section, key: str, where: str, *, default: bool = True) -> bool:
    given = section.get(key, default)
    if not isinstance(given, bool):
        raise InvalidConfiguration(f"{where}.{key}", f"is {given!r}, write true or false")
    return given


def _text(section: Section, key: str, where: str, default: str) -> str:
    given = section.get(key, default)
    if not isinstance(given, str):
        raise InvalidConfiguration(f"{where}.{key}".lstrip("."), f"is {given!r}, write text in quotes")
    return given


def _texts(section: Section, key: str, where: str) -> tuple[str, ...]:
    given = section.get(key, [])
    if not isinstance(given, list):
        raise InvalidConfiguration(f"{where}.{key}", f"is {given!r}, write a list of texts")
    return tuple(_text({key: one}, key, where, "") for one in given)


def _duration(section: Section, key: str, where: str, default: float) -> float:
    """Seconds, above 0 and up to an hour."""
    if key not in section:
        return default
    try:
        seconds = units.duration_seconds(_text(section, key, where, ""))
    except ValueError as error:
        raise InvalidConfiguration(f"{where}.{key}", str(error)) from error
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise InvalidConfiguration(f"{where}.{key}", f"is {seconds:g}s, write more than 0s and up to 1h")
    return seconds
