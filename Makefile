# Two commands matter: `make up` runs Rota, `make test` proves it. `make` alone lists the rest.
PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
SEEDS   ?= 0:2000
JOBS    ?= 2
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)) + 1)' 2> /dev/null || echo auto)
PYTEST  := $(BIN)/python -m pytest

# WORKERS: one more than there are cores, since many tests wait for servers, processes and the clock.
# Where Python is told to keep no compiled modules, each program that a test starts would compile all of Rota.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup up test browser load check fmt lint types arch unit contract spec sim process conformance bench docs sbom pins clean

help: ## list these commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create the environment and install everything, pinned with hashes

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rota needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

up: setup ## run Rota on one SQLite file: API, pages, worker, scheduler; prints URL and first token
	@$(BIN)/rota up $(ARGS)

test: setup ## everything: lint, types, architecture, all tests (what CI runs)
	@$(MAKE) --no-print-directory --jobs=4 browser lint types load
	$(PYTEST) -n $(WORKERS) tests

browser: ## a browser for the tests of the pages, where one may be installed
	@command -v chromium > /dev/null || tests/browser/install_chromium.sh

load: setup ## load every test and run none; what is compiled then is compiled for all workers
	@told=$$($(PYTEST) --collect-only -qq tests) || { echo "$$told"; exit 1; }

check: setup lint types arch unit ## the quick one, under two minutes

fmt: setup ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

arch: setup ## imports, sizes, names, exports
	$(BIN)/lint-imports
	$(PYTEST) -q -p no:schemathesis -p no:hypothesispytest tests/architecture # these plugins load for seconds

unit: setup ## the fast tests, module by module
	$(PYTEST) -q -n auto tests/unit

contract: setup ## every store against the shipped contract suite
	$(PYTEST) -q -n auto tests/contract

spec: setup ## the specifications, clause by clause
	$(PYTEST) -q -n auto tests/spec

sim: setup ## seeded stories under virtual time, judged by the axioms: make sim SEEDS=0:200000
	$(BIN)/python -m tests.verification.simulation --seeds $(SEEDS) --jobs $(JOBS)

process: setup ## real processes: killed, suspended, interrupted
	$(PYTEST) -q tests/process

conformance: setup ## clause by clause: which tests prove it, and whether they pass
	$(BIN)/python -m tests.conformance $(ARGS)

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
	uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header --no-annotate pyproject.toml requirements/dev.in -o requirements/dev.txt
	uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header --no-annotate --extra server --extra postgres pyproject.toml -o requirements/runtime.txt

clean: ## remove the environment and everything built
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
