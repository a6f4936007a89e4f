"""Where the command and its libraries look for other libraries: beside themselves, never in the current directory."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import COMMAND, ROOT

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "VICINAL_BACKEND_PATH")}
PLANTED = """
#include <unistd.h>
__attribute__((constructor)) static void planted(void) { write(1, "planted\\n", 8); _exit(77); }
"""


def needed(path):
    """Names of the libraries that a file asks for, and those that they ask for."""
    text = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
    return {line.split()[0] for line in text.splitlines() if "=>" in line}


@pytest.fixture
def folder_of_data(tmp_path):
    """A current directory with a library of every name that the command and the module ask for, each of which runs code."""
    names = needed(COMMAND) | {"libvicinal_cuda.so"}
    assert any(name.startswith("libvicinal.so") for name in names) and len(names) > 3
    source = tmp_path / "planted.c"
    source.write_text(PLANTED)
    made = tmp_path / "planted.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", made, source], check=True)
    for name in names:
        shutil.copy(made, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("words", [["info"], ["info", "--json"], ["demo"]])
def test_the_current_directory_is_not_searched_by_the_command(folder_of_data, words):
    done = subprocess.run([COMMAND, *words], capture_output=True, cwd=folder_of_data, env=ENVIRONMENT, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"") and b"planted" not in done.stdout
    asked = {**ENVIRONMENT, "LD_LIBRARY_PATH": "."}  # what was planted would run if it were looked at
    done = subprocess.run([COMMAND, *words], capture_output=True, cwd=folder_of_data, env=asked, timeout=300)
    assert done.returncode != 0


def test_the_current_directory_is_not_searched_by_the_module(folder_of_data):
    folder = ROOT / "build" / "python"
    if not list(folder.glob("vicinal/_native*.so")):
        pytest.skip("the module is not built here")
    program = f"import sys; sys.path[:] = [p for p in sys.path if p] + [{str(folder)!r}]; import vicinal; vicinal.devices()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=folder_of_data, env=ENVIRONMENT, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("entry", ["", ":", "lib", "./lib", "/somewhere/build/lib", "$ORIGIN:", ":$ORIGIN", "$ORIGINS"])
def test_the_check_of_search_paths_finds_what_it_is_for(tmp_path, entry):
    """scripts/check_build.py, which reads every file that is built, packed and installed."""
    source = tmp_path / "empty.c"
    source.write_text("")
    check = [sys.executable, str(ROOT / "scripts" / "check_build.py"), "--paths", str(tmp_path)]
    for path, status in (("$ORIGIN:$ORIGIN/../lib", 0), (entry, 1)):
        subprocess.run(["cc", "-shared", "-o", tmp_path / "lib.so", source, f"-Wl,-rpath,{path}"], check=True)
        done = subprocess.run(check, capture_output=True, text=True)
        assert done.returncode == status and ("RUNPATH" in done.stdout) == (status == 1), done.stdout


def test_the_check_of_search_paths_needs_something_to_check(tmp_path):
    check = [sys.executable, str(ROOT / "scripts" / "check_build.py"), "--paths", str(tmp_path)]
    assert subprocess.run(check, capture_output=True).returncode == 1


@pytest.mark.parametrize("named", [".", "lib", "./lib", "../{}/lib", "lib/"])
def test_a_relative_folder_of_backends_is_refused(vicinal, folder_of_data, named):
    """The command without libvicinal_cuda.so beside its library, and one planted where the variable says."""
    libraries = {line.split()[0]: line.split()[2] for line in subprocess.run(
        ["ldd", COMMAND], capture_output=True, text=True, check=True).stdout.splitlines() if "libvicinal.so" in line}
    away = folder_of_data / "away"
    away.mkdir()
    for name, path in libraries.items():
        shutil.copy(path, away / name)
    planted = folder_of_data / "lib"
    planted.mkdir()
    shutil.copy(folder_of_data / "planted.so", planted / "libvicinal_cuda.so")
    environment = {**ENVIRONMENT, "LD_LIBRARY_PATH": str(away)}
    relative = named.format(folder_of_data.name)

    done = vicinal("info", "--json", cwd=folder_of_data, env={**environment, "VICINAL_BACKEND_PATH": str(planted)})
    assert (done.status, done.out) == (77, "planted\n")  # an absolute path is trusted
    environment["VICINAL_BACKEND_PATH"] = relative
    (device,) = [one for one in vicinal("info", "--json", cwd=folder_of_data, env=environment).succeeds().json["devices"]
                 if one["name"] != "cpu"]
    text = rf"VICINAL_BACKEND_PATH must be an absolute path, got {re.escape(relative)}"
    assert not device["usable"] and re.search(text, device["reason"])
    corpus = Path(folder_of_data / "rows.csv")
    corpus.write_text("1,2\n")
    vicinal("knn", corpus, corpus, "-k", 1, "--device", "cuda", cwd=folder_of_data, env=environment).fails(6, "DeviceError", text)
