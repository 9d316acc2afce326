# One definition of every task, for hands, hooks and CI. Needs Python 3.11 or newer, nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: setup demo test test-deep test-fast check format bench docs screenshots lock revision clean

setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $(STAMP)

demo: setup  ## the whole loop on this machine: history, an incident, the page, the action, the undo
	$(BIN)/tokenweir demo

test: setup  ## every test that this machine can run
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not deep" \
	  --cov --cov-report=term:skip-covered

test-deep: setup  ## what make test leaves out: more seeds, more kills
	$(BIN)/pytest -n 2 --dist loadfile -m deep

test-fast: setup  ## without the slow ones, the browser and the Debian programs
	$(BIN)/pytest -n 2 -m "not slow and not deep and not browser and not binary"

check: setup  ## format, lint, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## print the tables of benchmarks/
	for script in benchmarks/*.py; do case $$script in */corpus.py) ;; *) $(BIN)/python $$script;; esac; done

docs: setup
	$(BIN)/mkdocs build --strict

URL ?= http://127.0.0.1:8080
screenshots: setup  ## take the README's pictures from a running demo
	$(BIN)/python docs/screenshots.py $(URL)

lock:  ## pin what is installed in .venv, without index addresses
	$(BIN)/python -m pip freeze --exclude-editable --exclude tokenweir > requirements.lock

revision: setup  ## make revision TEXT="what changed"
	$(BIN)/python -m base.migrate revision "$(TEXT)" collector.tables alerts.tables actuators.tables slo.tables

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
