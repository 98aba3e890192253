"""The story of the demo: a job that trains, a rank that stops, a person who is paged once."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import console, live

from rankbeat_contract import names
from rankbeat_demo import cluster, install, pages, table
from rankbeat_demo.picture import Picture
from rankbeat_demo.progress import Progress, is_terminal, wait_for
from rankbeat_demo.prometheus import Prometheus

JOB = table.Job("training", "llm")
RANKS = 2
SICK_RANK = 1
ALERTS = {"hang": "TrainingHung", "crash": "TrainingCrashed", "nan": "TrainingLossNotFinite"}
SAID = ("summary", "description", "suspects", "runbook_url")
AFTERMATH_SECONDS = 75
"""A collective gives up 30 s after a hang, the scheduler half a minute later: then the crash is on the table."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the pager got."""

    alert: str
    page_seconds: float
    suspects: Sequence[str]
    text: str

    @property
    def is_suspect_right(self) -> bool:
        return tuple(self.suspects) == (str(SICK_RANK),)


def start_job(progress: Progress, prometheus: str, picture: Picture) -> None:
    """Applies the example and waits until both ranks train and the monitor says so."""
    with progress.step("namespace", "kubectl apply -f examples/namespace.yaml"):
        cluster.kubectl("apply", "-f", str(cluster.ROOT / "examples/namespace.yaml"))
        wait_for("the agent's ConfigMap in namespace training", has_agent, 30)
    with progress.step("job", "kubectl apply -f examples/msrun-job/ until kubectl get tmon says Ready"):
        job = str(cluster.ROOT / "examples/msrun-job")
        cluster.kubectl("delete", "-f", job, "--ignore-not-found", timeout_seconds=90)  # of an earlier demo
        cluster.kubectl("apply", "-f", job)
        wait_for("monitor training/llm Ready with 2/2 ranks", is_ready, 180)
    with progress.step("numbers", "waiting for the first loss in Prometheus and in the monitor's status"):
        wait_for("losses in Prometheus", lambda: Prometheus(prometheus).vector(JOB.series(names.RANK_LOSS)), 30)
        wait_for("a loss in the monitor's status", lambda: status_of_monitor().get("loss"), 30)
    monitors = cluster.kubectl("-n", JOB.namespace, "get", "tmon")
    print(monitors)
    show(Prometheus(prometheus), 15)
    picture.command("kubectl apply -f examples/msrun-job/")
    picture.command("kubectl -n training get tmon", monitors)
    picture.show(table.ranks(Prometheus(prometheus), JOB))


def has_agent() -> bool:
    found = cluster.kubectl("-n", JOB.namespace, "get", "configmap", "-o", "name")
    return f"configmap/{names.AGENT_CONFIG_MAP_PREFIX}" in found


def status_of_monitor() -> dict[str, Any]:
    status = cluster.kubectl_json("-n", JOB.namespace, "get", "tmon", JOB.monitor).get("status")
    return status if isinstance(status, dict) else {}


def is_ready() -> bool:
    status = status_of_monitor()
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return conditions.get("Ready") == "True" and status.get("ranks", {}).get("summary") == f"{RANKS}/{RANKS}"


def show(prometheus: Prometheus, seconds: float) -> None:
    """The table of ranks: live on a terminal, once in a log."""
    screen = console.Console(width=None if is_terminal() else 140)
    if not is_terminal():
        screen.print(table.ranks(prometheus, JOB))
        return
    deadline = time.monotonic() + seconds
    with live.Live(table.ranks(prometheus, JOB), console=screen, refresh_per_second=2) as view:
        while time.monotonic() < deadline:
            time.sleep(1)
            view.update(table.ranks(prometheus, JOB))


def pod_of(rank: int) -> str:
    selector = f"batch.kubernetes.io/job-name=llm,batch.kubernetes.io/job-completion-index={rank}"
    found = cluster.kubectl(
        *("-n", JOB.namespace, "get", "pods", "-l", selector, "--field-selector", "status.phase=Running"),
        *("-o", "jsonpath={.items[0].metadata.name}"),
    )
    return found.strip()


def fault_to_page(progress: Progress, fault: str, picture: Picture) -> Seen:
    """Makes rank 1 sick and waits for the page."""
    pod = pod_of(SICK_RANK)
    before = len(pages.read_pages(install.deliveries()))
    command = f"mkdir -p /tmp/faults && touch /tmp/faults/{fault}-{SICK_RANK}"
    began = time.time()
    with progress.step("page", f"rank {SICK_RANK} gets a {fault}; waiting for the page"):
        cluster.kubectl("-n", JOB.namespace, "exec", pod, "-c", "train", "--", "sh", "-c", command)
        page = wait_for(
            f"a page {ALERTS[fault]}",
            lambda: next(iter(pages.read_pages(install.deliveries())[before:]), None),
            180,
        )
    suspects = suspects_in(page)
    seen = Seen(page.alert, round(page.received_wall - began, 1), suspects, page.annotations.get("description", ""))
    picture.command(f"kubectl -n training exec {pod} -- touch /tmp/faults/{fault}-{SICK_RANK}")
    told = [f"PAGED after {seen.page_seconds:.1f} s: {seen.alert}"]
    told += [
        f"  {name}: {page.annotations.get(name, '')}" for name in ("summary", "description", "suspects", "runbook_url")
    ]
    for line in told:
        picture.say(line, "bold red" if line is told[0] else "")
    print("\n  " + "\n  ".join(told))
    return seen


def suspects_in(page: pages.Page) -> tuple[str, ...]:
    """Ranks that the page names, from its annotation `suspects`: "rank 1 on node-1 (...), rank 3 ..."."""
    words = page.annotations.get("suspects", "").replace(",", " ").split()
    return tuple(after for word, after in itertools.pairwise(words) if word == "rank")


def aftermath(progress: Progress, prometheus: str) -> tuple[str, ...]:
    """Pages beyond the first while the hang turns into a crash and the job starts anew: there should be none."""
    began = time.monotonic()
    count = len(pages.read_pages(install.deliveries()))
    with progress.step("aftermath", f"{AFTERMATH_SECONDS} s of aftermath: the collective gives up, ranks die"):
        while time.monotonic() - began < AFTERMATH_SECONDS:
            time.sleep(1)
    show(Prometheus(prometheus), 1)
    print(cluster.kubectl("-n", JOB.namespace, "get", "tmon,pods"))
    later = pages.read_pages(install.deliveries())[count:]
    return tuple(page.alert for page in later)
