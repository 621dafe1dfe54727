# Every target does the set-up that it needs by itself.

.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
SOURCES := selat planner master site_agent machine simulator tests benchmarks examples scripts/check_sizes.py

.PHONY: help setup demo test unit unit-planner unit-others integration e2e long wan soak check format proto bench reproduce lock clean

help:  ## list all targets
	@sed -n 's/^\([a-z0-9_-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-13s %s\n", $$1, $$2}'

setup:  ## virtual environment, pinned packages and Java; other targets do this by themselves
	@scripts/setup

demo: setup  ## four airports' worth of sites, real flights, five queries, proof; three minutes at most
	@$(BIN)/selat demo

test: unit integration e2e wan  ## all tests

# Two processes at a time: none of these tests looks at the clock, and each process keeps one core busy.
unit: setup  ## tests of single parts: no Spark, no network
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) unit-planner unit-others

unit-planner: setup  ## the planner's part of `make unit`
	$(BIN)/python -m pytest tests/unit/planner -m "not long"

unit-others: setup  ## the rest of `make unit`
	$(BIN)/python -m pytest tests/unit --ignore tests/unit/planner -m "not long"

integration: setup  ## tests of parts together: real gRPC, real Spark
	$(BIN)/python -m pytest tests/integration -m "not long"

e2e: setup  ## tests of the whole: real processes, results compared with DuckDB, kill -9
	$(BIN)/python -m pytest tests/e2e -m "not long"

long: setup  ## the tests that `make test` leaves out, because their like are in it
	$(BIN)/python -m pytest tests -m long

wan: setup  ## tests in network namespaces: skipped with a reason without root, or without what scripts/setup_wan installs
	$(BIN)/python -m pytest tests/wan -m "not long"

MINUTES ?= 60
SEED ?= 1
TABLE ?= soak.md
soak: setup  ## random faults against running queries: MINUTES=60 SEED=1 TABLE=soak.md
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) --table $(TABLE)

check: setup  ## format, lint, types, import contracts, stubs in sync, sizes
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/generate_stubs --check
	$(BIN)/python scripts/check_sizes.py

format: setup  ## format all code and fix what can be fixed
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

proto: setup  ## generate selat/v1 from proto/
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/generate_stubs

bench: setup  ## all benchmarks beside their baselines, recorded in docs/results; half an hour
	$(BIN)/python -m benchmarks --record docs/results/performance.md

reproduce: setup  ## published evaluations, run again in the simulator; tables and plots in docs/results
	$(BIN)/python -m simulator

lock:  ## write the lock files anew from pyproject.toml (needs uv)
	@scripts/lock

clean:  ## remove the virtual environment, caches and what `selat dev` keeps here
	rm -rf .venv .selat .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
