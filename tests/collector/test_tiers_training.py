"""The lower tiers against what MindSpore and MindFormers really write."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

import tier_support
import training_support as support
from rankbeat_collector.tiers import loss_lines

JOB = Path(__file__).parents[1] / "agent/job.py"
MONITORED = Path(__file__).with_name("monitored_job.py")
LINES = Path(__file__).with_name("mindformers_lines.py")
MINDFORMERS = support.REPO / "build/mindformers/bin/python"
STEPS = 120

pytestmark = support.TRAINS


def perf_variables(folder: Path) -> dict[str, str]:
    """The environment of a container with the tier perfFile, and without the agent."""
    asked = {"PERF_DUMP_CONFIG": "enable:true,steptime:true,dtpGroup:false", "PERF_DUMP_PATH": str(folder)}
    return support.environment(None, None, **asked)


def test_step_files_of_a_real_job_are_read_while_it_writes_them(tmp_path: Path) -> None:
    """Two ranks under msrun; the poller starts with them and sees every step of each once."""
    (tmp_path / "node").mkdir()
    node = tier_support.Node(tmp_path / "node")
    pod = tier_support.a_tier_pod()
    poller = node.poller(pod)
    (tmp_path / "job").mkdir()
    seen: dict[int, list[int]] = {}
    job = [str(JOB), "--distributed", "--steps", str(STEPS)]
    begun = time.time()
    with support.running_msrun(2, job, perf_variables(node.perf_folder(pod)), tmp_path / "job") as running:
        while running.poll() is None and time.time() - begun < support.LIMIT_SECONDS:
            for rank in poller.poll().ranks:
                seen.setdefault(rank.state.rank, []).append(rank.state.step)
            time.sleep(0.1)
    poll = poller.poll()

    assert [(rank.state.rank, rank.header.local_rank, rank.state.step) for rank in poll.ranks] == [
        (0, 0, STEPS),
        (1, 1, STEPS),
    ]
    assert poll.totals.refused == ()
    assert all(steps == sorted(steps) and len(set(steps)) > 1 for steps in seen.values())
    for rank in poll.ranks:
        first, *others = rank.steps
        assert [row.step for row in rank.steps] == list(range(1, STEPS + 1))
        assert begun < rank.header.claimed_wall_ns / 1e9 < time.time()
        assert first.interval_seconds is None
        assert all(row.interval_seconds == pytest.approx(row.gap_seconds + row.in_step_seconds) for row in others)


def test_each_train_call_of_a_real_process_begins_its_file_anew(tmp_path: Path) -> None:
    """The second call has two ClusterMonitors, since the job gives the same list: each step is written twice."""
    node = tier_support.Node(tmp_path)
    pod = tier_support.a_tier_pod()
    poller = node.poller(pod)
    folder = node.perf_folder(pod)
    command = [str(support.mindspore_python()), str(JOB), "--steps", "20", "--callbacks", "list", "list"]

    done = support.run(command, perf_variables(folder), tmp_path)
    poller.poll()
    (rank,) = poller.poll().ranks

    assert done.returncode == 0, done.stderr[-2000:]
    assert (rank.state.rank, rank.state.step) == (0, 20)
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o400]


def test_a_job_that_gives_its_callbacks_as_a_tuple_is_ended_by_mindspore_so_the_tier_is_only_on_request(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "perf"
    command = [str(support.mindspore_python()), str(JOB), "--steps", "20", "--callbacks", "tuple"]

    done = support.run(command, perf_variables(folder), tmp_path)

    assert done.returncode != 0
    assert "must be Callback functions" in done.stderr


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small tmpfs")
def test_a_full_volume_ends_the_job_so_the_step_files_get_a_volume_without_a_limit(tmp_path: Path) -> None:
    """Why the webhook gives the tier perfFile a volume of its own on disk: MindSpore does not catch the error."""
    folder = tmp_path / "perf"
    folder.mkdir()
    mounted = support.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder)], {"PATH": os.environ["PATH"]}, tmp_path
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    try:
        command = [str(support.mindspore_python()), str(JOB), "--steps", "200"]
        done = support.run(command, perf_variables(folder), tmp_path)
    finally:
        support.run(["umount", str(folder)], {"PATH": os.environ["PATH"]}, tmp_path)

    assert done.returncode != 0
    assert "No space left on device" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("option", "seen"), [("--tail_worker_log=1", [(1, 20)]), ("--tail_worker_log=-1", [(-1, 20)])], ids=["one", "all"]
)
def test_whose_lines_a_real_msrun_copies_to_the_pod_s_log_is_known_where_it_is_one_worker_s(
    tmp_path: Path, option: str, seen: list[tuple[int, int]]
) -> None:
    """What msrun itself prints is put into the log as a runtime does; with --join it copies workers by tail -f."""
    (tmp_path / "node").mkdir()
    node = tier_support.Node(tmp_path / "node")
    pod = tier_support.a_tier_pod(tiers=("logTail",))
    script = [str(MONITORED), "--distributed", "--steps", "20"]
    command = support._msrun_command(2, script, tmp_path / "logs")
    command.insert(command.index("--join=True"), option)

    done = support.run(command, support.environment(None, None), tmp_path)
    text = "".join(
        tier_support.cri(output.splitlines(), stream=stream)
        for stream, output in (("stderr", done.stderr), ("stdout", done.stdout))
    )
    (node.log_folder(pod) / "0.log").write_text(text)
    poller = node.poller(pod)
    poller.poll()
    poll = poller.poll()

    assert done.returncode == 0, done.stderr[-2000:]
    assert [(rank.state.rank, rank.state.step) for rank in poll.ranks] == seen
    assert [row.step for row in poll.ranks[0].steps] == list(range(1, 21))


@pytest.mark.skipif(not MINDFORMERS.exists(), reason="no MindFormers environment: run `make setup`, step mindformers")
def test_the_lines_that_mindformers_itself_prints_are_understood(tmp_path: Path) -> None:
    """The real MFLossMonitor and the PyNative trainer's LossCallback print; numbers must come back as they went in."""
    variables = {**support.environment(None, None), "PATH": f"{MINDFORMERS.parent}:/usr/local/bin:/usr/bin:/bin"}

    done = support.run([str(MINDFORMERS), str(LINES)], variables, tmp_path)
    found = [line for text in done.stdout.splitlines() if (line := loss_lines.loss_line(text)) is not None]

    assert done.returncode == 0, done.stderr[-2000:]
    assert [
        (line.step, line.total_steps, dict(line.values), line.step_seconds, line.has_overflow) for line in found
    ] == [
        (17, 20, {"loss": 4.121618, "learning_rate": 0.001, "grad_norm": 0.9454679, "loss_scale": 1.0}, 0.03, False),
        (10, 20, {"loss": 2.5, "learning_rate": 0.001, "grad_norm": 1.5, "loss_scale": 65536.0}, 1.234, True),
        (3, 20, {"loss": 3.25}, 0.005, False),
        (4, 20, {"loss": 3.25, "learning_rate": 1e-05, "grad_norm": 2.0, "loss_scale": 1.0}, 0.007, False),
        (7, 10, {"loss": 4.121618, "learning_rate": 1e-05, "grad_norm": 0.945468}, 0.03, False),
        (8, 10, {"learning_rate": 1e-05, "grad_norm": 0.5}, 0.031, False),
    ]
    assert all(line.written_seconds is not None for line in found)
