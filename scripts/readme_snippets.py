"""Runs the examples of README.md and of docs/tutorials as a reader would.

Every ```python, ```sh and ```cpp block of README.md runs, in the order in which it stands, in one empty folder, with this
build's command, module and library; the two opening verbs of make are the only exception. A ```text block that follows one is
what it prints, character by character. data/ of the tree is there as well. The ```python blocks of a tutorial are one program, its ```sh blocks come after it.
Closes with "N passed, N failed", and "N not run" for what needs a library that is not here.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def blocks(page):
    """Language, text and, where the page shows it, output of each example."""
    text = page.read_text()
    found = re.findall(r"^```(python|sh|cpp)\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", text, re.MULTILINE | re.DOTALL)
    if page.name != "README.md":
        program = "\n".join(body for language, body, _ in found if language == "python")
        output = "".join(output for language, _, output in found if language == "python")
        found = [("python", program, output), *(block for block in found if block[0] != "python")]
    for language, body, output in found:
        if not body.startswith("make "):
            yield language, body, output


def commands(language, body):
    """The commands that run one block, the block's text in a file beside them."""
    if language == "python":
        Path("example.py").write_text(body)
        return [[str(ROOT / ".venv/bin/python"), "example.py"]]
    if language == "sh":
        return [["sh", "-eu", "-c", body]]
    Path("example.cpp").write_text(body)
    return [["g++", "-std=c++20", "-Wall", "-Wextra", "-I", str(ROOT / "include"), "example.cpp", "-o", "example",
             "-L", str(BUILD / "lib"), "-lvicinal", f"-Wl,-rpath,{BUILD / 'lib'}"], ["./example"]]


def missing(output):
    """The library that an example could not import, if that is why it failed."""
    name = re.search(r"^(?:ModuleNotFoundError: No module named|ImportError: .*?needs) '?([\w-]+)", output, re.MULTILINE)
    return name and not name[1].startswith("vicinal") and name[1]


def run_page(page, environment):
    """Passed, failed, not run."""
    counts = [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("data").symlink_to(ROOT / "data")
        for language, body, output in blocks(page):
            for command in commands(language, body):
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                if done.returncode:
                    break
            lacking = done.returncode and missing(done.stderr)
            failed = done.returncode or (output and done.stdout != output)
            counts[2 if lacking else 1 if failed else 0] += 1
            if lacking:
                print(f"{page.relative_to(ROOT)}: not run, {lacking} is not installed")
            elif failed:
                wanted = f"the page shows the output\n{output}" if output else ""
                print(f"{page.relative_to(ROOT)}: {language} example failed ({done.returncode}):\n{body}\n{done.stdout}{done.stderr}{wanted}")
        os.chdir(ROOT)
    if not sum(counts):
        print(f"{page.relative_to(ROOT)} has no examples")
        counts[1] = 1
    return counts


def main():
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs/tutorials").glob("*.md"))]
    chosen = [page for page in pages if not sys.argv[1:] or page.stem in sys.argv[1:]]
    passed, failed, skipped = map(sum, zip(*(run_page(page, environment) for page in chosen)))
    print(f"{passed} passed, {failed} failed, {skipped} not run")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
