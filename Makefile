# nanopace: `make` alone lists what there is to do. Every target does its own set-up.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The versions alone, since pip cannot hold what is editable against a hash. They are constraints by the environment, so
# that they hold for what builds the package, too.
VERSIONS := $(VENV)/constraints.txt
PIP := PIP_CONSTRAINT=$(VERSIONS) $(INSTALL)
# pytest rewrites every assert of the tests, and keeps the result where Python may write bytecode: half of a collection.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test every-test coverage test-quick test-analyst check dist format catalogs outputs pictures configs examples lock fuzz mutate bench-gpu docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.train ## train a small GPT on Python's own source, let it write, and see where the time went
	@mkdir -p demo
	cd demo && ../$(BIN)/nanopace train --overwrite=True
	@$(BIN)/nanopace explain demo/out --html demo/report.html >/dev/null 2>&1
	@echo; echo "The report as a page: demo/report.html. More text: $(BIN)/nanopace sample demo/out --prompt 'class '"

# Coverage makes the tests take 1.4 times as long, so only CI, which sets CI=true, and `make coverage` measure it.
test: check $(if $(CI),coverage,every-test) ## the checks, then every test; CI measures coverage as well

every-test: $(VENV)/.dev
	$(BIN)/pytest

coverage: $(VENV)/.dev ## every test, and which lines of the source they run: 97% at least
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

test-quick: $(VENV)/.dev ## the unit tests alone: no process, browser, training or property
	$(BIN)/pytest -m 'not gpu and not slow'

# The analyst promises every Python from 3.11 on; torch comes later to new ones.
ANALYST := diagnosis evidence hardware ledger live sources trace views wording test_*.py
test-analyst: $(VENV)/.analyst-tests ## the analyst's unit tests, without torch; with VENV=.venv-3.14 PYTHON=python3.14 on another Python
	$(BIN)/pytest -m 'not gpu and not slow' $(addprefix tests/,$(ANALYST))

check: $(VENV)/.dev ## style, types, and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers=auto
	$(BIN)/lint-imports --no-logo

dist: $(VENV)/.dist ## the sdist, and the wheel built from it, in dist/, ready for the package index
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

format: $(VENV)/.dev ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

catalogs: $(VENV)/.dev ## collect the sentences, update the .po files, compile them
	$(BIN)/python tools/catalogs.py

outputs: $(VENV)/.dev ## renew the output that README and docs show
	$(BIN)/python tools/outputs.py
	$(BIN)/python tools/findings.py

docs: $(VENV)/.dev ## build the documentation into site/; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: $(VENV)/.dev ## make the pictures of the README anew, light and dark
	$(BIN)/python tools/pictures.py

configs: $(VENV)/.analyst ## write the ready configs of common cards anew, as `nanopace recommend` has them
	$(BIN)/python tools/configs.py

examples: $(VENV)/.analyst ## write the example logs anew
	$(BIN)/python examples/make_logs.py

lock: $(BIN)/python ## write constraints.txt anew, for what pyproject.toml asks; UPGRADE=--upgrade for the newest of everything
	$(INSTALL) uv
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python tools/lock.py $(UPGRADE)

FUZZ ?= --minutes 10
fuzz: $(VENV)/.train ## hostile files, flags, directories and failing disks for ten minutes; FUZZ="--seed 7 --minutes 60" for others
	$(BIN)/python bench/fuzz.py $(FUZZ)

MUTATE ?= --room ledger files corpus sources diagnosis train/checkpoint
mutate: $(VENV)/.dev ## small mistakes put into the source, and which of them no test notices; MUTATE="--room ledger --count 200" for others
	$(BIN)/python tools/mutate.py $(MUTATE)

NANOGPT ?= nanoGPT
# nanoGPT as well as batch size and learning rate can make it; its own schedule takes 94M tokens, and is --reference.
TO_A_LOSS ?= --theirs batch=16,accum=1,lr=6e-4,iters=700,warmup=70 --ours recipe=fast,batch=16,accum=1,iters=95
bench-gpu: $(VENV)/.train ## on a CUDA card, beside NANOGPT=path/to/nanoGPT: speed, kernels, memory, start, fp8, time to a loss, as ratios
	@test -f $(NANOGPT)/train.py || { echo "NANOGPT=$(NANOGPT): nanoGPT is not there; check it out and give its path"; exit 2; }
	@$(BIN)/python -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' || { echo "torch sees no CUDA card"; exit 2; }
	cd bench && for script in "throughput.py $(abspath $(NANOGPT))" kernels.py memory.py "start.py $(abspath $(NANOGPT))" fp8.py \
		"python_corpus.py ../data/code" "time_to_loss.py $(abspath $(NANOGPT)) --corpus ../data/code $(TO_A_LOSS)"; do \
		echo; echo "== $$script"; ../$(BIN)/python $$script || exit 1; done

clean: ## remove what the other targets made
	rm -rf $(VENV) demo dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .mutate .coverage*

# --- set-up ----------------------------------------------------------------------------------------------------------

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "nanopace needs Python 3.11 or newer; set PYTHON=/path/to/python"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VERSIONS): constraints.txt | $(BIN)/python
	@sed -n 's/^\([A-Za-z0-9_.-]*==[^\\]*\).*/\1/p' constraints.txt > $@

$(VENV)/.analyst: pyproject.toml $(VERSIONS)
	$(PIP) --editable .
	$(BIN)/python -m compileall -q src  # where Python may not write bytecode itself, every start would compile anew
	@touch $@

$(VENV)/.train: pyproject.toml $(VERSIONS)
	$(PIP) --editable '.[train]'
	$(BIN)/python -m compileall -q src
	@touch $@ $(VENV)/.analyst

$(VENV)/.analyst-tests: pyproject.toml $(VERSIONS)
	$(PIP) --editable '.[live,pattern,tensorboard,wandb]' babel 'coverage[toml]' httpx2 hypothesis pytest pytest-xdist pyyaml
	@touch $@ $(VENV)/.analyst

$(VENV)/.dist: pyproject.toml $(VERSIONS)
	$(PIP) build hatchling 'readme-renderer[md]' twine
	@touch $@

# Everything is checked against its hash, and compiled only where a test imports it. On a machine with CUDA, torch needs
# packages that constraints.txt does not list: pip finds out in two seconds whether any are missing, and then gets them.
# Of two builds of torch, pip prefers the index's, gigabytes with CUDA, to one in a folder that pip was told of
# (find-links): that one is asked for first, and where there is none, nothing happens.
$(VENV)/.dev: pyproject.toml $(VERSIONS)
	@sed -n '/^torch==/,/[^\\]$$/p' constraints.txt > $(VENV)/torch.txt
	@$(INSTALL) --no-compile --require-hashes --no-deps --no-index --requirement $(VENV)/torch.txt 2>/dev/null || true
	$(INSTALL) --no-compile --require-hashes --no-deps --requirement constraints.txt
	$(INSTALL) --no-build-isolation --no-deps --editable .
	$(BIN)/python -m pip check >/dev/null || $(PIP) --no-build-isolation --editable '.[dev]'
	$(BIN)/python -m compileall -q src
	@touch $@ $(VENV)/.analyst $(VENV)/.train $(VENV)/.dist
