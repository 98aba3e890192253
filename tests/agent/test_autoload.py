"""sitecustomize in real interpreters: loaded where it should be, invisible everywhere else."""

import ast
import subprocess
import sys

import pytest

import training_support as support
from rankbeat_contract import names


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    return support.pod_folder(tmp_path_factory.mktemp("pod") / "agent")


def loaded(
    agent, *options, program="import sys; print(sorted(m for m in sys.modules if 'rankbeat' in m))", **variables
):
    """What a fresh interpreter says, with the agent first on PYTHONPATH."""
    env = {"PYTHONPATH": str(agent), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [sys.executable, *options, "-c", program], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip(), done.stderr


HOOKED = str(["rankbeat_agent", "rankbeat_agent.hooks", "rankbeat_agent.hooks.imports"])


@pytest.mark.parametrize(
    ("options", "variables", "expected"),
    [
        pytest.param([], {"RANKBEAT_RING_DIR": "/rings"}, HOOKED, id="where rings are asked for"),
        pytest.param([], {"RANKBEAT_RING_DIR": "/rings", "MS_ROLE": "MS_WORKER"}, HOOKED, id="worker"),
        pytest.param([], {"RANKBEAT_RING_DIR": "/rings", "MS_ROLE": "MS_SCHED"}, "[]", id="scheduler"),
        pytest.param([], {"RANKBEAT_RING_DIR": "/rings", "MS_ROLE": "MS_PSERVER"}, "[]", id="parameter server"),
        pytest.param([], {}, "[]", id="no ring folder"),
        pytest.param(["-I"], {"RANKBEAT_RING_DIR": "/rings"}, "[]", id="isolated"),
        pytest.param(["-S"], {"RANKBEAT_RING_DIR": "/rings"}, "[]", id="no site"),
    ],
)
def test_only_a_process_that_may_be_a_rank_loads_the_hooks(agent, options, variables, expected):
    assert loaded(agent, *options, **variables) == (expected, "")


def test_loading_the_hooks_imports_nothing_else(agent):
    program = "import sys; print(' '.join(sys.modules))"

    without, _ = loaded(agent, program=program)
    with_hooks, _ = loaded(agent, program=program, RANKBEAT_RING_DIR="/rings")

    assert set(with_hooks.split()) - set(without.split()) == set(ast.literal_eval(HOOKED))


def test_the_sitecustomize_behind_ours_runs_as_if_we_were_not_there(agent, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.theirs = __file__\n")
    path = f"{agent}:{tmp_path}"
    program = "import sys, sitecustomize; print(sys.theirs, sitecustomize.__file__)"

    said = loaded(agent, program=program, PYTHONPATH=path, RANKBEAT_RING_DIR="/rings")

    assert said == (f"{tmp_path}/sitecustomize.py {tmp_path}/sitecustomize.py", "")


def test_a_sitecustomize_before_ours_that_chains_to_us_is_not_run_twice(agent, tmp_path):
    chaining = (
        "import importlib.util, sys\n"
        "sys.runs = getattr(sys, 'runs', 0) + 1\n"
        f"spec = importlib.util.spec_from_file_location('sitecustomize', {str(agent / 'sitecustomize.py')!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
    )
    (tmp_path / "sitecustomize.py").write_text(chaining)

    said = loaded(
        agent, program="import sys; print(sys.runs)", PYTHONPATH=f"{tmp_path}:{agent}", RANKBEAT_RING_DIR="/r"
    )

    assert said == ("1", "")


def test_an_error_in_the_sitecustomize_behind_ours_is_told_as_python_tells_it(agent, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise LookupError('theirs')\n")

    _, told = loaded(agent, PYTHONPATH=f"{agent}:{tmp_path}")

    assert told == "Error in sitecustomize; set PYTHONVERBOSE for traceback:\nLookupError: theirs\n"


def test_a_broken_agent_costs_one_line_and_the_interpreter_starts(tmp_path):
    agent = support.pod_folder(tmp_path / "agent")
    (agent / "rankbeat_agent/hooks/imports.py").write_text("raise MemoryError\n")

    said, told = loaded(agent, program="print('started')", RANKBEAT_RING_DIR="/rings")

    assert said == "started"
    assert told == "rankbeat: agent not loaded: MemoryError(); training goes on, this process is not seen\n"


def test_the_agent_and_the_contract_spell_the_variable_alike(agent):
    assert f'"{names.ENV_RING_DIR}" in os.environ' in (agent / "sitecustomize.py").read_text()


def test_the_agent_is_small_enough_to_travel_in_a_config_map(agent):
    sources = [agent / "sitecustomize.py", *agent.glob("rankbeat_agent/**/*.py")]

    assert sum(path.stat().st_size for path in sources) < 60_000
