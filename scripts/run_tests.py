"""Every test of a commit, one step after another: `make test`, and so CI.

A step is a build or a runner; each runner's own counts are added up (gtest JSON, JUnit files of ctest and pytest,
or a closing "N passed, N failed"). A runner that dies, times out or reports no test counts as one failure. Logs stay
in build/test-logs. The last line is the sum, alone on its line.

  run_tests.py [--only STEP[,STEP]] [--scale S] [--list]
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "test-logs"
PYTHON = ROOT / ".venv" / "bin" / "python"
COMMAND = ROOT / "build" / "bin" / "vicinal"
# The share of the generated cases that `make test` runs; --scale 1 runs all. A sanitizer build runs of the tests those that
# touch what the tool can see, and `make asan` and `make tsan` everything.
REDUCED = {"cpu": "0.4", "asan": "0.05", "tsan": "0.02"}
REDUCED_TESTS = {
    "asan": "-Shapes.EveryDimension*:Shapes.Gaussian*:Shapes.Image*:GraphShapes.*:RangeShapes.*:RangeLarge.*:Growth.*:"
            "GraphMemory.*:*Killing*:Filters.GroupsInOneCall:Filters.WholeNumbers*:Filters.EveryRung*:Filters.TilesThatServe*:CudaRun.BatchesWhereMemoryIsShort:CorpusFile.TakesNoRowsAndManyBlocks:"
            "*/*_f64:*/*_f16:*/*_bf16:*/*_i8:*/*_u8:*Paths*/euclidean_f32:*Paths*/cosine_f32:*Graph*/euclidean_f32:*Graph*/cosine_f32:"
            "*/l1_f32:*/inner_product_f32",
    "tsan": "Threads.*:Cancellation.*Progress*:Cancellation.AStop*:Progress.*:FloatingPoint.*:BadInput.*:Adversarial.*:"
            "*Paths*/sqeuclidean_f32:*Paths*/hamming*:"
            "*Graph.EverySetting*/sqeuclidean_f32:*Range.EverySetting*/sqeuclidean_f32:Select.OneLong*",
}


@dataclass
class Step:
    name: str
    command: list
    report: str = "text"  # how to count: build, gtest, junit, text
    needs: tuple = ()  # steps without which this one cannot run
    paths: tuple = ()  # run only where these exist
    env: dict = field(default_factory=dict)
    limit: int = 900  # seconds
    shards: int = 1  # processes that share a gtest program's tests
    beside: bool = False  # may run at the same time as those beside it in the list that may, too


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0


def sanitizer_steps(name, scale):
    env = {
        "VICINAL_TEST_SCALE": scale or REDUCED[name],
        "GTEST_FILTER": "*" if scale else REDUCED_TESTS[name],
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": "second_deadlock_stack=1",
    }
    folder = f"build-{name}"
    # the unit tests start no threads of their own: ThreadSanitizer has nothing to see there
    programs = ("conformance",) if name == "tsan" else ("unit", "conformance")
    targets = [f"vicinal_{program}" for program in programs]
    yield Step(f"{name}.build", ["scripts/build", name, *targets], "build", paths=("tests/unit", "tests/conformance"))
    for program in programs:
        yield Step(f"{name}.{program}", [f"{folder}/bin/vicinal_{program}"], "gtest", (f"{name}.build",),
                   (f"tests/{program}",), env, shards=os.cpu_count() or 1)


def all_steps(scale):
    share = {"VICINAL_TEST_SCALE": scale or REDUCED["cpu"]}
    python = {"VICINAL_COMMAND": str(COMMAND), "PYTHONDONTWRITEBYTECODE": "1"}
    return [
        Step("tree", [PYTHON, "scripts/check_tree.py"]),
        Step("build", ["scripts/build", "cpu", "all", "vicinal_tests"], "build"),
        Step("unit", ["build/bin/vicinal_unit"], "gtest", ("build",), ("tests/unit",), share),
        Step("conformance", ["build/bin/vicinal_conformance"], "gtest", ("build",), ("tests/conformance",), share,
             shards=os.cpu_count() or 1),
        Step("ctest", ["ctest", "--test-dir", "build", "-j", os.cpu_count() or 1, "--output-on-failure",
                       "--output-junit", LOGS / "ctest.xml"], "junit", ("build",)),
        Step("python", [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", LOGS / "python.xml",
                        "python/tests"], "junit", ("build",), ("python/tests",), python, beside=True),
        Step("command", [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", LOGS / "command.xml",
                         "tests/cli"], "junit", ("build",), ("tests/cli",), python, beside=True),
        Step("readme", [PYTHON, "scripts/readme_snippets.py"], needs=("build",), beside=True),
        Step("objects", [PYTHON, "scripts/check_build.py"], needs=("build",), beside=True),
        Step("mutants", [PYTHON, "tests/mutants/run.py", "--jobs", os.cpu_count() or 1, "--share", scale or REDUCED["cpu"]], needs=("build",), beside=True),
        Step("emu.build", ["scripts/build", "emu", "vicinal_emu"], "build", paths=("tests/simt",)),
        Step("emu.simt", ["build-emu/bin/vicinal_simt"], needs=("emu.build",), paths=("tests/simt",), beside=True),
        Step("emu.kernels", ["build-emu/bin/vicinal_kernels"], "gtest", ("emu.build",), ("tests/kernels",), shards=os.cpu_count() or 1, beside=True),
        *sanitizer_steps("asan", scale),
        *sanitizer_steps("tsan", scale),
    ]


def start(step, shard, out):
    environment = {**os.environ, **step.env}
    if step.report == "gtest":
        environment["GTEST_OUTPUT"] = f"json:{LOGS / step.name}.{shard}.json"
        environment |= {"GTEST_TOTAL_SHARDS": str(step.shards), "GTEST_SHARD_INDEX": str(shard)}
    return subprocess.Popen([str(word) for word in step.command], cwd=ROOT, env=environment, stdout=out,
                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)


def end(processes):
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(step, started):
    """Exit status, output and seconds of the step; at the limit the process groups of all its shards are ended."""
    log = LOGS / f"{step.name}.log"
    begin = time.monotonic()
    with log.open("ab") as out:
        processes = [start(step, shard, out) for shard in range(step.shards)]
        started += processes
        try:
            status = max((process.wait(max(begin + step.limit - time.monotonic(), 0)) for process in processes), key=abs)
        except subprocess.TimeoutExpired:
            end(processes)
            out.write(f"\nstopped after {step.limit} s\n".encode())
            status = -1
    return status, log.read_text(errors="replace"), time.monotonic() - begin


def run_together(steps):
    """What run() says of each step, in their order; as many at a time as there are cores."""
    started = []
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        yield from pool.map(lambda step: run(step, started), steps)
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        end(started)
        raise
    pool.shutdown()


def side_by_side(steps):
    """The steps in their order, in groups that may run at the same time."""
    group = []
    for step in steps:
        if group and (not (step.beside and group[-1].beside)):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def count_gtest(step):
    total = Outcome()
    for shard in range(step.shards):
        suites = json.loads((LOGS / f"{step.name}.{shard}.json").read_text())
        skipped = sum(case.get("result") == "SKIPPED" for suite in suites["testsuites"] for case in suite["testsuite"])
        failed = suites["failures"] + suites.get("errors", 0)
        total.passed += suites["tests"] - failed - skipped - suites["disabled"]
        total.failed += failed
        total.skipped += skipped + suites["disabled"]
    return total


def count_junit(step):
    root = xml.parse(LOGS / f"{step.name}.xml").getroot()
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    total, failed, skipped = (
        sum(int(suite.get(name) or 0) for suite in suites for name in names)
        for names in (("tests",), ("failures", "errors"), ("skipped", "disabled")))
    return Outcome(total - failed - skipped, failed, skipped)


def count_text(output, status):
    sums = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) not run)?$", output, re.MULTILINE)
    if sums:
        return Outcome(*(int(word or 0) for word in sums[-1]))
    mutants = re.search(r"^(\d+) mutants, (\d+) not killed$", output, re.MULTILINE)
    if mutants:
        total, survived = map(int, mutants.groups())
        return Outcome(total - survived, survived)
    return Outcome(passed=int(status == 0), failed=int(status != 0))


def judge(step, status, output):
    if step.report == "build":
        return Outcome(failed=int(status != 0))
    try:
        if step.report == "gtest":
            outcome = count_gtest(step)
        elif step.report == "junit":
            outcome = count_junit(step)
        else:
            outcome = count_text(output, status)
    except (OSError, ValueError, KeyError, xml.ParseError):
        return Outcome(failed=1)  # died before its report
    nothing = outcome.passed + outcome.failed + outcome.skipped == 0
    if outcome.failed == 0 and (status != 0 or nothing):
        outcome.failed = 1
    return outcome


def tree_state():
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def chosen(steps, names):
    if not names:
        return [step for step in steps if all((ROOT / path).exists() for path in step.paths)]
    wanted = set(names.split(","))
    unknown = wanted - {step.name for step in steps} - {step.name.split(".")[0] for step in steps}
    if unknown:
        sys.exit(f"no such step: {', '.join(sorted(unknown))}; steps: {', '.join(step.name for step in steps)}")
    return [step for step in steps if step.name in wanted or step.name.split(".")[0] in wanted]


def tell(step, outcome, status, output):
    facts = "built" if step.report == "build" and not outcome.failed else (
        f"{outcome.passed} passed, {outcome.failed} failed" +
        (f", {outcome.skipped} not run" if outcome.skipped else ""))
    print(f"{step.name:18} {facts}  ({outcome.seconds:.1f} s)", flush=True)
    if outcome.failed:
        print("\n".join(output.splitlines()[-80:]), flush=True)
        print(f"  exit status {status}; the whole log: {(LOGS / step.name).relative_to(ROOT)}.log", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Every test of a commit.")
    parser.add_argument("--only", default="", help="steps to run, with commas; asan means asan.build, asan.unit, ...")
    parser.add_argument("--scale", default="", help="share of the generated cases to run (default 0.4; sanitizers a few hundredths)")
    parser.add_argument("--list", action="store_true", help="name the steps and stop")
    arguments = parser.parse_args()
    steps = chosen(all_steps(arguments.scale), arguments.only)
    if arguments.list:
        print("\n".join(step.name for step in steps))
        return 0

    # A shell that starts us in the background has Ctrl-C ignored, and children would inherit that; tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    LOGS.mkdir(parents=True, exist_ok=True)
    for old in LOGS.iterdir():
        old.unlink()
    before = tree_state()
    outcomes = {}
    clock = time.monotonic()
    for group in side_by_side(steps):
        possible = []
        for step in group:
            broken = [need for need in step.needs if need in outcomes and outcomes[need].failed]
            if not broken:
                possible.append(step)
                continue
            outcomes[step.name] = Outcome(failed=1)
            print(f"{step.name:18} not possible: {' or '.join(broken)} failed", flush=True)
        for step, (status, output, seconds) in zip(possible, run_together(possible)):
            outcome = outcomes[step.name] = judge(step, status, output)
            outcome.seconds = seconds
            tell(step, outcome, status, output)

    after = tree_state()
    clean = Outcome(passed=int(after == before), failed=int(after != before))
    if clean.failed:
        print(f"tests changed the tree; git status before:\n{before}after:\n{after}")
    outcomes["git status"] = clean

    slowest = sorted(outcomes, key=lambda name: -outcomes[name].seconds)[:6]
    print("slowest: " + ", ".join(f"{name} {outcomes[name].seconds:.0f} s" for name in slowest))
    print(f"in all {time.monotonic() - clock:.0f} s; not run here: "
          f"{sum(o.skipped for o in outcomes.values())} (the logs say why)")
    failed = sum(o.failed for o in outcomes.values())
    print(f"{sum(o.passed for o in outcomes.values())} passed, {failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
