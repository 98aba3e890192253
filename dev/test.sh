#!/usr/bin/env bash
# After `make check`: the agent in real training, the programs on a real control plane and a real node; then, with the
# machine to itself, the whole product. One JUnit file: build/test.xml.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
failed=0
for part in 'slow or registry or training or controlplane or node' demo; do
    printf '\n== tests: %s\n' "$part"
    .venv/bin/pytest -p no:randomly -m "$part" --junitxml="build/test-${part##* }.xml" --durations=10 "$@" || failed=1
done
.venv/bin/python dev/junit.py build/test.xml build/test-node.xml build/test-demo.xml
exit $failed
