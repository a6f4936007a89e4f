# Short verbs for daily work, over the presets of CMakePresets.json. CI calls the same verbs.
# `make` alone, or `make help`, lists them: the text after ## on each line.

PREFIX ?= /usr/local
PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help bootstrap build demo test asan tsan fuzz bench docs lint format install dist device clean

help:  ## this list
	@awk -F ':[^#]*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

bootstrap:  ## install what is missing from Debian and PyPI (the other verbs do it first)
	@scripts/bootstrap

build: bootstrap  ## the command build/bin/vicinal, and .venv in which `import vicinal` works
	@scripts/build cpu

demo: build  ## exact 100-NN of real image descriptors, checked, and compared with faiss if it is here
	@scripts/demo

test: bootstrap  ## every test of a commit: C++, Python, command, sanitizers, habits of the tree
	@$(PYTHON) scripts/run_tests.py

asan: bootstrap  ## the C++ tests in full under AddressSanitizer and UBSan
	@$(PYTHON) scripts/run_tests.py --only asan --scale 1

tsan: bootstrap  ## the C++ tests in full under ThreadSanitizer
	@$(PYTHON) scripts/run_tests.py --only tsan --scale 1

fuzz: bootstrap  ## libFuzzer on the readers of files, a minute (FUZZ_SECONDS)
	@scripts/fuzz $(or $(FUZZ_SECONDS),60)

bench: build  ## speed beside faiss-cpu and scikit-learn; appends to bench/results/
	@$(PYTHON) bench/run.py

docs: build  ## tutorials and a page a function: build/docs/index.html
	@scripts/docs

lint: build  ## clang-format, clang-tidy, ruff, mypy, habits of the tree
	@scripts/bootstrap lint
	@$(PYTHON) scripts/lint.py

format: bootstrap  ## apply clang-format to every C++ file
	@git ls-files -z --cached --others --exclude-standard '*.cpp' '*.hpp' '*.h' '*.cu' '*.cuh' '*.inc' | xargs -0 clang-format-14 -i

install: build  ## into PREFIX (/usr/local): library, headers, CMake package, command, man page, completions
	@cmake --install build --prefix "$(PREFIX)"

dist: bootstrap  ## build/dist/vicinal-VERSION-linux-x86_64.tar.gz, which runs where only glibc and libstdc++ are
	@scripts/dist

device:  ## on a machine with an NVIDIA GPU: tests, compute-sanitizer and benchmarks of what `make dist` packed
	@scripts/device

clean:  ## remove everything that was built (.venv stays)
	@rm -rf build build-dist build-asan build-tsan build-fuzz build-clang build-debug build-emu build-emu-asan
