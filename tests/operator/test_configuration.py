"""What is said of a bare configuration and of an experiment's name."""

import pytest

from operator_builders import a_job, a_monitor, a_monitor_manifest, seen
from rankbeat_contract import monitor as contract
from rankbeat_operator.handlers.context import Knowledge, known_monitor
from rankbeat_operator.model import monitors
from rankbeat_operator.model.planned import Change, Planned, Sampling
from rankbeat_operator.plan import configuration


def conditions(monitor, observed=None):
    return {c.type: c for c in configuration.conditions(monitor, observed or seen())}


def a_read_monitor(**spec):
    manifest = a_monitor_manifest(**spec)
    return monitors.monitor({**manifest, "metadata": {**manifest["metadata"], "uid": "u"}})


def test_a_monitor_that_writes_neither_has_neither_condition():
    assert conditions(a_read_monitor()) == {}


def test_a_bare_configuration_that_is_heeded():
    monitor = a_read_monitor(monitorConfig={"step_interval": 10})

    assert monitor.settings.interval_steps == 10
    assert conditions(monitor)["ConfigurationTranslated"].status == "True"


def test_refused_keys_are_said_with_the_reason_and_the_rest_is_used():
    monitor = a_read_monitor(monitorConfig={"step_interval": 10, "enbale": True, "use_ascend_c": True})

    condition = conditions(monitor)["ConfigurationTranslated"]

    assert monitor.settings.interval_steps == 10
    assert (condition.status, condition.reason) == ("False", "KeysRefused")
    assert "enbale: there is no key 'enbale', did you mean 'enable'?; use_ascend_c: " in condition.message
    assert "rankbeat translate FILE shows" in condition.message


def test_of_many_refused_keys_the_first_are_said():
    message = conditions(a_read_monitor(monitorConfig={f"x{n}": 1 for n in range(9)}))[
        "ConfigurationTranslated"
    ].message

    assert "x3: there is no key" in message
    assert "x4" not in message
    assert "; and 5 more: " in message


def test_a_wrong_key_of_mindformers_is_said():
    condition = conditions(a_read_monitor(mindformers={"monitorConfig": {"enable": True}}))["ConfigurationTranslated"]

    assert "MindFormers' monitor_config has no key 'enable'" in condition.message


@pytest.mark.parametrize(
    "metric",
    [
        pytest.param({"name": "grad_norm", "interval": 10}, id="sampled"),
        pytest.param({"name": "resident_memory_bytes", "interval": 10, "filter": "value > 1"}, id="by the clock"),
        pytest.param({"name": "user_reward", "interval": 10}, id="the job's own"),
        pytest.param({"name": "mine_entropy", "interval": 10}, id="of a monitor in the process"),
        pytest.param({"name": "eval_accuracy", "filter": "value > 0.5"}, id="of an evaluation"),
    ],
)
def test_a_metric_that_there_is_has_its_interval_and_filter(metric):
    monitor = a_read_monitor(metrics=[metric], monitors=[{"name": "mine", "class": "a:B", "where": "process"}])

    assert conditions(monitor)["MetricsHeeded"].status == "True"


def test_a_metric_that_there_is_not_is_said_with_the_nearest():
    metrics = [{"name": "losss", "interval": 10}, {"name": "mine_entropy", "interval": 10}]
    monitor = a_read_monitor(metrics=metrics, monitors=[{"name": "mine", "class": "a:B", "where": "collector"}])

    condition = conditions(monitor)["MetricsHeeded"]

    assert (condition.status, condition.reason) == ("False", "NotHeeded")
    assert "spec.metrics[losss]: there is no metric 'losss', did you mean 'loss'?; the job's own" in condition.message
    assert "spec.metrics[mine_entropy]: there is no metric 'mine_entropy'" in condition.message


def test_an_interval_of_what_comes_when_it_comes_is_not_heeded():
    monitor = a_read_monitor(metrics=[{"name": "checkpoint_duration_seconds", "interval": 10, "filter": "value > 5"}])

    condition = conditions(monitor)["MetricsHeeded"]

    assert condition.message == (
        "spec.metrics[checkpoint_duration_seconds]: its interval is not used, each evaluation and checkpoint is kept;"
        " a filter can drop some"
    )


def test_an_experiment_of_its_own():
    monitor = a_monitor(settings=contract.Settings(experiment="llm"))

    assert conditions(monitor)["ExperimentUnique"].status == "True"


def test_an_experiment_of_two_jobs_names_the_other_monitor():
    monitor = a_monitor(settings=contract.Settings(experiment="llm"))

    condition = conditions(monitor, seen(rivals=("llm-2",)))["ExperimentUnique"]

    assert (condition.status, condition.reason) == ("False", "ExperimentTaken")
    assert condition.message.startswith("TrainingMonitor llm-2 of another job has spec.experiment 'llm' too: both are")


def test_a_job_that_is_over_takes_no_name():
    monitor = a_monitor(settings=contract.Settings(experiment="llm"))
    observed = seen(rivals=("llm-2",), workload=a_job(finished="Complete"))

    assert conditions(monitor, observed)["ExperimentUnique"].status == "True"


OLD, NEW = Sampling(0, 100), Sampling(50, 100)


@pytest.mark.parametrize(
    ("planned", "told"),
    [
        pytest.param(Planned(NEW), None, id="in force"),
        pytest.param(Planned(NEW, Change(512, OLD, "r")), None, id="passed"),
        pytest.param(
            Planned(NEW, Change(513, OLD, "r")),
            ("ChangePending", "spec.sampling holds from step 513 on, by which every rank has read it"),
            id="on its way",
        ),
        pytest.param(
            Planned(OLD, Change(600, NEW, "r")),
            ("ChangeWaits", "the change of spec.sampling waits until step 600, where the last one holds"),
            id="after another",
        ),
        pytest.param(
            Planned(OLD),
            ("ChangeWaits", "the change of spec.sampling waits until the job has made a second step"),
            id="of unknown pace",
        ),
    ],
)
def test_a_changed_sampling_that_is_not_in_force_says_when_it_will_be(planned, told):
    monitor = a_monitor(settings=contract.Settings(interval_steps=50))

    found = conditions(monitor, seen(planned=planned)).get("SamplingInForce")

    assert (found and (found.reason, found.message)) == told


def a_known_monitor(name: str, namespace: str = "team-a", status=None, **spec):
    manifest = a_monitor_manifest(name, namespace, **spec)
    return (namespace, name), known_monitor({**manifest, "status": status or {}})


@pytest.mark.parametrize(
    ("other", "rivals"),
    [
        pytest.param(a_known_monitor("b", experiment="x"), ("b",), id="another job"),
        pytest.param(a_known_monitor("b", experiment="y"), (), id="another experiment"),
        pytest.param(a_known_monitor("b"), (), id="no experiment"),
        pytest.param(a_known_monitor("b", "team-b", experiment="x"), (), id="another namespace"),
        pytest.param(
            a_known_monitor("b", experiment="x", workloadRef={"apiVersion": "batch/v1", "kind": "Job", "name": "a"}),
            (),
            id="the same job",
        ),
        pytest.param(
            a_known_monitor("b", experiment="x", podSelector={"matchLabels": {"app": "a"}}), ("b",), id="by label"
        ),
        pytest.param(
            a_known_monitor(
                "b", experiment="x", status={"conditions": [{"type": "Ready", "reason": "WorkloadComplete"}]}
            ),
            (),
            id="over",
        ),
    ],
)
def test_which_monitors_contend_for_an_experiments_name(other, rivals):
    known = Knowledge(monitors=dict([a_known_monitor("a", experiment="x"), other]))

    assert known.rivals("team-a", "a") == rivals


def test_a_monitor_without_an_experiment_contends_with_nobody():
    known = Knowledge(monitors=dict([a_known_monitor("a"), a_known_monitor("b")]))

    assert known.rivals("team-a", "a") == ()
