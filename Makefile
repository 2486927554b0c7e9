# Ballast. `make` lists the targets. Each target installs what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
EXAMPLES ?= 10
SEEDS ?= 1000
MINUTES ?= 20

.DEFAULT_GOAL := help
.PHONY: help setup demo pulsar pulsar-demo test test-unit test-policy test-random test-orders sim chaos model test-e2e test-thorough test-slow test-faults test-pulsar test-pulsar-testbed test-cluster test-ui mutants soak lint fmt bench lock docs clean

# Pages made from the code; `make lint` compares them with it (`python -m benchmarks.pages.modules --write` writes one).
PAGES := modules metrics reasons coverage strategies

# Leaves out the tests that run only when they are asked for.
QUICK := not slow and not faults and not soak and not cluster and not pulsar and not ui

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Compiles the sources, as pip does with an installed package. Where the environment keeps Python from writing bytecode,
# each process would compile them anew, which takes a command 0.1 s.
setup: $(STAMP) ## Install the virtual environment and the JARs; afterwards everything works offline
	-@$(BIN)/python -m compileall -q controller schemas jobs
	@$(BIN)/python -m controller.process.setup

demo: setup ## Run a cluster on this machine and watch it balance (ARGS="--brokers 4 --minutes 5 --headless --json")
	@$(BIN)/ballast demo $(ARGS)

pulsar: setup ## Fetch and unpack Apache Pulsar (245 MB), once
	@$(BIN)/python -m controller.testbed.pulsar.distribution

pulsar-demo: setup ## Let Ballast balance a real Pulsar cluster (12 minutes; 245 MB the first time; ARGS="--headless --json")
	@$(BIN)/ballast pulsar demo $(ARGS)

test: setup ## All tests except thorough, slow, fault, soak, cluster and Pulsar tests (ARGS="tests/unit -k ring")
	@$(BIN)/python -m pytest -m "$(QUICK) and not thorough" -n 2 --dist loadscope --no-loadscope-reorder $(ARGS)

test-unit: setup ## Unit tests: no process, no table, no Spark (10 s)
	@$(BIN)/python -m pytest tests/unit $(ARGS)

test-policy: setup ## Tests of the strategies and the placement rules (20 s)
	@$(BIN)/python -m pytest tests/policy $(ARGS)

test-random: setup ## Property tests on new examples, ten times as many (EXAMPLES=100 for more)
	@BALLAST_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -m "hypothesis and $(QUICK)" -n 2 --timeout 3600 $(ARGS)

test-orders: setup ## Orders on a simulated Pulsar, 1,000 runs (4 minutes at most)
	@BALLAST_EXAMPLES=5 $(BIN)/python -m pytest -n 2 tests/component/sim/test_sim_observed.py $(ARGS)

sim: setup ## Real agents and control loop in virtual time, with faults, by seed (SEEDS=10000; ARGS="--of-today")
	@$(BIN)/python -m controller.testbed.simulated --seeds $(SEEDS) $(ARGS)

chaos: setup ## Real processes killed, paused, cut off at random, with clients at work (MINUTES=20; ARGS="--seed 7")
	@$(BIN)/python -m benchmarks.measure.chaos --minutes $(MINUTES) $(ARGS)

model: setup ## The ownership protocol, every interleaving of a small cluster (10 minutes; ARGS="--config split")
	@$(BIN)/python -m controller.sim.model $(ARGS)

test-e2e: setup ## End-to-end tests, which start the whole system
	@$(BIN)/python -m pytest -m "e2e and $(QUICK)" $(ARGS)

test-thorough: setup ## The longest end-to-end and Spark tests, which CI runs as well (15 minutes)
	@$(BIN)/python -m pytest -m "thorough and not slow" -n 2 --dist loadscope $(ARGS)

test-slow: setup ## Long tests, except fault and soak tests
	@$(BIN)/python -m pytest -m slow $(ARGS)

test-faults: setup ## Fault tests: processes killed, cut off or paused, hostile input (30 minutes at most)
	@$(BIN)/python -m pytest -m faults $(ARGS)

test-pulsar: setup ## On a real Apache Pulsar, with both load managers (25 minutes at most; 245 MB the first time)
	@$(BIN)/python -m pytest -m "pulsar and not testbed" $(ARGS)

test-pulsar-testbed: setup ## The local Pulsar cluster itself: its servers, security, quotas, clients and demo (30 minutes at most)
	@$(BIN)/python -m pytest -m "pulsar and testbed" $(ARGS)

test-cluster: setup ## On a Spark cluster whose workers share nothing with the driver, a Kafka cluster with ACLs, the wheel from an index (25 minutes at most)
	@$(BIN)/python -m pytest -m cluster -n 2 --dist loadfile $(ARGS)

test-ui: setup ## The page in a real browser, the distribution's Chromium (BALLAST_SCREENSHOTS=1 makes docs/images anew)
	@$(BIN)/python -m pytest -m ui $(ARGS)

mutants: setup ## Known bugs, planted one by one in a copy of the tree: do the tests catch them? (ARGS="leases"; 10 minutes)
	@$(BIN)/python -m tests.mutants $(ARGS)

soak: setup ## Soak tests: growth of files and memory under ten times the normal load
	@$(BIN)/python -m pytest -m soak $(ARGS)

lint: $(STAMP) ## Check style, types, import contracts and the pages made from code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@for page in $(PAGES); do $(BIN)/python -m benchmarks.pages.$$page || exit 1; done

fmt: $(STAMP) ## Format the code and sort imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Run the benchmarks; results go to benchmarks/results/
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(STAMP) ## The documentation as a site, into site/ (ARGS=serve: on loopback, while you write)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs $(if $(filter serve,$(ARGS)),serve --dev-addr 127.0.0.1:8195,build --strict $(ARGS)) --config-file conf/mkdocs.yml

lock: $(STAMP) ## Resolve conf/jars.lock again
	@$(BIN)/python -m controller.process.setup --refresh-lock

clean: ## Remove the environment, caches and local runs (the JARs too)
	rm -rf $(VENV) .cache run site spark-warehouse metastore_db derby.log *.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml conf/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "setup: %s is Python %s; needed is 3.10 or newer: make PYTHON=/path/to/python3.11 setup" % (sys.executable, sys.version.split()[0]))'
	@echo "installing the environment into $(VENV)/ (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "setup: $(PYTHON) cannot make virtual environments (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint conf/constraints.txt --editable '.[dev]'
	@touch $@
