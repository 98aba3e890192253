"""One reading of a TrainingMonitor's spec, and the file that agent and sidecar read."""

import pytest

from rankbeat_contract import mindformers, monitor, units
from rankbeat_contract.outputs import File, Http

EVERYTHING = {
    "experiment": "llm",
    "sampling": {"interval": 50, "denseFirstSteps": 10},
    "signals": ["loss", "gradNorm"],
    "metrics": [
        {"name": "loss", "interval": 10, "filter": "value > 1e-3"},
        {"name": "grad_norm", "filter": "value > 1"},
    ],
    "samplesPerStep": 512,
    "attention": {"cells": ["a.*.softmax"]},
    "parameters": ["weight$"],
    "collector": {"mode": "sidecar"},
    "outputs": {
        "console": {},
        "volume": {"name": "v"},
        "directory": "runs",
        "ranks": "all",
        "files": [{"format": "jsonl", "maxFileSize": "1Mi", "maxAge": "1h", "flushInterval": "500ms"}],
        "http": {"url": "http://a"},
        "encryption": {"secretName": "s", "key": "k"},
        "audit": True,
    },
    "monitors": [{"name": "mine", "class": "pkg.mod:Class", "options": {"a": 1}}],
    "msrun": {"fix": ["join"]},
    "tiers": ["logTail"],
    "mindformers": {"monitorConfig": {"monitor_on": True}},
    "alerts": {"limits": {"hang": "8s"}},
}


def test_an_empty_spec_asks_for_the_defaults():
    assert monitor.settings({}) == monitor.Settings()


def test_the_file_of_an_empty_spec_holds_the_sampling_only():
    assert monitor.agent_configuration(monitor.Settings()) == {
        "version": 2,
        "sampling": {"intervalSteps": 0, "denseFirstSteps": 100},
    }


def test_the_file_holds_all_that_agent_and_sidecar_must_know_and_no_more():
    assert monitor.agent_configuration(monitor.settings(EVERYTHING)) == {
        "version": 2,
        "experiment": "llm",
        "sampling": {"intervalSteps": 50, "denseFirstSteps": 10},
        "signals": ["loss", "gradNorm"],
        "metrics": [
            {"name": "loss", "intervalSteps": 10, "filter": "value > 1e-3"},
            {"name": "grad_norm", "filter": "value > 1"},
        ],
        "samplesPerStep": 512,
        "attention": {"cells": ["a.*.softmax"]},
        "parameters": ["weight$"],
        "console": {"ranks": "auto"},
        "monitors": [{"name": "mine", "class": "pkg.mod:Class", "where": "collector", "options": {"a": 1}}],
        "mindformers": {"monitorConfig": {"monitor_on": True}},
        "outputs": {
            "directory": "runs",
            "ranks": "all",
            "files": [
                {
                    "format": "jsonl",
                    "path": "{experiment}/rank-{rank}",
                    "maxFileBytes": 1048576,
                    "maxTotalBytes": 1073741824,
                    "maxAgeSeconds": 3600.0,
                    "flushSeconds": 0.5,
                }
            ],
            "http": {"url": "http://a", "batch": 500, "flushSeconds": 5.0},
            "encrypted": True,
            "masked": False,
            "audit": True,
        },
    }


def test_what_only_admission_needs_is_in_the_settings():
    settings = monitor.settings(EVERYTHING)

    assert (settings.collector_mode, settings.msrun_fixes, settings.tiers) == ("sidecar", ("join",), ("logTail",))
    assert (settings.outputs.volume, settings.outputs.masking) == ({"name": "v"}, None)
    assert settings.outputs.http == Http("http://a")
    assert settings.outputs.files[0] == File("jsonl", max_file_bytes=1 << 20, max_age_seconds=3600.0, flush_seconds=0.5)


def test_no_signals_at_all_is_a_wish():
    configuration = monitor.agent_configuration(monitor.settings({"signals": []}))

    assert configuration["signals"] == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"sampling": {"interval": "often"}},
            "spec.sampling.interval is 'often', write auto or a number of steps from 1",
        ),
        ({"metrics": [{"name": "loss", "interval": 0}]}, r"spec.metrics\[loss\].interval is '0'"),
        ({"outputs": {"files": [{"format": "jsonl"}]}}, "write spec.outputs.volume"),
        ({"outputs": {"volume": {}, "files": [{"format": "xml"}]}}, r"spec.outputs.files\[0\].format is 'xml'"),
        (
            {"outputs": {"volume": {"name": "v"}, "files": [{"format": "csv", "maxTotalSize": "1Mi"}]}},
            "maxTotalSize is less than maxFileSize",
        ),
        ({"alerts": {"limits": {"hang": "5"}}}, "'5' is no duration"),
    ],
    ids=["interval", "metric interval", "no volume", "format", "total size", "duration"],
)
def test_what_an_older_schema_let_through_is_told_by_its_field(spec, message):
    with pytest.raises(ValueError, match=message):
        monitor.settings(spec)


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1Ki"), (65536, "64Ki"), (65537, "65Ki"), (1 << 20, "1Mi"), (3 << 29, "1536Mi"), (1 << 40, "1Ti")],
)
def test_a_size_is_written_in_the_largest_unit_without_a_fraction(count, text):
    assert units.size_text(count) == text
    assert units.size_bytes(text) >= count


@pytest.mark.parametrize("text", ["", "0Mi", "1.5Gi", "64MB", "64", "-1Ki", "1Mi "])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is no size"):
        units.size_bytes(text)


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        pytest.param({}, [], id="empty"),
        pytest.param(
            {
                "monitor_on": True,
                "dump_path": "./dump",
                "target": ["layers.*"],
                "local_norm_format": ["log", "tensorboard"],
                "weight_state_format": None,
                "throughput_baseline": 12,
                "stable_rank_config": {"format": "log", "target": None, "moe_show_mode": "all"},
                "health_checkpoint": {"global_norm_spike_threshold": 3.0},
            },
            [],
            id="right",
        ),
        pytest.param({"enable": True}, ["enable"], id="an article's key"),
        pytest.param({"step_interval": 0}, ["step_interval"], id="step interval"),
        pytest.param({"step_interval": True}, ["step_interval"], id="step interval that is a switch"),
        pytest.param({"target": "layers"}, ["target"], id="target"),
        pytest.param({"invert": 1}, ["invert"], id="invert"),
        pytest.param({"local_loss_format": ["csv"]}, ["local_loss_format"], id="format"),
        pytest.param({"throughput_baseline": -1}, ["throughput_baseline"], id="baseline"),
        pytest.param({"dump_path": ""}, ["dump_path"], id="dump path"),
        pytest.param({"stable_rank_config": {"formt": "log"}}, ["stable_rank_config.formt"], id="section's key"),
        pytest.param(
            {"stable_rank_config": {"power_iteration_num": 0}}, ["stable_rank_config.power_iteration_num"], id="section"
        ),
        pytest.param({"health_checkpoint": [1]}, ["health_checkpoint"], id="no section"),
    ],
)
def test_mindformers_own_keys_are_checked_as_mindformers_does(config, keys):
    assert [problem.key for problem in mindformers.problems(config)] == keys
