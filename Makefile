# The front door. Every verb works on a fresh machine, says what it does, and may be repeated.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup setup-check setup-mindformers check test test-controlplane test-node demo demo-down picture cluster-up cluster-down generate lock
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
PYTHONPATH_DEV := dev/cluster:dev/images:dev/demo
PYTHON_DEV := PYTHONPATH=$(PYTHONPATH_DEV) $(BIN)/python
NODES ?= 1

help: ## this list
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

setup: ## everything this machine lacks: packages, environments, Kubernetes programs, images
	@python3 dev/setup.py

setup-check:
	@python3 dev/setup.py --only uv venv tools

setup-mindformers:
	@python3 dev/setup.py --only uv mindformers

check: setup-check ## lint, types, layers, pure tests: under two minutes
	@bash dev/check.sh

test: setup setup-mindformers check ## setup, check, then the real control plane, the real node, end to end
	@bash dev/test.sh

demo: setup ## the whole product on a monitored job, to the page
	@$(PYTHON_DEV) -m rankbeat_demo up

demo-down: ## all of it gone: processes, mounts, namespaces, interfaces, cgroups
	@$(PYTHON_DEV) -m rankbeat_demo down

picture: ## docs/images/demo.svg, from the last run of the demo
	@test -f build/demo.svg || { echo "build/demo.svg is missing: run \`make demo\` first" >&2; exit 1; }
	@mkdir -p docs/images
	@cp build/demo.svg docs/images/demo.svg
	@echo "wrote docs/images/demo.svg"

cluster-up: setup ## only the cluster, with a kubeconfig to use (NODES=2 for two nodes)
	@$(PYTHON_DEV) -m rankbeat_cluster up --nodes $(NODES)

cluster-down: ## the cluster gone
	@$(PYTHON_DEV) -m rankbeat_cluster down

generate: setup-check ## every generated file: chart copies, dashboards, reference pages
	@$(BIN)/python dev/generate.py

bench-%: ## one benchmark: bench-step-overhead, bench-collector, bench-outputs, bench-aggregator, bench-webhook, bench-exporter
	@bash dev/bench.sh $*

lock: ## new versions into requirements/*.txt
	@bash dev/lock.sh $$(python3 dev/setup.py --print-uv)
