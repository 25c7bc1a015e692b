# `make` alone lists the targets. Every target sets up what it needs; nothing is done twice.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
PY := $(VENV)/bin/python
FUZZ_EXAMPLES ?= 2000000
DATA_DIR ?= ./data
PYTEST_ARGS ?=
BENCH_ARGS ?=
PROFILE_ARGS ?=
DEMO_ARGS ?=
COMPAT_ARGS ?=
# Of the compatibility tests, those that `make test` repeats against three brokers; `make compat` repeats all.
EVERYDAY_ON_A_CLUSTER := test_cluster.py cluster/test_cluster_tools.py test_consumers.py groups/test_groups.py
SCENARIO ?= requests
SEEDS ?= 5000
MINUTES ?= 30
SYSTEM ?= barnabas
CHAOS_ARGS ?=
# An editable install by path: the import hook of the other kind costs a sixth of the broker's start.
PIP_INSTALL = $(PY) -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat

# The newest Python that can make a virtual environment; `make setup PYTHON=/path/to/python` decides otherwise.
PYTHON ?= $(shell for python in python3.14 python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo $$python; break; }; done)

# Where Python writes no bytecode (PYTHONDONTWRITEBYTECODE, common in containers) a start would compile all that it loads.
PACKAGES := base broker pipelines protocol replication storage
SOURCES := $(shell find barnabas $(PACKAGES) -name '*.py')

.PHONY: help setup run test lint format fuzz simulate simulate-defects shrink chaos bench bench-quick profile demo compat docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/dev.stamp $(VENV)/bytecode.stamp ## everything that tests need: .venv, Kafka's jars, clients in other languages
	@$(PY) tools/fetch_components.py --all

run: $(VENV)/bytecode.stamp ## start a broker on 127.0.0.1:9092, data in ./data
	@exec $(VENV)/bin/barnabas start --data-dir $(DATA_DIR)

test: lint components ## lint, then every test
	$(PY) -m pytest -n 2 --dist loadfile --ignore tests/pipelines $(PYTEST_ARGS)
	BROKER=barnabas-cluster $(PY) -m pytest -n 2 --dist loadfile $(EVERYDAY_ON_A_CLUSTER:%=compat_tests/%) $(PYTEST_ARGS)
	$(PY) -m pytest -n 2 --dist loadfile tests/pipelines $(PYTEST_ARGS)  # by themselves: a Spark session each

lint: $(VENV)/dev.stamp ## ruff and mypy --strict, of the code and of its tests
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(VENV)/dev.stamp ## let ruff rewrite what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

fuzz: $(VENV)/dev.stamp ## the decoders on FUZZ_EXAMPLES generated inputs (millions, by default)
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(PY) -m pytest -m fuzz -n 2 --timeout 0 tests $(PYTEST_ARGS)

simulate: $(VENV)/dev.stamp ## SEEDS simulated clusters (5000) on all cores; goes on where it was stopped
	@$(PY) -m tests.simulation many $(SEEDS)

simulate-defects: $(VENV)/dev.stamp ## plants defects in simulated clusters, one after the other: each must be found
	@$(PY) -m tests.simulation defects

shrink: $(VENV)/dev.stamp ## the least that makes a simulated cluster fail: SEED=17, or PLAN=file
	@$(PY) -m tests.simulation shrink $(or $(SEED),$(PLAN),$(error name a seed or a plan: make shrink SEED=17))

chaos: components ## breaks three real brokers for MINUTES (30): SYSTEM=barnabas, kafka or both; goes on where it was stopped
	@$(PY) -m tests.chaos many --minutes $(MINUTES) --system $(SYSTEM) $(CHAOS_ARGS)

compat: setup ## every client, tool and comparison, against one broker, three, and Apache Kafka: docs/compatibility.md
	$(PY) -m compat_tests $(COMPAT_ARGS)

bench: components ## Barnabas and Apache Kafka side by side: everything, some 45 minutes
	@$(PY) -m benchmarks $(BENCH_ARGS)

bench-quick: components ## the same in two minutes: few scenarios, three samples
	@$(PY) -m benchmarks --quick $(BENCH_ARGS)

profile: $(VENV)/dev.stamp ## where our broker's time goes: a flame graph and a table (SCENARIO=requests)
	@$(PY) -m benchmarks.profile $(SCENARIO) $(PROFILE_ARGS)

demo: $(VENV)/dev.stamp ## a broker, a few hundred thousand events, and Spark jobs that archive, roll up and audit them
	@$(PY) tools/fetch_components.py spark-kafka-4.0.0
	@$(PY) tools/demo.py $(DEMO_ARGS)

docs: $(VENV)/base.stamp ## write the generated pages of docs/ again
	$(PY) tools/config_reference.py > docs/configuration.md
	$(PY) tools/api_reference.py > docs/apis.md

clean: ## remove everything that was made here except ./data
	rm -rf $(VENV) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build demo dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find benchmarks/results -type f ! -name published.json ! -name .gitignore -delete

# A broker needs only the package, four codecs and RE2; make run waits for nothing else.
$(VENV)/base.stamp: pyproject.toml setup.py
	@if [ -z "$(PYTHON)" ]; then echo "Barnabas needs Python 3.11 or later with venv: install one (Debian: python3 python3-venv) or name it, make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; exit 1; fi
	@if ! $(PY) -m pip --version >/dev/null 2>&1; then $(PYTHON) -m venv --clear $(VENV); fi
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

# By the paths that imports go by, the links in barnabas/; compileall does not follow them by itself. Python compares the
# time of each source with what its bytecode says, so that a source that changes later is never passed over.
$(VENV)/bytecode.stamp: $(VENV)/base.stamp $(SOURCES)
	@$(PY) -m compileall -q --invalidation-mode timestamp $(CURDIR)/barnabas $(PACKAGES:%=$(CURDIR)/barnabas/%)
	@touch $@

.PHONY: components
components: $(VENV)/dev.stamp $(VENV)/bytecode.stamp
	@$(PY) tools/fetch_components.py
