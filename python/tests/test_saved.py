"""Corpora in files: the same bits after save and open, every kind of path, and what damaged files raise."""

import os
from pathlib import Path

import numpy as np
import pytest
import vicinal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "corpus.vicinal"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int8"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product", "l1"])
def test_open_answers_as_the_original(rng, path, dtype, metric):
    rows = (rng.standard_normal((300, 20)) * 20 + 50).astype(dtype)
    corpus = vicinal.Corpus(rows, metric)
    corpus.save(path)
    want = corpus.knn(rows[:9], 7)
    for copy in (False, True):
        opened = vicinal.Corpus.open(path, copy=copy, threads=2)
        assert (opened.shape, opened.dtype, opened.metric) == (corpus.shape, corpus.dtype, metric)
        got = opened.knn(rows[:9], 7)
        assert got.ids.tobytes() == want.ids.tobytes()
        assert got.distances.tobytes() == want.distances.tobytes()
        assert got.certificate.all()


def test_the_rule_for_degenerate_rows_is_saved(path):
    rows = np.array([[0, 0], [1, 0], [0, 2]], np.float32)
    vicinal.Corpus(rows, "cosine", degenerate="one").save(path)
    assert vicinal.Corpus.open(path).knn(rows, 3).distances[0].tolist() == [1, 1, 1]


def test_any_path(rng, tmp_path, monkeypatch):
    corpus = vicinal.Corpus(rng.standard_normal((10, 3)).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    odd = os.fsencode(tmp_path) + b"/\xff\xfe.vicinal"
    for path in ["a.vicinal", Path("b.vicinal"), b"c.vicinal", odd, str(tmp_path / "\N{SNOWMAN}.vicinal")]:
        corpus.save(path)
        assert len(vicinal.Corpus.open(path)) == 10
    for path in [3, None, ["a.vicinal"]]:
        with pytest.raises(TypeError, match="path must be"):
            corpus.save(path)
        with pytest.raises(TypeError, match="path must be"):
            vicinal.Corpus.open(path)


def test_what_cannot_be_saved_or_opened(rng, path):
    corpus = vicinal.Corpus(rng.standard_normal((10, 3)).astype(np.float32))
    with pytest.raises(vicinal.Unsupported, match="suffix .vicinal"):
        corpus.save(path.with_suffix(".npy"))
    with pytest.raises(vicinal.IoError) as caught:
        corpus.save(path / "nowhere.vicinal")
    assert caught.value.errno == 2
    with pytest.raises(vicinal.IoError) as caught:
        vicinal.Corpus.open(path)
    assert caught.value.errno == 2
    path.write_bytes(b"\x93NUMPY")
    with pytest.raises(vicinal.FormatError, match="not a vicinal file .first bytes 93 4E 55"):
        vicinal.Corpus.open(path)
    corpus.save(path)
    damaged = bytearray(path.read_bytes())
    damaged[330] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(vicinal.FormatError, match="section 0 block 0: checksum differs"):
        vicinal.Corpus.open(path)
    assert len(vicinal.Corpus.open(path, verify=False)) == 10
    with pytest.raises(TypeError, match="verify must be a bool"):
        vicinal.Corpus.open(path, verify=1)
    with pytest.raises(vicinal.InvalidArgument):
        vicinal.Corpus.open(path, threads=-1)


def test_a_copy_does_not_need_the_file(rng, path):
    rows = rng.standard_normal((2000, 64)).astype(np.float32)
    vicinal.Corpus(rows).save(path)
    corpus = vicinal.Corpus.open(path, copy=True)
    assert corpus.nbytes >= rows.nbytes
    os.truncate(path, 0)
    assert np.array_equal(corpus.knn(rows[:5], 1).ids[:, 0], np.arange(5))


def test_progress_and_cancelling(rng, path):
    vicinal.Corpus(rng.standard_normal((2000, 64)).astype(np.float32)).save(path)
    heard = []
    vicinal.Corpus.open(path, progress=lambda done, total: heard.append((done, total)))
    assert heard[0][0] == 0 and heard[-1][0] == heard[-1][1]
    with pytest.raises(vicinal.Cancelled):
        vicinal.Corpus.open(path, progress=lambda done, total: False)
