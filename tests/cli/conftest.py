"""Transcripts of the built command: what it prints, what it exits with, what it leaves behind.

The command is $VICINAL_COMMAND, or build/bin/vicinal of this tree. Data are small integers, so that NumPy's own
distances are exact and bits can be compared.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("VICINAL_COMMAND", str(ROOT / "build" / "bin" / "vicinal"))
ERROR_LINE = re.compile(r"\Avicinal: error \[(\w+)\]: ([^\n]+)\n\Z")


class Outcome:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout.decode(), done.stderr.decode()

    @property
    def json(self):
        """The one JSON object that stdout must be."""
        assert self.out.count("\n") == 1 and self.out.endswith("\n")
        return json.loads(self.out)

    def fails(self, status, code, pattern):
        """One line on stderr, nothing on stdout."""
        match = ERROR_LINE.match(self.err)
        assert match, f"not one error line: {self.err!r}"
        assert (self.status, match[1], self.out) == (status, code, "")
        assert re.search(pattern, match[2]), match[2]

    def succeeds(self):
        assert (self.status, self.err) == (0, "")
        return self


def call(*arguments, **options):
    words = [COMMAND] + [word if isinstance(word, bytes) else str(word) for word in arguments]
    return Outcome(subprocess.run(words, capture_output=True, timeout=300, check=False, **options))


def exact(corpus, queries, k):
    """ids and float32 euclidean distances of integer rows, by (distance, id); every step before sqrt is exact."""
    difference = queries[:, None, :].astype(np.float64) - corpus[None, :, :].astype(np.float64)
    distances = np.sqrt((difference * difference).sum(2)).astype(np.float32)
    ids = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(distances, ids, 1)


@pytest.fixture
def vicinal():
    assert os.access(COMMAND, os.X_OK), f"{COMMAND} is not built"
    return call


class Files:
    """corpus.npy and queries.npy of a case, and room beside them."""

    def __init__(self, folder, corpus, queries):
        self.folder, self.corpus, self.queries = folder, corpus, queries
        self.corpus_path = self.save("corpus.npy", corpus)
        self.queries_path = self.save("queries.npy", queries)

    def save(self, name, array):
        np.save(self.folder / name, array)
        return self.folder / name

    def path(self, name):
        return self.folder / name

    @property
    def pair(self):
        return self.corpus_path, self.queries_path

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def data(tmp_path):
    """300 rows of 24 small integers, the first ten repeated at the end so that ties are certain; 17 queries."""
    rng = np.random.default_rng(7)
    corpus = rng.integers(-9, 10, (300, 24)).astype(np.float32)
    corpus[290:] = corpus[:10]
    queries = np.concatenate([corpus[:3], rng.integers(-9, 10, (14, 24)).astype(np.float32)])
    return Files(tmp_path, corpus, queries)


def read_vecs(path, dtype):
    words = np.fromfile(path, np.int32)
    rows = words.reshape(-1, 1 + words[0])
    assert (rows[:, 0] == words[0]).all()
    return rows[:, 1:].copy().view(dtype)


def read_bin(path, dtype):
    raw = Path(path).read_bytes()
    rows, cols = np.frombuffer(raw, np.uint32, 2)
    return np.frombuffer(raw, dtype, offset=8).reshape(rows, cols)
