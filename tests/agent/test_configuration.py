"""What the monitor's file and the environment ask of the agent."""

import json
import os

import pytest

from rankbeat_agent.hooks import configuration, rank
from rankbeat_agent.hooks.configuration import Configuration, Metric
from rankbeat_agent.hooks.sampling import Change, Sampling
from rankbeat_contract import names


def parsed(content, **environment):
    return configuration.parsed(json.dumps(content), environment)


def test_without_a_file_the_defaults_hold():
    assert configuration.parsed("", {}) == Configuration()


def test_every_field_of_the_file_is_read():
    content = {
        "version": 2,
        "experiment": "llm",
        "sampling": {"intervalSteps": 7, "denseFirstSteps": 3},
        "change": {"fromStep": 1234, "previous": {"intervalSteps": 0, "denseFirstSteps": 100}},
        "signals": ["loss", "run"],
        "metrics": [{"name": "loss", "intervalSteps": 10, "filter": "value > 1e-3"}, {"name": "grad_norm"}],
        "samplesPerStep": 512,
        "attention": {"cells": ["*.softmax"]},
        "parameters": ["weight$"],
        "console": {"ranks": "auto"},
        "monitors": [{"name": "mine", "class": "pkg.mod:Class", "where": "process", "options": {"a": 1}}],
        "mindformers": {"monitorConfig": {"monitor_on": True}},
        "later": {"a key that a newer operator": "knows"},
    }

    assert parsed(content) == Configuration(
        experiment="llm",
        sampling=Sampling(7, 3),
        change=Change(1234, Sampling(0, 100)),
        signals=frozenset({"loss", "run"}),
        metrics=(Metric("loss", 10, "value > 1e-3"), Metric("grad_norm")),
        samples_per_step=512,
        attention_cells=("*.softmax",),
        parameters=("weight$",),
        console_ranks="auto",
        monitors=({"name": "mine", "class": "pkg.mod:Class", "where": "process", "options": {"a": 1}},),
        mindformers_monitor_config={"monitor_on": True},
    )


def test_the_environment_stands_above_the_file_before_and_after_a_change():
    content = {
        "sampling": {"intervalSteps": 7, "denseFirstSteps": 3},
        "change": {"fromStep": 9, "previous": {"intervalSteps": 5, "denseFirstSteps": 4}},
        "signals": ["loss"],
    }

    made = parsed(
        content,
        RANKBEAT_SAMPLING_INTERVAL="20",
        RANKBEAT_SAMPLING_DENSE_FIRST_STEPS="0",
        RANKBEAT_CONSOLE_RANKS="0,3",
        RANKBEAT_SIGNALS="loss, run",
        RANKBEAT_SAMPLES_PER_STEP="64",
    )

    assert made == Configuration(
        sampling=Sampling(20, 0),
        change=Change(9, Sampling(20, 0)),
        signals=frozenset({"loss", "run"}),
        samples_per_step=64,
        console_ranks="0,3",
    )


def test_auto_is_an_interval_of_the_environment_too():
    made = parsed({"sampling": {"intervalSteps": 7}}, RANKBEAT_SAMPLING_INTERVAL="auto")

    assert made.sampling == Sampling(0, 100)


@pytest.mark.parametrize(
    ("text", "environment", "reason"),
    [
        pytest.param("{", {}, "Expecting", id="no JSON"),
        pytest.param("[]", {}, "a list, not an object", id="a list"),
        pytest.param('{"sampling": {"intervalSteps": -1}}', {}, "intervalSteps is -1", id="a negative interval"),
        pytest.param('{"sampling": {"denseFirstSteps": true}}', {}, "denseFirstSteps is True", id="a boolean"),
        pytest.param('{"signals": "loss"}', {}, "signals is 'loss', not a list", id="one signal"),
        pytest.param("", {"RANKBEAT_SAMPLING_INTERVAL": "often"}, "is 'often', not a number", id="environment"),
    ],
)
def test_what_is_no_configuration_is_refused_and_named(text, environment, reason):
    with pytest.raises(ValueError, match=reason):
        configuration.parsed(text, environment)


@pytest.fixture
def file(tmp_path):
    """The path of a configuration that is not there yet, in this process's environment."""
    path = tmp_path / "monitor.json"
    os.environ[names.ENV_CONFIG] = str(path)
    yield path
    del os.environ[names.ENV_CONFIG]


def replace(path, content):
    new = path.with_suffix(".new")
    new.write_text(content if isinstance(content, str) else json.dumps(content))
    new.rename(path)


def test_the_file_is_read_again_when_it_was_replaced(file):
    source, process = configuration.Source(), rank.Rank()
    answers = [source.refresh(process)]
    replace(file, {"sampling": {"intervalSteps": 5}})
    answers += [source.refresh(process), source.refresh(process)]

    assert (answers, source.present.sampling) == ([False, True, False], Sampling(5, 100))


def test_a_file_that_breaks_leaves_what_was_read_before_in_force_and_is_counted_once(file, capsys):
    source, process = configuration.Source(), rank.Rank()
    replace(file, {"sampling": {"intervalSteps": 5}})
    source.refresh(process)
    replace(file, "{")

    answers = [source.refresh(process), source.refresh(process)]

    assert (answers, source.present.sampling, process.errors) == ([False, False], Sampling(5, 100), 1)
    assert "error in configuration" in capsys.readouterr().err


def test_a_variable_that_is_none_of_ours_is_counted_once_with_the_nearest(file, capsys):
    os.environ["RANKBEAT_SAMPLING_INTERVALL"] = "5"
    source, process = configuration.Source(), rank.Rank()
    try:
        source.refresh(process)
        replace(file, {})
        source.refresh(process)
    finally:
        del os.environ["RANKBEAT_SAMPLING_INTERVALL"]

    assert process.errors == 1
    assert (
        "no variable RANKBEAT_SAMPLING_INTERVALL, did you mean 'RANKBEAT_SAMPLING_INTERVAL'?" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("RANKBEAT_SIGNALS", id="one of ours"),
        pytest.param("RANKBEAT_WEBHOOK_SERVICE_HOST", id="address of a Service"),
        pytest.param("RANKBEAT_WEBHOOK_SERVICE_PORT_HTTPS", id="port of a Service"),
        pytest.param("RANKBEAT_PORT_443_TCP_ADDR", id="a Service's as Docker linked them"),
        pytest.param("SAMPLING_INTERVAL", id="no beginning like ours"),
    ],
)
def test_what_kubernetes_or_the_job_sets_is_no_variable_of_ours(name):
    assert configuration.unknown_variables([name]) == ""
