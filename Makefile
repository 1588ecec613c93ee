# Everything runs in .venv, which is made from pyproject.toml at first need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Test files that run side by side: some of their time is waiting for kernels, servers and pages.
WORKERS ?= 6
# The tests start hundreds of programs: each would compile its modules again where the shell forbids to keep what it made.
export PYTHONDONTWRITEBYTECODE :=
# What the tests do without; importing these two takes as long as a kernel.
LEAN := -p no:nbval -p no:langsmith_plugin
TESTS := $(LEAN) -p tests.support.workers --workers $(WORKERS) --fork-scripts --doctest-modules --ignore-glob='tests/*_server.py' \
  mcp_magic tests
NOTEBOOKS := notebooks/quickstart.ipynb notebooks/data.ipynb notebooks/forms_and_approval.ipynb notebooks/agent.ipynb \
  notebooks/documents.ipynb \
  notebooks/write_a_server.ipynb notebooks/debug_a_server.ipynb notebooks/reproducible.ipynb \
  notebooks/python_api.ipynb notebooks/map.ipynb notebooks/programs.ipynb notebooks/views.ipynb \
  notebooks/contracts.ipynb notebooks/evaluate.ipynb notebooks/strangers.ipynb \
  notebooks/outside.ipynb
# Its second half is skipped where Node is missing, and so are its outputs.
NOTEBOOKS += $(if $(shell command -v npx),notebooks/real_servers.ipynb)

.PHONY: help setup system demo lab test tested environments lowest fuzz mutants notebooks docs conformance lint bench yardsticks soak format lock lite views binder images handbook dist clean

help:
	@echo "make demo   set up, run the quickstart notebook against the bundled servers, print its results"
	@echo "make lab    open the quickstart in JupyterLab"
	@echo "make test   all tests; make system installs what they use besides Python packages"
	@echo "make lowest   a few tests with the lowest versions that pyproject.toml allows"
	@echo "make fuzz MINUTES=10   the property tests from new seeds"
	@echo "make mutants   which of 150 seeded changes of session, consent, results, schema, agent and masking do the tests notice; first their coverage"
	@echo "make notebooks   run the tutorials and save them with their outputs and cassettes"
	@echo "make docs   the site of the documentation, in .cache/site"
	@echo "make images   the pictures of the documentation, from a real JupyterLab"
	@echo "make handbook   the PDF of the tutorial documents"
	@echo "make dist   the wheel and the sdist in dist/, checked as PyPI checks them"
	@echo "make conformance   the official suite of the protocol against a client of ours; docs/conformance.md"
	@echo "make views   the example servers of MCP Apps from npm, in a real JupyterLab"
	@echo "make lite   the magics in JupyterLite's kernel, under Pyodide in Node"
	@echo "make binder   builds what Binder would, and runs the first tutorial there"
	@echo "make lint   ruff, formatting, types"
	@echo "make bench  the performance goals, as ratios against the bare SDK"
	@echo "make yardsticks   the agent on 364 tasks of public benchmarks; docs/conformance.md"
	@echo "make soak   20,000 calls over 8 servers that are killed again and again"

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'mcp_magic needs Python 3.11 or newer')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13'
	$(BIN)/python -m uv pip install --quiet --cache-dir .cache/uv --python $(BIN)/python --editable '.[dev]'
	touch $@

# What the tests use besides Python packages, where it is missing.
system:
	@sh tests/system.sh sudo

demo: setup
	$(BIN)/python notebooks/run.py $(firstword $(NOTEBOOKS))

lab: setup
	$(BIN)/jupyter lab notebooks/quickstart.ipynb

# What is missing is installed by root alone; the last line says what was skipped for the lack of it. Another make runs the
# tests, which finds what was installed just now.
test: export MCP_MAGIC_SKIPPED := $(CURDIR)/.cache/skipped
test:
	@sh tests/system.sh || true
	@status=0; $(MAKE) --no-print-directory tested || status=$$?; $(BIN)/python -m tests.skipped; exit $$status

# The notebooks run live first, with nothing beside them: after a second of waiting an output has progress in it. They run
# from cassettes beside the tests; tests that are marked `timed` come last.
tested: setup
	@rm -f $(MCP_MAGIC_SKIPPED)
	$(BIN)/python -m tests.environments
	@mkdir -p .cache
	@status=0; $(BIN)/python -m pytest --quiet -p tests.conftest -p tests.support.notebook_kernels \
	  -p no:langsmith_plugin --nbval --nbval-sanitize-with notebooks/sanitize.cfg $(NOTEBOOKS) \
	  --numprocesses 3 --dist loadfile || status=$$?; \
	  $(BIN)/python -m tests.replayed notebooks/*.ipynb >.cache/replayed.log 2>&1 & replayed=$$!; \
	  $(BIN)/python -m pytest --quiet $(TESTS) || status=$$?; \
	  wait $$replayed || status=$$?; cat .cache/replayed.log; exit $$status

# What is marked `lowest`, in an environment of its own; old versions warn of this and that.
lowest: setup
	$$($(BIN)/python -c "from tests.environments import lowest_python; print(lowest_python())") -m pytest $(LEAN) \
	  -W default -m lowest $$(grep --recursive --files-with-matches mark.lowest tests --include='test_*.py')

# The property tests from new seeds, for so many minutes.
MINUTES ?= 5
fuzz: setup
	$(BIN)/python -m tests.fuzz $(MINUTES) --numprocesses $(WORKERS)

# `make mutants MEASURE=` uses the coverage of the last time, if there is one.
MEASURE ?= --measure
mutants: setup
	$(BIN)/python -m tests.mutants $(MEASURE)

notebooks: setup
	$(BIN)/python -m tests.environments
	$(BIN)/python notebooks/run.py --save $(NOTEBOOKS)

# The builder of the site is installed when it is needed; with NO_MKDOCS_2_WARNING=1 it does not advertise its successor.
$(VENV)/docs: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "python -m http.server --directory .cache/site --bind 127.0.0.1 shows it, with its search"

conformance: setup
	$(BIN)/python -m tests.conformance.run

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict mcp_magic

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All that the stages of CI install besides .venv, so that they wait for the network together.
environments: setup
	$(BIN)/python -m tests.environments --all

# With QUICK=1 a few small samples of each, to see that everything runs.
bench: setup
	$(BIN)/python -W error -m benchmarks $(if $(QUICK),--quick)

# The benchmarks pin old packages and want models' weights: of them comes what their tasks need, into an environment of its own.
YARDSTICKS := .cache/yardsticks
$(YARDSTICKS)/ready: pyproject.toml Makefile
	$(PYTHON) -m venv --clear $(YARDSTICKS)
	$(YARDSTICKS)/bin/python -m pip install --quiet --disable-pip-version-check --editable . 'mpmath>=1.3' 'inspect_ai>=0.3.278' toml
	$(YARDSTICKS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps bfcl-eval==2026.3.23 inspect-evals==0.26.0
	touch $@

# With LIMIT=10 the first tasks of each.
yardsticks: $(YARDSTICKS)/ready
	$(YARDSTICKS)/bin/python -m benchmarks.yardsticks $(if $(LIMIT),--limit $(LIMIT))

soak: setup
	$(BIN)/python -m benchmarks.soak

# Pyodide and packages for it are installed when it is needed.
lite: setup
	MCP_MAGIC_PYODIDE=1 $(BIN)/python -m pytest tests/pyodide

# The example servers are installed when it is needed; some of their views would load from elsewhere.
views: setup
	MCP_MAGIC_EXAMPLES=1 $(BIN)/python -m pytest $(LEAN) tests/browser/test_example_views.py

lock:
	$(PYTHON) binder/lock.py

binder: setup
	$(BIN)/python -m tests.binder

images: setup
	$(BIN)/python -m docs.make_images

handbook: setup
	$(BIN)/python notebooks/servers/handbook.py

# Each dependency, of the extras too, has to have a wheel for each Python of the classifiers: nobody needs a compiler.
dist: setup
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m uv tool run --quiet twine check --strict dist/*
	for version in $$(sed -n 's/.*Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml); do \
		$(BIN)/python -m uv pip compile --quiet --only-binary :all: --python-version $$version --all-extras pyproject.toml >/dev/null || exit 1; \
	done

clean:
	rm -rf $(VENV) .cache dist build
