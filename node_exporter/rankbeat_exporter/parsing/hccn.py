"""What `hccn_tool` prints: links, speeds, counters, optics of an NPU's network port. By names and separators."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUANTITY = re.compile(r"(-?[0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([A-Za-z/]+)")
_COUNT = re.compile(r"[0-9]{1,20}")
_MORE_PAIRS = re.compile(r",\s*(?=[A-Za-z][\w ]*:)")
_BITS_PER_SECOND = {"Mb/s": 10**6, "Gb/s": 10**9, "G": 10**9, "Gbps": 10**9}
_PREFIX = re.compile(r"^\[\s*(?:devid|device)\s+[0-9]+\]\s*", re.IGNORECASE)
_STATES = {
    "success": "success",
    "socket fail": "socket_fail",
    "socket failed": "socket_fail",
    "receive timeout": "receive_timeout",
    "unreachable": "unreachable",
    "time exceeded": "time_exceeded",
    "fault": "fault",
    "init": "init",
    "thread error": "thread_error",
    "detect ip set": "detect_ip_set",
}


def pairs(text: str) -> dict[str, str]:
    """Key in lower case -> value. Keys that stand twice are left out: nobody knows which one counts."""
    found: dict[str, str] = {}
    doubled = set()
    for key, value in _pairs(text):
        if key in found:
            doubled.add(key)
        found[key] = value
    return {key: value for key, value in found.items() if key not in doubled}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        stripped = _PREFIX.sub("", line.strip())
        if stripped.startswith("|"):
            yield from _boxed(stripped)
            continue
        for part in _MORE_PAIRS.split(stripped):
            key, colon, value = part.partition(":")
            if colon and key.strip():
                yield " ".join(key.split()).lower(), value.strip()


def _boxed(line: str) -> Iterator[tuple[str, str]]:
    """A row of two cells of the tables that 950's tool draws: a name and its value."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    if len(cells) == 2 and cells[0] and cells[1]:
        yield " ".join(cells[0].split()).lower(), cells[1]


def columns(text: str) -> tuple[dict[str, str], ...]:
    """Rows of a table of three columns or more, header in lower case -> text; rows of another width are left out."""
    lines = [line.strip() for line in text.splitlines()]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    if not rows or len(rows[0]) < 3 or len(set(rows[0])) != len(rows[0]):
        return ()
    header = [name.lower() for name in rows[0]]
    return tuple(dict(zip(header, row, strict=True)) for row in rows[1:] if len(row) == len(header))


def link_is_up(text: str) -> bool | None:
    """`-link -g`."""
    return {"UP": True, "DOWN": False}.get(pairs(text).get("link status", ""))


def network_state(text: str) -> str | None:
    """`-net_health -g`: a word of dcmi_rows.NETWORK_STATES; None for Unknown and what is new."""
    return _STATES.get(" ".join(pairs(text).get("net health status", "").lower().split()))


def speed_bytes_per_second(text: str) -> float | None:
    """`-speed -g`, also in a table."""
    given = pairs(text).get("speed")
    if given is None:
        rows = columns(text)
        given = rows[0].get("speed") if len(rows) == 1 else None
    found = _QUANTITY.fullmatch(given) if given else None
    factor = _BITS_PER_SECOND.get(found[2]) if found else None
    return float(found[1]) * factor / 8 if found and factor and float(found[1]) >= 0 else None


def link_changes(text: str) -> dict[str, int]:
    """`-link_stat -g`: how often up and, by newer tools, down. Its records bear a local time without a zone."""
    given = pairs(text)
    counts = ((to, given.get(f"link {to} count", "")) for to in ("up", "down"))
    return {to: int(count) for to, count in counts if _COUNT.fullmatch(count)}


def counters(text: str) -> dict[str, int]:
    """`-stat -g`: counters by the tool's own names."""
    return {key: int(value) for key, value in pairs(text).items() if _COUNT.fullmatch(value)}


def optics(text: str) -> dict[tuple[str, ...], float]:
    """`-optical -g`: (figure, labels ...) -> number in base units.

    Some tools say `not present` and list full readings: then nothing is said of the presence.
    """
    given = pairs(text)
    found: dict[tuple[str, ...], float] = {}
    for key, value in given.items():
        place = _optical_place(key)
        quantity = _QUANTITY.fullmatch(value)
        if place is None or quantity is None:
            continue
        amount = _base_units(float(quantity[1]), quantity[2], place[0])
        if amount is not None:
            found[place] = amount
    presence = {"present": 1.0, "not present": 0.0}.get(given.get("present", "").lower())
    if presence is not None and (presence or not found):
        found[("optical_present",)] = presence
    return found


def _optical_place(key: str) -> tuple[str, ...] | None:
    if key == "temperature":
        return ("optical_temperature_celsius",)
    if key == "vcc":
        return ("optical_voltage_volts",)
    lane = re.fullmatch(r"(tx|rx) power\s?([0-9]{1,2})", key)
    if lane:
        return ("optical_power_watts", "transmit" if lane[1] == "tx" else "receive", lane[2])
    bias = re.fullmatch(r"tx bias\s?([0-9]{1,2})", key)
    return ("optical_bias_amperes", bias[1]) if bias else None


def _base_units(amount: float, unit: str, figure: str) -> float | None:
    if (figure, unit) == ("optical_power_watts", "dBm") and abs(amount) < 100:
        return math.pow(10.0, amount / 10) / 1000
    factors = {
        ("optical_temperature_celsius", "C"): 1.0,
        ("optical_voltage_volts", "mV"): 1e-3,
        ("optical_voltage_volts", "V"): 1.0,
        ("optical_power_watts", "mW"): 1e-3,
        ("optical_bias_amperes", "mA"): 1e-3,
    }
    factor = factors.get((figure, unit))
    if factor is None or (amount < 0 and figure != "optical_temperature_celsius"):
        return None
    return amount * factor
