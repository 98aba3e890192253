"""spec.msrun.fix: what a mended command looks like, and what is left as it is."""

import pytest

import webhook_builders as build
from rankbeat_contract import launch

ALL = ["join", "signals", "exitCode", "nodeRank"]
EXPORT = 'export PYTHONPATH="/rankbeat/agent${PYTHONPATH:+:$PYTHONPATH}"; '
LAUNCHER = "python3 -I -S /rankbeat/agent/rankbeat_agent/launch.py"
INDEX = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}},
}
TWO_PODS = build.a_job(backoffLimit=6, parallelism=2, completions=2)
SH = {"shell": "/bin/sh"}
PATH = {"name": "PYTHONPATH", "value": "/x"}


def launching(fixes, said):
    return (
        f'if {LAUNCHER} check 2>/dev/null; then exec {LAUNCHER} {fixes} "$@"; fi; '
        f'echo "rankbeat: no python3 that runs the launcher: spec.msrun.fix {said} cannot be done" >&2; exec "$@"'
    )


def container(fixes, *, job=None, env=None, injection=None, args=None, command=build.DIRECT):
    """The container after injection, and what the annotation says."""
    view = build.wanting(job, msrun={"fix": fixes}, injection=injection or {})
    manifest = build.a_pod(build.a_container(command=command, env=env, args=args), owner=build.a_job_owner())
    decision = build.decided(manifest, view)
    assert decision.result == "Injected", decision
    return build.patched(manifest, decision.operations)["spec"]["containers"][0], decision.message


def test_nothing_is_mended_that_was_not_asked_for():
    after, message = container([], job=TWO_PODS)

    assert after["command"] == ["/bin/sh", "-c", build.WRAPPER, "rankbeat", *build.DIRECT]
    assert message == ""


def test_everything_is_mended_in_one_wrapper():
    after, message = container(ALL, job=TWO_PODS, env=[INDEX], command=["msrun"], args=["--worker_num=16", "train.py"])

    assert after["command"] == [
        *("/bin/sh", "-c", EXPORT + launching("signals,exitCode", "signals and exitCode"), "rankbeat", "msrun")
    ]
    assert after["args"] == [*("--join=True", "--node_rank=$(JOB_COMPLETION_INDEX)", "--worker_num=16", "train.py")]
    assert message == ""


def test_a_shell_s_text_is_mended_in_its_place():
    text = "cd /x && exec msrun --worker_num=16 train.py"
    after, _ = container(["join", "nodeRank"], job=TWO_PODS, env=[INDEX], command=["bash", "-c"], args=[text])

    assert after["command"] == ["bash", "-c", build.WRAPPER, "rankbeat", "bash", "-c"]
    assert after["args"] == [
        'cd /x && exec msrun --join=True --node_rank="$JOB_COMPLETION_INDEX" --worker_num=16 train.py'
    ]


def test_what_is_right_already_stays_as_it_is():
    command = ["msrun", "--join=True", "--worker_num=16", "--node_rank=$(RANK)", "train.py"]
    after, _ = container(["join", "nodeRank"], job=TWO_PODS, command=command)

    assert after["command"] == ["/bin/sh", "-c", build.WRAPPER, "rankbeat", *command]


@pytest.mark.parametrize(("fix", "said"), [("signals", "signals"), ("exitCode", "exitCode")])
def test_the_launcher_does_what_was_asked_for_and_no_more(fix, said):
    after, _ = container([fix], injection=SH)

    assert after["command"][2] == EXPORT + launching(fix, said)


def test_a_script_s_signals_are_mended_and_its_options_cannot_be():
    after, message = container(ALL, command=["bash", "start.sh"])

    assert after["command"][2:] == [
        *(EXPORT + launching("signals,exitCode", "signals and exitCode"), "rankbeat", "bash", "start.sh")
    ]
    assert message == "join and nodeRank cannot be mended: the command does not start msrun itself"


def test_a_node_rank_needs_an_indexed_job():
    after, message = container(["nodeRank"], job=TWO_PODS, command=["msrun", "--worker_num=16", "train.py"])

    assert after["command"][-3:] == ["msrun", "--worker_num=16", "train.py"]
    assert "set completionMode: Indexed on the Job" in message


def test_a_literal_pythonpath_and_the_launcher_go_together():
    after, _ = container(["join", "signals"], injection=SH, env=[PATH])

    assert after["command"] == [
        *("/bin/sh", "-c", launching("signals", "signals"), "rankbeat", "msrun", "--join=True", *build.DIRECT[1:])
    ]
    assert after["env"][0] == {"name": "PYTHONPATH", "value": "/rankbeat/agent:/x"}


def test_a_literal_pythonpath_needs_no_shell_for_options():
    after, _ = container(["join"], env=[PATH])

    assert after["command"] == ["msrun", "--join=True", *build.DIRECT[1:]]


@pytest.mark.parametrize(
    ("command", "why"),
    [(None, "names no command"), (build.DIRECT, "its Job is not known yet")],
    ids=["no command", "no shell"],
)
def test_what_cannot_be_mended_keeps_no_agent_out(command, why):
    after, message = container(["signals"], env=[PATH], command=command)

    assert after.get("command") == command
    assert message.startswith("signals cannot be mended: ")
    assert why in message


@pytest.mark.parametrize(
    ("job", "owner", "settled"),
    [(None, build.a_job_owner(), False), (TWO_PODS, build.a_job_owner(), True), (None, None, True)],
    ids=["the Job may come", "the Job came", "no Job will come"],
)
def test_the_number_of_pods_is_waited_for(job, owner, settled):
    view = build.wanting(job, msrun={"fix": ["nodeRank"]})

    assert build.decided(build.a_pod(owner=owner), view).is_settled is settled


def test_a_mended_command_holds_no_trap_any_more():
    after, _ = container(ALL, job=TWO_PODS, env=[INDEX], command=["msrun", "--worker_num=16", "train.py"])

    assert launch.traps(launch.launch(after["command"]), 2) == ()
