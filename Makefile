# The only list of verbs; continuous integration calls these too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

LAB := $(VENV)/.lab

.PHONY: help demo test check bench bench-large test-gpu bench-gpu sanitize-gpu format clean

help:  ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

# What a user installs: the demo needs nothing of what only developers need.
$(LAB): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[lab]"
	@touch $@

demo: $(LAB)  ## train on scikit-learn's digits with SINCERE, SupCon and cross-entropy, and compare
	$(BIN)/sincere demo

test: check  ## everything that must hold: style, types, tests
	$(BIN)/python -m pytest -n auto

check: $(READY)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

bench: $(READY)  ## speed and memory on this machine's CPU, beside the code people write
	$(BIN)/python benchmarks/cpu_speed.py
	$(BIN)/python benchmarks/cpu_memory.py
	$(BIN)/python benchmarks/crossover.py

bench-large: $(READY)  ## the table up to 65,536 embeddings
	$(BIN)/python benchmarks/cpu_scaling.py

test-gpu:  ## on a machine with a GPU, in the environment that it has
	PYTHONPATH=src $(PYTHON) -m pytest tests/test_gpu.py tests/test_fused.py tests/test_triton.py tests/test_everywhere.py tests/test_set_kernels.py tests/test_set_digits.py tests/test_set_whole.py tests/test_halving.py tests/test_gpu_training.py

bench-gpu:  ## speed and memory on a GPU, after a check that the kernels are right
	PYTHONPATH=src $(PYTHON) benchmarks/gpu_speed.py

sanitize-gpu:  ## every kernel under NVIDIA's memcheck and racecheck
	PYTHONPATH=src compute-sanitizer --tool memcheck --error-exitcode 1 $(PYTHON) tests/sanitize.py
	PYTHONPATH=src compute-sanitizer --tool racecheck --error-exitcode 1 $(PYTHON) tests/sanitize.py

format: $(READY)  ## let ruff write the files as `check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What was built before goes into the next wheel too, removed modules included.
clean:  ## remove the environment, caches and what was built
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/sincere.egg-info
