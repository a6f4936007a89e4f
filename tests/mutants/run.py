#!/usr/bin/env python3
"""Breaks what excludes rows and what proves answers (HEADERS) one line at a time (*.txt) and expects the header's own tests to notice.

For each mutant only the header's file of tests/unit/ is compiled, against a copy of the header that hides the real one.
Prints each mutant with the test that killed it; exits 1 if one survives, cannot be placed or does not compile.
Usage: run.py [--jobs N] [--share S] [--cxx g++] [--only NAME] [--build DIR]
"""
import argparse
import concurrent.futures
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = {"bound": "core", "bound_second": "core", "bound_groups": "core", "bound_quick": "core", "bound_two_bytes": "core", "rotation": "core", "projection": "core", "speculate": "cuda/search/filter"}  # in src/, each with its mutants and its test
SUPPORT = [ROOT / "src/core" / name for name in ("metric.cpp", "text.cpp", "error.cpp")]
FLAGS = ["-std=c++20", "-O0", "-ffp-contract=off", "-w"]  # compiling is most of the time, and the headers most of that
PREAMBLE = "".join(f"#include <{name}>\n" for name in ("gtest/gtest.h", "algorithm", "cmath", "random", "vector"))


def mutants(path):
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, old, new = (part.strip(" ") for part in line.split(" | ", 2)) if line.count(" | ") >= 2 else sys.exit(f"bad line: {line}")
        yield name, old.replace("\\n", "\n"), new.replace("\\n", "\n")


def compile_to(cxx, source, target, includes, *more):
    command = [cxx, *FLAGS, *more, *(f"-I{folder}" for folder in includes), "-c", str(source), "-o", str(target)]
    return subprocess.run(command, capture_output=True, text=True)


def test_of(header):
    return ROOT / f"tests/unit/{HEADERS[header].split('/')[0]}/test_{header}.cpp"


def try_mutant(cxx, build, support, header, name, text):
    """(outcome, detail): killed by a test, survived, or not compiled."""
    folder = build / name
    (folder / HEADERS[header]).mkdir(parents=True, exist_ok=True)
    (folder / HEADERS[header] / f"{header}.hpp").write_text(text)
    compiled = compile_to(cxx, test_of(header), folder / "test.o", [folder, ROOT / "src", ROOT / "include"], "-include", str(build / "preamble.hpp"))
    if compiled.returncode:
        return "not compiled", compiled.stderr.splitlines()[0]
    link = [cxx, str(folder / "test.o"), *map(str, support), "-lgtest", "-lgtest_main", "-lpthread", "-o", str(folder / "test")]
    subprocess.run(link, check=True)
    run = subprocess.run([str(folder / "test"), "--gtest_brief=1", "--gtest_fail_fast"], capture_output=True, text=True, timeout=120)
    failed = re.findall(r"\[  FAILED  \] ((?:Bound|Speculate)\.\w+)", run.stdout)
    if run.returncode == 0:
        return "survived", ""
    return "killed", ", ".join(dict.fromkeys(failed)) or f"exit status {run.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--share", type=float, default=1, help="of the mutants, drawn by what the header and its tests hold")
    parser.add_argument("--only", help="regular expression of names")
    parser.add_argument("--build", help="folder to build in; a temporary one by default")
    options = parser.parse_args()
    originals = {header: (ROOT / "src" / place / f"{header}.hpp").read_text() for header, place in HEADERS.items()}
    scratch = None if options.build else tempfile.TemporaryDirectory()
    build = pathlib.Path(options.build or scratch.name)
    build.mkdir(parents=True, exist_ok=True)
    (build / "preamble.hpp").write_text(PREAMBLE)
    if "clang" not in options.cxx:  # g++ finds the precompiled form by itself
        compile_to(options.cxx, build / "preamble.hpp", build / "preamble.hpp.gch", [], "-x", "c++-header")
    support = []
    for source in SUPPORT:
        support.append(build / (source.stem + ".o"))
        compile_to(options.cxx, source, support[-1], [ROOT / "src", ROOT / "include"])

    for header, original in originals.items():
        outcome, detail = try_mutant(options.cxx, build, support, header, f"original_{header}", original)
        if outcome != "survived":
            sys.exit(f"the unbroken {header}.hpp does not pass its tests: {outcome} {detail}")
    bad = 0
    draw = random.Random("".join(original + test_of(header).read_text() for header, original in originals.items()))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        pending = []
        for header, original in originals.items():
            for name, old, new in mutants(pathlib.Path(__file__).with_name(header + ".txt")):
                if old not in original:
                    print(f"{name}: its text is not in {header}.hpp any more: {old!r}")
                    bad += 1
                    continue
                if options.only and not re.search(options.only, name) or draw.random() >= options.share:
                    continue
                pending.append((name, pool.submit(try_mutant, options.cxx, build, support, header, name, original.replace(old, new, 1))))
        for name, future in pending:
            outcome, detail = future.result()
            print(f"{name}: {outcome} {detail}", flush=True)
            bad += outcome != "killed"
    print(f"{len(pending)} mutants, {bad} not killed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
