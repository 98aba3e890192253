#!/usr/bin/env bash
# After `make check`: the agent in real training, the programs on a real control plane, everything on a real node.
# One JUnit file: build/test.xml.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
mkdir -p build
exec $bin/pytest -p no:randomly -m 'training or controlplane or node or demo' --junitxml=build/test.xml --durations=15 "$@"
