"""A mapped input that another program shortens while the command runs: one line that names it, and the status of an IoError."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import COMMAND, ERROR_LINE

ROWS = np.random.default_rng(6).normal(size=(20000, 64)).astype(np.float32)


def save(path, rows):
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        np.savez(path, rows=rows)
    elif path.suffix == ".fvecs":
        np.hstack([np.full((len(rows), 1), rows.shape[1], np.int32).view(np.float32), rows]).tofile(path)
    else:
        path.write_bytes(np.array(rows.shape, np.uint32).tobytes() + rows.tobytes())


def cut_while_it_reads(words, path, stdin, **options):
    """Starts the command, which maps `path` and then waits for stdin; shortens the file; gives it stdin."""
    process = subprocess.Popen([COMMAND, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    for _ in range(3000):
        with open(f"/proc/{process.pid}/maps", encoding="utf-8", errors="replace") as maps:
            if os.path.basename(path) in maps.read():
                break
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    else:
        raise AssertionError("the file was never mapped")
    os.truncate(path, 8192)
    out, err = process.communicate(stdin, timeout=300)
    return process.returncode, out, err.decode()


QUERIES = "\n".join(",".join(["1"] * 64) for _ in range(40)).encode()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".fvecs", ".fbin"])
def test_a_corpus_that_is_cut(tmp_path, suffix):
    path = tmp_path / f"big{suffix}"
    save(path, ROWS)
    status, out, err = cut_while_it_reads(["knn", path, "-", "-k", 3, "-o", tmp_path / "out.npz"], path, QUERIES)
    line = ERROR_LINE.match(err)
    assert line and (status, line[1], out) == (4, "IoError", b"") and str(path) in line[2] and "cut short" in line[2]
    assert sorted(os.listdir(tmp_path)) == [path.name]  # nothing half written


@pytest.mark.parametrize("words, stdin", [
    (["range", "FILE", "-", "-r", 1], QUERIES),
    (["range", "FILE", "-", "-r", 1, "--threads", 4, "--json"], QUERIES),
    (["select", "FILE", "-k", 3, "--payload", "npy:-"], "values"),
    (["verify", "FILE", "-", "truth.npz"], QUERIES),
])
def test_every_command_that_maps(tmp_path, words, stdin):
    path = tmp_path / "big rows.npy"
    save(path, ROWS)
    np.savez(tmp_path / "truth.npz", ids=np.zeros((40, 1), np.int64), distances=np.zeros((40, 1), np.float32))
    if stdin == "values":
        np.save(tmp_path / "values.npy", np.arange(ROWS.size).reshape(ROWS.shape))
        stdin = (tmp_path / "values.npy").read_bytes()
    words = [str(path) if word == "FILE" else word for word in words]
    status, out, err = cut_while_it_reads(words, path, stdin, cwd=tmp_path)
    line = ERROR_LINE.match(err)
    assert line and (status, line[1], out) == (4, "IoError", b"") and str(path) in line[2]


def test_any_other_bus_error_stays_one(tmp_path):
    """What is no mapped file is nobody's to explain: the process dies of the signal."""
    process = subprocess.Popen([COMMAND, "knn", "-", "-", "-k", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)
    process.send_signal(signal.SIGBUS)
    assert process.wait(timeout=60) == -signal.SIGBUS
