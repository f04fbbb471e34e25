# Everything that one does with this repository. `make` alone lists it.
#
# A fresh machine needs Python 3.11 or newer, make, and Go for the local control plane (once, 4 to 8 minutes, kept in
# the user's cache folder). Docker is needed by `make image`, `make kind` and `make e2e` only.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
CHART := charts/fleetagent

IMAGE ?= fleetagent:$(VERSION)
KIND_CLUSTER ?= fleetagent
# A folder with a cluster of one node, for machines that can't pull kind's; tests/cluster/node.sh says what is in it.
NODE_SCRIPTS ?= ../shared/node
KIND_NAMESPACE := fleetagent-system

##@ Use

.PHONY: help
help: ## List these targets
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: dev
dev: $(VENV)/.installed ## The whole thing on this machine, from nothing; ARGS="--for 90s" ends by itself
	$(VENV)/bin/fleetagent dev $(ARGS)

##@ Work on it

.PHONY: check
check: $(VENV)/.installed ## Format, lint, types, import directions, unit tests
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	PYTHONPATH=operator $(VENV)/bin/lint-imports
	$(VENV)/bin/pytest -q tests/unit

.PHONY: unit
unit: $(VENV)/.installed ## Unit tests alone; ARGS goes to pytest
	$(VENV)/bin/pytest -q tests/unit $(ARGS)

# The slow builds come before pytest: there they would be silent, and would count against the first test's time limit.
# Most of these tests wait for something, so two files go on at a time. WORKERS=0 for a debugger.
WORKERS ?= 2
.PHONY: test
test: check ## All that runs without Docker: `make check`, then the tests against real parts; ARGS goes to pytest
	$(PY) -m fleetagent.dev.prebuild
	$(VENV)/bin/pytest -n $(WORKERS) --dist loadfile tests/integration tests/e2e $(ARGS)

# Not part of `make test`: it compiles llama.cpp once, and a model on two cores takes its time.
.PHONY: test-model
test-model: $(VENV)/.installed ## The engine against a real llama.cpp server with small weights; ARGS goes to pytest
	$(PY) -m fleetagent.dev.llama > /dev/null
	$(VENV)/bin/pytest tests/model $(ARGS)

# Half an hour or more. ARGS="--first-seed=<n> --blocks=<n>" goes on where another night ended, or tells one story again.
.PHONY: nightly
nightly: $(VENV)/.installed ## A million calls of a hostile model, a crash at every point, new property tests' examples; ARGS: the first's
	$(VENV)/bin/pytest tests/nightly $(ARGS)
	CRASH_ONE_IN=1 $(VENV)/bin/pytest -q tests/integration/test_crash_matrix.py
	$(VENV)/bin/pytest -q tests/unit --hypothesis-profile=searching

# Twenty-five minutes with a machine that does nothing else; ARGS="--rounds=30 --agents=50 --blows=5" for a shorter one.
.PHONY: soak
soak: $(VENV)/.installed ## 100 agents for 20 minutes on two replicas that are killed; ARGS: --rounds, --agents, --blows
	$(PY) -m fleetagent.dev.prebuild
	$(VENV)/bin/pytest tests/soak $(ARGS)

.PHONY: format
format: $(VENV)/.installed ## Let ruff format and mend what it can
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

.PHONY: bench
bench: $(VENV)/.installed ## Measure, and write bench/results.md
	PYTHONPATH=operator:tests:. $(PY) bench/run.py $(ARGS)

.PHONY: crd
crd: $(VENV)/.installed ## Make the CustomResourceDefinition from the models again, in both its places
	mkdir -p crds
	$(VENV)/bin/fleetagent crd > crds/fleetagents.yaml.new
	mv crds/fleetagents.yaml.new crds/fleetagents.yaml
	cp crds/fleetagents.yaml $(CHART)/files/fleetagents.yaml

.PHONY: docs
docs: $(VENV)/.installed ## Make docs/reference from the code again; ARGS=--check only compares
	$(PY) docs/generate.py $(ARGS)

.PHONY: clean
clean: ## Remove what was made here; the caches in the user's cache folder stay
	rm -rf $(VENV) dist .fleetagent .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find operator tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Ship it

.PHONY: chart
chart: $(VENV)/.installed ## Lint, render and package the chart into dist/
	helm="$$($(PY) -m fleetagent.dev.helm)" && \
	"$$helm" lint --strict $(CHART) && \
	"$$helm" template fleetagent $(CHART) --namespace $(KIND_NAMESPACE) > /dev/null && \
	mkdir -p dist && \
	"$$helm" package $(CHART) --destination dist

.PHONY: image
image: ## Build the container image IMAGE; PYTHON_IMAGE names the base, which is made here where none can be pulled
	$(if $(PYTHON_IMAGE),PYTHON_IMAGE=$(PYTHON_IMAGE)) image/build.sh $(IMAGE)

# kind pulls its node image, and that node its Postgres, from a public registry. Where none can be reached, this fails at
# that step and says so.
.PHONY: kind
kind: image $(VENV)/.installed ## A kind cluster with all of it inside: operator, Postgres, simulated market and model, an agent
	helm="$$($(PY) -m fleetagent.dev.helm)" && \
	IMAGE=$(IMAGE) KIND_CLUSTER=$(KIND_CLUSTER) HELM="$$helm" examples/kind/up.sh

# Only a cluster that is named may be tested on: the one that kubectl happens to point to is perhaps somebody's.
# LOAD_IMAGE is called with each image: "kind load docker-image --name e2e", "docker push"; "true" where they are there.
.PHONY: e2e
e2e: $(VENV)/.installed ## Image and chart on the cluster of KUBECONFIG with LOAD_IMAGE; without one, on a node of this machine's own
	@if [ -n "$(KUBECONFIG)" ]; then $(MAKE) --no-print-directory e2e-here; \
	elif [ -f "$(NODE_SCRIPTS)/up.sh" ]; then NODE_SCRIPTS=$(NODE_SCRIPTS) tests/cluster/node.sh $(MAKE) --no-print-directory e2e-here; \
	else echo "error: set KUBECONFIG to a cluster for tests, and LOAD_IMAGE to what brings an image there" >&2; exit 1; fi

.PHONY: e2e-here
e2e-here: image
	@[ -n "$(LOAD_IMAGE)" ] || { echo 'error: LOAD_IMAGE is not set; for kind: LOAD_IMAGE="kind load docker-image --name kind"' >&2; exit 1; }
	printf 'FROM $(IMAGE)\nLABEL next=yes\n' | docker build --quiet --tag $(IMAGE)-next - 2> /dev/null
	$(LOAD_IMAGE) $(IMAGE)
	$(LOAD_IMAGE) $(IMAGE)-next
	IMAGE=$(IMAGE) HELM="$$($(PY) -m fleetagent.dev.helm)" $(VENV)/bin/pytest -x tests/cluster $(ARGS)

##@ Dependencies

# Made in an environment of its own, so that the tool never is among what it locks. Python 3.11, since a lock made with a
# newer one may lack what 3.11 needs. `make lock ARGS=--upgrade` takes the newest versions that pyproject.toml allows.
LOCK_VENV := .fleetagent/lock-venv
LOCK = CUSTOM_COMPILE_COMMAND="make lock" $(LOCK_VENV)/bin/pip-compile -q --no-emit-index-url --no-emit-find-links \
  --no-emit-trusted-host --strip-extras --generate-hashes $(ARGS)
.PHONY: lock
lock: ## Lock the dependencies again, with hashes
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "error: the locks are made with Python 3.11: make lock PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/pip install -q pip==25.3 pip-tools==7.5.2
	$(LOCK) --extra=dev --extra=test --output-file=requirements-dev.lock pyproject.toml
	$(LOCK) --constraint=requirements-dev.lock --output-file=requirements.lock pyproject.toml
	$(LOCK) --only-build-deps --build-deps-for=wheel --output-file=image/build.lock pyproject.toml

.PHONY: venv
venv: $(VENV)/.installed ## Only the virtual environment that the other targets make by themselves

# Two stamps: a changed lock means a new environment, a changed pyproject.toml only that the project is installed again.
$(VENV)/.installed: $(VENV)/.locked pyproject.toml README.md
	$(PIP) install -q --no-deps --editable .
	@touch $@

# Debian ships Python without ensurepip unless python3-venv is there. Its own pip can fill the environment as well.
PIP = $$([ -x $(VENV)/bin/pip ] && echo $(VENV)/bin/pip || echo $(PYTHON) -m pip --python $(PY)) --disable-pip-version-check
$(VENV)/.locked: requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, and '$(PYTHON)' is not: try make PYTHON=python3.11" >&2; exit 1; }
	@if $(PYTHON) -c 'import ensurepip' 2> /dev/null; then \
	  $(PYTHON) -m venv --clear $(VENV); \
	elif $(PYTHON) -c 'import pip' 2> /dev/null; then \
	  $(PYTHON) -m venv --clear --without-pip $(VENV); \
	else \
	  echo "error: '$(PYTHON)' has neither ensurepip nor pip; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi
	@echo "installing the locked dependencies into $(VENV) …"
	@$(PIP) install -q --require-hashes -r requirements-dev.lock
	@touch $@
