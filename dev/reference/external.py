"""alerts/external.yaml: recording rules that give the series of vendors' exporters our names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_contract import names, vendor_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankbeat_contract.vendor_names import VendorName

HEAD = """# Made by `make generate` from agent/rankbeat_contract/vendor_names.py.
#
# Where npu-exporter or dcgm-exporter runs in place of rankbeat-devices, these rules show what they export under
# Rankbeat's names, in base units, with its labels. They need the labels node, and namespace, pod and container of the
# pod that has the device, which the chart's PodMonitors (templates/external.yaml) give.
#
# npu-exporter knows only whether an NPU is healthy: health_level is 1 where it says not, and may be more. It shows ten
# error codes at most. The power of a 310P is its card's, repeated for each chip, and left out. dcgm-exporter shows the
# last XID and no number of them: they are left out.
groups:
"""
KEYS = "node, device, uuid, model, namespace, pod, container"


def page() -> str:
    """The whole file."""
    return HEAD + "".join((*_group("npu-exporter", _npu()), *_group("dcgm-exporter", _gpu())))


def _group(name: str, rules: Iterator[str]) -> Iterator[str]:
    yield f'  - name: "rankbeat-external-{name}"\n    rules:\n'
    yield from rules


def _rule(figure: str, expression: str, vendor: str, labels: tuple[tuple[str, str], ...] = ()) -> str:
    written = ", ".join(f'{key}: "{value}"' for key, value in (("vendor", vendor), *labels))
    return (
        f'      - record: "{names.NODE_ACCELERATOR_PREFIX}{figure}"\n'
        f"        expr: |-\n          {expression}\n"
        f"        labels: {{{written}}}\n"
    )


def _replaced(series: str, *replacements: tuple[str, str, str, str]) -> str:
    """label_replace for each (label, replacement, source, pattern)."""
    for label, replacement, source, pattern in replacements:
        series = f'label_replace({series}, "{label}", "{replacement}", "{source}", "{pattern}")'
    return series


def _scaled(factor: float, expression: str) -> str:
    return expression if factor == 1 else f"{factor:g} * {expression}" if factor < 1 else f"{factor:.0f} * {expression}"


def _npu_series(selector: str, aggregation: str = "max") -> str:
    """npu-exporter's series with our labels; -1 is unknown."""
    pod = f"(?:{vendor_names.SHARED_BY_PODS})?(.*)"
    replaced = _replaced(
        f"({selector} >= 0)",
        ("device", "$1", "id", "(.*)"),
        ("uuid", "$1", "vdie_id", "(.*)"),
        ("model", "$1", "model_name", "(.*)"),
        ("model", "$2 $1", "model_name", "([^-]+)-([^-]+)-.+"),
        ("namespace", "$1", "namespace", pod),
        ("pod", "$1", "pod_name", pod),
        ("container", "$1", "container_name", pod),
    )
    return f"{aggregation} by ({KEYS}) ({replaced})"


def _npu() -> Iterator[str]:
    """310P repeats its card's power for both chips: left out, as no chip draws it."""
    for one in vendor_names.NPU:
        more = ", ".join(f'{key}="{value}"' for key, value in one.more_labels)
        if one.figure == "power_watts":
            more = 'model_name!~"310P.*"'
        selector = f"{one.name}{{{more}}}" if more else one.name
        yield _rule(one.figure, _scaled(one.factor, _npu_series(selector)), "huawei", one.labels)
    health = _npu_series("npu_chip_info_health_status")
    yield _rule("health_level", f"1 - {health}", "huawei")
    errors = _npu_series('{__name__=~"npu_chip_info_error_code(_[1-9])?"}', "count")
    yield _rule("errors", f"{errors} or 0 * {health}", "huawei")
    network = _npu_series("npu_chip_info_network_status")
    for value, status in ((1, "success"), (0, "unhealthy")):
        yield _rule("network_healthy", f"{network} == {value}", "huawei", (("status", status),))
    yield _count("max by (node) (machine_npu_nums)", "huawei")


def _count(expression: str, vendor: str) -> str:
    return (
        f'      - record: "rankbeat_node_accelerators"\n        expr: |-\n          {expression}\n'
        f'        labels: {{vendor: "{vendor}"}}\n'
    )


def _gpu_series(one: VendorName | str) -> str:
    """dcgm-exporter's series with our labels, of whole GPUs."""
    name = one if isinstance(one, str) else one.name
    gpu, uuid, model = vendor_names.GPU_LABELS
    replaced = _replaced(
        f'{name}{{GPU_I_ID=""}}',
        ("device", "$1", gpu, "(.*)"),
        ("uuid", "$1", uuid, "(.*)"),
        ("model", "$1", model, "(.*)"),
    )
    return f"max by ({KEYS}) ({replaced})"


def _gpu() -> Iterator[str]:
    for one in vendor_names.GPU:
        yield _rule(one.figure, _scaled(one.factor, _gpu_series(one)), "nvidia", one.labels)
    used, free = _gpu_series("DCGM_FI_DEV_FB_USED"), _gpu_series("DCGM_FI_DEV_FB_FREE")
    reserved = _gpu_series("DCGM_FI_DEV_FB_RESERVED")
    total = f"{vendor_names.MEBIBYTE} * ({used} + {free} + ({reserved} or 0 * {used}))"
    yield _rule("memory_size_bytes", total, "nvidia")
    yield _count(f"count by (node) ({_gpu_series('DCGM_FI_DEV_GPU_TEMP')})", "nvidia")
