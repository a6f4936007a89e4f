"""Where the system starts no more threads, or few: the command and the module go on with those that they get."""

import os
import resource
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from conftest import COMMAND, ROOT

NOBODY = 65534


def limited(threads):
    """Runs in the child: root has no limit on processes, so it becomes another user."""

    def prepare():
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))

    return prepare


def run(words, threads):
    try:
        return subprocess.run(words, capture_output=True, timeout=300, check=False, preexec_fn=limited(threads), text=True)
    except (subprocess.SubprocessError, PermissionError) as refused:
        pytest.skip(f"no other user here: {refused}")


@pytest.fixture
def rows():
    with tempfile.TemporaryDirectory() as folder:  # that another user may read, as those of pytest are not
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "rows.npy")
        np.save(path, np.random.default_rng(3).standard_normal((3000, 24)).astype(np.float32))
        yield path


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_command_runs_on_the_threads_that_it_gets(rows, threads):
    words = [COMMAND, "knn", rows, rows, "-k", "3", "-o", "-", "--threads"]
    done = run([*words, "4"], threads)
    assert done.returncode == 0, done.stderr
    alone = subprocess.run([*words, "1"], capture_output=True, timeout=300, check=False, text=True)
    assert done.stdout == alone.stdout
    assert done.stdout.count("\n") == 3001


def test_the_module_runs_on_the_threads_that_it_gets():
    code = f"""
import os, resource, sys
sys.path.insert(0, {str(ROOT / "build" / "python")!r})
import numpy as np
import vicinal
if os.geteuid() == 0:
    os.setgid({NOBODY})
    os.setuid({NOBODY})
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
x = np.random.default_rng(3).standard_normal((3000, 24)).astype(np.float32)
got, alone = vicinal.knn(x, x[:200], 3, threads=4), vicinal.knn(x, x[:200], 3, threads=1)
assert (got.ids == alone.ids).all() and (got.distances == alone.distances).all()
assert got.stats.threads == 1, got.stats.threads
assert any("threads" in note for note in got.stats.notes), got.stats.notes
index = vicinal.PermutationIndex(x, permutants=16, threads=4)
index.knn(x[:20], 3, exact=True, threads=4)
vicinal.select_k(x, 3, threads=4)
print("alive")
"""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
