# Both main targets, quickstart and test, set up .venv at the repository's root and nothing outside it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN_PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
TESTS ?= tests

# CONFIG names a variant of the quickstart by its directory in runs: quickstart, quickstart_rlvr, quickstart_mcmo,
# quickstart_opt_only, quickstart_external.
CONFIG ?= quickstart

.PHONY: setup lint test test-ecosystem quickstart quickstart-external study sandbox-image compiler
.DELETE_ON_ERROR:

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "setup: $(PYTHON) is not Python 3.11 or newer: name one with PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "setup: $(PYTHON) cannot make a virtual environment: on Debian, apt-get install python3-venv" >&2; exit 2; }
	$(RUN_PYTHON) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(RUN_PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyrefly check --output-format=min-text

# Most tests compile or build, each on one core: two files at a time. Those of the timing instrument run alone.
test: lint
ifeq ($(TESTS),tests)
	$(RUN_PYTHON) -m pytest tests --ignore=tests/sandbox -n 2 --dist loadfile
	$(RUN_PYTHON) -m pytest tests/sandbox
else
	$(RUN_PYTHON) -m pytest $(TESTS)
endif

# What other people's software makes of ours: trainers, clients, readers of weights. Each has an environment in
# runs/ecosystem, which is kept; one whose packages cannot be had is skipped with the reason.
test-ecosystem: $(STAMP)
	OPTIMRL_ECOSYSTEM=1 $(RUN_PYTHON) -m pytest tests/ecosystem -rs

# The image of the container backend: by Dockerfile where a registry answers, by debootstrap where none does.
sandbox-image:
	sandbox/image/build

# Every job goes on where it was stopped; a finished job is done again only if its directory is removed.
quickstart: $(STAMP)
	$(RUN_PYTHON) -m optimrl_jax.quickstart $(CONFIG)

# The same job once more with rollouts that a server in another process samples, evaluated beside the main one.
quickstart-external: $(STAMP)
	$(RUN_PYTHON) -m optimrl_jax.quickstart external

# The paper's rows from equal starts, three seeds each: some hours on two cores; goes on where it was stopped.
study: $(STAMP)
	$(RUN_PYTHON) -m optimrl_jax.study

# The compiler of an accelerator that need not be there, for --dry_run and tests.benchmarks.compiled: an environment of its
# own that sees the packages of .venv. TARGET is cuda (5 GB) or tpu (0.2 GB).
TARGET ?= cuda
compiler: $(STAMP)
	@case "$(TARGET)" in cuda|tpu) ;; *) echo "compiler: TARGET = $(TARGET): expected cuda or tpu" >&2; exit 2;; esac
	@$(PYTHON) -m venv .venv-$(TARGET)
	@$(RUN_PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > $$(.venv-$(TARGET)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/learner.pth
	@jax=$$($(RUN_PYTHON) -c 'import jax; print(jax.__version__)'); \
	case $(TARGET) in \
	  cuda) .venv-cuda/bin/pip install --quiet "jax-cuda13-plugin[with-cuda]==$$jax" "jax-cuda13-pjrt==$$jax";; \
	  tpu) .venv-tpu/bin/pip install --quiet --no-deps \
	    "$$($(RUN_PYTHON) -c 'import importlib.metadata as m; print(next(r.split(";")[0].strip() for r in m.requires("jax") if r.startswith("libtpu")))')";; \
	esac
