#!/usr/bin/env bash
# One benchmark by name: a table on stdout, the figures in build/bench/NAME.json. Run it on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift
script=bench/${name//-/_}.py
[ -f "$script" ] || { echo "no benchmark $name; there are: $(grep -l __main__ bench/*.py | sed 's/^bench.//; s/\.py$//; s/_/-/g' | tr '\n' ' ')" >&2; exit 2; }
case $name in
    step-overhead)
        # ENVIRONMENT=mindspore leaves out the arm MFLossMonitor, and 3.4 GB.
        environment=${ENVIRONMENT:-mindformers}
        python3 dev/setup.py --only uv "$environment"
        # MindFormers writes ./output where it stands.
        root=$PWD
        mkdir -p build/bench/scratch && cd build/bench/scratch
        exec "$root/build/$environment/bin/python" "$root/$script" "$@" ;;
    *)
        python3 dev/setup.py --only uv venv
        exec .venv/bin/python "$script" "$@" ;;
esac
