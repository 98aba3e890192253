"""Chips in the annotations and the rank table that Ascend's device plugin and operator write (docs/devices.md)."""

from __future__ import annotations

import json

from rankbeat_exporter.parsing import visible_devices

REAL = "huawei.com/AscendReal"
KLT_DEV = "huawei.com/kltDev"
CONFIGURATIONS = (
    "ascend.kubectl.kubernetes.io/ascend-910-configuration",
    "ascend.kubectl.kubernetes.io/ascend-npu-configuration",
)
RANK_TABLE_PREFIX = "rings-config-"
RANK_TABLE_KEY = "hccl.json"


def chips(text: str | None) -> tuple[str, ...]:
    """Physical ids in a list such as `Ascend910-0,Ascend910-1`; its order says nothing about ranks."""
    if not text or len(text) > visible_devices.MAX_CHARACTERS:
        return ()
    numbers = {visible_devices.ascend_number(piece.strip()) for piece in text.split(",")}
    return tuple(str(number) for number in sorted(number for number in numbers if number is not None))


def configured_chips(annotations: dict[str, str]) -> tuple[str, ...]:
    """Physical ids in the JSON annotation that the operator makes the rank table from."""
    for name in CONFIGURATIONS:
        if name in annotations:
            found = _numbers(_document(annotations[name]).get("devices"), "device_id")
            return tuple(str(number) for number in sorted(found))
    return ()


def ranked_chips(table: str, pod_address: str) -> tuple[str, ...]:
    """Physical ids of the pod's chips in the order of their ranks, from hccl.json; none where it is not complete."""
    document = _document(table)
    servers = document.get("server_list")
    if document.get("status") != "completed" or not isinstance(servers, list) or not pod_address:
        return ()
    ranked: dict[int, int] = {}
    for server in servers:
        if isinstance(server, dict) and server.get("container_ip") == pod_address:
            ranked |= _ranked(server.get("device"))
    return tuple(str(ranked[rank]) for rank in sorted(ranked))


def _ranked(devices: object) -> dict[int, int]:
    """Rank -> physical id; the table's numbers are texts."""
    rows = [row for row in devices if isinstance(row, dict)] if isinstance(devices, list) else []
    pairs = ((_number(row.get("rank_id")), _number(row.get("device_id"))) for row in rows)
    return {rank: device for rank, device in pairs if rank is not None and device is not None}


def _numbers(devices: object, key: str) -> set[int]:
    rows = [row for row in devices if isinstance(row, dict)] if isinstance(devices, list) else []
    numbers = (_number(row.get(key)) for row in rows)
    return {number for number in numbers if number is not None}


def _number(given: object) -> int | None:
    text = str(given)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None


def _document(text: str) -> dict[str, object]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}
