"""A bare monitor_config in the shapes found in the wild: what becomes of each key."""

import pytest

from rankbeat_contract import metrics, monitor, translation
from rankbeat_contract.translation import KEPT, REFUSED, TRANSLATED, measured
from rankbeat_contract.translation.keys import KEYS
from rankbeat_contract.translation.outcomes import DEFAULT_SIGNALS
from rankbeat_contract.translation.refusals import CALLBACKS, DEVICE_METRICS, REFUSALS


def spec(**config: object) -> dict[str, object]:
    translated = translation.translated(config)
    assert translated.refused == ()
    return translated.spec


def refusals(**config: object) -> dict[str, str]:
    return {outcome.key: outcome.text for outcome in translation.translated(config).refused}


def verdicts(**config: object) -> set[str]:
    return {outcome.verdict for outcome in translation.translated(config).outcomes}


@pytest.mark.parametrize("key", ["interval", "step_interval", "collect_interval", "collect_freq"])
def test_every_word_for_the_interval_is_the_sampling_interval(key):
    assert spec(**{key: 10}) == {"sampling": {"interval": 10}}


def test_the_short_one_of_an_article():
    config = {
        "enable": True,
        "step_interval": 50,
        "metrics": ["loss", "learning_rate", "grad_norm", "throughput", "step_time"],
        "output": {"console": True, "file": True, "file_path": "./output/monitor_{rank}.json"},
        "log_rank": 0,
    }

    assert spec(**config) == {
        "sampling": {"interval": 50},
        "signals": [*DEFAULT_SIGNALS, "gradNorm"],
        "outputs": {
            "files": [{"format": "jsonl", "path": "output/monitor_{rank}"}],
            "console": {"ranks": "0"},
        },
        "collector": {"mode": "sidecar"},
    }


def test_the_long_one_of_an_article():
    config = {
        "experiment_id": "bert_base",
        "collect_interval": 20,
        "export_dir": "/mnt/monitor",
        "metrics": [
            {"name": "loss", "type": "scalar", "source": "loss", "interval": 5, "filter": "loss < 100 && loss > 1e-3"},
            {"name": "lr", "source": "optimizer.learning_rate"},
            {"name": "attn", "type": "image", "source": "encoder.layers.3.attention.softmax", "max_images": 2},
        ],
        "write_strategy": "batched",
        "flush_interval_ms": 500,
        "timestamp_precision": "microsecond",
    }

    translated = translation.translated(config)

    assert [outcome.key for outcome in translated.refused] == ["metrics[2].type"]
    assert translated.spec == {
        "experiment": "bert_base",
        "sampling": {"interval": 20},
        "metrics": [{"name": "loss", "interval": 5, "filter": "value < 100 and value > 1e-3"}],
        "attention": {"cells": ["encoder.layers.3.attention.softmax"]},
        "signals": [*DEFAULT_SIGNALS, "attentionEntropy"],
        "outputs": {"directory": "mnt/monitor", "files": [{"format": "jsonl", "flushInterval": "500ms"}]},
        "collector": {"mode": "sidecar"},
    }


def test_outputs_by_type_with_their_paths():
    config = {
        "output_type": ["stdout", "tensorboard", "json_file"],
        "tensorboard_path": "./tb_logs",
        "json_log_path": "./json_logs",
        "max_file_size": "100MB",
        "log_rank": -1,
    }

    assert spec(**config) == {
        "outputs": {
            "files": [
                {"format": "tensorboard", "path": "tb_logs/rank-{rank}", "maxFileSize": "100Mi"},
                {"format": "jsonl", "path": "json_logs/rank-{rank}", "maxFileSize": "100Mi"},
            ],
            "console": {"ranks": "all"},
            "ranks": "all",
        },
        "collector": {"mode": "sidecar"},
    }


def test_a_file_larger_than_the_usual_total_raises_the_total():
    (file,) = spec(export_format="csv", max_file_size=2 << 30)["outputs"]["files"]

    assert file == {"format": "csv", "maxFileSize": "2Gi", "maxTotalSize": "32Gi"}


def test_what_is_collected_anyway_needs_no_signal_and_takes_none_away():
    config = {"monitored_metrics": ["loss", "learning_rate", "train_per_step_time", "overflow"]}

    assert spec(**config) == {}
    assert verdicts(**config) == {KEPT}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({"name": "llm-7b"}, {"experiment": "llm-7b"}, id="name"),
        pytest.param({"dense_first_steps": 0}, {"sampling": {"denseFirstSteps": 0}}, id="dense steps off"),
        pytest.param({"global_batch_size": 512}, {"samplesPerStep": 512}, id="global batch"),
        pytest.param(
            {"export_options": {"include_grad": True, "include_input_shape": True}},
            {"signals": [*DEFAULT_SIGNALS, "gradNorm", "inputShapes"]},
            id="export options",
        ),
        pytest.param({"class_loss": True}, {"signals": [*DEFAULT_SIGNALS, "classLoss"]}, id="loss by class"),
        pytest.param(
            {"metrics": ["per_class_loss", "class_loss"]}, {"signals": [*DEFAULT_SIGNALS, "classLoss"]}, id="of metrics"
        ),
        pytest.param(
            {"advanced_memory_stats": {"enable": True, "dump_on_oom": True}},
            {"signals": [*DEFAULT_SIGNALS, "forensics"]},
            id="memory dump",
        ),
        pytest.param({"alert_config": {"enable_alert": False}}, {"paused": True}, id="alerts off"),
        pytest.param({"audit_log": "/var/log/audit.json"}, {"outputs": {"audit": True}}, id="audit log"),
        pytest.param(
            {"http_url": "http://a/b", "batch_size": 64},
            {"outputs": {"http": {"url": "http://a/b", "batch": 64}}, "collector": {"mode": "sidecar"}},
            id="HTTP",
        ),
        pytest.param(
            {"custom_monitor_callback": "custom_monitor.CustomMetricMonitor"},
            {
                "monitors": [{"name": "custom_metric_monitor", "class": "custom_monitor:CustomMetricMonitor"}],
                "collector": {"mode": "sidecar"},
            },
            id="class by dotted path",
        ),
        pytest.param(
            {"hardware_metrics": {"memory_usage": True, "temperature": False}}, {}, id="memory of the process"
        ),
        pytest.param({"monitor_config": {"interval": 3}}, {"sampling": {"interval": 3}}, id="with its key around it"),
        pytest.param(
            {"monitor_on": True, "weight_state_format": "log", "step_interval": 5},
            {
                "sampling": {"interval": 5},
                "mindformers": {
                    "monitorConfig": {"monitor_on": True, "weight_state_format": "log", "step_interval": 5}
                },
            },
            id="MindFormers' own",
        ),
    ],
)
def test_each_shape_is_translated(config, expected):
    assert spec(**config) == expected


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        pytest.param({"step_intervl": 10}, "did you mean 'step_interval'?", id="unknown key"),
        pytest.param({"Enable": True}, "did you mean 'enable'?", id="other case"),
        pytest.param({"output": {"consol": True}}, "did you mean 'console'?", id="unknown field"),
        pytest.param({"metrics": ["los"]}, "did you mean 'loss'?", id="unknown metric"),
        pytest.param({"metrics": [{"name": "loss", "intervall": 1}]}, "did you mean 'interval'?", id="metric's field"),
        pytest.param({"metrics": [{"name": "loss", "type": "image3d"}]}, "scalar, image or histogram", id="type"),
        pytest.param({"metrics": [{"name": "loss", "filter": "eval('x')"}]}, "is no comparison", id="filter"),
        pytest.param({"metrics": [{"source": "encoder.layers.3.dense"}]}, "names no value that can be read", id="path"),
        pytest.param({"metrics": [{"name": "throughput", "interval": 5}]}, "write spec.sampling", id="own interval"),
        pytest.param({"output_type": ["prometheus"]}, "there is no output 'prometheus'", id="output"),
        pytest.param({"enable": False}, "label the pod template", id="off"),
        pytest.param({"enable": "yes"}, "neither true nor false", id="no switch"),
        pytest.param({"interval": 0}, "no whole number from 1", id="interval 0"),
        pytest.param({"name": "7b"}, "the first no digit", id="experiment"),
        pytest.param({"export_dir": "/tmp/metrics.fifo"}, "waits for a reader", id="pipe"),
        pytest.param({"log_dir": "../logs"}, "no path below the volume", id="outside the volume"),
        pytest.param({"file_path": "rank_{rank_id}.json"}, "'{rank_id}'", id="placeholder"),
        pytest.param({"max_file_size": "10 apples"}, "is no size", id="size"),
        pytest.param({"log_rank": "all"}, "-1 for all", id="rank"),
        pytest.param({"custom_monitor_callback": "Monitor"}, "package.module:Class", id="class"),
        pytest.param({"use_ascend_c": True}, "MindSpore has no such thing", id="kernels"),
        pytest.param({"auto_tune": {"target": "lr"}}, "change what the job does", id="tuning"),
        pytest.param({"auto_reduce_batch_size": True}, "compiled into the graph", id="batch size"),
        pytest.param({"webhook_url": "http://x"}, "Alertmanager", id="webhook"),
        pytest.param({"alert_config": {"loss_threshold": 10.0}}, "PrometheusRule on rankbeat_job_loss", id="threshold"),
        pytest.param({"data_masking": True}, "spec.outputs.masking", id="masking"),
        pytest.param({"runner_config": {"epochs": 1}}, "nothing to do with monitoring", id="the job's own"),
        pytest.param({"weight_state_format": "json"}, "log, tensorboard or a list of both", id="MindFormers' value"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(config, reason):
    (text,) = refusals(**config).values()

    assert reason in text


@pytest.mark.parametrize(
    ("config", "figure"),
    [
        pytest.param({"hardware_metrics": {"npu_utilization": True}}, "utilization_ratio", id="row 15"),
        pytest.param({"hardware_metrics": ["temperature"]}, "temperature_celsius", id="row 17"),
        pytest.param({"alert_threshold": {"memory": 90, "temperature": 85}}, "memory_used_bytes", id="row 72, bare"),
        pytest.param(
            {"callbacks": [{"name": "GpuUtilCallback", "check_interval": 5, "alert_threshold": {"memory": 85}}]},
            "memory_used_bytes",
            id="row 72",
        ),
        pytest.param({"device_monitor": {"enable": True}}, "power_watts", id="row 99"),
    ],
)
def test_what_only_the_node_can_measure_is_answered_with_the_metric_that_does(config, figure):
    (text,) = refusals(**config).values()

    assert metrics.ACCELERATOR_FIGURES[figure].name in text


def test_each_callback_of_a_list_is_answered_by_its_name():
    callbacks = [{"name": "GpuUtilCallback"}, {"type": "AccuracyCallback"}, {"type": "MFLossMonitor"}, 7]

    answers = refusals(callbacks=callbacks)

    assert answers == {
        "callbacks[0]": REFUSALS["GpuUtilCallback"],
        "callbacks[1]": REFUSALS["AccuracyCallback"],
        "callbacks[2]": CALLBACKS,
        "callbacks[3]": CALLBACKS,
    }


@pytest.mark.parametrize("key", ["monitor", "Monitor", "_monitor", "set_lr", "set_grad_clip", "BaseMonitor", "config"])
def test_words_of_articles_for_what_does_not_exist_are_answered_not_corrected(key):
    (text,) = refusals(**{key: True}).values()

    assert "there is no key" not in text
    assert "did you mean" not in text


@pytest.mark.parametrize(
    ("metric", "signals"),
    [
        pytest.param({"source": "layers.3.attention.softmax", "type": "image"}, ["attentionEntropy"], id="attention"),
        pytest.param({"name": "grad_norm", "type": "image"}, ["gradNorm"], id="scalar"),
        pytest.param({"name": "weights", "type": "image"}, ["histograms"], id="weights"),
        pytest.param({"name": "grad_norm", "type": "histogram"}, ["gradNorm"], id="histogram of a scalar"),
    ],
)
def test_a_type_that_would_show_something_else_is_refused_and_the_value_itself_is_not(metric, signals):
    translated = translation.translated({"metrics": [metric]})

    assert [outcome.key for outcome in translated.refused] == ["metrics[0].type"]
    assert translated.spec["signals"] == [*DEFAULT_SIGNALS, *signals]


@pytest.mark.parametrize(
    ("metric", "signal"),
    [({"name": "images", "type": "image"}, "images"), ({"name": "weights", "type": "histogram"}, "histograms")],
    ids=["inputs as images", "weights as histograms"],
)
def test_a_type_of_what_the_signal_writes_is_that_signal(metric, signal):
    assert spec(metrics=[metric]) == {"signals": [*DEFAULT_SIGNALS, signal]}


def test_how_many_images_has_an_outcome_wherever_it_is_written():
    outcomes = translation.translated({"max_images": 4, "metrics": [{"name": "images", "max_images": 2}]}).outcomes

    assert {(o.key, o.verdict) for o in outcomes} >= {("max_images", KEPT), ("metrics[0].max_images", KEPT)}


def test_two_keys_that_disagree_are_refused_and_two_that_agree_are_not():
    assert refusals(step_interval=10, interval=20) == {
        "interval": "another key has set spec.sampling.interval to 10: write one of the two"
    }
    assert spec(step_interval=10, interval=10) == {"sampling": {"interval": 10}}


def test_one_refused_key_does_not_keep_the_others_from_being_heeded():
    translated = translation.translated({"interval": 5, "nonsense": 1})

    assert translated.spec == {"sampling": {"interval": 5}}
    assert [outcome.key for outcome in translated.refused] == ["nonsense"]


def test_every_key_has_an_outcome_whatever_its_value():
    for key in {*KEYS, *REFUSALS}:
        for value in (None, 0, -1, 3.5, True, "", "x", [], ["x", 1, None], {}, {"a": {"b": []}}, [[{}]]):
            translated = translation.translated({key: value})

            assert all(outcome.verdict in (TRANSLATED, KEPT, REFUSED) for outcome in translated.outcomes)
            settable = {**translated.spec, "outputs": {"volume": {"name": "v"}, **translated.spec.get("outputs", {})}}
            monitor.settings(settable)


def test_no_key_is_both_translated_and_refused():
    assert KEYS.keys() & REFUSALS.keys() == set()
    assert DEVICE_METRICS.keys() & (measured.SIGNALS.keys() | measured.ALWAYS.keys()) == set()


def test_an_explicit_field_wins_over_a_translated_one():
    written = {
        "sampling": {"interval": 7},
        "signals": ["loss"],
        "monitorConfig": {"interval": 10, "dense_first_steps": 5, "metrics": ["grad_norm"], "name": "a"},
    }

    effective = translation.effective(written)

    assert effective == (
        {"sampling": {"interval": 7, "denseFirstSteps": 5}, "signals": ["loss"], "experiment": "a"},
        (),
    )


def test_a_spec_without_a_bare_configuration_is_as_it_is():
    written = {"experiment": "a", "outputs": {"console": {}}}

    assert translation.effective(written) == (written, ())


def test_translated_files_without_a_volume_are_left_out_and_said_to_be():
    effective = translation.effective({"monitorConfig": {"export_format": "json", "output_type": "stdout"}})

    assert effective.spec == {"outputs": {"console": {"ranks": "auto"}}, "collector": {}}
    assert [(o.key, o.text) for o in effective.refused] == [
        ("outputs.files", "files need a volume of the pod or a claim: write spec.outputs.volume")
    ]
    assert monitor.settings(effective.spec).collector_mode == "node"


def test_translated_files_go_to_the_volume_that_the_spec_names():
    settings = monitor.settings({"outputs": {"volume": {"name": "v"}}, "monitorConfig": {"export_format": "json"}})

    assert [file.format for file in settings.outputs.files] == ["jsonl"]
    assert settings.collector_mode == "sidecar"


def test_a_collector_of_the_node_cannot_write_the_files_of_a_bare_configuration():
    written = {"outputs": {"volume": {"name": "v"}}, "collector": {"mode": "node"}}

    refused = translation.effective({**written, "monitorConfig": {"export_format": "json"}}).refused

    assert [outcome.key for outcome in refused] == ["collector.mode"]


def test_a_bare_configuration_of_any_size_is_not_taken():
    effective = translation.effective({"monitorConfig": {"interval": 5, "name": "a" * 20_000}})

    assert [outcome.key for outcome in effective.refused] == ["spec.monitorConfig"]
    assert "sampling" not in effective.spec


def test_a_wrong_key_of_mindformers_is_said_and_none_is_used():
    written = {"mindformers": {"monitorConfig": {"monitor_on": True, "weight_stat_format": "log"}}}

    assert [(o.key, o.text) for o in translation.effective(written).refused] == [
        (
            "mindformers.monitorConfig.weight_stat_format",
            "MindFormers' monitor_config has no key 'weight_stat_format', did you mean 'weight_state_format'?",
        )
    ]
    assert monitor.settings(written).mindformers == {}
