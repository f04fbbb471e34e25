# Everything that one does with this repository. `make` alone lists it.
#
# A fresh machine needs Python 3.11 or newer, make, and Go for the local control plane (once, 4 to 8 minutes, kept in
# the user's cache folder). Docker is needed by `make image` and `make kind` only.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
CHART := charts/fleetagent

IMAGE ?= fleetagent:$(VERSION)
# What follows the last colon, unless that is a registry's port; as with docker, no tag is `latest`.
IMAGE_TAG = $(or $(word 2,$(subst :, ,$(notdir $(IMAGE)))),latest)
PYTHON_IMAGE ?= python:3.11-slim
KIND_CLUSTER ?= fleetagent
KIND_NAMESPACE := fleetagent-system

##@ Use

.PHONY: help
help: ## List these targets
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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
.PHONY: test
test: check ## All that runs without Docker: `make check`, then the tests against real parts; ARGS goes to pytest
	$(PY) -m fleetagent.dev.prebuild
	$(VENV)/bin/pytest tests/integration tests/e2e $(ARGS)

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
image: docker-is-there ## Build the container image; PYTHON_IMAGE names the base, IMAGE the result
	docker build --build-arg PYTHON_IMAGE=$(PYTHON_IMAGE) --tag $(IMAGE) .

# kind pulls its node image, and the Postgres below its own, from a public registry. Where none can be reached, this fails
# at that step and says so; nothing else of the repository depends on it.
.PHONY: kind
kind: docker-is-there kind-is-there image $(VENV)/.installed ## A kind cluster with Postgres and the operator, from the chart
	kind get clusters | grep -qx $(KIND_CLUSTER) || kind create cluster --name $(KIND_CLUSTER) --config kind-config.yaml
	kind load docker-image $(IMAGE) --name $(KIND_CLUSTER)
	kubectl="kubectl --context kind-$(KIND_CLUSTER) --namespace $(KIND_NAMESPACE)" && \
	{ $$kubectl get namespace $(KIND_NAMESPACE) || $$kubectl create namespace $(KIND_NAMESPACE); } && \
	$$kubectl apply -f examples/kind/postgres.yaml && \
	$$kubectl rollout status deployment/postgres --timeout=3m && \
	helm="$$($(PY) -m fleetagent.dev.helm)" && \
	"$$helm" upgrade --install fleetagent $(CHART) --kube-context kind-$(KIND_CLUSTER) --namespace $(KIND_NAMESPACE) \
	  --set image.repository=$(patsubst %:$(IMAGE_TAG),%,$(IMAGE)) --set image.tag=$(IMAGE_TAG) \
	  --set database.existingSecret=postgres --set database.key=url --set cluster=kind-$(KIND_CLUSTER) && \
	$$kubectl rollout status deployment/fleetagent --timeout=3m

.PHONY: docker-is-there kind-is-there
docker-is-there:
	@command -v docker > /dev/null || { echo "error: docker is not installed; everything but image and kind works without it" >&2; exit 1; }
	@docker info > /dev/null 2>&1 || { echo "error: docker is installed, but its daemon does not answer ('docker info' says why)" >&2; exit 1; }
kind-is-there:
	@command -v kind > /dev/null || { echo "error: kind is not installed; get it with: go install sigs.k8s.io/kind@latest" >&2; exit 1; }
	@command -v kubectl > /dev/null || { echo "error: kubectl is not installed" >&2; exit 1; }

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
