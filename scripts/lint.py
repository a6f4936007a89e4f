"""Style: clang-tidy on src/ and cli/ (needs a build), ruff on every Python file, mypy on the module, every header alone, habits of the
tree, the format of sources among them.

A tool that is missing is a fault: the tree's check alone passes over the format where clang-format-14 is not there.

  lint.py [--touched]   With --touched, as CI calls it: ruff, mypy, and clang-tidy on what the last commit and the working tree touch,
                        at most MOST files of it; the checks of the tree are a step of their own there. Closes with "N passed, N failed".
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path(sys.executable).parent
MOST = 8  # files that clang-tidy sees of one commit in CI, some seconds each


def git(*words):
    """The names that git prints, or none where it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name] if done.returncode == 0 else []


def files(*patterns):
    return git("ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns)


def touched():
    """Files that the last commit, beside its first parent, and the working tree change; of a clone without history none."""
    changed = git("diff", "--name-only", "-z", "HEAD~1") + git("ls-files", "-z", "--others", "--exclude-standard")
    return {name for name in changed if (ROOT / name).is_file()}


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip() or "failed without a word" if done.returncode else ""


def each_source(entry):
    """The compile commands of the sources that one of them compiles at a time: itself, or what a file that the build wrote includes."""
    if "/Unity/" not in entry["file"]:
        return [entry]
    sources = re.findall(r'^#include "(.+)"$', Path(entry["file"]).read_text(), re.MULTILINE)
    return [entry | {"file": source, "command": entry["command"].replace(entry["file"], source)} for source in sources]


def commands():
    """A folder with the build's compile commands, a line a source, in which precompiled headers are plain ones: clang reads none of g++'s."""
    folder = ROOT / "build" / "lint"
    folder.mkdir(exist_ok=True)
    text = (ROOT / "build" / "compile_commands.json").read_text()
    for number, header in enumerate(sorted(set(re.findall(r"-include (\S+/cmake_pch\.hxx)", text)))):
        plain = folder / f"precompiled{number}.hxx"
        plain.write_text(Path(header).read_text())
        text = text.replace(f"-include {header}", f"-include {plain}")
    entries = [source for entry in json.loads(text) for source in each_source(entry)]
    (folder / "compile_commands.json").write_text(json.dumps(entries, indent=1))
    return folder


def tidy(name):
    return run("clang-tidy-14", "-quiet", "-p", "build/lint", "--extra-arg=-Wno-unknown-warning-option", name)


def python():
    """Faults that ruff and mypy find."""
    return [run(str(PYTHON / "ruff"), "check", "--quiet", "--no-cache", "--output-format", "concise"),
            run(str(PYTHON / "mypy"), "--no-error-summary", "--cache-dir", os.devnull)]


def main():
    parser = argparse.ArgumentParser(description="Style of the sources.")
    parser.add_argument("--touched", action="store_true", help="only what the last commit and the working tree touch")
    arguments = parser.parse_args()
    tools = {"clang-format-14": shutil.which("clang-format-14"), "clang-tidy-14": shutil.which("clang-tidy-14")}
    tools |= {tool: shutil.which(tool, path=PYTHON) for tool in ("ruff", "mypy")}
    faults = [f"{tool} is not installed: scripts/bootstrap lint" for tool, found in tools.items() if found is None]
    if faults:
        print("\n".join(faults))
        return 1
    checked = python()
    sources = files("src/*.cpp", "cli/*.cpp")
    if arguments.touched:
        wanted = touched()
        sources = [name for name in sources if name in wanted]
        if len(sources) > MOST:
            print(f"clang-tidy sees {MOST} of the {len(sources)} files that were touched; make lint sees all")
            sources = sources[:MOST]
    else:
        checked += [run(sys.executable, "scripts/check_tree.py"), run(sys.executable, "scripts/check_build.py", "--headers")]
    commands()
    # nothing may depend on the order in which files are looked at: each is a process of its own
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        checked += pool.map(tidy, sources)
    faults = [fault for fault in checked if fault]
    print("\n".join(faults) if faults else "clean")
    print(f"{len(checked) - len(faults)} passed, {len(faults)} failed")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
