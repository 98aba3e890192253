"""The programs as their containers start them."""

from __future__ import annotations

import json
import statistics
import time

import pytest


@pytest.fixture
def devices(program, driver_root, script, tmp_path, get, free_port):
    """Starts vendor and devices over the double; gives what reads the latter's pages."""
    from contextlib import ExitStack  # noqa: PLC0415

    with ExitStack() as stack:

        def start(root=driver_root):
            path = tmp_path / "vendor.sock"
            environment = {"DCMI_DOUBLE_SCRIPT": str(script.path)}
            vendor = ("vendor", "--npu-driver-root", str(root), "--socket", str(path), "--deadline", "1s")
            serving = (
                "devices",
                "--socket",
                str(path),
                "--port",
                str(free_port),
                "--interval",
                "200ms",
                "--node",
                "n1",
            )
            stack.enter_context(program(*serving))
            stack.enter_context(program(*vendor, environment=environment))
            return lambda page="/metrics": get(free_port, page) or ""

        yield start


def holds(read, text):
    return lambda: text in read()


def test_chips_are_served_and_vanish_and_a_hang_never_delays_a_scrape(devices, script, eventually):
    read = devices()
    eventually(holds(read, 'rankbeat_node_accelerators{node="n1",vendor="huawei"} 2.0'))
    assert 'rankbeat_node_accelerator_power_watts{container="",device="1",model="Ascend 910B3",' in read()

    script("cards 1\n")
    eventually(holds(read, 'rankbeat_node_accelerators{node="n1",vendor="huawei"} 1.0'))

    script("hang dcmi_get_device_health\n")
    durations = []
    deadline = time.monotonic() + 20
    while 'reason="DriverHung"' not in (text := read()) and time.monotonic() < deadline:
        begin = time.monotonic()
        read()
        durations.append(time.monotonic() - begin)
    assert 'rankbeat_node_collector_success{collector="accelerators",node="n1"} 0.0' in text
    assert "rankbeat_node_accelerators{" not in text
    assert statistics.median(durations) < 0.1

    script("")
    eventually(holds(read, 'rankbeat_node_accelerators{node="n1",vendor="huawei"} 2.0'))
    assert 'driver_restarts_total{node="n1",vendor="huawei"} 0.0' not in read()


def test_a_node_without_a_library_says_so_and_keeps_running(devices, tmp_path, eventually):
    read = devices(tmp_path)

    eventually(holds(read, 'reason="LibraryNotFound"} 1.0'))

    assert read("/healthz") == "ok\n"


def test_without_the_vendor_part_the_serving_part_says_so(program, get, free_port, tmp_path, eventually):
    serving = ("devices", "--socket", str(tmp_path / "none.sock"), "--port", str(free_port), "--node", "n1")
    with program(*serving):
        eventually(lambda: 'reason="SocketUnavailable"} 1.0' in (get(free_port, "/metrics") or ""))


def test_the_clock_serves_metrics_health_and_json_and_takes_the_nodes_name_from_its_environment(
    program, liar, get, free_port, loopback_port, eventually
):
    arguments = ("clock", "--server", liar().address, "--port", str(free_port), "--round-interval", "1s")
    with program(*arguments, "--loopback-port", str(loopback_port), environment={"NODE_NAME": "node-7"}):
        body = eventually(lambda: (found := get(loopback_port, "/v1/clock")) and "Quorum" in found and found)

        assert json.loads(body).keys() == {"trusted", "reason", "source", "offset_seconds", "error_bound_seconds"}
        assert 'rankbeat_node_clock_trusted{node="node-7",reason="Quorum"} 1.0' in get(free_port, "/metrics")
        assert get(free_port, "/healthz") == "ok\n"
        assert [get(free_port, path) for path in ("/nothing", "/v1/clock")] == [404, 404]
        assert get(loopback_port, "/metrics") == 404


@pytest.mark.parametrize(
    "arguments",
    [("clock", "--server", "host:ntp"), ("clock", "--round-interval", "soon"), ("vendor", "--deadline", "-1s"), ()],
)
def test_arguments_that_mean_nothing_are_refused_at_start(arguments, capsys):
    from rankbeat_exporter.__main__ import main  # noqa: PLC0415

    with pytest.raises(SystemExit):
        main(list(arguments))
    assert "usage" in capsys.readouterr().err
