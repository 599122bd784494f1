# Everything here sets itself up: a virtual environment in .venv, once, from nothing but Python 3.11+ and a C library.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
WORKERS ?= 2

.PHONY: demo test lint page docs guide screenshots bench validate fuzz agreement guarded examples campaign-numerics \
    campaign-mutation campaign-mutation-all trust hardware clean

# runs a warp-specialised Blackwell GEMM on this CPU, checks its numbers and shows its Tensor Memory
demo: $(VENV)/.run-ready
	$(BIN)/drywell demo

# everything CI checks: the linters, then the tests
test: lint
	$(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/.test-ready
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# builds the page, src/drywell/page/explorer.html, from explorer/; needs Node.js 20.19, which nothing else here does
page:
	cd explorer && npm ci --no-audit --no-fund && npm run check && npm test && npm run build

# makes the guide, build/guide/index.html, from docs/guide
docs: $(VENV)/.test-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# runs the guide's commands and writes what they print, and the pictures they make, back into docs/guide
guide: $(VENV)/.test-ready
	PYTHONPATH=tests $(BIN)/python -m guide.write

# looks at every view of the page, in two sizes and two themes; wants chromium; writes build/screenshots/
screenshots: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m page.screenshots

# holds the tensor core's arithmetic to the scalar model, 20,000 cases a kind; takes minutes, writes what came out
campaign-numerics: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m oracle.numerics_campaign --workers $(WORKERS) \
	    --out docs/campaigns/numerics.md

# notes which tests execute which instruction, and writes docs/trust.md from that and all that is stored; takes minutes
RECORDED := tests/unit/isa tests/unit/engine/test_run_files.py tests/zoo tests/kernels/test_corpus_runs.py
trust: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m pytest -q -p oracle.recorder --executed tests/oracle/executed.json \
	    $(RECORDED) -k "eager or not (test_run_files or test_corpus_runs)"
	PYTHONPATH=tests $(BIN)/python -m oracle.trust

# measures the words of tests/oracle/hardware/captures anew; needs an NVIDIA GPU (sm_90 or later)
hardware: $(VENV)/.test-ready
	PYTHONPATH=tests $(BIN)/python -m oracle.hardware.record $(FAMILIES)

# measures speed and memory line by line and writes benchmarks/RESULTS.md; takes half an hour, wants idle cores
bench: $(VENV)/.run-ready
	$(BIN)/python benchmarks/bench.py $(BENCH)

# fits the FITTED numbers of b200.toml anew, scores the predictions and writes docs/validation.md; takes seconds
validate: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m validation.fit
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m validation.report

# runs 10,000 programs made from the declarations on both engines and writes docs/campaigns/fuzz.md; takes an hour
# of CPU time (minutes with FUZZ="--count 300")
FUZZ ?= --count 10000 --report docs/campaigns/fuzz.md
fuzz: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m fuzz.run --workers $(WORKERS) $(FUZZ)

# runs every kernel of the corpus and every program of tests/ptx/run on both engines, in every way; takes minutes
agreement: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m fuzz.agreement

# runs tests with arrays behind which nothing lies (tests/guarded), so that native code that writes past one ends there;
# wants a C compiler; takes half an hour of CPU time
GUARDED ?= tests/unit/engine tests/unit/host tests/unit/isa tests/kernels tests/zoo tests/ptx/run tests/fuzz
guarded: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m pytest -q -n $(WORKERS) -p guarded.arrays $(GUARDED)

# breaks six kernels, twenty ways each, and renews what docs/campaigns/mutation.md says of these; takes minutes
campaign-mutation: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m mutation.campaign --workers $(WORKERS) --per-kernel 20

# breaks six kernels in every way there is, 1,355 mutants; takes more than an hour of CPU time and goes on where it
# was stopped. With MUTATION="--survivors 200" it runs what nothing told of under 200 seeds; takes hours
campaign-mutation-all: $(VENV)/.test-ready
	PYTHONPATH=tests nice -n 10 $(BIN)/python -m mutation.campaign --workers $(WORKERS) $(MUTATION)

# compiles the packaged kernel and the builds of it that the clock's tests run anew; needs nvcc, which nothing else
# here does
GEMM := src/drywell/examples/gemm
NVCC := nvcc -ptx -arch=sm_100a -std=c++17
examples:
	$(NVCC) -lineinfo $(GEMM)/gemm.cu -o $(GEMM)/gemm.ptx
	$(NVCC) -lineinfo -DRELEASE_TOO_EARLY $(GEMM)/gemm.cu -o $(GEMM)/gemm_broken.ptx
	sed -i -E 's#(\.file\s+[0-9]+ ")[^"]*/([^/"]+)"#\1\2"#' $(GEMM)/*.ptx
	$(NVCC) -DBN=256 -DSTAGES=4 -DACCUMULATORS=1 $(GEMM)/gemm.cu -o tests/timing/gemm_1.ptx
	$(NVCC) -DBN=256 -DSTAGES=4 -DACCUMULATORS=2 $(GEMM)/gemm.cu -o tests/timing/gemm_2.ptx
	$(NVCC) tests/timing/probe.cu -o tests/timing/probe.ptx

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.run-ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Drywell needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $@

# nvidia-cutlass carries pycute, with which a test of layouts compares; what else it depends on is not needed
$(VENV)/.test-ready: pyproject.toml | $(VENV)/.run-ready
	$(PIP) --editable '.[dev]'
	-$(PIP) --no-deps nvidia-cutlass==4.2.0.0
	@touch $@
