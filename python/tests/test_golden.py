"""The golden answers of tests/golden, to the bit, whichever way they are asked for."""

from pathlib import Path

import numpy as np
import oracle
import pytest
import vicinal

FOLDER = Path(__file__).parents[2] / "tests" / "golden"
FILES = sorted(FOLDER.glob("*.npz"))


def metrics_of(data):
    names = {name[: -len("_ids")] for name in data.files if name.endswith("_ids") and not name.endswith("_f64_ids")}
    return sorted(names)


def test_golden_files_are_here():
    assert len(FILES) >= 13
    assert all(metrics_of(np.load(path)) for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path):
    data = np.load(path)
    corpus, queries = data["corpus"], data["queries"]
    for metric in metrics_of(data):
        prepared = vicinal.Corpus(corpus, metric)
        for suffix, distance_type in (("", None), ("_f64", "f64")):
            for threads in (1, 2, 7):
                result = vicinal.knn(corpus, queries, 10, metric, threads=threads, distance_type=distance_type)
                assert oracle.same_bits(result.distances, data[f"{metric}{suffix}_distances"]), (metric, threads)
                assert oracle.same_bits(result.ids, data[f"{metric}{suffix}_ids"]), (metric, threads)
            again = prepared.knn(queries, 10, distance_type=distance_type)
            assert oracle.same_bits(again.distances, data[f"{metric}{suffix}_distances"]), metric
            assert oracle.same_bits(again.ids, data[f"{metric}{suffix}_ids"]), metric
