"""Habits of the tree, checked on every file that git would track.

ASCII, line ends, sizes of files and functions, the format of C++ and CUDA sources, folders described in HACKING.md and mirrored by tests/unit, folders that
include each other, words, error codes in docs/errors.md, links of the documents, install lists in one place. Closes with "N passed, N failed".
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = {".npz", ".npy", ".fvecs", ".bvecs", ".ivecs", ".fbin", ".u8bin", ".i8bin", ".f16bin", ".ibin", ".u64bin", ".hbin", ".gz", ".png",
        ".jpg", ".seed"}
BYTES = 2_000_000
LINES = 400
FUNCTION_LINES = 80
HEADING_LINES = 40
CPP, CUDA = (".cpp", ".hpp", ".inc"), (".cu", ".cuh")

# What is excepted from a rule, and why. An exception that is not needed any more is a fault, so that no list outlives its reason.
LONG_FUNCTIONS = {  # "path name": why
    "src/cuda/select/sieve_rows.cuh sieve_rows": "as a class of named steps it took 2 to 17 % more time on an H200",
    "src/cuda/search/filter/int8_wgmma.cuh filter_int8_wgmma": "its producer as a function of its own compiles to other instructions",
}
WORDS_ALLOWED = {  # (path, word as it stands there): why
}
# Folders that are to be cleaned up next and do not hold a rule yet, and pairs of them.
NOT_YET = {
    "long_functions": (),
    "headings": (),
    "cycles": (),
}  # fmt: skip
# Words of our own that the field has another one for. Each can be taken for nothing else.
WORDS = {
    "rungs?": "precision", "ladders?": "cascade", "climb(?:s|ed|ing)?": "escalate", "settl(?:e|es|ed|ing)": "rerank, ranked, verified_radius, certified",
    "nobody": "masked", "facing|faced": "column side, bind", "stretch(?:es|ed)?": "segment", "vanish(?:es|ed|ing)?": "underflow", "outings?": "callback_epoch",
    "residu(?:al|als|e|es)": "quantization error", "abandon(?:s|ed|ing)?": "give up", "dear": "expensive", "somebody": "the caller, another tool",
    "everybody": "all", "anybody|whoever": "any tool, its holder", "ByteLine|QuickLine|float_line": "ThresholdCoeffs", "HeldSide": "PreparedMatrix",
    "second look|looks? twice|look(?:s|ed)? again": "refine, second-level code", "pair_rows": "symmetric_rows", "filter_pairs": "symmetric tiles",
    "search_groups": "kd_tree", "hand(?:s|ed)? out|note_hits": "append, scatter", "drop(?:s|ped)? twice": "refine",
    "told once": "generic", "most_seed|most_limit": "most_bias, most_threshold",
}  # fmt: skip


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


def sources(*folders):
    """(path, text) of the C++ and CUDA sources there."""
    for path, data in TEXT.items():
        if path.parts[0] in folders and path.suffix in (*CPP, *CUDA):
            yield path, data.decode(errors="replace")


class Exceptions:
    """The exceptions of one rule; those that were never asked for are faults."""

    def __init__(self, rule, named=()):
        self.folders, self.named, self.used = NOT_YET.get(rule, ()), named, set()

    def has(self, path, name=None):
        """Whether the fault of this name in this file is excepted."""
        found = name if name in self.named else next((folder for folder in self.folders if folder in map(str, path.parents)), None)
        self.used.add(found)
        return found is not None

    def unused(self):
        yield from (f"scripts/check_tree.py excepts {one}, without need" for one in (*self.folders, *self.named) if one not in self.used)


def long_sources():
    """A source above 400 lines has a line in docs/design that says why."""
    design = "".join(path.read_text() for path in (ROOT / "docs/design").glob("*.md"))
    exceptions = Exceptions("long_sources")
    for path in FILES:
        if path.parts[0] in ("src", "cli", "include", "python") and path.suffix in (*CPP, *CUDA, ".py"):
            lines = TEXT[path].count(b"\n")
            if lines > LINES and str(path) not in design and not exceptions.has(path):
                yield f"{path}: {lines} lines: which two things is it? (or a line in docs/design)"
    yield from exceptions.unused()


NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.DOTALL | re.MULTILINE)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()=]*$")
ASIDE = re.compile(r"<[^<>]*>|\[\[.*?\]\]|\b(?:__\w+__|alignas|requires)\s*\((?:[^()]|\([^()]*\))*\)")  # nothing of a head that says what it opens
NAME = re.compile(r"([~\w:]+|operator\W+)\s*\(")


def functions(text):
    """(name, first line, last line) of each function, from its brace to its brace. Braces are counted: no macro may hide one."""
    text = NOISE.sub(lambda noise: re.sub(r"[^\n]", "", noise[0]) + " ", text)
    scopes, head, line = [], "", 1  # for each open brace: is it a namespace or a class, the name of a function, or neither
    for part in re.split(r"([{};\n])", text):
        if part == "\n":
            line += 1
            head += " "
        elif part == "{":
            while (plain := ASIDE.sub("", head)) != head:
                head = plain
            name = NAME.search(head)
            inside = all(kind is True for kind, _, _ in scopes)
            if inside and SCOPE.search(head):
                scopes.append((True, "", line))
            elif inside and name:
                scopes.append((False, name[1], line))
            else:
                scopes.append((None, "", line))
            head = ""
        elif part == "}":
            if scopes:
                kind, name, first = scopes.pop()
                if kind is False:
                    yield name, first, line
            head = ""
        elif part == ";":
            head = ""
        else:
            head += part


BODIES = [(path, text, list(functions(text))) for path, text in sources("src")]


def long_functions():
    """A function of src has at most 80 lines."""
    exceptions = Exceptions("long_functions", LONG_FUNCTIONS)
    for path, _, bodies in BODIES:
        for name, first, last in bodies:
            if last - first + 1 > FUNCTION_LINES and not exceptions.has(path, f"{path} {name}"):
                yield f"{path}:{first}: {name} has {last - first + 1} lines: which of its parts has a name of its own?"
    yield from exceptions.unused()


def headings():
    """In src/cuda a function of more than 40 lines says in comments what its paragraphs do: never more than 40 lines without one."""
    exceptions = Exceptions("headings")
    for path, text, bodies in BODIES:
        if path.parts[1] != "cuda":
            continue
        lines = text.split("\n")
        for name, first, last in bodies:
            marks = [first, *(at for at in range(first, last + 1) if lines[at - 1].lstrip().startswith("//")), last]
            gap = max(after - before for before, after in zip(marks, marks[1:]))
            if gap > HEADING_LINES and not exceptions.has(path):
                yield f"{path}:{first}: {name} has {gap} lines without a heading"
    yield from exceptions.unused()


def words():
    """Sources use the words of the field."""
    exceptions = Exceptions("words", WORDS_ALLOWED)
    ours = re.compile("(?<![A-Za-z])(?:" + "|".join(f"((?i:{word}))" for word in WORDS) + ")(?![a-z])")
    fields = list(WORDS.values())
    for path, data in TEXT.items():
        if path.parts[0] in ("src", "include", "cli", "python") and path.suffix not in (".txt", ".md"):
            for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
                for found in ours.finditer(line):
                    if not exceptions.has(path, (str(path), found[0])):
                        yield f"{path}:{number}: {found[0]}: {fields[found.lastindex - 1]}"
    yield from exceptions.unused()


def cycles():
    """No two folders of src include each other."""
    arrows = {}
    for path, text in sources("src"):
        for target in re.findall(r'^#include "([\w/.]+)/[\w.]+"', text, re.MULTILINE):
            if (ROOT / "src" / target).is_dir():
                arrows.setdefault((str(path.parent.relative_to("src")), target), path)
    found = {pair for pair in arrows if pair[0] < pair[1] and pair[::-1] in arrows}
    for a, b in sorted(found - set(NOT_YET["cycles"])):
        yield f"src/{a} and src/{b} include each other: {arrows[a, b]}, {arrows[b, a]}"
    for a, b in sorted(set(NOT_YET["cycles"]) - found):
        yield f"scripts/check_tree.py excepts {a} and {b}, without need"


def mirrors():
    """A file of tests/unit lies in a folder of src; what several of them share may lie above."""
    for path in FILES:
        if path.parts[:2] == ("tests", "unit"):
            folder = path.parent.relative_to("tests/unit")
            if not (ROOT / "src" / folder).is_dir() or (str(folder) == "." and path.name.startswith("test_")):
                yield f"{path}: there is no src/{folder}"


def opening_lines():
    """C++, CUDA and Python sources say in their first lines what they are; headers have their guard."""
    for path, data in TEXT.items():
        told = path.suffix in (".cpp", ".cu") and any(path.with_suffix(header) in TEXT for header in (".hpp", ".cuh"))  # its header says what it is
        if path.suffix in (*CPP, *CUDA) and not told and not data.startswith((b"//", b"/*")):
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
    names = [str(path) for path in FILES if path.suffix in (*CPP, *CUDA, ".h")]
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
        if path.parts[0] not in ("src", "cli", "include", "python") or path.suffix not in (*CPP, *CUDA):
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


CHECKS = (ascii_text, sizes, folders, long_sources, long_functions, headings, words, cycles, mirrors, opening_lines, formatted, forgotten_enumerators,
          unfinished, error_codes, links, tables, performance, install_lists, pinned_packages)


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
