"""The wheel of `pip install .` in a fresh environment, where NumPy is the only dependency."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2]
PROGRAM = """
    from pathlib import Path
    import numpy as np, vicinal
    x = np.random.default_rng(1).standard_normal((500, 20)).astype("f4")
    result = vicinal.knn(x, x[:9], 3, threads=2)
    assert result.ids[:, 0].tolist() == list(range(9)) and result.certificate.all()
    package = Path(vicinal.__file__).parent
    libraries = {Path(line.split()[-1]) for line in open("/proc/self/maps") if ".so" in line}
    ours = {path.name: path.parent for path in libraries if path.name.startswith(("libvicinal", "libtbb", "_native"))}
    assert len(ours) == 3 and set(ours.values()) == {package}, ours
    print(package)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def into_a_closed_pipe(command):
    """How it ends whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*command, "info"], stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    return done.returncode, done.stderr


def the_command_works(python, tmp_path):
    """On the PATH and by `python -m`, from another folder, with the wheel's own libraries."""
    alone = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    run(python, "-I", "-c", "import numpy as np; np.save('x.npy', np.eye(50, 8, dtype='f4') + np.arange(50, dtype='f4')[:, None])", cwd=tmp_path)
    ends = []
    for command in ([python.parent / "vicinal"], [python, "-I", "-m", "vicinal"]):
        assert run(*command, "--version", cwd=tmp_path, env=alone).startswith("vicinal 0.")
        assert "instruction sets" in run(*command, "info", cwd=tmp_path, env=alone)
        run(*command, "knn", "x.npy", "x.npy", "-k", 3, "-o", "out.npz", cwd=tmp_path, env=alone)
        assert "50 of 50 rows right" in run(*command, "verify", "x.npy", "x.npy", "out.npz", cwd=tmp_path, env=alone)
        (tmp_path / "out.npz").unlink()
        done = subprocess.run([*command, "knn", "x.npy", "none.npy", "-k", "3"], capture_output=True, text=True, cwd=tmp_path, env=alone)
        assert done.returncode == 4 and done.stdout == "" and done.stderr.startswith("vicinal: error [IoError]: ")
        ends.append(into_a_closed_pipe(command))
    assert "recall" in run(python.parent / "vicinal", "demo", cwd=tmp_path, env=alone)
    command = next(python.parent.parent.glob("lib/python3*/site-packages/vicinal/bin/vicinal"))
    assert ends == [into_a_closed_pipe([command])] * 2
    loaded = [line.split() for line in run("ldd", command, env=alone).splitlines()]
    ours = [Path(words[2]).resolve().parent for words in loaded if words[0].startswith(("libvicinal", "libtbb", "libfmt"))]
    assert ours == [command.resolve().parents[1]] * 3 and not any("not" in words for words in loaded)
    away = command.rename(command.with_suffix(".away"))
    done = subprocess.run([python.parent / "vicinal", "info"], capture_output=True, text=True, env=alone)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("vicinal: error [Unsupported]: this build of the package has no command")
    away.rename(command)


@pytest.mark.install
def test_pip_install(tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    # Built with what .venv has: in an environment of its own, as users get it, half of the build could not be cached. And by
    # the compiler of the preset cpu under that name: Debian's Python would name another, for which ccache has nothing.
    isolated = [] if os.environ.get("VICINAL_TEST_ISOLATED") else ["--no-build-isolation"]
    pip = ["-m", "pip", "--disable-pip-version-check"]
    options = [*isolated, "--config-settings=cmake.define.VICINAL_CUDA=OFF"]  # with it: 5.3 MB, after five minutes of nvcc
    run(sys.executable, *pip, "wheel", "--no-deps", *options, "-w", tmp_path, SOURCE, env=os.environ | {"CXX": "g++"})
    wheel = next(tmp_path.glob("vicinal-*.whl"))
    assert wheel.stat().st_size < 20e6
    run(python, *pip, "install", wheel)
    package = run(python, "-I", "-c", textwrap.dedent(PROGRAM), cwd=tmp_path).strip()
    run(sys.executable, SOURCE / "scripts/check_build.py", "--paths", package)  # libraries are looked for in the package alone
    assert Path(package).is_relative_to(tmp_path)
    the_command_works(python, tmp_path)

    installed = run(python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check").split()
    assert {line.split("==")[0] for line in installed} <= {"numpy", "vicinal", "pip", "setuptools"}
    record = next(Path(package).parent.glob("vicinal-*.dist-info/RECORD")).read_text().splitlines()
    names = {line.split(",")[0] for line in record}
    assert {name.split("/")[0] for name in names} == {"vicinal", Path(package).parent.glob("vicinal-*").__next__().name, ".."}
    assert [name.split("/")[-2:] for name in names if name.startswith("..")] == [["bin", "vicinal"]]
    assert {"vicinal/py.typed", "vicinal/__init__.py", "vicinal/libvicinal.so.0", "vicinal/libtbb.so.12", "vicinal/bin/vicinal"} <= names
