"""The configuration's file: what it may hold, and that what nobody would read is refused."""

from __future__ import annotations

import tomllib

import pytest

from rankbeat_exporter.errors import InvalidConfiguration
from rankbeat_exporter.model.configuration import ClockSection, Configuration, DevicesSection, WebSection
from rankbeat_exporter.parsing.configuration import configuration
from rankbeat_exporter.sources.configuration_file import ConfigurationFile
from rankbeat_serving.access import Access


def parsed(text):
    return configuration(tomllib.loads(text), "n1")


def test_an_empty_file_asks_for_everything_by_its_defaults():
    assert parsed("") == Configuration("n1", WebSection(9412), ClockSection(), DevicesSection())


def test_all_that_can_be_written():
    text = """
    node = "host-7"
    [web]
    port = 9999
    address = "127.0.0.1"
    certificate = "/etc/tls.crt"
    key = "/etc/tls.key"
    client_ca = "/etc/ca.crt"
    token_file = "/etc/token"
    [clock]
    servers = ["ntp1.example", "10.0.0.1:1123"]
    chrony = "/run/chrony/chronyd.sock"
    round_interval = "16s"
    offset_limit = "10ms"
    error_limit = "20ms"
    [devices]
    interval = "10s"
    deadline = "2s"
    vendors = ["nvidia"]
    npu_driver_root = "/opt/driver"
    nvidia_driver_root = "/opt/nvidia"
    """

    found = parsed(text)

    assert found.node == "host-7"
    assert found.web == WebSection(
        9999, "127.0.0.1", Access("/etc/tls.crt", "/etc/tls.key", "/etc/ca.crt", "/etc/token")
    )
    assert found.clock == ClockSection(
        ("ntp1.example", "10.0.0.1:1123"), "/run/chrony/chronyd.sock", 16.0, pytest.approx(0.01), pytest.approx(0.02)
    )
    assert found.devices == DevicesSection(10.0, 2.0, ("nvidia",), "/opt/driver", "/opt/nvidia")


def test_a_section_that_is_not_enabled_is_off():
    assert parsed("[clock]\nenabled = false").clock is None
    assert parsed("[devices]\nenabled = false").devices is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[clocks]", "write only node, web, clock, devices"),
        ("[clock]\nserver = []", "write only enabled, servers"),
        ("clock = 1", "write a table [clock]"),
        ("[clock]\nservers = 'ntp1'", "write a list of texts"),
        ("[clock]\nround_interval = 16", "write text in quotes"),
        ("[clock]\nround_interval = 'soon'", "write for example 20s"),
        ("[clock]\nround_interval = '0s'", "write more than 0s"),
        ("[clock]\nenabled = 'no'", "write true or false"),
        ("[devices]\nvendors = ['amd']", "write some of huawei, nvidia"),
        ("[web]\nport = 70000", "write 1 to 65535"),
        ("[web]\nport = true", "write a number"),
        ("[web]\ncertificate = 'x'", "write both or none"),
        ("[web]\nclient_ca = 'x'", "needs TLS"),
        ("[clock]\nenabled = false\n[devices]\nenabled = false", "there is nothing to do"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_what_to_write(text, said):
    with pytest.raises(InvalidConfiguration) as caught:
        parsed(text)

    assert said in str(caught.value)


def test_a_file_is_read_when_it_changed_and_refused_once_for_each_change(tmp_path):
    path = tmp_path / "exporter.toml"
    file = ConfigurationFile(path, "n1")

    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        file.changed()
    assert file.changed() is None
    path.write_text("node = 'a'")
    assert file.changed().node == "a"
    assert file.changed() is None
    path.write_text("node = [")
    with pytest.raises(InvalidConfiguration, match="is no TOML"):
        file.changed()
    assert file.changed() is None


def test_a_link_that_is_turned_as_a_config_maps_is_a_change(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "exporter.toml").write_text(f"node = '{name}'")
    (tmp_path / "data").symlink_to("one")
    file = ConfigurationFile(tmp_path / "data/exporter.toml", "n1")
    before = file.changed()

    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").rename(tmp_path / "data")

    assert (before.node, file.changed().node) == ("one", "two")
