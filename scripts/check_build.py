"""What the compiler made of the sources, checked after a build of the cpu preset.

No object holds a fused multiply-add that the source did not spell:
only the AVX kernel files may hold any. Every object was compiled without contraction, those of CUDA too. Every program and library
looks for others beside itself alone, in the build tree and installed. Closes with "N passed, N failed". With --headers, which
`make lint` adds: every header of the library compiles alone. `check_build.py --paths FOLDER...` looks at the search paths of the
programs and libraries below FOLDER and at nothing else; scripts/dist and the wheel's test call it so.
"""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
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


def linked_files(folder):
    """Programs and libraries below a folder: ELF files that are no objects (e_type 1), of the files that are no links."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            head = file.read(18)
        if head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], "big" if head[5] == 2 else "little") in (2, 3):
            yield path


def path_faults(folder):
    """What is wrong with the search paths below a folder: an empty or relative entry means the current directory, an absolute one
    a folder of the machine that built it; and a needed library with a slash in its name is not searched for at all."""
    files = list(linked_files(folder))
    if not files:
        yield f"no programs or libraries below {folder}"
    for path in files:
        text = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
        for kind, value in re.findall(r"\((RPATH|RUNPATH|NEEDED)\)[^\[]*\[(.*)\]", text):
            parts = [value] if kind == "NEEDED" else value.split(":")
            wrong = [part for part in parts if ("/" in part if kind == "NEEDED" else part.split("/")[0] != "$ORIGIN")]
            if wrong:
                yield f"{path}: {kind} {value!r} has {wrong[0]!r}"


def built_paths():
    """Programs and libraries of the build tree search $ORIGIN alone."""
    for folder in ("bin", "lib", "python"):  # beside them is what tests build as strangers would
        yield from path_faults(BUILD / folder)


def installed_paths():
    """Installed programs and libraries search $ORIGIN alone, and the command finds its library."""
    with tempfile.TemporaryDirectory() as prefix:
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        for command in (["cmake", "--install", str(BUILD), "--prefix", prefix], [f"{prefix}/bin/vicinal", "info"]):
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode:
                yield f"{' '.join(command)}: {done.stderr[-1000:]}"
                return
        yield from path_faults(prefix)


CHECKS = (fused, contraction, built_paths, installed_paths)


def main():
    if sys.argv[1:2] == ["--paths"]:
        faults = [fault for folder in sys.argv[2:] for fault in path_faults(folder)]
        print(*faults, sep="\n", end="\n" if faults else "")
        return int(bool(faults))
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
