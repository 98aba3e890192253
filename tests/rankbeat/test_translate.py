"""`rankbeat translate`, as a program."""

import json
import subprocess
import sys
from pathlib import Path

import yaml


def translate(*arguments: str, text: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rankbeat", "translate", *arguments]
    variables = {"PATH": "/usr/bin:/bin", "COLUMNS": "200", **environment}
    return subprocess.run(command, input=text, env=variables, capture_output=True, text=True, timeout=60, check=False)


def a_file(folder: Path, **config: object) -> str:
    path = folder / "monitor.yaml"
    path.write_text(yaml.safe_dump({"monitor_config": config}, sort_keys=False))
    return str(path)


def test_it_prints_the_spec_to_use_and_what_became_of_each_key(tmp_path):
    done = translate(a_file(tmp_path, step_interval=10, metrics=["loss", "grad_norm"]))

    assert done.returncode == 0
    assert yaml.safe_load(done.stdout)["spec"]["sampling"] == {"interval": 10}
    shown = [" ".join(line.split()) for line in done.stderr.splitlines()]
    assert shown == [
        "key what becomes of it",
        "step_interval translated spec.sampling.interval: 10",
        "metrics[0] nothing to set signal loss is collected by default",
        "metrics[1] translated spec.signals: gradNorm",
    ]


def test_a_refused_key_makes_it_fail_and_the_rest_is_still_printed(tmp_path):
    done = translate(a_file(tmp_path, step_interval=10, enbale=True))

    assert done.returncode == 1
    assert yaml.safe_load(done.stdout) == {"spec": {"sampling": {"interval": 10}}}
    assert "there is no key 'enbale', did you mean 'enable'?" in done.stderr


def test_yaml_alone_says_only_what_is_refused(tmp_path):
    done = translate("--output", "yaml", a_file(tmp_path, step_interval=10, use_ascend_c=True))

    assert yaml.safe_load(done.stdout) == {"spec": {"sampling": {"interval": 10}}}
    assert done.stderr.startswith("rankbeat: use_ascend_c is refused: monitoring kernels on the device: ")


def test_json_comes_by_standard_input():
    done = translate("-", "-o", "yaml", text=json.dumps({"collect_freq": 5}))

    assert (done.returncode, yaml.safe_load(done.stdout)) == (0, {"spec": {"sampling": {"interval": 5}}})


def test_what_is_no_configuration_is_told_with_the_file(tmp_path):
    (tmp_path / "list.yaml").write_text("- loss\n")

    assert "holds no object with keys" in translate(str(tmp_path / "list.yaml")).stderr
    missing = translate(str(tmp_path / "none.yaml"))
    assert missing.returncode == 1
    assert missing.stderr.startswith(f"rankbeat: {tmp_path}/none.yaml cannot be read: ")


def test_without_the_extra_it_says_how_to_get_it(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('No module named typer', name='typer')")

    done = translate("x.yaml", PYTHONPATH=str(tmp_path))

    assert (done.returncode, done.stderr) == (1, "rankbeat: typer is not installed: pip install 'rankbeat[cli]'\n")
