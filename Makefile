# `make demo` and `make test` need Python >= 3.11 and make; everything else goes into .venv.

PYTHON ?= python3
# A CPU build where the package index offers one: a bare `torch` pulls gigabytes of CUDA packages on
# some machines. Say `make TORCH=torch` (or any pip requirement) for another build.
TORCH ?= torch==2.13.0
BIN := .venv/bin
# One thread per test process: two processes with two threads each on two cores spend their time
# waiting for one another (up to a hundred times slower).
# Compiled files are kept even where the environment says otherwise: tests start hundreds of processes.
TESTING := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

.PHONY: help demo test slow nightly lint docs pages kept quick bare versions audit clean
.DEFAULT_GOAL := help

help: ## list these targets
	@sed -n -E 's/^([a-z]+):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 12

.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sigmascope needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet -e '.[dev,docs]'
	touch $@

demo: .venv/ready ## profile a network that cannot train and one that can, on real data
	@echo
	@echo "1. A 32-layer ReLU network with PyTorch's default initialisation, on handwritten digits."
	@echo "   It cannot train; the report says why."
	@echo
	$(BIN)/sigmascope profile 'mlp?depth=32&width=128&norm=none' --data digits --html demo-collapsed.html
	@echo
	@echo "2. The same network with BatchNorm before every activation."
	@echo
	$(BIN)/sigmascope profile 'mlp?depth=32&width=128&norm=batch' --data digits --html demo-batchnorm.html
	@echo
	@echo "Open demo-collapsed.html and demo-batchnorm.html in a browser."

test: .venv/ready ## run the tests
	$(TESTING) $(BIN)/pytest -n 2 --dist loadfile -m 'not slow' -q -rfEs

slow: .venv/ready ## run the full-size tables and repetitions too, all types checked (hours)
	$(TESTING) $(BIN)/pytest -n 2 -m slow -q '--jaxtyping-packages=sigmascope,beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))'

nightly: lint docs quick bare slow versions audit ## everything that is too long for a commit (hours)

lint: .venv/ready ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: .venv/ready ## build the documentation into docs/_build, its tutorials run (QUICK=1: small)
	$(BIN)/python docs/generate.py --check
	$(TESTING) $(if $(QUICK),SIGMASCOPE_TUTORIALS=quick) $(BIN)/sphinx-build -W -q -j 2 docs docs/_build

pages: .venv/ready ## write the generated pages of the documentation again
	$(BIN)/python docs/generate.py

kept: .venv/ready ## write anew what doors say of small networks in numbers
	cd tests && PYTHONPATH=.. $(TESTING) $(CURDIR)/$(BIN)/python -m test_kept_numbers

quick: .venv/ready ## reproduce every figure at its quick size, in a folder that is thrown away
	@folder=$$(mktemp -d) && $(TESTING) $(BIN)/sigmascope reproduce --all --quick --out $$folder; \
		code=$$?; rm -rf $$folder; exit $$code

bare: .venv/ready ## build wheel and source archive, look into them, use the wheel in an empty environment
	$(BIN)/python -m tests.release.bare --torch '$(TORCH)'

PAIRS ?= oldest newest
PAIR_OPTIONS ?=
versions: .venv/ready ## run the tests on the oldest and the newest Python and torch (PAIRS=oldest for one)
	for pair in $(PAIRS); do $(TESTING) $(BIN)/python -m tests.release.pairs $$pair $(PAIR_OPTIONS) || exit 1; done

audit: .venv/ready ## look for known vulnerabilities in what is installed (asks the package index)
	$(BIN)/pip install --quiet 'pip-audit>=2.7'
	@wanted=$$(mktemp) && $(BIN)/pip freeze --exclude-editable | grep -v ' @ ' | sed 's/+[a-z0-9.]*$$//' > $$wanted; \
		$(BIN)/pip-audit --strict --no-deps --disable-pip -r $$wanted; code=$$?; rm -f $$wanted; exit $$code

clean: ## remove what these targets made
	rm -rf .venv .pairs docs/_build docs/jupyter_execute demo-*.html .pytest_cache .ruff_cache .hypothesis
