# make help lists the targets. Nothing here needs sudo: Python packages go into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo org-demo test test-long check lint coverage bench eval tools clients plugins vendor-check lock docs release clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)  ## what filemem does, in two minutes, on scratch copies
	@$(BIN)/python bench/demo.py

org-demo: $(READY)  ## an organisation's index on a PostgreSQL of its own: three repositories, two people
	@$(BIN)/python -m bench.org_demo

test check: export PYTHONDONTWRITEBYTECODE =
test: lint $(READY)  ## everything: style, types, layers, tests; three workers, for some of them always wait
	$(BIN)/python -m pytest -n 3 -m "not long"

test-long: $(READY)  ## the hundreds of kills and trials
	$(BIN)/python -m pytest -n 2 -m long

lint: $(READY)  ## ruff, mypy, import-linter, what makes code hard to read, and guards of decisions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.currency
	$(BIN)/filemem check --code

check: lint $(READY)  ## the quick part: lint and the pure tests
	$(BIN)/python -m pytest -q -n 2 -m "not long" tests/pure

coverage: $(READY)  ## which lines the tests run, also in the processes that they start; whether they pass, make test says
	rm -rf .coverage
	-$(BIN)/python -m coverage run -m pytest -q -n 3 -m "not long"
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report

bench: $(READY)  ## print the figures of bench/figures.md
	$(BIN)/python -m bench

EVAL_SETS ?= ../shared/data/eval-dev
EVAL_WORDINGS ?= ../shared/prototypes/synonyms/agent-wordings-dev.json

eval: $(READY)  ## how good search is, on the retrieval sets in EVAL_SETS
	@$(BIN)/python -m bench.relevance $(EVAL_SETS) --wordings $(EVAL_WORDINGS)

tools: $(READY)  ## the protocol makers' own suite and client, for tests/conformance; the tests do it too where they can
	$(BIN)/python -m tests.conformance.npm

clients: $(READY)  ## ask the real coding agents that npm has, offline: does each hear of a decision, once?
	@$(BIN)/python -m tests.clients

plugins: $(READY)  ## write the plugins for Claude Code, Codex and OpenClaw anew from tools/plugins.py
	@$(BIN)/python -m tools.plugins

vendor-check: $(READY)  ## compare the page's vendored files with their npm packages
	@$(BIN)/python -m tools.vendor

lock:  ## renew requirements.lock and requirements-docs.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --group dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -c requirements.lock --group pyproject.toml:docs -o requirements-docs.lock

docs: $(READY)  ## build the documentation into site/, and look for links that lead nowhere
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@$(BIN)/python -m tools.site

release: $(READY)  ## build wheel, server.json and bundle into dist/; refuses what is not ready
	@$(BIN)/python -m tools.release

clean:  ## remove what the other targets made
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .hypothesis .coverage dist build site
