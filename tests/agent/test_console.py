"""The line in the job's own log."""

import select
import subprocess
import sys

import pytest

import training_support as support
from rankbeat_agent.hooks import baseline, console, evaluation

PROGRAM = """
import io, sys
sys.path.insert(0, {agent!r})
from rankbeat_agent.hooks import console, rank
process = rank.Rank()
lines = console.Console(process)
{body}
sys.stderr.write(f"errors={{lines.errors}},{{process.errors}}")
"""


def ran(body, **options):
    program = PROGRAM.format(agent=str(support.REPO / "agent"), body=body)
    return subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False, **options)


@pytest.mark.parametrize(
    ("ranks", "rank", "first_valid", "expected"),
    [
        ("auto", 0, 0, True),
        ("auto", 1, 0, False),
        ("auto", 6, 6, True),
        ("all", 5, 0, True),
        ("0, 3", 3, 0, True),
        ("0,3", 13, 0, False),
    ],
)
def test_which_ranks_print(ranks, rank, first_valid, expected):
    assert console.is_asked(ranks, rank, first_valid) is expected


def test_a_line_has_the_step_and_name_value_pairs():
    line = console.line(100, [("loss", 2.3125), ("learning_rate", 1e-4), ("grad_norm", float("nan"))])

    assert line == "rankbeat step=100 loss=2.3125 learning_rate=0.0001 grad_norm=nan\n"


def test_lines_of_a_job_that_prints_into_a_pipe_stay_whole_and_in_order():
    body = 'for step in range(300):\n    print(f"job {step} " + "x" * 97)\n    lines.say(step, [("loss", 0.5)])'

    done = ran(body, stdout=subprocess.PIPE)

    expected = [line for step in range(300) for line in (f"job {step} " + "x" * 97, f"rankbeat step={step} loss=0.5")]
    assert (done.stdout.splitlines(), done.stderr) == (expected, "errors=0,0")


def test_a_reader_that_reads_nothing_costs_lines_and_never_a_step():
    # Nobody reads before the process has ended: the pipe fills at 64 KiB.
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            PROGRAM.format(
                agent=str(support.REPO / "agent"), body="for step in range(9000): lines.say(step, [('loss', 0.5)])"
            ),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        code = job.wait(timeout=20)
        said, errors = job.stdout.read(), job.stderr.read()

    assert (code, errors.rsplit("errors=")[1]) == (0, f"{console.MAX_ERRORS},1")
    assert all(line.endswith(" loss=0.5") for line in said.splitlines())


LONG = [("user_" + "x" * 50 + f"{number:03}", -1.234567e-05) for number in range(110)]


def test_a_line_takes_no_more_than_a_pipe_does_at_once_and_counts_what_it_leaves_out():
    line = console.line(7, LONG)

    *pairs, left_out = line.split()
    assert pairs == console.line(7, LONG[: len(pairs) - 2]).split()
    assert left_out == f"left_out={len(LONG) - len(pairs) + 2}"
    assert (line[-1], len(line) <= select.PIPE_BUF) == ("\n", True)
    assert len(line) + len(" user_=") + 70 > select.PIPE_BUF


def test_long_lines_into_a_pipe_that_is_full_are_dropped_and_never_waited_for():
    body = (
        "values = [('user_' + 'x' * 50 + f'{number:03}', -1.234567e-05) for number in range(110)]\n"
        "print('job ' + 'x' * 3000)\n"
        "for step in range(99): lines.say(step, values)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(agent=str(support.REPO / "agent"), body=body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        code = job.wait(timeout=20)
        said, errors = job.stdout.read(), job.stderr.read()

    whole = [line for line in said.splitlines() if line.startswith("rankbeat")]
    assert (code, errors.rsplit("errors=")[1]) == (0, f"{console.MAX_ERRORS},1")
    assert whole
    assert all(line.split()[-1].startswith("left_out=") for line in whole)


def test_a_closed_standard_output_is_counted_once_and_given_up():
    done = ran('sys.stdout.close()\nfor step in range(99): lines.say(step, [("loss", 0.5)])', stdout=subprocess.DEVNULL)

    assert done.stderr.endswith("errors=10,1")


def test_whoever_has_replaced_standard_output_gets_the_line():
    body = 'sys.stdout = io.StringIO()\nlines.say(7, [("loss", 0.5)])\nsys.stderr.write(sys.stdout.getvalue())'

    assert ran(body, stdout=subprocess.DEVNULL).stderr == "rankbeat step=7 loss=0.5\nerrors=0,0"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eval_loss", "eval_loss"),
        ("Top1 accuracy", "eval_top1_accuracy"),
        ("acc@5", "eval_acc_5"),
        ("", ""),
        ("准确率", ""),
        ("x" * 80, "eval_" + "x" * 59),
    ],
)
def test_an_evaluations_name_becomes_a_metric_name(name, expected):
    assert evaluation.normalised(name, "eval_") == expected


def test_results_that_are_no_number_are_left_out():
    assert dict(evaluation.metrics({"acc": 0.5, "matrix": [[1, 2]], "per_class": None})) == {"eval_acc": 0.5}
    assert dict(evaluation.metrics(None)) == {}


def test_a_baseline_is_the_mean_and_deviation_of_the_first_hundred_finite_numbers():
    made = baseline.Baseline()

    whole = [made.take(value) for value in (float("nan"), *range(100), 1e9)]

    assert (whole.index(True), whole.count(True), made.is_whole) == (100, 1, True)
    assert (made.mean, made.deviation) == (pytest.approx(49.5), pytest.approx(28.8660700))
