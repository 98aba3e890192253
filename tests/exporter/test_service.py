"""A running exporter: one page of all collectors, and a file that is followed while it runs."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rankbeat_exporter.errors import InvalidConfiguration
from rankbeat_exporter.model.configuration import ClockSection, Configuration, WebSection
from rankbeat_exporter.server.service import Service


@pytest.fixture
def exporter(program, driver_root, script, tmp_path, free_port, get):
    """Writes exporter.toml, and runs the exporter with it."""
    path = tmp_path / "exporter.toml"

    class Exporter:
        port = free_port

        def write(self, text, port=free_port):
            fresh = tmp_path / "new"
            fresh.write_text(text.replace("ROOT", str(driver_root)).replace("PORT", str(port)))
            fresh.replace(path)

        def running(self):
            return program("--config", str(path), environment={"DCMI_DOUBLE_SCRIPT": str(script.path)})

        def page(self, port=free_port):
            found = get(port, "/metrics")
            return found if isinstance(found, str) else ""

    return Exporter()


WEB = "node = 'host-7'\n[web]\nport = PORT\naddress = '127.0.0.1'\n"
DEVICES = "[devices]\ninterval = '200ms'\nvendors = ['huawei']\nnpu_driver_root = 'ROOT'\n"
NO_CLOCK = "[clock]\nenabled = false\n"


def holds(exporter, text):
    return lambda: text in exporter.page()


def test_outside_kubernetes_one_process_with_a_file_serves_clock_and_devices(exporter, liar, get, eventually):
    exporter.write(f"{WEB}{DEVICES}[clock]\nservers = ['{liar().address}']\nround_interval = '1s'\n")

    with exporter.running():
        eventually(holds(exporter, 'rankbeat_node_accelerators{node="host-7",vendor="huawei"} 2.0'))
        eventually(holds(exporter, 'rankbeat_node_clock_trusted{node="host-7",reason="Quorum"} 1.0'))
        text = exporter.page()
        assert get(exporter.port, "/healthz") == "ok\n"

    assert 'rankbeat_node_collector_success{collector="accelerators",node="host-7"} 1.0' in text
    assert 'rankbeat_node_collector_success{collector="sntp",node="host-7"} 1.0' in text
    assert 'rankbeat_node_exporter_configuration_followed{node="host-7"} 1.0' in text


def test_a_changed_file_is_followed_and_a_wrong_one_is_counted_and_leaves_all_as_it_was(exporter, eventually):
    devices = 'rankbeat_node_accelerators{node="host-7",vendor="huawei"} 2.0'
    exporter.write(WEB + DEVICES + NO_CLOCK)
    with exporter.running():
        eventually(holds(exporter, devices))
        assert "rankbeat_node_clock_trusted" not in exporter.page()

        exporter.write(WEB + DEVICES + "[clock]\nservers = ['ntp1.example:port']\n")
        eventually(holds(exporter, 'configuration_refused_total{node="host-7"} 1.0'))
        assert 'configuration_followed{node="host-7"} 0.0' in exporter.page()
        assert devices in exporter.page()

        exporter.write(WEB + DEVICES + "[clock]\nround_interval = '1s'\n")
        eventually(holds(exporter, "rankbeat_node_clock_trusted"))
        assert 'configuration_followed{node="host-7"} 1.0' in exporter.page()
        assert devices in exporter.page()
        assert 'driver_restarts_total{node="host-7",vendor="huawei"} 0.0' in exporter.page()


def test_a_changed_port_is_listened_on_and_one_that_is_taken_is_refused(exporter, eventually):
    exporter.write(WEB + "[devices]\nenabled = false\n")
    with exporter.running(), socket.socket() as other, socket.socket() as free:
        eventually(holds(exporter, "rankbeat_node_clock_trusted"))
        other.bind(("127.0.0.1", 0))
        other.listen()
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()

        exporter.write(WEB + "[devices]\nenabled = false\n", other.getsockname()[1])
        eventually(holds(exporter, 'configuration_refused_total{node="host-7"} 1.0'))
        exporter.write(WEB + "[devices]\nenabled = false\n", port)
        eventually(lambda: "rankbeat_node_clock_trusted" in exporter.page(port))

        assert exporter.page() == ""


def test_a_first_file_that_cannot_be_followed_ends_the_program_with_what_to_write(tmp_path, capsys):
    from rankbeat_exporter.__main__ import main  # noqa: PLC0415

    (tmp_path / "exporter.toml").write_text("[clock]\nserver = 'x'\n")

    assert main(["--config", str(tmp_path / "exporter.toml")]) == 2
    assert "write only enabled, servers" in capsys.readouterr().err


def test_a_machine_without_a_driver_starts_no_child_and_loads_no_vendors_library(exporter, tmp_path, eventually):
    exporter.write(WEB + "[devices]\ninterval = '100ms'\nnpu_driver_root = '/nonexistent'\n" + NO_CLOCK)
    with exporter.running() as process:
        eventually(holds(exporter, 'reason="LibraryNotFound"'))
        time.sleep(0.5)
        mapped = Path(f"/proc/{process.pid}/maps").read_text()
        children = [
            child
            for task in Path(f"/proc/{process.pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]

    assert children == []
    assert "dcmi" not in mapped
    assert "nvidia" not in mapped


def test_while_a_child_cannot_be_killed_no_other_takes_its_place(free_port):
    clock = Configuration("n1", WebSection(free_port, "127.0.0.1"), clock=ClockSection())
    service = Service()
    service.follow(clock)
    stuck = service._parts["clock"]._replace(is_stuck=lambda: True)
    service._parts["clock"] = stuck

    with pytest.raises(InvalidConfiguration, match="cannot be killed"):
        service.follow(replace(clock, clock=ClockSection(offset_limit_seconds=1.0)))

    assert service._parts["clock"] is stuck
    service.follow(replace(clock, web=WebSection(free_port, "127.0.0.1")))
    service.stop()
