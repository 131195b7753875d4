# make demo    train on dates, score, predict, draw an alignment      make check   lint, types, tests, documentation
# make test    the tests that take minutes    make test-all    all tests    make test-thorough    the others
# make test-avx2    those that depend on instructions    make test-elsewhere    without UTF-8 or a home, with a plugin
# make test-lowest    with the lowest versions    make sanitize    the kernels under ASan and UBSan
# make sbom    dist/sbom.json    make wheels-twice    each wheel built twice is the same
# make docs    docs/_build/html/index.html    make notebooks    docs/_build/notebooks, of the same pages, run
# make test-triton    the kernels for GPUs, interpreted on a CPU    make mutants    plants bugs and shows which test finds each
# make bench   the aims of speed, and which are met (ISA=avx2)     make fuzz     changed files for each reader, by the thousand
# make constraints    constraints.txt and hashes.txt anew        make audit    known vulnerabilities of these packages
# make verified       .venv from hashes.txt: Linux, x86-64, Python 3.11
# All of them first make .venv; PYTHON names the interpreter (3.11 or newer) to make it with.

PYTHON ?= python3
PYTEST_FLAGS ?= -n 2 --dist loadfile
VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
# Byte code is written when a module is first imported, which is faster than compiling all of them.
INSTALL := $(BIN)/python -m pip install -q --no-compile -c constraints.txt
TRITON := .venv-triton
AUDIT := .venv-audit
LOWEST := .venv-lowest
LOWEST_TESTS := tests/config tests/text tests/data tests/attention tests/metrics tests/tasks/test_tagging.py \
	tests/tasks/test_classification.py tests/training/test_loop.py tests/serve/test_http.py tests/hub/test_any_model.py
RUN := runs/dates
# PyTorch and our kernels, oneDNN, MKL and CTranslate2 as on a processor that has AVX2 only.
AVX2_ONLY_avx2 := env ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 CT2_FORCE_CPU_ISA=AVX2

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Even where the environment says otherwise: without it every process would compile all modules anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-all test-thorough test-avx2 test-elsewhere test-lowest sanitize sbom wheels-twice mutants test-triton check lint types docs notebooks bench sizes fuzz constraints audit verified clean

$(RUNNABLE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "regard needs Python 3.11 or newer: make PYTHON=python3.11 ..." >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[plot,dates]'
	touch $(RUNNABLE)

$(INSTALLED): $(RUNNABLE)
	$(INSTALL) -e '.[all,docs,test]'
	touch $(INSTALLED)

demo: $(RUNNABLE)
	rm -rf $(RUN)
	$(BIN)/regard train dates --out $(RUN)
	$(BIN)/regard evaluate $(RUN)
	$(BIN)/regard predict $(RUN) '14 July 1989' 'thu, march 3rd 2016' 'Sunday the 1st of December, 2041' 'Saturday 09 May 2018'
	$(BIN)/regard show $(RUN) 'Saturday 09 May 2018' --out $(RUN)/alignment.png
	$(BIN)/regard show $(RUN) 'Saturday 09 May 2018' --out $(RUN)/alignment.html
	@echo "The picture is $(RUN)/alignment.png, the page $(RUN)/alignment.html (open it in a browser)."

# Every value of every parameter once, and nothing that takes long (tests/selection.py).
test: $(INSTALLED)
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m 'not thorough'

test-all: $(INSTALLED)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

# What `make test` leaves out.
test-thorough: $(INSTALLED)
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m thorough

# What depends on the processor's instructions, as on one that has AVX2 only.
test-avx2: $(INSTALLED)
	$(AVX2_ONLY_avx2) $(BIN)/python -m pytest $(PYTEST_FLAGS) -m 'not thorough' \
		tests/attention tests/kernels tests/decoding tests/oracle

# As on another machine: a locale without UTF-8, a home where nothing can be written even by root, a plugin installed.
test-elsewhere: $(INSTALLED)
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && cp -r examples/plugin $$folder/source \
		&& $(BIN)/python -m pip install -q --no-deps --no-build-isolation --target $$folder/site $$folder/source \
		&& env -u XDG_CACHE_HOME LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 HOME=/proc/nowhere PYTHONPATH=$$folder/site \
		$(BIN)/python -m pytest $(PYTEST_FLAGS) -m 'not thorough' tests/config tests/cli/test_mistakes.py \
		tests/cli/test_faults.py tests/cli/test_cache.py tests/data/test_cache.py tests/runs/test_catalog.py \
		tests/runs/test_run_file.py

# The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, which need other libraries than a wheel may.
sanitize: $(INSTALLED)
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT \
		&& env XDG_CACHE_HOME=$$folder CXX=$(CURDIR)/.ci/sanitizing-compiler ASAN_OPTIONS=detect_leaks=0 \
		LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libubsan.so)" \
		$(BIN)/python -m pytest -m 'not thorough' -k 'not needs_no_newer_library' tests/kernels

# The suite's heart with the lowest versions that pyproject.toml allows of what users install; the tools of tests are new.
test-lowest:
	@test -e $(LOWEST)/.installed || { $(PYTHON) -m venv $(LOWEST) && $(LOWEST)/bin/python -m pip install -q uv \
		&& $(LOWEST)/bin/uv pip compile -q --resolution lowest-direct --python $(LOWEST)/bin/python --extra all --extra remote \
			pyproject.toml -o $(LOWEST)/lowest.txt \
		&& $(LOWEST)/bin/uv pip install -q --no-build --python $(LOWEST)/bin/python -r $(LOWEST)/lowest.txt \
			beartype pytest pytest-xdist hypothesis httpx psutil jsonschema \
		&& $(LOWEST)/bin/uv pip install -q --no-deps --python $(LOWEST)/bin/python -e . && touch $(LOWEST)/.installed; }
	$(LOWEST)/bin/python -m pytest $(PYTEST_FLAGS) -m 'not thorough' $(LOWEST_TESTS)

mutants: $(INSTALLED)
	$(BIN)/python -m tests.code.mutants

# Triton weighs a gigabyte, so it has an environment of its own. Where it cannot be had the tests are skipped, which is said.
test-triton:
	@test -e $(TRITON)/.installed || { $(PYTHON) -m venv $(TRITON) \
		&& $(TRITON)/bin/python -m pip install -q -c constraints.txt torch numpy pytest \
		&& $(TRITON)/bin/python -m pip install -q --no-deps triton==3.9.0 && touch $(TRITON)/.installed; } \
		|| echo "skipped: no environment with Triton can be made here"
	@test ! -e $(TRITON)/.installed || TRITON_INTERPRET=1 $(TRITON)/bin/python -m pytest --noconftest tests/triton

check: lint
	$(MAKE) -j 2 --output-sync types docs
	$(MAKE) test

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(INSTALLED)
	$(BIN)/pyright

docs: $(INSTALLED)
	rm -rf docs/reference docs/_build
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -j 2 -b html docs docs/_build/html

notebooks: $(INSTALLED)
	$(BIN)/python -m docs.making.notebooks docs/_build/notebooks

# What is aimed at in speed beside what this machine gives; leave it alone meanwhile. ISA=avx2: as with AVX2 only.
bench: $(INSTALLED)
	$(AVX2_ONLY_$(ISA)) $(BIN)/python -m benchmarks.aims

sizes: $(INSTALLED)
	$(BIN)/python -m tests.code.measure

# Changed files for each reader; CI tries 30 for each.
fuzz: $(INSTALLED)
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-5000} $(BIN)/python -m pytest $(PYTEST_FLAGS) tests/fuzz

# Versions that constraints.txt has stay; remove a line to get the newest.
constraints: $(INSTALLED)
	$(BIN)/python -m tests.code.constraints

audit:
	@test -e $(AUDIT)/.installed || { $(PYTHON) -m venv $(AUDIT) && $(AUDIT)/bin/python -m pip install -q pip-audit \
		&& touch $(AUDIT)/.installed; } || echo "not audited: pip-audit cannot be installed here"
	@test ! -e $(AUDIT)/.installed || $(AUDIT)/bin/python tests/code/audit.py

# A list of the packages that hashes.txt installs, in CycloneDX's format.
sbom:
	@test -e $(AUDIT)/.sbom || { test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT); } \
		&& $(AUDIT)/bin/python -m pip install -q cyclonedx-bom && touch $(AUDIT)/.sbom
	mkdir -p dist
	$(AUDIT)/bin/cyclonedx-py requirements hashes.txt --pyproject pyproject.toml --mc-type library \
		--output-reproducible --of JSON -o dist/sbom.json

# The pure wheel and the wheel with kernels, each built twice in folders of their own: the same bytes.
wheels-twice: $(INSTALLED)
	$(BIN)/python -m tests.code.wheels

verified:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --require-hashes -r hashes.txt
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	touch $(INSTALLED)

clean:
	rm -rf build dist docs/_build docs/reference .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +
