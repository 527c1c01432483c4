# Each target does all its set-up on a fresh machine: a virtual environment in .venv, then the work.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

# One thread pool per process, no model hub, and no AMX where a machine only pretends to have it.
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16

# The oldest and the newest transformers that we support, and the tests that depend on it.
VERSIONS := 5.14.0 5.22.2
VERSIONED := tests/elimination tests/modeling tests/text tests/folders tests/engines tests/export tests/training

.PHONY: setup demo test test-slow test-versions check docs pictures format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: setup
	$(BIN)/powerbert demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: setup
	$(BIN)/python -m pytest -m slow

test-versions: $(VERSIONS:%=test-transformers-%)

# A venv that holds this transformers and what it pins, over the packages of .venv: 130 MB instead of 2 GB.
test-transformers-%: OVER = .venv/transformers-$*
test-transformers-%: setup
	$(BIN)/python -m venv --clear --without-pip $(OVER)
	SITE='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	$(BIN)/python -c "$$SITE" > "$$($(OVER)/bin/python -c "$$SITE")/below.pth"
	grep -v '^transformers' constraints.txt > $(OVER)/constraints.txt
	$(OVER)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OVER)/constraints.txt transformers==$*
	PYTHONPATH=src $(OVER)/bin/python -m pytest -n 2 --dist worksteal $(VERSIONED)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in build/site; a link that leads nowhere ends it. Nothing is fetched.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

pictures: setup
	$(BIN)/python tools/pictures.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info
