# Two commands: `make demo` and `make test`. Both make `.venv` first.
#   make test PYTHON=python3.12     with another interpreter
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-fast lint test-compile test-gpu-compile venv venv-test clean

help:
	@echo "make demo       measure on this machine where scaling breaks (6 min from nothing)"
	@echo "make test       lint, types, layer contracts, all tests"
	@echo "make test-fast  meshes, training step and command line only"
	@echo "make test-compile  large programs by the TPU compiler, two hours without a TPU"
	@echo "make test-gpu-compile  XLA's GPU compiler, without a GPU: installs 7 GB"
	@echo "make lint       lint, types, layer contracts"
	@echo "make clean      remove .venv and caches; results stay"

demo: venv
	$(BIN)/scaling run cpu_quick
	$(BIN)/scaling report results/cpu_quick

test: lint
	$(BIN)/python -m pytest

test-fast: venv-test
	$(BIN)/python -m pytest -m fast

test-compile: venv-test
	$(BIN)/python -m pytest -m tpu_compile

test-gpu-compile:
	@$(PYTHON) tools/venv.py --extra cuda,test --venv .venv-cuda
	.venv-cuda/bin/python -m pytest -m gpu_compile

lint: venv-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/codespell

venv:
	@$(PYTHON) tools/venv.py

venv-test:
	@$(PYTHON) tools/venv.py --extra test

clean:
	rm -rf .venv .venv-cuda .pytest_cache .ruff_cache .hypothesis .import_linter_cache
