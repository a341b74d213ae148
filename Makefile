# `make demo` and `make test` do everything on a machine with Python 3.11+ and Java 17+. `make help` lists the rest.

PYTHON ?= python3
# Where `make demo` puts its table: make demo WAREHOUSE=/path
WAREHOUSE ?= warehouse
NEWEST := .venvs/newest/bin/python
OLDEST := .venvs/oldest/bin/python
BIN := .venvs/newest/bin

# Over Spark Connect: tests of what goes through the client's session and its conversions. How queries are planned and
# filters pushed down is the server's part, which a classic session has too. All: make test-connect CONNECT="spark or connect"
CONNECT ?= over_connect or connect

# Extra arguments for pytest: make test-newest ARGS="-k bitmap -x"
ARGS ?=

# make test REQUIRE_ORACLE=1 fails, and does not skip, where Java Paimon's tests can't run.
REQUIRE_ORACLE ?=
# The same of the servers that `make servers` brings: make test REQUIRE_SERVERS=1
REQUIRE_SERVERS ?=
# The same of pypaimon and pypaimon-rust, in the versions that tests know: make test REQUIRE_PEERS=1
REQUIRE_PEERS ?=

plain = $(foreach part,$(1),plain-$(part)="$(MAKE) test-plain ARGS=--part=$(part)/6")

# Spark starts Python processes for each query: without bytecode, each would compile this package.
unexport PYTHONDONTWRITEBYTECODE
export REQUIRE_ORACLE REQUIRE_SERVERS REQUIRE_PEERS

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check docs test-newest test-plain test-spark test-connect test-oldest test-long bench format package clean environments newest oldest pypaimon servers python java

help:  ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: java  ## write 336,776 flights as a Paimon table under ./warehouse (WAREHOUSE=…), and query it from Spark and Arrow
	@$(PYTHON) tools/environment.py demo
	@.venvs/demo/bin/python -m demo "$(WAREHOUSE)"

test: java environments  ## all checks and tests: without Spark, newest Spark, Spark Connect, oldest Spark; four jobs at a time
	@$(NEWEST) tools/jobs.py spark="$(MAKE) test-spark" check="$(MAKE) check" $(call plain,2 3 5 1) oldest="$(MAKE) test-oldest" \
	  $(call plain,4 6) connect="$(MAKE) test-connect"
	@echo "make test: all passed"

check: newest  ## style, types, layers and commit messages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(NEWEST) tools/commit_messages.py

test-newest: java newest pypaimon  ## every test, newest Spark
	$(NEWEST) -m pytest -m "not long" $(ARGS)

test-plain: java newest pypaimon  ## the tests without Spark, newest environment
	$(NEWEST) -m pytest -m "not spark and not connect and not long" $(ARGS)

test-spark: java newest  ## the Spark tests, newest Spark
	$(NEWEST) -m pytest -m "(spark or connect) and not long" $(ARGS)

test-connect: java newest  ## the Spark tests that may differ over Spark Connect
	PAIMON_PYDS_SPARK=connect $(NEWEST) -m pytest -m "($(CONNECT)) and not slow and not long" $(ARGS)

test-oldest: java oldest  ## the Spark and smoke tests, oldest Spark and oldest dependencies
	HYPOTHESIS_PROFILE=few $(OLDEST) -m pytest -m "(spark or smoke) and not slow and not long" $(ARGS)

test-long: java newest oldest  ## the tests that take minutes, many more random examples, and all Spark tests of each kind
	HYPOTHESIS_PROFILE=long $(NEWEST) -m pytest --timeout 3600 $(ARGS)
	$(OLDEST) -m pytest -m "(spark or smoke) and slow" --timeout 3600 $(ARGS)
	PAIMON_PYDS_SPARK=connect $(NEWEST) -m pytest -m "($(CONNECT)) and slow" --timeout 3600 $(ARGS)

bench: java newest pypaimon  ## ratios against pypaimon-rust, pypaimon, Java and Spark's Parquet source, with peak memory
	$(NEWEST) -m benchmarks $(ARGS)

format: newest  ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: newest  ## build the documentation and the reference into dist/docs/
	$(NEWEST) tools/docs.py dist/docs

package: python  ## build the wheel and the source distribution into dist/
	@$(PYTHON) tools/environment.py package
	@.venvs/package/bin/python -m build --no-isolation --outdir dist .

clean:  ## remove the environments, caches and build results
	rm -rf .venvs .cache dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse

environments: python
	@$(PYTHON) tools/jobs.py $(foreach name,newest oldest pypaimon,$(name)="$(MAKE) $(name)")

newest: python
	@$(PYTHON) tools/environment.py newest

pypaimon: python
	@$(PYTHON) tools/environment.py pypaimon

oldest: python
	@$(PYTHON) tools/environment.py oldest

java: python
	@$(PYTHON) tools/environment.py --java

servers: java  ## real servers for the tests of stores and catalogs: s3proxy, LocalStack, Azurite, HDFS, Hive, PostgreSQL, MariaDB
	@$(PYTHON) tools/servers.py

python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo; echo "$(PYTHON) is missing; paimon_pyds needs Python 3.11 or later."; \
	  echo "  On Debian 12 and later:  sudo apt-get install python3 python3-venv"; \
	  echo "  Another interpreter:     make test PYTHON=/path/to/python3.11"; echo; exit 1; } >&2
