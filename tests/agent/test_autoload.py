"""sitecustomize in real interpreters: loaded where it should be, invisible everywhere else."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import training_support as support
from rankbeat_agent.hooks import configuration, patches, rank
from rankbeat_contract import names, ring

WATCHES = "import sys; print([type(finder).__name__ for finder in sys.meta_path].count('RankbeatFinder'))"


def loaded(agent, *options, program=WATCHES, **variables):
    """What a fresh interpreter says, with the agent first on PYTHONPATH."""
    env = {"PYTHONPATH": str(agent), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [sys.executable, *options, "-c", program], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("options", "variables", "expected"),
    [
        pytest.param([], {"RANKBEAT_RING_DIR": "/rings"}, "1", id="where rings are asked for"),
        pytest.param([], {"RANKBEAT_RING_DIR": "/rings", "MS_ROLE": "MS_WORKER"}, "1", id="worker"),
        pytest.param([], {"RANKBEAT_RING_DIR": "/rings", "MS_ROLE": "MS_SCHED"}, "0", id="scheduler"),
        pytest.param([], {"RANKBEAT_RING_DIR": "/rings", "MS_ROLE": "MS_PSERVER"}, "0", id="parameter server"),
        pytest.param([], {}, "0", id="no ring folder"),
        pytest.param(["-I"], {"RANKBEAT_RING_DIR": "/rings"}, "0", id="isolated"),
        pytest.param(["-S"], {"RANKBEAT_RING_DIR": "/rings"}, "0", id="no site"),
    ],
)
def test_only_a_process_that_may_be_a_rank_loads_the_hooks(agent, options, variables, expected):
    assert loaded(agent, *options, **variables) == (expected, "")


def test_to_watch_for_mindspore_imports_nothing(agent):
    program = "import sys; print(' '.join(sys.modules))"

    without, _ = loaded(agent, program=program)
    watching, _ = loaded(agent, program=program, RANKBEAT_RING_DIR="/rings")

    assert set(watching.split()) == set(without.split())


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


@pytest.fixture
def mindspore(tmp_path):
    """A folder with a module of MindSpore's name: what is tested is the import, without the library."""
    (tmp_path / "site/mindspore/train").mkdir(parents=True)
    (tmp_path / "site/mindspore/train/model.py").write_text("class Model:\n    def train(self, *args): pass\n")
    return tmp_path / "site"


def test_a_broken_agent_costs_one_line_and_the_module_is_whole(tmp_path, mindspore):
    agent = support.pod_folder(tmp_path / "agent")
    (agent / "rankbeat_agent/hooks/patches.py").write_text("raise MemoryError\n")
    program = "from mindspore.train.model import Model; print(Model.train.__name__)"

    said, told = loaded(agent, program=program, RANKBEAT_RING_DIR="/rings", PYTHONPATH=f"{agent}:{mindspore}")

    assert said == "train"
    assert told == "rankbeat: mindspore.train.model not hooked: MemoryError(); training goes on unseen\n"


def test_a_script_that_makes_its_own_path_is_hooked_all_the_same(agent, mindspore):
    program = (
        f"import sys; own = [{str(mindspore)!r}, *sys.path]; own.remove({str(agent)!r}); sys.path = own\n"
        "from mindspore.train.model import Model; print(hasattr(Model.train, '__wrapped__'), sys.path is own)"
    )

    assert loaded(agent, program=program, RANKBEAT_RING_DIR="/rings") == ("True True", "")


def test_what_the_agent_spells_out_to_start_sooner_is_what_the_contract_says(agent):
    spelled = (names.ENV_RING_DIR, names.ENV_RING_BYTES, names.ENV_ATTEMPT)
    numbered = tuple(ring.PHASES.index(phase) for phase in ("init_comm", "build", "load", "checkpoint", "eval"))

    assert f'"{names.ENV_RING_DIR}" not in os.environ' in (agent / "sitecustomize.py").read_text()
    assert spelled == (rank._RING_DIR, rank._RING_BYTES, rank._ATTEMPT)
    assert numbered == (patches._INIT_COMM, patches._BUILD, patches._LOAD, patches._CHECKPOINT, patches._EVAL)
    assert all(getattr(rank, phase.upper()) == code for code, phase in enumerate(ring.PHASES))
    assert f'environ.get("{names.ENV_CONFIG}"' in Path(patches.__file__).read_text()
    assert f'environ.get("{names.ENV_SIGNALS}"' in Path(patches.__file__).read_text()


def test_each_module_that_is_watched_has_its_patch_and_each_tap_is_looked_for():
    autoload = runpy.run_path(str(support.REPO / "agent/rankbeat_agent/autoload/sitecustomize.py"))

    assert {*patches._WRAPPED, *patches._HANDED_ON} == autoload["PATCHED"]
    assert set(patches.TAPS) == configuration.TAPS


def test_the_agent_is_small_enough_to_travel_in_a_config_map(agent):
    """A ConfigMap holds 1 MiB (etcd's limit of a request is 1.5 MiB)."""
    sources = [agent / "sitecustomize.py", *agent.glob("rankbeat_*/**/*.py")]

    assert sum(path.stat().st_size for path in sources) < 700_000
