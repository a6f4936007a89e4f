"""Habits of the tree, checked on every file that git would track.

ASCII, line ends, sizes, the format of C++ and CUDA sources, folders described in HACKING.md, long sources explained in docs/design, error codes in
docs/errors.md, links of the documents, install lists in one place. Closes with "N passed, N failed".
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = {".npz", ".npy", ".fvecs", ".bvecs", ".ivecs", ".fbin", ".u8bin", ".i8bin", ".f16bin", ".ibin", ".gz", ".png",
        ".jpg", ".seed"}
BYTES = 2_000_000
LINES = 400


def tracked():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in names if name and (ROOT / name).is_file()]


FILES = tracked()
TEXT = {path: (ROOT / path).read_bytes() for path in FILES if path.suffix not in DATA}


def ascii_text():
    """Text files are plain ASCII (but for names in a PROVENANCE.md), without tabs (but Makefile), trailing white space or a missing last line end."""
    for path, data in TEXT.items():
        for number, line in enumerate(data.split(b"\n"), 1):
            if not (line.isascii() or path.name == "PROVENANCE.md") or b"\r" in line or b"\0" in line:
                yield f"{path}:{number}: not plain ASCII text"
            if line != line.rstrip():
                yield f"{path}:{number}: trailing white space"
            if b"\t" in line and path.name != "Makefile":
                yield f"{path}:{number}: tab"
        if data and not data.endswith(b"\n"):
            yield f"{path}: no line end at the end"


def sizes():
    """No file above 2 MB."""
    for path in FILES:
        if (ROOT / path).stat().st_size > BYTES:
            yield f"{path}: {(ROOT / path).stat().st_size} bytes, the limit is {BYTES}"


def folders():
    """HACKING.md describes every folder on a line of its own, and no folder that is gone."""
    tree = (ROOT / "HACKING.md").read_text()
    described = set(re.findall(r"^([\w./-]+)/ {2,}\S", tree, re.MULTILINE))
    present = {str(parent) for path in FILES for parent in path.parents if str(parent) != "."}
    present = {folder for folder in present if not folder.startswith("tests/unit/")}  # they are those of src/
    yield from (f"{folder}/ is not described in HACKING.md" for folder in sorted(present - described))
    yield from (f"HACKING.md describes {folder}/, which does not exist" for folder in sorted(described - present))


def long_sources():
    """A source above 400 lines has a line in docs/design that says why."""
    design = "".join(path.read_text() for path in (ROOT / "docs/design").glob("*.md"))
    for path in FILES:
        if path.parts[0] in ("src", "cli", "include", "python") and path.suffix in (".cpp", ".hpp", ".py", ".inc"):
            lines = TEXT[path].count(b"\n")
            if lines > LINES and str(path) not in design:
                yield f"{path}: {lines} lines: which two things is it? (or a line in docs/design)"


def opening_lines():
    """C++ and Python sources say in their first lines what they are; headers have their guard."""
    for path, data in TEXT.items():
        told = path.suffix == ".cpp" and path.with_suffix(".hpp") in TEXT  # its header says what it is
        if path.suffix in (".cpp", ".hpp", ".inc") and not told and not data.startswith((b"//", b"/*")):
            yield f"{path}: does not open with a comment"
        if path.suffix == ".hpp" and b"\n#pragma once\n" not in data:
            yield f"{path}: no #pragma once"
        if path.suffix == ".py" and data and not re.match(rb'(#!.*\n)?(#.*\n)*\s*r?"""', data):
            yield f"{path}: does not open with a docstring"


def formatted():
    """Every C++ and CUDA source holds the declared format; `make format` applies it."""
    tool = shutil.which("clang-format-14")
    if tool is None:
        return
    names = [str(path) for path in FILES if path.suffix in (".cpp", ".hpp", ".h", ".cu", ".cuh", ".inc")]
    half = len(names) // 2
    runs = [subprocess.Popen([tool, "--dry-run", "-Werror", *part], cwd=ROOT, stderr=subprocess.PIPE, text=True)
            for part in (names[:half], names[half:])]
    for run in runs:
        errors = run.communicate()[1]
        faults = sorted(set(re.findall(r"^(.+?):\d+:\d+: error", errors, re.MULTILINE)))
        if run.returncode and not faults:
            yield f"clang-format-14: {errors.strip()[-300:]}"
        yield from (f"{name}: not as clang-format lays it out" for name in faults)


def forgotten_enumerators():
    """A switch over an enum has no default, which would hide an enumerator that is forgotten from the compiler (-Werror=switch)."""
    for path, data in TEXT.items():
        if path.parts[0] not in ("src", "cli", "include", "python") or path.suffix not in (".cpp", ".hpp", ".cu", ".cuh", ".inc"):
            continue
        last = ""
        for number, line in enumerate(data.decode().split("\n"), 1):
            if re.match(r"\s*case\b", line):
                last = line
            if re.match(r"\s*default:", line) and re.match(r"\s*case \w+(::\w+)+:", last):
                yield f"{path}:{number}: name the enumerators"


def unfinished():
    """No marks of unfinished work in the sources."""
    marks = re.compile(rb"\b(TO" rb"DO|FIX" rb"ME|X" rb"XX)\b")
    for path, data in TEXT.items():
        if path.name != "LICENSE" and marks.search(data):
            yield f"{path}: a mark of unfinished work"


def error_codes():
    """docs/errors.md has a section for every code of include/vicinal/error.hpp."""
    header = (ROOT / "include/vicinal/error.hpp").read_text()
    body = header.split("enum class ErrorCode {")[1].split("};")[0]
    codes = {"".join(word.capitalize() for word in code.split("_")) for code in re.findall(r"^  (\w+)", body, re.MULTILINE)}
    sections = set(re.findall(r"^## (\w+)$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    yield from (f"docs/errors.md has no section {code}" for code in sorted(codes - sections))
    yield from (f"docs/errors.md describes {code}, which is no code" for code in sorted(sections - codes))


def links():
    """Links between documents lead somewhere."""
    for path in FILES:
        if path.suffix == ".md":
            text = re.sub(r"```.*?```", "", TEXT[path].decode(), flags=re.DOTALL)
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
                if "://" not in target and not (ROOT / path.parent / target).exists():
                    yield f"{path}: link to {target}, which does not exist"


def tables():
    """A table of a document is whole: its second line is the rule under the header, and no empty line cuts its rows off."""
    row = re.compile(r"\s*\|[ :-].*\|$")  # prose may begin with |x|
    for path in FILES:
        if path.suffix == ".md":
            lines = re.sub(r"```.*?```", lambda code: re.sub(r"[^\n]", "", code[0]), TEXT[path].decode(), flags=re.DOTALL).split("\n")
            for number, line in enumerate(lines):
                first = row.match(line) and not (number and row.match(lines[number - 1]))
                if first and not re.fullmatch(r"\s*\|(\s*:?-+:?\s*\|)+", lines[number + 1]):
                    yield f"{path}:{number + 1}: a row of a table without its header"


def performance():
    """The tables of docs/performance.md and README's chart are what bench/results gives."""
    done = subprocess.run([sys.executable, "scripts/performance.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        yield done.stdout.strip() or done.stderr.strip()


def install_lists():
    """Only scripts/bootstrap installs anything."""
    for path, data in TEXT.items():
        if path.suffix not in (".md", ".py") and path.name != "bootstrap":  # a program may tell its user what to type
            if b"apt-get " in data or re.search(rb"pip3? install (?!-|\.)", data):
                yield f"{path}: installs packages; scripts/bootstrap is the place"


def pinned_packages():
    """scripts/requirements.txt has a version and a digest for everything that scripts/bootstrap takes from PyPI, which it takes with --require-hashes."""
    bootstrap, text = (ROOT / "scripts/bootstrap").read_text(), (ROOT / "scripts/requirements.txt").read_text()
    pins = {}
    for entry in re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines():
        pin = re.fullmatch(r"([\w.-]+)==([\w.]+)((?:\s+--hash=sha256:[0-9a-f]{64})+)", entry)
        if not pin:
            yield f"scripts/requirements.txt: not a version with digests: {entry[:60]}"
        else:
            pins[pin[1].lower().replace("_", "-")] = pin[2]
    for group in re.findall(r"^# group (\w+)$", text, re.MULTILINE):
        for name in re.search(rf'^{group}="([^"]*)"', bootstrap, re.MULTILINE)[1].split():
            name, _, version = name.lower().partition("==")
            if name not in pins or version not in ("", pins[name]):
                yield f"scripts/requirements.txt has no {name} {version}; `scripts/bootstrap lock` writes it"
    for line in bootstrap.splitlines():
        if "-m pip install" in line and "--require-hashes" not in line and "$names" not in line:
            yield f"scripts/bootstrap installs without digests: {line.strip()}"


CHECKS = (ascii_text, sizes, folders, long_sources, opening_lines, formatted, forgotten_enumerators, unfinished, error_codes, links, tables,
          performance, install_lists, pinned_packages)


def main():
    failed = 0
    for check in CHECKS:
        faults = list(check())
        failed += bool(faults)
        if faults:
            print(f"{check.__name__}: {check.__doc__}")
            print("\n".join(f"  {fault}" for fault in faults[:20]))
            if len(faults) > 20:
                print(f"  and {len(faults) - 20} more")
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
