# Two commands matter: `make up` runs Rota, `make test` proves it. `make` alone lists the rest.
PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
RUNS    := $(VENV)/.runtime
TESTS   := $(VENV)/.installed
SEEDS   ?= 0:2000
JOBS    ?= 2
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)) + 1)' 2> /dev/null || echo auto)
PYTEST  := $(BIN)/python -m pytest
PIP     := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PINS    := uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header --no-annotate

# WORKERS: one more than there are cores, since many tests wait for servers, processes and the clock.
# worksteal: neighbours run in one worker, so that it sets up once what a module shares.
# Where Python is told to keep no compiled modules, each program that a test starts would compile all of Rota.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup up test suite browser mariadb load check fmt lint types arch unit contract spec sim process conformance proof bench bench-quick docs sbom pins clean pgbouncer sim-fleet sim-mutants mutants

help: ## list these commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Two stamps in one environment: what running needs (RUNS), and what testing needs besides (TESTS).
# The pins of the smaller files are also in dev.txt, so installing for tests counts for both.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rota needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(RUNS): requirements/runtime.txt requirements/build.txt pyproject.toml | $(BIN)/python
	$(PIP) --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(TESTS): requirements/dev.txt pyproject.toml | $(BIN)/python
	$(PIP) --no-compile --require-hashes -r requirements/dev.txt # most of it is never imported
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $(RUNS) $@

setup: $(TESTS) ## create the environment and install everything, pinned with hashes

up: $(RUNS) ## run Rota on one SQLite file: API, pages, worker, scheduler; prints URL and first token
	@$(BIN)/rota up $(ARGS)

# Not after setup: servers are installed beside the environment, at the same time.
test: ## everything: lint, types, architecture, all tests (what CI runs)
	@$(MAKE) --no-print-directory --jobs=4 lint types suite

suite: browser mariadb pgbouncer load # types are checked meanwhile, on the core that loading leaves free
	@MAKEFLAGS= $(PYTEST) -n $(WORKERS) --dist worksteal --durations=40 tests || \
	{ test $$? -eq 1 && echo "=== What failed above is run once more, alone ===" && \
	MAKEFLAGS= $(PYTEST) --last-failed --last-failed-no-failures none --maxfail 3 -v tests; }

browser: ## a browser for the tests of the pages, where one may be installed
	@command -v chromium-headless-shell > /dev/null || tests/browser/install_chromium.sh

# After the browser: only one program installs packages at a time.
mariadb: | browser ## a MariaDB server for the tests of its store, where one may be installed
	@PATH=$$PATH:/usr/sbin command -v mariadbd > /dev/null || tests/servers/install_package.sh mariadb-server MariaDB

pgbouncer: | mariadb ## a PgBouncer for the tests of the PostgreSQL store, where one may be installed
	@PATH=$$PATH:/usr/sbin command -v pgbouncer > /dev/null || tests/servers/install_package.sh pgbouncer PgBouncer

load: setup ## load every test and run none; what is compiled then is compiled for all workers
	@told=$$($(PYTEST) --collect-only -qq tests) || { echo "$$told"; exit 1; }

check: setup lint types arch unit ## the quick one, under two minutes

fmt: setup ## format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

arch: setup ## imports, sizes, names, exports
	$(BIN)/lint-imports
	$(PYTEST) -q tests/architecture

unit: setup ## the fast tests, module by module
	$(PYTEST) -q -n auto tests/unit

contract: setup ## every store against the shipped contract suite
	$(PYTEST) -q -n auto tests/contract

spec: setup ## the specifications, clause by clause
	$(PYTEST) -q -n auto tests/spec

sim: setup ## seeded stories under virtual time, judged by the axioms: make sim SEEDS=0:200000
	$(BIN)/python -m tests.verification.simulation --seeds $(SEEDS) --jobs $(JOBS)

sim-fleet: setup ## seeded fleets of workers, schedulers, pollers and services: make sim-fleet SEEDS=0:100000
	$(BIN)/python -m tests.verification.simulation --fleet --seeds $(SEEDS) --jobs $(JOBS)

sim-mutants: setup ## mistakes that the simulation of fleets must find, one after the other
	$(BIN)/python -m tests.verification.fleet_mutants --jobs $(JOBS)

mutants: setup ## small mistakes in the code that unit tests must notice: make mutants ARGS="--package jobs"
	$(BIN)/python -m tests.verification.mutation --jobs $(JOBS) $(ARGS)

process: setup ## real processes: killed, suspended, interrupted
	$(PYTEST) -q tests/process

conformance: setup ## clause by clause: which tests prove it, and whether they pass
	$(BIN)/python -m tests.conformance $(ARGS)

proof: ## the models of leases, the once-ledger and moves, checked by spin; ARGS=once for one of them
	@proof/install_spin.sh
	@$(PYTHON) -m proof.run $(ARGS)

bench-quick: setup ## Rota beside other queues on four stores, in under five minutes; draws docs/bench.md
	$(BIN)/python bench/queue.py --page

bench: setup ## the benchmarks, side by side with the alternatives
	$(BIN)/python bench/triggers.py
	$(BIN)/python bench/clock.py
	$(BIN)/python bench/scheduler.py
	$(BIN)/python bench/queue.py
	$(BIN)/python bench/queue.py --flat
	$(BIN)/python bench/api.py

docs: setup ## build the documentation site into site/
	$(BIN)/mkdocs build --strict

sbom: setup ## what a release is made of, as CycloneDX, from the pinned requirements
	$(BIN)/python deploy/sbom.py

pins: ## resolve the pinned requirement files anew (needs uv)
	$(PINS) pyproject.toml requirements/dev.in -o requirements/dev.txt
	$(PINS) --constraint requirements/dev.txt --extra server --extra postgres pyproject.toml -o requirements/runtime.txt
	$(PINS) --constraint requirements/dev.txt requirements/build.in -o requirements/build.txt

clean: ## remove the environment and everything built
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
