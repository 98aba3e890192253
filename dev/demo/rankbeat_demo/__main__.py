"""The demo: a fresh machine to a monitored, paged training job.

usage: python -m rankbeat_demo up [--fault hang|crash|nan|none] | down
"""

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys

from rankbeat_demo import cluster, incident, install
from rankbeat_demo.picture import Picture
from rankbeat_demo.progress import Progress


def up(fault: str) -> int:
    progress = Progress()
    print("Rankbeat demo: a real Kubernetes, a real msrun job, a real page")
    install.start_cluster(progress)
    install.start_devices(progress)
    install.start_receiver(progress)
    install.install_chart(progress)
    prometheus, alertmanager = install.forward_all()
    picture = Picture()
    incident.start_job(progress, prometheus, picture)
    figures: dict[str, float] = {"ranks": incident.RANKS}
    outcome: dict[str, object] = {"fault": fault}
    if fault != "none":
        seen = incident.fault_to_page(progress, fault, picture)
        figures |= {"page_seconds": seen.page_seconds, "suspects_right": int(seen.is_suspect_right)}
        outcome |= {"suspects": list(seen.suspects), "page": seen.text}
        aftermath = incident.aftermath(progress, prometheus)
        outcome["further_pages"] = aftermath
        figures["further_pages"] = len(aftermath)
    figures["total_seconds"] = progress.total_seconds
    write(figures, outcome, progress)
    picture.write(cluster.BUILD / "demo.svg")
    guide(prometheus, alertmanager)
    return 0 if not figures.get("further_pages") and figures.get("suspects_right", 1) else 1


def write(figures: dict[str, float], outcome: dict[str, object], progress: Progress) -> None:
    """Leaves build/demo.json."""
    content = {
        "figures": figures | {f"{name}_seconds": value for name, value in progress.seconds.items() if name != "page"},
        **outcome,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, {platform.release()}",
    }
    path = cluster.BUILD / "demo.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    print(f"\n  {progress.total_seconds:.0f} s in all; figures in {path.relative_to(cluster.ROOT)}")


def guide(prometheus: str, alertmanager: str) -> None:
    kubectl = cluster.program("kubectl")
    print(f"""
The cluster stays up. Look around:

  export KUBECONFIG={cluster.kubeconfig()}
  {kubectl} -n training get tmon
  {kubectl} -n training describe tmon llm
  {kubectl} explain tmon.spec
  Prometheus    {prometheus}
  Alertmanager  {alertmanager} (API v2)
  Pages         {install.deliveries()}

Take it down: make demo-down""")


def diagnosis() -> str:
    """What a person would look at first."""
    looks = (
        ("get", "pods", "-A", "-o", "wide"),
        ("get", "events", "-A", "--field-selector", "type=Warning", "--sort-by", ".lastTimestamp"),
        ("-n", "training", "describe", "tmon"),
        ("-n", "training", "logs", "-l", "batch.kubernetes.io/job-name=llm", "--tail=15", "--prefix"),
        ("-n", install.NAMESPACE, "logs", "-l", "app.kubernetes.io/part-of=rankbeat", "--tail=15", "--prefix"),
    )
    told = []
    for look in looks:
        try:
            said = cluster.kubectl(*look)
        except (cluster.CommandError, subprocess.TimeoutExpired) as error:
            said = str(error)
        told.append(f"$ kubectl {' '.join(look)}\n{said[-4000:]}")
    return "\n".join(told)


def down() -> int:
    subprocess.run([sys.executable, "-m", "rankbeat_cluster", "down", "--name", cluster.NAME], check=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="rankbeat_demo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="the whole demo")
    start.add_argument("--fault", choices=("hang", "crash", "nan", "none"), default="hang")
    commands.add_parser("down", help="all of it gone")
    arguments = parser.parse_args()
    if arguments.command == "down":
        return down()
    try:
        return up(arguments.fault)
    except (cluster.CommandError, TimeoutError) as error:
        print(f"\nthe demo stopped: {error}", file=sys.stderr)
        print(diagnosis(), file=sys.stderr)
        print(
            f"the cluster is as it was: KUBECONFIG={cluster.kubeconfig()}; `make demo-down` removes it", file=sys.stderr
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
