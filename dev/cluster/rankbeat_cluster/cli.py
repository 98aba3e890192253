"""The command line: python -m rankbeat_cluster VERB."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from rankbeat_cluster import cluster, errors, programs
from rankbeat_cluster.start import Wanted

VERBS = ("up", "down", "status", "kubeconfig", "load-image", "exec", "forward")


def parser() -> argparse.ArgumentParser:
    """All verbs and their options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="main", help="of the cluster (default: main)")
    common.add_argument("--state", type=Path, help="its folder (default: build/cluster/NAME)")
    whole = argparse.ArgumentParser(prog="rankbeat_cluster", description="A real Kubernetes on this machine.")
    verbs = whole.add_subparsers(dest="verb", required=True, metavar="|".join(VERBS))
    up = verbs.add_parser("up", parents=[common], help="start a cluster, or find it running")
    up.add_argument("--nodes", type=int, default=1, choices=range(1, 9), metavar="N")
    up.add_argument(
        "--port", type=int, default=0, help="of the apiserver on 127.0.0.1 (default: first free from 16443)"
    )
    up.add_argument("--keep-images", action=argparse.BooleanOptionalAction, default=True,
                    help="keep the nodes' image stores in the cache (default)")  # fmt: skip
    up.add_argument("--image", type=Path, action="append", default=[], metavar="TAR", help="import it too; repeatable")
    up.add_argument("--node-label", action="append", default=[], metavar="KEY=VALUE", help="repeatable")
    verbs.add_parser("down", parents=[common], help="remove it and everything that it started")
    verbs.add_parser("status", parents=[common], help="exit status 0: it is up and healthy")
    verbs.add_parser("kubeconfig", parents=[common], help="print the kubeconfig's path")
    load = verbs.add_parser("load-image", parents=[common], help="import image archives into every node")
    load.add_argument("archives", nargs="+", type=Path, metavar="TAR")
    run = verbs.add_parser("exec", parents=[common], help="run a program inside a node: exec -- COMMAND ...")
    run.add_argument("--node", help="its name (default: the first)")
    run.add_argument("command", nargs="+")
    forward = verbs.add_parser("forward", parents=[common], help="show ADDRESS:PORT at 127.0.0.1:HOSTPORT")
    forward.add_argument("port", type=int, metavar="HOSTPORT")
    forward.add_argument("target", metavar="ADDRESS:PORT")
    return whole


def up(asked: argparse.Namespace) -> int:
    """Start, and say how to use it."""
    began = time.monotonic()
    wanted = Wanted(
        asked.state,
        name=asked.name,
        nodes=asked.nodes,
        port=asked.port,
        keep_images=asked.keep_images,
        images=tuple(asked.image),
        labels=dict(label.split("=", 1) for label in asked.node_label),
    )
    print(f"cluster {asked.name!r} in {asked.state}", flush=True)
    running = cluster.up(wanted, lambda line: print(line, flush=True))
    print(f"up after {time.monotonic() - began:.1f} s. To use it:\n"
          f"  export KUBECONFIG={running.kubeconfig} PATH={programs.BIN}:$PATH\n  kubectl get pods -A")  # fmt: skip
    return 0


def status(running: cluster.Cluster) -> int:
    """Print what does not run; 0 when all is well."""
    dead = running.dead_parts()
    healthy = running.is_healthy()
    print("healthy" if healthy else f"ill: {', '.join(dead) or 'apiserver or a node is not ready'}")
    for each in running.state.nodes:
        print(f"  {each.name}  {each.address}  pods {each.pod_range}  holder pid {each.holder.pid}")
    return 0 if healthy else 1


def act(asked: argparse.Namespace) -> int:
    """Do one verb; the exit status."""
    running = cluster.Cluster(asked.state)
    match asked.verb:
        case "up":
            return up(asked)
        case "down":
            began = time.monotonic()
            was_there = cluster.down(asked.state)
            result = "is gone" if was_there else "was not there"
            print(f"cluster {asked.name!r} {result}, {time.monotonic() - began:.1f} s")
        case "status":
            return status(running)
        case "kubeconfig":
            print(running.kubeconfig)
        case "load-image":
            print(f"{running.load_images(asked.archives)} imported")
        case "exec":
            command = running.inside(asked.command, asked.node)
            os.execvp(command[0], command)
        case "forward":
            running.forward(asked.port, asked.target)
            print(f"http://127.0.0.1:{asked.port} shows {asked.target}")
    return 0


def main() -> int:
    """Exit status 1 with one clear message on failure."""
    asked = parser().parse_args()
    asked.state = (asked.state or cluster.DEFAULT_FOLDER / asked.name).resolve()
    try:
        return act(asked)
    except errors.ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"stopped; remove what is left with: python -m rankbeat_cluster down --name {asked.name}", file=sys.stderr
        )
        return 130
