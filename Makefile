# Every target sets up all that it needs: Python 3.11 or newer, its `venv` and `pip` are enough.
#   make test VENV=/somewhere/else        another place for the environment
#   make test PYTHON=python3.13           another Python to make it with
#   make test ARGS="-k layers -x"         words for pytest (or for the benchmark scripts)

VENV ?= .venv
PYTHON ?= python3
ARGS ?=

# The environment's Python with its full path, found when a recipe runs: spaces in it are fine.
py = "$$(cd "$(VENV)" && pwd)/bin/python"
pip = $(py) -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest adapters-test check bench bench-recall clean

help: ## show this list
	@awk -F ': .*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.stamp-runtime ## run examples/quickstart.py in a fresh folder, .recall-echo-demo
	@rm -rf .recall-echo-demo && mkdir .recall-echo-demo
	@python=$(py); cd .recall-echo-demo && "$$python" ../examples/quickstart.py

test: $(VENV)/.stamp-dev ## run every test with coverage: code, docstrings, docs and examples
	@$(py) -m pytest --cov --numprocesses=auto --dist=loadfile --max-worker-restart=2 $(ARGS)

test-oldest: ## run the adapters' tests with the oldest frameworks they support, in $(VENV)-oldest
	@$(MAKE) --no-print-directory VENV="$(VENV)-oldest" CONSTRAINTS=tests/oldest.txt adapters-test

adapters-test: $(VENV)/.stamp-dev
	@$(py) -m pytest --numprocesses=auto --dist=loadfile recall_echo_adapters tests/test_adapters_*.py \
		tests/test_langchain_*.py tests/test_llama_index_*.py tests/test_both_frameworks.py \
		tests/test_abilities.py $(ARGS)

check: $(VENV)/.stamp-dev ## check format, lint and types
	@$(py) -m ruff format --check .
	@$(py) -m ruff check .
	@$(py) -m mypy

bench: $(VENV)/.stamp-dev ## run every benchmark; the numbers are printed, nothing is judged
	@if test -f benchmarks/__main__.py; then exec $(py) -m benchmarks $(ARGS); fi; \
	for script in benchmarks/[!_]*.py; do \
		test -f "$$script" || { echo "benchmarks/ holds no script yet"; exit 1; }; \
		echo "== $$script"; $(py) "$$script" $(ARGS) || exit 1; \
	done

bench-recall: $(VENV)/.stamp-dev ## measure recall: is the evidence found, what holds, how fast
	@$(py) benchmarks/recall_quality.py --triples --categories --intervals --kept-vectors $(ARGS)
	@$(py) benchmarks/state_and_precision.py
	@$(py) benchmarks/recall_speed.py
	@$(py) benchmarks/recall_speed.py --texts 100000

clean: ## remove what these targets made, the environment included if it is .venv
	rm -rf .venv .venv-oldest .recall-echo-demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per step: a second run does nothing, until pyproject.toml changes.

$(VENV)/.stamp-venv:
	@command -v "$(PYTHON)" >/dev/null || { echo "$(PYTHON) was not found: install Python 3.11 or newer, or say make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$("$(PYTHON)" -V 2>&1); Python 3.11 or newer is needed: say make PYTHON=python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@test -x "$(VENV)/bin/python" || "$(PYTHON)" -m venv "$(VENV)"
	@$(py) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(VENV) holds $$($(py) -V); Python 3.11 or newer is needed: remove it, or say make VENV=..." >&2; exit 1; }
	@$(py) -m pip --version >/dev/null 2>&1 || $(py) -m ensurepip
	@$(pip) install --quiet --upgrade 'pip>=25.1' # the first that knows --group
	@touch "$@"

$(VENV)/.stamp-runtime: pyproject.toml | $(VENV)/.stamp-venv
	@echo "installing recall-echo-adapters into $(VENV) ..."
	@$(pip) install --quiet --editable .
	@touch "$@"

$(VENV)/.stamp-dev: pyproject.toml | $(VENV)/.stamp-venv
	@echo "installing recall-echo-adapters and its development tools into $(VENV) ..."
	@$(pip) install --quiet --editable '.[all]' --group dev $(addprefix --constraint ,$(CONSTRAINTS))
	@touch "$(VENV)/.stamp-runtime" "$@"
