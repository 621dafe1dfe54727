# Every target does the set-up that it needs by itself.

.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
SOURCES := selat planner master site_agent machine simulator evidence tests benchmarks examples scripts/check_sizes.py

.PHONY: help setup setup-wan demo test unit unit-planner unit-others integration e2e e2e-whole e2e-broken long kills wan soak check format proto bench reproduce lock clean

help:  ## list all targets
	@sed -n 's/^\([a-z0-9_-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-13s %s\n", $$1, $$2}'

setup:  ## virtual environment, pinned packages and Java; other targets do this by themselves
	@scripts/setup

# When one make builds several of the targets below, this runs once.
setup-wan:  ## packages for emulated WANs and their tests, as root with apt-get; else says what to install
	@scripts/setup_wan

demo: setup  ## four airports' worth of sites, real flights, five queries, proof; three minutes at most
	@$(BIN)/selat demo

test: setup-wan unit integration e2e wan  ## all tests

# Two processes at a time: none of these tests looks at the clock, and each process keeps one core busy.
unit: setup  ## tests of single parts: no Spark, no network
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) unit-planner unit-others

unit-planner: setup  ## the planner's part of `make unit`
	$(BIN)/python -m pytest tests/unit/planner -m "not long"

unit-others: setup  ## the rest of `make unit`
	$(BIN)/python -m pytest tests/unit --ignore tests/unit/planner -m "not long"

integration: setup setup-wan  ## tests of parts together: real gRPC, real Spark
	$(BIN)/python -m pytest tests/integration -m "not long"

# One after the other, so that the clusters of the first part are gone before the second part breaks others.
e2e: e2e-whole e2e-broken  ## tests of the whole: real processes, results compared with DuckDB, kill -9

e2e-whole: setup  ## the part of `make e2e` that leaves its clusters whole
	$(BIN)/python -m pytest tests/e2e -m "not long and not kills"

e2e-broken: setup  ## the part of `make e2e` that kills and breaks
	$(BIN)/python -m pytest tests/e2e -m "not long and kills"

# SELAT_SEED=N repeats a run that failed; pytest prints the seed in its first lines.
long: export SELAT_SEED := $(or $(SELAT_SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
long: setup setup-wan  ## the tests that `make test` leaves out, because their like are in it, and the random ones with new seeds
	$(BIN)/python -m pytest tests -m "long or seeded or hypothesis"

kills: setup setup-wan  ## the tests of `make long` that kill processes
	$(BIN)/python -m pytest tests -m "long and kills"

wan: setup setup-wan  ## tests in network namespaces: skipped with a reason without root or the packages
	$(BIN)/python -m pytest tests/wan -m "not long"

MINUTES ?= 60
SEED ?= 1
TABLE ?= soak.md
soak: setup  ## random faults against running queries: MINUTES=60 SEED=1 TABLE=soak.md APPEND=--append
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) --table $(TABLE) $(APPEND)

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

bench: setup  ## all benchmarks beside their baselines: docs/results/performance.md anew, with commit and verdicts; an hour and a half
	$(BIN)/python -m benchmarks --record docs/results/performance.md

reproduce: setup  ## published evaluations, run again in the simulator; tables and plots in docs/results, with the commit
	$(BIN)/python -m simulator

lock:  ## write the lock files anew from pyproject.toml (needs uv)
	@scripts/lock

clean:  ## remove the virtual environment, caches and what `selat dev` keeps here
	rm -rf .venv .selat .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
