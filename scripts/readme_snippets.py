"""Runs the examples of README.md as a reader would: Python first, then the command, then the C++ program.

Every ```python, ```sh and ```cpp block runs, in the order in which it stands, in one empty folder, with this build's
command, module and library; the two opening verbs of make are the only exception. Closes with "N passed, N failed".
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def blocks():
    text = (ROOT / "README.md").read_text()
    for language, body in re.findall(r"^```(python|sh|cpp)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if not body.startswith("make "):
            yield language, body


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


def main():
    failed = passed = 0
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for language, body in blocks():
            for command in commands(language, body):
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                if done.returncode:
                    print(f"{language} example failed ({done.returncode}):\n{body}\n{done.stdout}{done.stderr}")
                    failed += 1
                    break
            else:
                passed += 1
        os.chdir(ROOT)
    if passed + failed == 0:
        print("README.md has no examples")
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
