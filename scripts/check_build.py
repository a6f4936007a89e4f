"""What the compiler made of the sources, checked after a build of the cpu preset.

No object holds a fused multiply-add that the source did not spell:
only the AVX kernel files may hold any. Every object was compiled without contraction, those of CUDA too. Closes with "N passed, N failed". With --headers, which
`make lint` adds: every header of the library compiles alone.
"""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def outcomes(work, items):
    """(item, finished process) of each, two or more at a time."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from zip(items, pool.map(work, items))


def compilations():
    """(source, words of the command) of the project's own files."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        name = os.path.relpath(entry["file"], ROOT)
        if not name.startswith("."):  # .venv has sources of nanobind, which are not ours
            yield name, shlex.split(entry["command"])


def headers():
    """Every header of the library compiles alone."""

    def seen(path):
        """A source that begins with its own header has compiled it alone already."""
        source = path.with_suffix(".cpp")
        first = re.search(r'^#include [<"](.+)[>"]$', source.read_text(), re.MULTILINE) if source.exists() else None
        return first is not None and first[1].endswith(path.name)

    nvcc = shutil.which("nvcc")
    toolkit = Path(nvcc).resolve().parent.parent / "include" if nvcc else None
    files = [path for folder in ("include", "src") for path in sorted((ROOT / folder).rglob("*.hpp"))
             if not seen(path) and (toolkit or "cuda" not in path.relative_to(ROOT).parts)]
    command = ["g++", "-std=c++20", "-fsyntax-only", "-I", "include", "-I", "src", "-I", "tests",  # src/cuda has the emulator's
               *(["-isystem", str(toolkit)] if toolkit else []), "-include"]

    def compile_alone(path):
        return subprocess.run([*command, str(path), "-x", "c++", "/dev/null"], cwd=ROOT, capture_output=True, text=True)

    for path, done in outcomes(compile_alone, files):
        if done.returncode:
            yield f"{path.relative_to(ROOT)}: {done.stderr[:1000]}"


def fused():
    """Fused multiply-adds occur in the AVX kernel files alone."""
    if platform.machine() != "x86_64":
        return
    objects = sorted((BUILD / "CMakeFiles" / "vicinal_objects.dir").rglob("*.o"))
    if not objects:
        yield f"no objects below {BUILD}"
    for path in objects:
        if "_avx2" in path.name or "_avx512" in path.name:
            continue
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True,
                              check=True).stdout
        count = len(re.findall(r"\bvfn?m(?:add|sub)\w*", text))
        if count:
            yield f"{path.name}: {count} fused multiply-adds"


def contraction():
    """Every compilation of the project says -ffp-contract=off, and none says fast-math."""
    for name, command in compilations():
        words = {part for word in command for part in word.removeprefix("-Xcompiler=").split(",")}  # nvcc hands words on
        if any(Path(word).name == "nvcc" for word in command[:2]) and "-fmad=false" not in words:
            yield f"{name}: no -fmad=false in {' '.join(command)}"
        if "-ffp-contract=off" not in words or {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-use_fast_math", "--use_fast_math"} & words:
            yield f"{name}: {' '.join(command)}"


CHECKS = (fused, contraction)


def main():
    checks = (*CHECKS, headers) if "--headers" in sys.argv[1:] else CHECKS
    failed = 0
    for check in checks:
        faults = list(check())
        failed += bool(faults)
        if faults:
            print(check.__doc__, *faults, sep="\n  ")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
