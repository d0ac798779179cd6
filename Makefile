# `make demo` shows the loop, `make test` proves it. Needs Python 3.11, pip, make and git; everything goes into .venv.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test fast slow lint results

PYTHON ?= $(shell command -v python3.11 || command -v python3)
PY := .venv/bin/python

export HF_HUB_OFFLINE ?= 1
# A fixed number, not the machine's: the order of float sums, and so the published figures, depends on it.
export OMP_NUM_THREADS ?= 2

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.installed  ## build data, GRPO on the bundled tiny policy, evaluate before and after, report
	$(PY) -m scripts.demo

test: lint fast slow  ## everything that proves it

lint: .venv/.installed  ## ruff, mypy, import directions
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports

fast: .venv/.installed  ## the tests that take seconds
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n auto -m "not slow"

# One process: these train and generate, and would take each other's cores.
slow: .venv/.installed  ## the tests that train, generate or import torch
	$(PY) -m pytest -q -m slow

results: .venv/.installed  ## remake the published figures: three seeds of the demo
	$(PY) -m scripts.demo --seeds 0 1 2 --out docs/results

# torch on its own first: the one big download fails or succeeds before anything else is resolved.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PY) -m pip install -c constraints.txt $$(grep '^torch==' constraints.txt)
	$(PY) -m pip install -c constraints.txt -e ".[test]"
	@touch $@
