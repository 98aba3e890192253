#!/usr/bin/env bash
# Rules, their unit tests, and the Alertmanager fragment, by the real promtool and amtool.
set -euo pipefail
cd "$(dirname "$0")"
tools="${XDG_CACHE_HOME:-$HOME/.cache}/rankbeat/bin-debian"
PATH="$tools:$PATH"
for tool in promtool amtool; do
    command -v "$tool" >/dev/null || { echo "$tool is neither on PATH nor in $tools: run make setup" >&2; exit 1; }
done

promtool check rules rules.yaml external.yaml
promtool test rules tests/*.yaml

for alert in $(sed -n 's/^ *- alert: "\(.*\)"/\1/p' rules.yaml | sort -u); do
    test -s "../docs/runbooks/$alert.md" || { echo "docs/runbooks/$alert.md is missing" >&2; exit 1; }
    grep -q "alertname: \"$alert\"" tests/*.yaml || { echo "no test names $alert" >&2; exit 1; }
done

whole="$(mktemp --suffix=.yaml)"
trap 'rm -f "$whole"' EXIT
sed 's/^route:/receivers: [{name: "page"}]\nroute:\n  receiver: "page"/' alertmanager.yaml >"$whole"
amtool check-config "$whole"
