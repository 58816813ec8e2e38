# Both commands set up what they need; .venv is remade when the dependencies change.
PYTHON ?= python3
BIN := .venv/bin
TORCH ?= torch==2.13.0

.PHONY: run test test-all bench clean

run: .venv/ready
	$(BIN)/neuralrace run --all --quick --out results || [ $$? -eq 1 ]  # 1: a claim does not hold, as the report says

test: .venv/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest -n 2 --durations=10

test-all: .venv/ready-test
	$(BIN)/python -m pytest -n 2 -m "whole or not whole"

bench: .venv/ready
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/python -m benchmarks

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e .
	touch $@

.venv/ready-test: .venv/ready
	$(BIN)/pip install --quiet -e ".[test]"
	touch $@

clean:
	rm -rf .venv results dist
