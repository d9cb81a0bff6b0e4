# Every target works on a fresh clone: .venv is made when it is missing or older than pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := md,mpi,dev

.PHONY: demo train-demo compare test quick soak format lint types wheel-test clean

$(BIN)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt $(TORCH) -e ".[$(EXTRAS)]"
	touch $@

# The tested CPU build of torch where it can be had; elsewhere (a GPU machine) the default wheel of the same version.
TORCH := torch==2.13.0

demo: $(BIN)/.installed
	$(BIN)/steersman run fold --params workflows/demo.yaml || [ $$? -eq 3 ]  # 3: it ended with its budget, as it should

# A CVAE on a recorded window, two ranks; the figure of where the time went is runs/train-demo/profile.png.
train-demo: $(BIN)/.installed
	$(BIN)/python -m steersman.benchmarks.train_demo

# The tables and figures of docs/results.md: an hour of two cores, and it goes on where it was stopped.
compare: $(BIN)/.installed
	$(BIN)/steersman compare workflows/reference/wells.py --seeds 10 --workers 8 --rounds --policy 'LocalOutlierFactor("z")' \
		--policy 'LeastCounts("z")' --out runs/compare-wells
	$(BIN)/steersman compare workflows/reference/chignolin.py --params workflows/demo.yaml --budget sim_ns=0.6 --seeds 4 --beside 1 \
		--policy 'LocalOutlierFactor("z") | Novelty("z"), explore=0.2, fallback=Random()' \
		--policy 'Frontier(LocalOutlierFactor("z"), 4)' --out runs/compare-chignolin
	$(BIN)/python docs/figures/results.py runs/compare-wells runs/compare-chignolin

# Two processes, a file to each, in the order of tests/conftest.py.
PYTEST := -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

test: $(BIN)/.installed
	$(BIN)/python $(PYTEST)

quick: $(BIN)/.installed
	$(BIN)/python $(PYTEST) -m "not slow"

# Minutes of random kills, a table for each at the end; and the property tests on new examples.
soak: $(BIN)/.installed
	STEERSMAN_SOAK=1 $(BIN)/python -m pytest -q -s tests/bus/test_faults.py tests/bus/test_stateful.py tests/bus/test_codec.py tests/faults

format: $(BIN)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(BIN)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell

types: $(BIN)/.installed
	$(BIN)/mypy

wheel-test: $(BIN)/.installed
	rm -rf dist build/wheel-venv
	$(BIN)/python -m build --wheel
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt $(TORCH) "$$(ls dist/*.whl)[$(EXTRAS)]"
	build/wheel-venv/bin/python $(PYTEST) -m "not slow" -o pythonpath=

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
