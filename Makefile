# The front door. Every verb works on a fresh machine, says what it does, and may be repeated.
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv/bin

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

setup: ## everything this machine lacks: packages, environments, Kubernetes programs, images
	python3 dev/setup.py
