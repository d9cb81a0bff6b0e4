# Every target works on a fresh clone: .venv is made when it is missing or older than pyproject.toml.
ifneq ($(shell uname -s),Linux)
$(error Steersman needs Linux: on Windows use WSL, on a Mac a virtual machine or a container with Linux)
endif

PYTHON ?= python3
BIN := .venv/bin
LIVE := src/steersman/dashboard/live
EXTRAS := md,mpi,data,alloys,potentials,diffraction,cosmology,mcp,onnx,browser,dev,docs
BEGAN := $(shell date +%s)

.PHONY: demo train-demo gpu gpu-wheels lock compare test quick soak format lint types wheel-test recipe-test test-globus test-lowest test-pythons docs clean

# .demo has what the demo needs, .installed all. The tested CPU build of torch where it can be had; elsewhere (a GPU
# machine) the default wheel of the same version.
TORCH := torch==2.13.0
INSTALL := packaging/install.py -c constraints.txt $(TORCH)
MLCOLVAR := mlcolvar==1.3.0 lightning==2.6.6 KDEpy==1.1.12 # which would ask for pydantic 1, and imports none

$(BIN)/.demo: EXTRAS := md
$(BIN)/.demo $(BIN)/.installed: pyproject.toml constraints.txt hatch_build.py $(LIVE)/package-lock.json
	@echo "Steersman and what it needs ($(EXTRAS)) are installed into .venv, once."
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) -e ".[$(EXTRAS)]"
	$(if $(filter %.installed,$@),$(BIN)/python packaging/install.py --no-deps $(MLCOLVAR))
	touch $(BIN)/.demo $@

# All versions with their hashes, for who asks for these. Torch and its parts have none: they come from where pip is told,
# with or without CUDA. It is not kept: constraints.txt has the versions, and 100 kB would change with each of them.
LOCK := uv pip compile --quiet pyproject.toml -c constraints.txt $(foreach each,md data,--extra $(each)) --no-annotate --no-header

lock: requirements.lock
requirements.lock: pyproject.toml constraints.txt
	PATH="$(BIN):$$PATH" && parts=$$($(LOCK) | sed -nE 's/^(torch|triton|(nvidia|cuda)-[a-z0-9-]+)==.*/--no-emit-package \1/p') && \
	  $(LOCK) --generate-hashes $$parts > $@.partial && mv $@.partial $@

demo: $(BIN)/.demo
	$(BIN)/steersman run dipeptide --rounds --seed 1 --workers 4 --set sim_ns=3 --dashboard
	@first=$$(grep -m 1 '"kind":"frames"' $$(ls -td runs/dipeptide-*/journal.jsonl | head -n 1) | sed 's/.*"t":\([0-9]*\).*/\1/'); \
	  echo "The first frames came $$((first - $(BEGAN))) s after make was called."

# A CVAE on a recorded window, two ranks; the figure of where the time went is runs/train-demo/profile.png.
train-demo: $(BIN)/.installed
	$(BIN)/python -m lab.train_demo

# Everything on a GPU, once, in eight minutes: make gpu, or make gpu PARTS=loop,bias. On a machine without a network it is
# installed from what make gpu-wheels made elsewhere.
GPU_WHEELS ?= build/gpu-wheels

build/gpu/.installed: pyproject.toml constraints.txt packaging/gpu.py
	$(PYTHON) packaging/gpu.py install $(GPU_WHEELS) build/gpu
	touch $@

gpu: build/gpu/.installed
	build/gpu/bin/python -m lab.gpu --keep $(if $(PARTS),--parts $(PARTS))

gpu-wheels:
	$(PYTHON) packaging/gpu.py wheels $(GPU_WHEELS)

# The tables and figures of docs/results/: hours of two cores, and it goes on where it was stopped.
compare: $(BIN)/.installed
	$(BIN)/steersman compare wells --seeds 10 --workers 8 --rounds --policy 'LocalOutlierFactor("z")' \
		--policy 'LeastCounts("z")' --out runs/compare-wells
	$(BIN)/steersman compare chignolin --params workflows/chignolin.yaml --budget sim_ns=0.6 --seeds 4 --beside 1 \
		--policy 'LocalOutlierFactor("z") | Novelty("z"), explore=0.2, fallback=Random()' \
		--policy 'Frontier(LocalOutlierFactor("z"), 4)' --out runs/compare-chignolin
	$(BIN)/steersman compare alanine --seeds 8 --plain-budget sim_ns=6.4 --workers 1 --beside 2 \
		--policy 'LocalOutlierFactor("torsions")' --policy 'LocalOutlierFactor("z")' --policy 'LeastCounts("torsions")' --out runs/compare-alanine
	$(BIN)/steersman compare wells --seeds 8 --workers 4 --set steps=10000 --set frame_s=0.03 --budget frames=6000 \
		--policy 'LocalOutlierFactor("z")' --policy 'LocalOutlierFactor("z"), prune=Redundant("angles", patience=10, crowd=5)' \
		--out runs/compare-crowded
	$(BIN)/steersman compare alanine --seeds 6 --workers 1 --beside 2 --set segment_ps=200 --budget sim_ns=4.8 \
		--policy 'LocalOutlierFactor("torsions")' --policy 'LocalOutlierFactor("torsions"), prune=Redundant("torsions", bins=6)' \
		--out runs/compare-pruned
	$(BIN)/steersman compare shallow_water --seeds 4 --workers 1 --beside 2 --out runs/compare-rare
	$(BIN)/steersman compare wells --seeds 8 --rounds --vary workers=1,4,16 --policy 'LocalOutlierFactor("z")' --out runs/compare-slots
	$(BIN)/steersman compare wells --seeds 8 --rounds --workers 8 --policy 'LocalOutlierFactor("z")' \
		--policy 'LocalOutlierFactor("z"), explore=0.2' --policy 'LocalOutlierFactor("z"), explore=0.5' --out runs/compare-explore
	$(BIN)/steersman compare wells --seeds 8 --rounds --workers 8 --vary steps=100,500,2500 --policy 'LocalOutlierFactor("z")' \
		--out runs/compare-length
	$(BIN)/steersman compare alanine --seeds 4 --workers 1 --beside 2 --vary train_every=400,4000,16000 --policy 'LocalOutlierFactor("z")' \
		--out runs/compare-cadence
	$(BIN)/steersman compare alanine --seeds 4 --workers 1 --beside 2 --vary latent=1,3,10 --policy 'LocalOutlierFactor("z")' \
		--out runs/compare-latent
	$(BIN)/python docs/figures/results.py runs/compare-*

# Three processes on two cores, since most campaigns wait for something; a file to each, in the order of tests/conftest.py.
PYTEST := -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder

test: $(BIN)/.installed
	$(BIN)/python $(PYTEST)

quick: $(BIN)/.installed
	$(BIN)/python $(PYTEST) -m "not slow"

# Remote runs over the real Globus Compute: GLOBUS_E2E_ENDPOINT=UUID, and somebody who is logged in; else it is skipped.
test-globus: $(BIN)/.installed
	$(BIN)/python -m pytest -q -rs -p no:xdist tests/remote/test_cloud.py

# Minutes of random kills, a table for each at the end; and the property tests on new examples.
soak: $(BIN)/.installed
	STEERSMAN_SOAK=1 $(BIN)/python -m pytest -q -s tests/bus/test_faults.py tests/bus/test_stateful.py tests/bus/test_codec.py tests/faults \
		tests/bus/test_server.py tests/bus/test_hostile.py tests/remote/test_hostile.py tests/cli/test_forged.py \
		tests/cli/test_odd_files.py tests/cli/test_damaged_frames.py tests/store/test_odd_files.py tests/data/test_losses.py

# The page's JavaScript and CSS, by the version that package.json names.
BIOME := cd $(LIVE) && npx --yes @biomejs/biome@$$(node -p 'require("./package.json").devDependencies["@biomejs/biome"]')

format: $(BIN)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIOME) check --write page views

lint: $(BIN)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIOME) check page views

types: $(BIN)/.installed
	$(BIN)/mypy

wheel-test: $(BIN)/.installed
	rm -rf dist build/wheel-venv
	$(BIN)/python -m build --wheel
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/python $(INSTALL) "$$(ls dist/*.whl)[$(EXTRAS)]"
	build/wheel-venv/bin/python $(PYTEST) -m "not slow" -o pythonpath=
	cp workflows/double_well.py build/mine.py
	PATH="$$PWD/$(BIN):$$PATH"; cd build && uvx --python ../$(BIN)/python --with $(TORCH) --from ../dist/*.whl steersman try mine.py

# The recipe for conda-forge, read and rendered by the tool that conda-forge builds with.
recipe-test:
	$(PYTHON) -m venv build/recipe
	build/recipe/bin/pip install --quiet --disable-pip-version-check "py-rattler-build>=0.73"
	build/recipe/bin/python packaging/render.py

# What needs no torch, on the oldest versions that pyproject.toml allows.
WITHOUT_TORCH := tests/store tests/bus tests/journal tests/data tests/steering tests/system tests/cli/test_verbs.py tests/cli/test_records.py \
	--ignore tests/bus/test_codec.py --ignore tests/bus/test_large.py --ignore tests/steering/test_rare_events.py

test-lowest:
	rm -rf build/lowest
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/python tests/requirements.py > build/lowest/requirements.txt
	build/lowest/bin/pip install --quiet --disable-pip-version-check $(TORCH) -r build/lowest/requirements.txt
	build/lowest/bin/pip install --quiet --disable-pip-version-check --no-deps -e .
	build/lowest/bin/python -m pytest -q -m "not slow" -o filterwarnings=default $(WITHOUT_TORCH) tests/cli \
		--ignore tests/cli/test_remote.py  # old libraries warn of newer ones; the extra globus asks for a newer rich

# The quick tests on every Python that is allowed and can be had: on PATH, or by uv.
PYTHONS ?= 3.11 3.12 3.13 3.14

test-pythons:
	ran=; for each in $(PYTHONS); do \
	  python=$$(command -v python$$each || uv python find --quiet $$each || { uv python install --quiet $$each && uv python find $$each; }); \
	  $${python:-false} -c "" 2> /dev/null || { echo "Python $$each cannot be had: not tested"; continue; }; \
	  rm -rf build/python$$each && $$python -m venv build/python$$each || exit 1; \
	  build/python$$each/bin/python $(INSTALL) -e ".[$(EXTRAS)]" || exit 1; \
	  build/python$$each/bin/python $(PYTEST) -m "not slow" || exit 1; \
	  ran="$$ran $$each"; \
	done; echo "The quick tests ran on Python$$ran."

# The site: build/site/index.html. Nothing is fetched; what is wrong with a link, an anchor or a docstring is an error.
docs: $(BIN)/.installed
	$(BIN)/python docs/tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
