# The whole of plat from a fresh clone. `make sweep` first, `make test` second.
#
#   make sweep    install into .venv (once; two to ten minutes, most of it downloads), then train and print Table 4
#   make test     the tests, without the slow ones
#   make test-slow  tests of some seconds each (a quarter of an hour)
#   make coverage  the tests, and which lines they run (build/coverage/index.html)
#   make test-cluster  the tests on a real SLURM and of a team's store (PostgreSQL), which they install (Debian, as
#                      root), start and stop on this machine
#   make test-verl  whole runs with verl's own trainer, on CPU cores (about nine minutes)
#   make test-sandbox  every hostile program alone, at every level, as root and as another user (about ten minutes)
#   make reproduce-smoke  every table, figure and claim of the paper at smoke scale, on one page (about ten minutes)
#   make lint     formatting, style and types
#   make results  write the pages that have a template in docs/templates/, from the runs in results/
#   make bench    the measurements of docs/benchmarks.md
#   make site     the documentation as a site, in build/site: open build/site/index.html (three minutes;
#                 with REPORTS=quickstart,table6 only these reports)
#   make install  only the environment
#   make clean    remove the environment and caches; results in plat-home/ stay
#
# PYTHON=...         the interpreter to use (3.11 or 3.12)
# TORCH_OPTIONS=...  extra pip options for torch alone, to choose its CPU build or a CUDA build (see README.md)
# ARGS=...           further arguments for the command behind the target, e.g. `make sweep ARGS="--jobs 1"`

PYTHON ?= $(shell for name in python3.11 python3.12 python3 python; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null && { echo $$name; break; }; done)
TORCH_OPTIONS ?=
ARGS ?=
REPORTS ?= all
BIN := .venv/bin
INSTALLED := .venv/.installed
HERE := not chaos and not science and not cluster and not verl and not sandbox and not cuda and not long
PIP := $(BIN)/python -m pip install --disable-pip-version-check

.PHONY: sweep test test-slow test-long coverage test-cluster test-verl test-sandbox reproduce-smoke lint results bench site install clean
.DELETE_ON_ERROR:

sweep: $(INSTALLED)
	@$(BIN)/plat sweep experiments/table4.yaml $(ARGS)

test: $(INSTALLED)
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile -m "not slow and $(HERE)" $(ARGS)

test-slow: $(INSTALLED)
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile -m "slow and $(HERE)" $(ARGS)

test-long: $(INSTALLED)
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile -m "long and not cluster and not chaos" $(ARGS)

coverage: $(INSTALLED)
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --cov --cov-report term:skip-covered --cov-report html:build/coverage $(ARGS)

test-cluster: $(INSTALLED)
	@$(BIN)/python -m slurm.one_machine install
	@$(BIN)/python -m pytest tests/contract -m "cluster and not chaos" $(ARGS)

test-verl: $(INSTALLED)
	@$(BIN)/python -m pytest tests/plat_rl/verl -m "verl and not chaos and not science" $(ARGS)

test-sandbox: $(INSTALLED)
	@$(BIN)/python -m pytest tests/plat_envs/sandbox -m sandbox $(ARGS)

reproduce-smoke: $(INSTALLED)
	@.ci/reproduce-smoke $(ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

results: $(INSTALLED)
	@$(BIN)/python -m tools.documents $(ARGS)

bench: .venv/.bench
	@$(BIN)/python benchmarks/run.py $(ARGS)

# PYTHONPATH: the packages of the site lie beside the environment, not in it. A broken link or anchor is an error.
site: .venv/.site
	@NO_MKDOCS_2_WARNING=1 REPORTS='$(REPORTS)' PYTHONPATH=.venv/site $(BIN)/python -m mkdocs build --strict $(ARGS)

install: $(INSTALLED)

# The stamp is written last and removed first, so an interrupted install is seen and started over from an empty folder.
# torch goes first, alone: it is the one package that brings further packages which differ from machine to machine.
$(INSTALLED): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || { \
	  echo "error: plat needs Python 3.11 or 3.12, $(if $(PYTHON),and $(PYTHON) is not that,and found none)" >&2; \
	  echo "  fix: install one, or name it: make $(or $(MAKECMDGOALS),sweep) PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -f $@ || { echo "installing into .venv (once; 3 GB; two to ten minutes, most of it downloads) ..."; $(PYTHON) -m venv --clear .venv; }
	@rm -f $@
	@echo "  1/3 torch" && $(PIP) --constraint requirements.txt torch $(TORCH_OPTIONS)
	@echo "  2/3 the other pinned packages" && $(PIP) --no-deps -r requirements.txt
	@echo "  3/3 plat" && $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# The competitors live beside the environment, not in it; without them the benchmarks say so and go on.
.venv/.reasoning-gym: requirements-reasoning-gym.txt $(INSTALLED)
	@$(PIP) --no-deps -r requirements-reasoning-gym.txt && touch $@

.venv/.bench: $(INSTALLED) requirements-bench.txt
	@$(PIP) --no-deps --upgrade --target .venv/bench -r requirements-bench.txt || echo "not installed: what requirements-bench.txt names; its ratios are left out" >&2
	@touch $@

.venv/.site: $(INSTALLED) requirements-site.txt
	@$(PIP) --no-deps --upgrade --target .venv/site -r requirements-site.txt
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
