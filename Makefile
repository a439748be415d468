# make demo      train three methods on generated graphs, twenty times each, and report: about two minutes
# make test      the whole test suite
# make browser   Chromium, by apt, for the tests that drive it
# make test-gpu  the tests that need a CUDA device
# make check     linters, types, layers
# make docs      the site, in out/docs; a warning is an error
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo browser test test-gpu check docs clean

demo: .venv/installed
	$(BIN)/compool run --store out/communities.sqlite --no-report
	$(BIN)/compool report --store out/communities.sqlite --graphs

# Some tests drive Chromium: where it is missing they are skipped, and say so
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { test "$$(id -u)" = 0 && \
	apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } || \
	echo "no Chromium here: the tests that need it will be skipped"

test: .venv/installed
	$(BIN)/python -m pytest

test-gpu: .venv/installed
	$(BIN)/python -m pytest -m gpu

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
