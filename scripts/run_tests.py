"""Every test of a commit, step by step, as many at a time as there are cores: `make test`, and so CI.

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
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "test-logs"
CORES = os.cpu_count() or 1
PYTHON = ROOT / ".venv" / "bin" / "python"
COMMAND = ROOT / "build" / "bin" / "vicinal"
# The share of the generated cases that `make test` runs; --scale 1 runs all. A sanitizer build runs of the tests those that
# touch what the tool can see, and `make asan` and `make tsan` everything.
REDUCED = {"cpu": "0.1", "unit": "0.05", "mutants": "0.06", "asan": "0.05", "tsan": "0.02"}
REDUCED_TESTS = {
    "asan": "-Oracle.*:Adversarial.*Quarter:Shapes.Sampled*:Strings.LongTexts*:Threads.*:*Graph.EverySetting*:Filters.GroupsOfRows*:Select.EveryAlgorithm*:"
            "PlanOfMemory.*:AdversarialLists.*:LargeCases.*:*Paths.EveryLayout*:"
            "Shapes.EveryDimension*:Shapes.Gaussian*:Shapes.Image*:GraphShapes.*:RangeShapes.*:RangeLarge.*:Growth.*:"
            "GraphMemory.*:*Killing*:Resume.Pieces*:Resume.Loses*:PermutationIndex.BitsDoNot*:PermutationIndex.Recall*:Ranks.Scores*:*/correlation_f32:"
            "Progress.*:Filters.KdTreesInOneCall:Filters.WholeNumbers*:Filters.EveryPrecision*:"
            "Filters.TilesThatServe*:Filters.GuessedBounds*:Filters.KdTreesOfManyRows:Filters.OneQueryOnBoth*:OfWholeNumbers/Match.*/i8:GraphDevices.ManyRows*:"
            "Filters.RowsThatRoundTo*:Filters.BytesOfWide*:Filters.Projection*:Filters.ProjectedRows*:Filters.FewQueriesOfALarge*:Filters.ARowBeyond*:Filters.RotationIs*:QuerySizes.ALarge*:Estimates.Leave*:MultiDevice.PlansNameTheSplit:Bound.AGroupIsKept*:"
            "MatchCalls.BestAndSecond*:OfWholeNumbers/Match.EverySetting*:States.FewColumns*:Runs.ManyTiles*:Devices.RefusedMemory*:PermutationIndex.Budgets*:PermutationIndex.Threads*:SelectNth.*:"
            "GraphDevices.KeptCorpora*:KdTreeOrder.*:MultiDevice.GraphsRanges*:Tables/*TileTest.FewQueries*:Filters.RunsOfEqual*:Filters.APlanThatSees*:Filters.ThePilot*:Filters.NothingWithin*:CudaRun.BatchesWhereMemoryIsShort:CorpusFile.TakesNoRowsAndManyBlocks:"
            "*/*_f64:*/*_f16:*/*_bf16:*/*_i8:*/*_u8:*/euclidean_f32:*/cosine_f32:*/l1_f32:*/inner_product_f32",
    "tsan": "Threads.*:Cancellation.*Progress*:Cancellation.AStop*:Progress.*:FloatingPoint.*:BadInput.*:Adversarial.EveryCaseHas*:"
            "*Paths*/sqeuclidean_f32:*Paths*/hamming*:"
            "*Graph.EverySetting*/sqeuclidean_f32:*Range.EverySetting*/sqeuclidean_f32:Select.OneLong*-*Paths.EveryLayout*:*Paths.OtherOutput*",
}


@dataclass
class Step:
    name: str
    command: list
    report: str = "text"  # how to count: build, gtest, junit, text
    needs: tuple = ()  # steps without which this one cannot run
    env: dict = field(default_factory=dict)
    limit: int = 900  # seconds
    shards: int = 1  # processes that share a gtest program's tests


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    cpu: float = 0.0  # seconds of all its processes


def sanitizer_steps(name, scale):
    env = {
        "VICINAL_TEST_SCALE": scale or REDUCED[name],
        "GTEST_FILTER": "*" if scale else REDUCED_TESTS[name],
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": "second_deadlock_stack=1",
    }
    # What users call is tested by the program of the cpu build, before which the library with checks and their runtime are loaded. The
    # unit tests reach what the library hides, and are built with it; they start no threads for ThreadSanitizer to see.
    compiler, runtime = {"asan": ("clang++-14", "libclang_rt.asan-x86_64.so"), "tsan": ("g++", "libtsan.so")}[name]
    runtime = subprocess.run([compiler, f"-print-file-name={runtime}"], capture_output=True, text=True).stdout.strip()
    loaded = env | {"LD_LIBRARY_PATH": ROOT / f"build-{name}/lib", "LD_PRELOAD": runtime}
    targets = "vicinal" if name == "tsan" else "vicinal vicinal_unit vicinal_unit_device" if scale else "vicinal vicinal_unit"
    build = f"scripts/build cpu vicinal_conformance && scripts/build {name} {targets}"
    yield Step(f"{name}.build", ["sh", "-c", build], "build", ("build",))
    yield Step(f"{name}.conformance", ["build/bin/vicinal_conformance"], "gtest", (f"{name}.build",), env=loaded, shards=CORES)
    if name == "asan":
        yield Step("asan.unit", ["build-asan/bin/vicinal_unit"], "gtest", ("asan.build",), env=env, shards=CORES)
        if scale:
            yield Step("asan.device", ["build-asan/bin/vicinal_unit_device"], "gtest", ("asan.build",), env=env, shards=CORES)


def all_steps(scale):
    share = {"VICINAL_TEST_SCALE": scale or REDUCED["cpu"], "VICINAL_TEST_ADVERSARIAL": "1"}  # of hostile data always all
    python = {"VICINAL_COMMAND": str(COMMAND), "PYTHONDONTWRITEBYTECODE": "1"}
    return [
        Step("tree", [PYTHON, "scripts/check_tree.py"]),
        Step("build", ["scripts/build", "cpu", "all", "vicinal_tests"], "build", limit=1800),
        Step("emu.build", ["scripts/build", "emu", "vicinal_emu"], "build"),
        Step("emu.simt", ["build-emu/bin/vicinal_simt"], needs=("emu.build",)),
        Step("emu.kernels", ["build-emu/bin/vicinal_kernels"], "gtest", ("emu.build",), shards=CORES),
        Step("mutants", [PYTHON, "tests/mutants/run.py", "--jobs", CORES, "--share", scale or REDUCED["mutants"]]),
        *sanitizer_steps("asan", scale),
        Step("conformance", ["build/bin/vicinal_conformance"], "gtest", ("build",), env=share, shards=CORES),
        *sanitizer_steps("tsan", scale),
        Step("python", [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", LOGS / "python.xml",
                        "python/tests"], "junit", ("build",), python),
        Step("command", [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", LOGS / "command.xml",
                         "tests/cli"], "junit", ("build",), python),
        Step("unit", ["build/bin/vicinal_unit"], "gtest", ("build",), env=share | {"VICINAL_TEST_SCALE": scale or REDUCED["unit"]}),
        Step("unit.device", ["build/bin/vicinal_unit_device"], "gtest", ("build",), env=share | {"VICINAL_TEST_SCALE": scale or REDUCED["unit"]},
             shards=CORES),
        Step("ctest", ["ctest", "--test-dir", "build", "-j", CORES, "--output-on-failure",
                       "--output-junit", LOGS / "ctest.xml"], "junit", ("build",)),
        Step("readme", [PYTHON, "scripts/readme_snippets.py"], needs=("build",)),
        Step("docs", ["scripts/docs"], needs=("build",)),
        Step("lint", ["sh", "-c", "scripts/bootstrap lint && .venv/bin/python scripts/lint.py --touched"], needs=("build",)),
        Step("objects", [PYTHON, "scripts/check_build.py"], needs=("build",)),
    ]


def start(step, shard, out):
    environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": str(CORES), **{name: str(value) for name, value in step.env.items()}}
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


def finished(process, deadline):
    """Exit status and seconds of CPU of the process and all that it waited for; TimeoutExpired at the deadline."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(process.args, 0)
        time.sleep(0.05)


def run(step, started):
    """Exit status, output, seconds and CPU seconds of the step; at the limit the process groups of all its shards are ended."""
    log = LOGS / f"{step.name}.log"
    begin = time.monotonic()
    cpu = 0.0
    with log.open("ab") as out:
        processes = [start(step, shard, out) for shard in range(step.shards)]
        started += processes
        try:
            statuses, times = zip(*(finished(process, begin + step.limit) for process in processes))
            status, cpu = max(statuses, key=abs), sum(times)
        except subprocess.TimeoutExpired:
            end(processes)
            out.write(f"\nstopped after {step.limit} s\n".encode())
            status = -1
    return status, log.read_text(errors="replace"), time.monotonic() - begin, cpu


def run_all(steps):
    """Every step after those that it needs, as many at a time as there are cores, so that none waits for the last file of a build
    or the longest test of a step; the outcomes by name."""
    outcomes, running, started = {}, {}, []
    waiting = list(steps)
    named = {step.name for step in steps}
    pool = ThreadPoolExecutor(CORES)
    try:
        while waiting or running:
            for step in list(waiting):
                broken = [need for need in step.needs if need in outcomes and outcomes[need].failed]
                if broken:
                    outcomes[step.name] = Outcome(failed=1)
                    print(f"{step.name:18} not possible: {' or '.join(broken)} failed", flush=True)
                    waiting.remove(step)
                elif len(running) < CORES and all(need in outcomes or need not in named for need in step.needs):
                    running[pool.submit(run, step, started)] = step
                    waiting.remove(step)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                step = running.pop(future)
                status, output, seconds, cpu = future.result()
                outcome = outcomes[step.name] = judge(step, status, output)
                outcome.seconds, outcome.cpu = seconds, cpu
                tell(step, outcome, status, output)
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        end(started)
        raise
    return outcomes


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
        return steps
    wanted = set(names.split(","))
    unknown = wanted - {step.name for step in steps} - {step.name.split(".")[0] for step in steps}
    if unknown:
        sys.exit(f"no such step: {', '.join(sorted(unknown))}; steps: {', '.join(step.name for step in steps)}")
    return [step for step in steps if step.name in wanted or step.name.split(".")[0] in wanted]


def tell(step, outcome, status, output):
    facts = "built" if step.report == "build" and not outcome.failed else (
        f"{outcome.passed} passed, {outcome.failed} failed" +
        (f", {outcome.skipped} not run" if outcome.skipped else ""))
    print(f"{step.name:18} {facts}  ({outcome.seconds:.1f} s, {outcome.cpu:.1f} of CPU)", flush=True)
    if outcome.failed:
        # One of several processes may end in the middle of what the others print, so what names a fault comes first.
        lines = output.splitlines()
        print("\n".join(line for line in lines[:-80] if re.search(r"runtime error|ERROR: |FAILED|Failure$", line)), flush=True)
        print("\n".join(lines[-80:]), flush=True)
        print(f"  exit status {status}; the whole log: {(LOGS / step.name).relative_to(ROOT)}.log", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Every test of a commit.")
    parser.add_argument("--only", default="", help="steps to run, with commas; asan means asan.build, asan.unit, ...")
    parser.add_argument("--scale", default="", help="share of the generated cases to run (default 0.2, of some programs less: REDUCED above)")
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
    clock = time.monotonic()
    outcomes = run_all(steps)
    after = tree_state()
    clean = Outcome(passed=int(after == before), failed=int(after != before))
    if clean.failed:
        print(f"tests changed the tree; git status before:\n{before}after:\n{after}")
    outcomes["git status"] = clean

    costly = sorted(outcomes, key=lambda name: -outcomes[name].cpu)[:6]
    print("most CPU: " + ", ".join(f"{name} {outcomes[name].cpu:.0f} s" for name in costly))
    print(f"in all {time.monotonic() - clock:.0f} s, {sum(o.cpu for o in outcomes.values()):.0f} of CPU; not run here: "
          f"{sum(o.skipped for o in outcomes.values())} (the logs say why)")
    failed = sum(o.failed for o in outcomes.values())
    print(f"{sum(o.passed for o in outcomes.values())} passed, {failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
