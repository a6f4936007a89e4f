"""Style: clang-tidy on src/ and cli/ (needs a build), every header alone, habits of the tree, the format of sources among them.

A tool that is missing is a fault: the tree's check alone passes over the format where clang-format-14 is not there.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files(*patterns):
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name]


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip() or "failed without a word" if done.returncode else ""


def tidy(name):
    return run("clang-tidy-14", "-quiet", "-p", "build", "--extra-arg=-Wno-unknown-warning-option", name)


def main():
    faults = [f"{tool} is not installed: scripts/bootstrap" for tool in ("clang-format-14", "clang-tidy-14") if shutil.which(tool) is None]
    if faults:
        print("\n".join(faults))
        return 1
    faults = [run(sys.executable, "scripts/check_tree.py"),
              run(sys.executable, "scripts/check_build.py", "--headers")]
    # nothing may depend on the order in which files are looked at: each is a process of its own
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        faults += pool.map(tidy, files("src/*.cpp", "cli/*.cpp"))
    faults = [fault for fault in faults if fault]
    print("\n".join(faults) if faults else "clean")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
