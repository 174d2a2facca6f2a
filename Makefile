# sojourn's house. One word each; CI runs the same words. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAGE := tools/stage
BESIDE := tools/beside
CACHE := $(shell tools/debian --dir)

export PATH := $(CURDIR)/$(BIN):$(PATH):/usr/sbin:/sbin:$(CACHE)/bin
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export CARGO_TERM_PROGRESS_WHEN ?= never
# The property tests of Rust draw the same cases on every machine. Another number draws others.
export PROPTEST_RNG_SEED ?= 8289

RUST := Cargo.toml Cargo.lock $(shell find crates benches -name '*.rs' -o -name Cargo.toml -o -name '*.toml' -path '*/src/*')
SHARED := tools/wheel tools/debian $(shell find kernel scenarios -type f)
PYTHON_SOURCES := pyproject.toml README.md $(shell find python -type f ! -name '*.pyc' ! -name '*.so')

.PHONY: help build wheel run crates test check bench profiled figures docs site format lock clean

help: ## This list.
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{ printf "  make %-8s %s\n", $$1, $$2 }'

build: $(VENV)/.wheel $(VENV)/.bench ## The command, at .venv/bin/sojourn.

wheel: $(VENV)/.wheel ## The command as a file to install anywhere: pip install FILE.
	@echo "pip install $(CURDIR)/$$(ls target/wheels/*.whl)"

run: $(VENV)/.wheel ## The fading link of the CoDel paper: five disciplines, one picture.
	@$(BIN)/sojourn run fading-link

# While Python's packages come, which takes the network and one core, cargo compiles what the wheel needs of ours.
crates:
	@$(BESIDE) "$(MAKE) $(VENV)/.dev" \
		'$(STAGE) "crates of the wheel" tools/wheel --crates'

# What is fetched is fetched while cargo compiles; sojourn-oracle looks at it. The bench program is the one that cargo builds
# for a test of it: nobody asks here how fast it is.
test: crates $(VENV)/.wheel $(VENV)/.dev ## Every test: Rust, then Python and the command.
	@$(BESIDE) '$(STAGE) "what the tests need" tools/needs' \
		'$(STAGE) "compilation of Rust tests" cargo test --locked --workspace --exclude sojourn-oracle --quiet --no-run'
	@$(STAGE) "Rust tests" cargo test --locked --workspace --quiet
	@$(STAGE) "Python tests" env SOJOURN_BENCH=$(CURDIR)/target/debug/sojourn-bench \
		$(BIN)/pytest --quiet --numprocesses auto --dist loadscope

check: $(VENV)/.wheel $(VENV)/.dev ## Format, lints, types, language and the rules between rooms.
	@$(STAGE) "rustfmt" tools/cargo-part rustfmt fmt --all --check
	@$(STAGE) "clippy" tools/cargo-part clippy clippy --locked --workspace --all-targets --quiet -- -D warnings
	@$(STAGE) "ruff lint" $(BIN)/ruff check --quiet .
	@$(STAGE) "ruff format" $(BIN)/ruff format --quiet --check .
	@$(STAGE) "mypy" $(BIN)/mypy
	@$(STAGE) "language" $(BIN)/python tools/language.py
	@$(STAGE) "reference pages" $(BIN)/python tools/reference.py --check
	@$(STAGE) "numbers in README.md" $(BIN)/python tools/readme.py --check
	@$(STAGE) "numbers in ccaq's pages" $(BIN)/python experiments/ccaq/compare.py --check
	@$(STAGE) "picture in README.md" $(BIN)/python tools/figures.py --check
	@$(STAGE) "rooms of Rust" $(BIN)/python tools/rooms.py
	@$(STAGE) "rooms of Python" env PYTHONPATH=python $(BIN)/lint-imports --no-cache --no-logo

bench: build ## How fast the simulator is: P1 to P5 as JSON, and what a packet costs each discipline.
	@for name in P1 P2 P3 P4 P5; do $(BIN)/sojourn bench $$name; done
	@$(BIN)/python experiments/speed/instructions.py

profiled: target/sojourn-bench ## P1 to P5 and P1-bbr, by a bench program that is optimised by a profile of itself.
	@for name in P1 P2 P3 P4 P5 P1-bbr; do SOJOURN_BENCH=target/sojourn-bench $(BIN)/sojourn bench $$name; done

figures: build ## The picture in README.md, and the figures of all papers.
	@$(STAGE) "picture" $(BIN)/python tools/figures.py
	@$(BIN)/sojourn figures

docs: $(VENV)/.wheel ## docs/reference and the numbers in README.md, from the code's tables and recorded results.
	@$(STAGE) "reference" $(BIN)/python tools/reference.py
	@$(STAGE) "numbers in README.md" $(BIN)/python tools/readme.py

site: build $(VENV)/.dev ## The documentation as a site: target/site/index.html.
	@$(STAGE) "site" $(BIN)/python tools/website.py target/site

format: $(VENV)/.dev ## Formats Rust and Python.
	@cargo fmt --all
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

lock: ## Locks the Python dependencies anew (needs uv).
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --group build pyproject.toml -o requirements.txt
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --group build --group dev pyproject.toml -c requirements.txt -o requirements-dev.txt

clean: ## Removes what make made here (not the cache in the home directory).
	@rm -rf $(VENV) target

$(VENV)/.deps: requirements.txt tools/venv
	@$(STAGE) "Python environment" tools/venv $(VENV) requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.deps
	@$(STAGE) "Python tools" tools/venv $(VENV) requirements-dev.txt
	@touch $@

$(VENV)/.wheel: $(VENV)/.deps $(RUST) $(PYTHON_SOURCES) $(SHARED)
	@$(STAGE) "wheel" tools/wheel $(BIN)
	@touch $@

target/sojourn-bench: $(VENV)/.wheel $(RUST) tools/profiled
	@$(STAGE) "bench program by its profile" tools/profiled $@

$(VENV)/.bench: $(VENV)/.deps $(RUST)
	@$(STAGE) "bench program" cargo build --locked --release --quiet -p sojourn-bench
	@install -m 755 target/release/sojourn-bench $(BIN)/sojourn-bench
	@touch $@
