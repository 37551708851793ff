# The only entry points. Each target sets itself up: a virtual environment in .venv, the native build, the package.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
SANITIZED := tests/core tests/stopping tests/orders tests/pruning tests/growing tests/runners
CORE := $(wildcard core/*/*.cc core/*/*.h) CMakeLists.txt pyproject.toml

.PHONY: demo docs test test-slow embedded engines lint bench sanitize clean

demo: $(VENV)/.built
	$(BIN)/scurry demo

# docs/_build/html/index.html
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

test: lint
	$(BIN)/pytest -n 2 -m "not slow and not embedded" -q

test-slow: $(VENV)/.built
	$(BIN)/pytest -m slow -q

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Exported C on an emulated Cortex-M4 and RISC-V, interrupted at every step.
EMULATION := gcc-arm-none-eabi qemu-system-arm gcc-riscv64-unknown-elf qemu-system-misc
embedded: $(VENV)/.built
	@which arm-none-eabi-gcc qemu-system-arm riscv64-unknown-elf-gcc qemu-system-riscv32 >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && which apt-get >/dev/null; \
	  then apt-get update -q && apt-get install -q -y --no-install-recommends $(EMULATION); \
	  else echo "Compilers and emulators are missing. Install these packages of Debian's: $(EMULATION)"; exit 1; fi
	$(BIN)/pytest -n 2 -m embedded -q tests/export
	$(BIN)/python benchmarks/papers/squirrel_firmware.py

# The scorer inside Spark (which needs Java 17) and Ray Data, both on this machine.
engines: $(VENV)/.built
	$(BIN)/pip install -q --no-build-isolation -e ".[test,spark,ray]"
	$(BIN)/pytest -q tests/distributed/test_engines.py

# BENCH_FLAGS="--quick --cells adult/*" narrows it down.
bench: $(BENCH)/.built
	$(BENCH)/bin/python benchmarks/peers.py $(BENCH_FLAGS)

# The tests of the core against one compiled with AddressSanitizer and UBSan. The interpreter is started outside the
# virtual environment, whose editable install would otherwise be imported instead.
sanitize: $(VENV)/.built
	CMAKE_ARGS="-DSCURRY_SANITIZE=ON -DSCURRY_WERROR=ON" $(BIN)/pip install -q --no-deps --no-build-isolation --upgrade \
	  --config-settings=build-dir=build/sanitize --target build/sanitized .
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	  PYTHONPATH="build/sanitized:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  SCURRY_SANITIZED=1 $$($(BIN)/python -c 'import sys; print(sys._base_executable)') -P -m pytest $(SANITIZED) -q --capture=no -p no:cacheprovider

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

# An environment of its own: some of the other engines need older packages than the tests should run with.
$(BENCH)/.built: $(CORE) $(wildcard src/scurry/*.py src/scurry/*/*.py src/scurry/*/*/*.py)
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install -q --config-settings=build-dir=build/bench ".[bench]"
	touch $@

clean:
	rm -rf $(VENV) $(BENCH) build dist demo docs/_build docs/examples docs/generated
