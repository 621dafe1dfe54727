# Every target does the set-up that it needs by itself.

.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
SOURCES := selat planner master site_agent contract machine wire simulator evidence tests benchmarks examples \
           scripts/check_sizes.py scripts/make_bundle.py scripts/make_places.py

.PHONY: help setup setup-wan setup-deploy bundle deploy-test demo test unit integration whole e2e long kills wan soak handovers simulate check format proto bench tpch tpch-times nexmark reproduce lock clean

help:  ## list all targets
	@sed -n 's/^\([a-z0-9_-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-13s %s\n", $$1, $$2}'

setup:  ## virtual environment, pinned packages and Java; other targets do this by themselves
	@scripts/setup
	@scripts/build_jar

# When one make builds several of the targets below, this runs once.
setup-wan:  ## packages for emulated WANs, their tests and those of metrics, as root with apt-get; else says what to install
	@scripts/setup_wan

# Asks for packages as setup-wan does.
setup-deploy: setup  ## tools of deploy-test, and a clean Debian root, as root; else says what to install
	@scripts/setup_deploy

bundle: setup  ## dist/selat-bundle.tar.gz: all that machines and images need, for this Python and kind of machine
	$(BIN)/python scripts/make_bundle.py

deploy-test: setup setup-deploy setup-wan bundle  ## Terraform on an emulated cloud, start-up scripts in clean roots, a trial of operating, linters: docs/results/deploy.md anew
	$(BIN)/python -m tests.deploy --record docs/results/deploy.md

demo: setup  ## four airports' worth of sites, real flights, five queries, proof; three minutes at most
	@$(BIN)/selat demo

test: setup-wan unit integration whole  ## all tests

# Two processes at a time, and each file in one of them, with its fixtures. Of unit tests the longest file comes first.
FILES_IN_TWO := -n 2 --dist loadfile -m "not long"

unit: setup  ## tests of single parts and of simulated clusters: no Spark, no network
	$(BIN)/python -m pytest tests/simulation tests/unit $(FILES_IN_TWO) --no-loadscope-reorder

integration: setup setup-wan  ## tests of parts together: real gRPC, real Spark
	$(BIN)/python -m pytest tests/integration $(FILES_IN_TWO)

# Two processes at a time, and each group in one of them: tests of one shared cluster, those of the emulated WAN, and
# files with clusters of their own (tests/conftest.py).
GROUPS_IN_TWO := -n 2 --dist loadgroup --no-loadscope-reorder -m "not long"

whole: setup setup-wan  ## `make e2e` and `make wan` together
	$(BIN)/python -m pytest tests/e2e tests/wan $(GROUPS_IN_TWO)

e2e: setup  ## tests of the whole: real processes, results compared with DuckDB, kill -9
	$(BIN)/python -m pytest tests/e2e $(GROUPS_IN_TWO)

# SELAT_SEED=N repeats a run that failed; pytest prints the seed in its first lines.
long: export SELAT_SEED := $(or $(SELAT_SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
long: setup setup-wan  ## the tests that `make test` leaves out, because their like are in it, and the random ones with new seeds
	$(BIN)/python -m pytest tests -m "long or seeded or hypothesis"

kills: setup setup-wan  ## the tests of `make long` that kill processes
	$(BIN)/python -m pytest tests -n 2 --dist loadgroup --no-loadscope-reorder -m "long and kills"

wan: setup setup-wan  ## tests in network namespaces: skipped with a reason without root or the packages
	$(BIN)/python -m pytest tests/wan -m "not long"

MINUTES ?= 60
SEED ?= 1
TABLE ?= soak.md
soak: setup  ## random faults against running queries: MINUTES=60 SEED=1 TABLE=soak.md APPEND=--append
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) --table $(TABLE) $(APPEND)

RUNS ?= 239
HANDOVERS ?= docs/results/handovers.md
handovers: setup  ## handovers on Spark, each with a fault in its middle: RUNS=239 SEED=1 HANDOVERS=docs/results/handovers.md, 110 minutes
	$(BIN)/python -m tests.handovers --runs $(RUNS) --seed $(SEED) --table $(HANDOVERS)

# One seed again, with the product's log: `.venv/bin/python -m tests.simulation --play 17`.
simulate: setup  ## schedules of simulated clusters with faults: MINUTES=60 SEED=1 SCHEDULES=200000 KEEP=build/simulation RECORD=docs/results/simulation.md
	$(BIN)/python -m tests.simulation --minutes $(MINUTES) --seed $(SEED) $(if $(SCHEDULES),--schedules $(SCHEDULES)) \
	  $(if $(KEEP),--keep $(KEEP)) $(if $(RECORD),--record $(RECORD))

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

bench: setup  ## all benchmarks beside their baselines: docs/results/performance.md anew, with commit and verdicts; two hours and a half, or more
	$(BIN)/python -m benchmarks --record docs/results/performance.md

tpch: SCALE ?= 0.1
tpch: setup  ## TPC-H's 22 texts over three shards, bytes of each beside those without filters: SCALE=0.1 RECORD=docs/results/tpch.md
	$(BIN)/python -m benchmarks.tpch --scale $(SCALE) $(if $(RECORD),--record $(RECORD))

tpch-times: SCALE ?= 1
tpch-times: setup  ## TPC-H's 22 texts in time, beside plain Spark with all tables and beside sending it the tables first: SCALE=1 RECORD=docs/results/tpch.md
	$(BIN)/python -m benchmarks.tpch_times --scale $(SCALE) $(if $(RECORD),--record $(RECORD))

nexmark: SCALE ?= 5
nexmark: setup  ## NEXMark's texts over three sites beside DuckDB, bytes of each over links: SCALE=5 RECORD=docs/results/nexmark.md
	$(BIN)/python -m benchmarks.nexmark --scale $(SCALE) $(if $(RECORD),--record $(RECORD))

reproduce: setup  ## published evaluations, run again in the simulator; tables and plots in docs/results, with the commit
	$(BIN)/python -m simulator

lock:  ## write the lock files anew from pyproject.toml (needs uv)
	@scripts/lock

clean:  ## remove the virtual environment, caches and what `selat dev` keeps here
	rm -rf .venv .selat .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
