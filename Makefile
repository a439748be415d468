# make demo         train three methods on generated graphs, 20 replicas each, and write a report: about two minutes
# make test         the whole test suite
# make browser      install Chromium with apt, for the tests that use it
# make test-gpu     the tests that need a CUDA device
# make test-bounds  run every numba kernel with array bounds checks: 40 seconds
# make check        linters, types, layers
# make docs         build the site in out/docs; warnings are errors
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo browser test test-gpu test-bounds check docs clean

demo: .venv/installed
	$(BIN)/compool run --store out/communities.sqlite --no-report
	$(BIN)/compool report --store out/communities.sqlite --graphs

# Some tests use Chromium; without it they are skipped with a message
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { test "$$(id -u)" = 0 && \
	apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } || \
	echo "Chromium could not be installed: the tests that need it will be skipped"

# Two tests at a time, with one thread each: many wait for processes that they start. The Ray tests run in parallel in a
# separate session: Ray starts and kills processes, and once killed one of the two test processes
test: .venv/installed
	@mkdir -p out
	@setsid $(BIN)/python -m pytest tests/integrations/test_ray.py > out/test-ray.txt 2>&1 & ray=$$!; \
	trap "kill -INT -- -$$ray" INT TERM; \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --ignore=tests/integrations/test_ray.py; status=$$?; \
	wait $$ray || status=1; cat out/test-ray.txt; exit $$status

test-gpu: .venv/installed
	$(BIN)/python -m pytest -m gpu

# With a separate cache: numba's default cache does not distinguish kernels with and without bounds checks
test-bounds: .venv/installed
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/out/numba-bounds OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal \
	tests/ops/test_cpu.py tests/ops/test_forest.py tests/ops/test_hierarchy.py tests/replicas/kernels/test_cpu.py \
	tests/replicas/test_layers.py tests/nn/test_budgets.py tests/data/test_tu.py -k "not real and not traces and not torch"

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/documenting
	$(BIN)/sphinx-build -q -W --keep-going -b html docs out/docs
	@echo out/docs/index.html

.venv/documenting: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

clean:
	rm -rf .venv out
