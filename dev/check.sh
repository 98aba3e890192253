#!/usr/bin/env bash
# The fast path: lint, types, layers, pure tests. Needs .venv (make setup); no cluster, no root, no network.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
say() { printf '\n== %s\n' "$*"; }

say "lint"
$bin/ruff check .
$bin/ruff format --check .
$bin/vermin --no-tips --target=3.9- --violations --eval-annotations agent/rankbeat_agent agent/rankbeat_contract agent/rankbeat_collector agent/rankbeat_serving agent/rankbeat

say "types"
$bin/mypy agent/rankbeat_contract agent/rankbeat_agent agent/rankbeat_collector agent/rankbeat_serving agent/rankbeat operator/rankbeat_operator operator/rankbeat_webhook \
    aggregator/rankbeat_aggregator node_exporter/rankbeat_exporter dev/setup.py dev/rankbeat_setup dev/reference dev/cluster/rankbeat_cluster dev/images/rankbeat_images dev/demo/rankbeat_demo

say "layers"
$bin/lint-imports --no-cache | tail -20

say "generated files"
$bin/python dev/generate.py --check
! grep -n '://' requirements/*.txt

say "alert rules"
bash alerts/test.sh

say "pure tests"
$bin/pytest -q -n 3 --dist worksteal -m 'not slow and not registry and not training and not controlplane and not node and not demo' --timeout 60 "$@"
