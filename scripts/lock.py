"""Moves scripts/requirements.txt to what PyPI has today: `scripts/bootstrap lock`, which gives the groups as GROUP=NAME,NAME arguments.

Every package that a group needs, directly or not, with its version and the digests of the wheels for each Python of PYTHONS on
this kind of machine. The groups of BASE are in every .venv, so that the others list what is not in them; pip itself resolves and
tells the digests.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).resolve().parent / "requirements.txt"
PYTHONS = ("3.11", "3.12", "3.13")
BASE = ("needed", "peers")  # that are in every .venv


def resolved(names, python, versions):
    """Name to (version, digest) of everything that `names` need, at the versions that are chosen already."""
    fixed = tempfile.NamedTemporaryFile("w", suffix=".txt")
    fixed.write("".join(f"{name}=={version}\n" for name, version in versions.items()))
    fixed.flush()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run", "--ignore-installed",
               "--only-binary=:all:", "--python-version", python, "--target", "none", "--report", "-", "--constraint", fixed.name, *names]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found = {}
    for item in json.loads(done.stdout)["install"]:
        facts, archive = item["metadata"], item["download_info"]["archive_info"]
        found[facts["name"].lower().replace("_", "-")] = (facts["version"], archive["hash"].replace("=", ":", 1))
    return found


def main():
    versions, digests, groups, asked, base = {}, {}, {}, [], set()
    for group, names in (argument.split("=", 1) for argument in sys.argv[1:]):
        wanted = [*asked, *names.split(",")]
        if group in BASE:
            asked = wanted
        members = groups.setdefault(group, [])
        for python in PYTHONS:
            try:
                found = resolved(wanted, python, versions)
            except RuntimeError as error:
                if python == PYTHONS[0]:
                    raise
                print(f"{group}: not for Python {python}: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
                continue
            for name, (version, digest) in found.items():
                versions.setdefault(name, version)
                digests.setdefault(name, set()).add(digest)
                if name not in base and name not in members:
                    members.append(name)
        if group in BASE:
            base |= set(members)
        print(f"{group}: {len(members)} packages", flush=True)
    lines = ["# What scripts/bootstrap installs from PyPI, by group, with versions and digests. Written by scripts/bootstrap lock, which moves it;",
             f"# for CPython {', '.join(PYTHONS)} on x86_64."]
    for group, names in groups.items():
        lines.append(f"# group {group}")
        for name in sorted(names):
            lines.append(" \\\n    ".join([f"{name}=={versions[name]}", *(f"--hash={digest}" for digest in sorted(digests[name]))]))
    TARGET.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
