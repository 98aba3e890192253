"""Which traps a command holds, what cannot be told, and what the mended command is."""

import pytest

from rankbeat_contract import launch

INDEX = "JOB_COMPLETION_INDEX"
ALWAYS = ("signals", "exitCode")
WRAPPED = ["sh", "-c", 'export PYTHONPATH=x; exec "$@"', "rankbeat"]
LAUNCHER = "python3 -I -S /rankbeat/agent/rankbeat_agent/launch.py"


def traps(*command, pods=1, **how):
    found = launch.launch(command)
    return None if found is None else launch.traps(found, pods, **how)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["msrun", "--join=True", "train.py"], ALWAYS),
        (["msrun", "--join", "True", "--worker_num", "2", "train.py"], ALWAYS),
        (["msrun", "train.py"], ("join", *ALWAYS)),
        (["msrun", "--join=False", "train.py"], ("join", *ALWAYS)),
        (["msrun", "--join=True", "--join=False", "train.py"], ("join", *ALWAYS)),
        (["/opt/bin/msrun", "train.py", "--join=True"], ("join", *ALWAYS)),
        (["msrun", "--jo=True", "train.py"], ALWAYS),
        (["python3.11", "-m", "mindspore.parallel.cluster.run", "--join=True", "train.py"], ALWAYS),
        (["env", "A=1", "msrun", "--join=True", "train.py"], ALWAYS),
        (["sh", "-c", "msrun --join=True train.py"], ALWAYS),
        (["/bin/bash", "-lc", "exec msrun train.py"], ("join", *ALWAYS)),
        (["bash", "-e", "-o", "pipefail", "-c", "msrun train.py | tee log"], ("join", *ALWAYS)),
        (["sh", "-c", "cd /x && . ./env.sh\nexport A=1; A=2 msrun \\\n  --join=True \\\n  train.py 2>&1"], ALWAYS),
        (["sh", "-c", "# msrun old.py\nmsrun --join=True train.py # msrun"], ALWAYS),
        (["sh", "-c", "echo 'msrun a.py'; msrun --log_dir=/tmp/msrun --join=True train.py"], ALWAYS),
        (["sh", "-c", "if true; then msrun --join='True' train.py; fi"], ALWAYS),
        (["tini", "--", "msrun", "--join=True", "train.py"], ("exitCode",)),
        (["/usr/bin/dumb-init", "sh", "-c", "msrun --join=True train.py"], ("exitCode",)),
        (["sh", "-c", "trap 'kill -INT $!' TERM; msrun --join=True train.py & wait"], ("exitCode",)),
        ([*WRAPPED, "msrun", "--join=True", "train.py"], ALWAYS),
        ([*WRAPPED, "sh", "-c", "msrun train.py"], ("join", *ALWAYS)),
    ],
)
def test_the_traps_of_one_pod(command, found):
    assert traps(*command) == found


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["python", "train.py"],
        ["bash", "start.sh"],
        ["sh", "-c", "bash start.sh --join=True"],
        ["sh", "-c", "python train.py"],
        ["sh", "-c", "msrun a.py; msrun b.py"],
        ["sh", "-c", "cat > x <<E\nmsrun a.py\nE\nsh x"],
        ["sh", "-c", "msrun 'a.py"],
        ["sh", "-c", "eval msrun a.py"],
        ["timeout", "3h", "msrun", "a.py"],
        ["sh", "-c"],
    ],
)
def test_what_the_command_does_not_show_is_unknown(command):
    assert traps(*command, pods=4) is None


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "msrun $OPTIONS train.py"],
        ["sh", "-c", 'msrun --worker_num=8 "${OPTIONS[@]}" train.py'],
        ["msrun", "$(OPTIONS)", "train.py"],
        ["msrun", "--join=$(JOIN)", "--node_rank=$(RANK)", "train.py"],
        ["sh", "-c", "msrun --join=$JOIN --node_rank=`rank` train.py"],
        ["msrun", "--new_option", "x", "train.py"],
    ],
)
def test_options_that_a_variable_may_hold_are_not_missed(command):
    assert traps(*command, pods=4) == ALWAYS


@pytest.mark.parametrize(
    ("options", "pods", "is_trap"),
    [
        (["--worker_num=4", "--local_worker_num=2"], None, True),
        (["--worker_num=4", "--local_worker_num=2"], 1, True),
        (["--worker_num=4", "--local_worker_num=4"], 2, False),
        ([], 2, False),
        (["--worker_num=16"], 1, True),
        (["--worker_num=$(N)"], 2, True),
        (["--worker_num=$(N)"], 1, False),
        (["--worker_num=$(N)"], None, False),
        (["--worker_num=4", "--local_worker_num=2", "--node_rank=1"], 2, False),
        (["--worker_num=4", "--local_worker_num=2", "--node_rank=-1"], 2, True),
        (["--worker_num=4", "--local_worker_num=2", "--node_rank=$(JOB_COMPLETION_INDEX)"], 2, False),
    ],
)
def test_the_node_rank_matters_with_more_than_one_node_only(options, pods, is_trap):
    assert ("nodeRank" in traps("msrun", *options, "train.py", pods=pods)) is is_trap


def test_a_process_that_is_not_process_one_dies_of_sigterm():
    assert traps("msrun", "--join=True", "train.py", is_process_one=False) == ("exitCode",)


@pytest.mark.parametrize(
    ("fixes", "left"), [("signals", ("exitCode",)), ("exitCode", ("signals",)), ("signals,exitCode", ())]
)
def test_a_launch_behind_our_launcher_is_safe(fixes, left):
    text = f'if {LAUNCHER} check; then exec {LAUNCHER} {fixes} "$@"; fi; exec "$@"'

    assert traps("sh", "-c", text, "rankbeat", "msrun", "--join=True", "train.py") == left


MENDED = {
    "options": (
        ["msrun", "--worker_num=4", "train.py"],
        ["msrun", "--join=True", "--node_rank=$(JOB_COMPLETION_INDEX)", "--worker_num=4", "train.py"],
    ),
    "the script's own options are not msrun's": (
        ["msrun", "train.py", "--join=False"],
        ["msrun", "--join=True", "--node_rank=$(JOB_COMPLETION_INDEX)", "train.py", "--join=False"],
    ),
    "options that are there": (
        ["msrun", "--join", "False", "--node_rank=-1", "train.py"],
        ["msrun", "--join", "True", "--node_rank=$(JOB_COMPLETION_INDEX)", "train.py"],
    ),
    "a shell's text": (
        ["bash", "-c", "cd /x; exec msrun \\\n --worker_num=4 train.py '$(X)' > log"],
        [
            "bash",
            "-c",
            (
                'cd /x; exec msrun --join=True --node_rank="$JOB_COMPLETION_INDEX" '
                "\\\n --worker_num=4 train.py '$(X)' > log"
            ),
        ],
    ),
    "a shell's text with the options in it": (
        ["sh", "-c", 'msrun --join "False" --node_rank=-1 train.py'],
        ["sh", "-c", 'msrun --join True --node_rank="$JOB_COMPLETION_INDEX" train.py'],
    ),
}


@pytest.mark.parametrize(("command", "after"), MENDED.values(), ids=MENDED.keys())
def test_options_are_mended_in_their_place(command, after):
    mended = list(command)
    changes = launch.mended(command, launch.launch(command), ("join", "nodeRank"))
    for index, text in sorted(changes, reverse=True):
        if text.startswith("+"):
            mended.insert(index, text[1:])
        else:
            mended[index] = text

    assert mended == after
    assert traps(*mended, pods=2) == ALWAYS
