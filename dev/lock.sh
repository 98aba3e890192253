#!/usr/bin/env bash
# Locks every environment into requirements/*.txt: hashes for all platforms, no index address in any file.
# usage: dev/lock.sh UV
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${1:-uv}
compile() { "$uv" pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-package rankbeat "$@"; }
compile pyproject.toml --all-extras --group dev --python-version 3.11 -o requirements/dev.txt
for extra in operator webhook aggregator exporter; do
    compile pyproject.toml --extra "$extra" --python-version 3.11 -o "requirements/$extra.txt"
done
compile agent/pyproject.toml --extra collector --extra sidecar --python-version 3.11 -o requirements/collector.txt
compile requirements/mindspore.in --python-version 3.11 -o requirements/mindspore.txt
compile requirements/mindformers.in --python-version 3.11 -o requirements/mindformers.txt
compile requirements/mindformers-only.in --no-deps --python-version 3.11 -o requirements/mindformers-only.txt
! grep -n '://' requirements/*.txt
