"""vicinal for the ann-benchmarks: this folder goes to ann_benchmarks/algorithms/vicinal there."""

import numpy as np
import vicinal

from ..base.module import BaseANN

METRICS = {"euclidean": "euclidean", "angular": "cosine", "hamming": "hamming"}


class Vicinal(BaseANN):
    """Exact; the rows are prepared by fit, queries are answered one at a time or all at once."""

    def __init__(self, metric, memory=None):
        if metric not in METRICS:
            raise NotImplementedError(f"vicinal has no metric {metric} for vectors; it has {', '.join(METRICS)}")
        self._metric, self._memory = METRICS[metric], memory
        self.name = "vicinal()" if memory is None else f"vicinal(memory={memory})"

    def _rows(self, x):
        x = np.asarray(x)
        return np.packbits(x.astype(bool), axis=-1) if self._metric == "hamming" else x.astype(np.float32, copy=False)

    def fit(self, X):
        self._corpus = vicinal.Corpus(self._rows(X), self._metric, memory=self._memory, degenerate="one", copy=True)

    def query(self, q, n):
        return self._corpus.knn(self._rows(q)[None], n).ids[0]

    def batch_query(self, X, n):
        self._found = self._corpus.knn(self._rows(X), n)

    def get_batch_results(self):
        return self._found.ids

    def get_memory_usage(self):
        return self._corpus.nbytes / 1024

    def get_additional(self):
        return {"prepare_seconds": self._corpus.prepare_seconds}

    def done(self):
        del self._corpus
