# Both targets set up .venv at the repository's root and nothing outside it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN_PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
CONFIG ?= quickstart
RUN := runs/$(CONFIG)
TESTS ?= tests

.PHONY: setup test quickstart lint clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info[:2] < (3, 13)))' || \
	  { echo "setup: $(PYTHON) is not Python 3.11 or 3.12: name one with PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "setup: $(PYTHON) cannot make a virtual environment: on Debian, apt-get install python3-venv" >&2; exit 2; }
	$(RUN_PYTHON) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(RUN_PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

lint: $(STAMP)
	$(VENV)/bin/ruff check .

test: lint
	$(RUN_PYTHON) -m pytest $(TESTS)
