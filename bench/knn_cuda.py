"""Exact k-NN on a CUDA device beside torch (product and topk), in one process on the same arrays: medians of whole calls, waited for.

    python3 bench/knn_cuda.py [--repeat 7] [--only NAME] [--no-torch] > lines.csv

The case `graph` is rows against themselves, each its own neighbour. Ours is certified, sorted and stable; `prepared` is a Corpus made once (its time is printed), `one call` prepares inside. Every answer of ours is
checked against torch in fp64 on 16 queries. `by its own clock` is the time inside of the call, of few queries. Needs VICINAL_KNN_ENGINE, the path of libknn_engine.so.
"""

import argparse
import csv
import ctypes
import os
import statistics
import sys
import time

import torch

F32, U8 = 0, 4
CASES = {  # name: n, q, d, k, kind
    "k10": (1 << 20, 10240, 128, 10, "gaussian"), "k100": (1 << 20, 10240, 128, 100, "gaussian"), "k1000": (1 << 20, 10240, 128, 1000, "gaussian"),
    "u8-k100": (1 << 20, 10240, 128, 100, "u8"), "64d-k1000": (1 << 20, 10240, 64, 1000, "gaussian"),
    "offset-k10": (1 << 20, 10240, 128, 10, "offset"), "784d-u8": (100000, 100000, 784, 15, "digits"), "784d": (100000, 100000, 784, 15, "gaussian"),
    "sift10m": (10_000_000, 2048, 128, 10, "sift"), "graph": (1 << 20, 1 << 20, 128, 15, "gaussian"),
    "q1": (1_000_000, 1, 128, 10, "gaussian"), "q16": (1_000_000, 16, 128, 10, "gaussian"), "q128": (1_000_000, 128, 128, 10, "gaussian"),
    "k4096": (1 << 20, 1000, 128, 4096, "gaussian"), "k100000": (1 << 20, 100, 128, 100000, "gaussian"),
    "1000nn-64d": (1 << 20, 1000, 64, 1000, "gaussian"), "768d": (1_000_000, 1000, 768, 10, "gaussian"),
    "l1": (500_000, 4096, 128, 10, "gaussian"), "l1-u8": (500_000, 4096, 128, 10, "u8"), "linf": (500_000, 4096, 128, 10, "gaussian"),
    "heavy": (1 << 18, 2048, 128, 10, "heavy"), "clusters2": (1 << 18, 2048, 64, 10, "clusters-2"), "clusters5": (1 << 18, 2048, 64, 10, "clusters-5"),
    "equal": (1 << 18, 2048, 64, 10, "equal"), "sorted": (1 << 18, 2048, 64, 10, "sorted"),
}  # fmt: skip


def metric_of(name):
    """By the first letters of the case; euclidean where they name none."""
    return next((metric for metric in ("l1", "linf") if name.split("-")[0] == metric), "euclidean")


def make(kind, rows, d, seed):
    g = torch.Generator("cuda").manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=g, device="cuda")
    if kind == "gaussian":
        return normal(rows, d)
    if kind == "offset":
        return normal(rows, d) + 1000
    if kind == "u8":
        return torch.randint(0, 256, (rows, d), generator=g, device="cuda", dtype=torch.uint8)
    if kind in ("digits", "sift"):  # of low rank, with many zeros, as pictures and gradients are
        basis = torch.randn(24, d, generator=torch.Generator("cuda").manual_seed(1), device="cuda")
        return (normal(rows, 24) @ basis * 20 + 30 + 5 * normal(rows, d)).clamp_(0, 255).to(torch.uint8)
    if kind == "heavy":
        return normal(rows, d) / torch.rand(rows, d, generator=g, device="cuda").clamp_min(1e-6).sqrt()
    if kind.startswith("clusters"):
        centres = torch.randn(256, d, generator=torch.Generator("cuda").manual_seed(2), device="cuda")
        which = torch.randint(0, 256, (rows,), generator=g, device="cuda")
        return centres[which] + 10.0 ** -int(kind[-1]) * normal(rows, d)
    if kind == "equal":
        return torch.ones(rows, d, device="cuda")
    x = normal(rows, d)  # sorted: from far to near
    return x[x.norm(dim=1).argsort(descending=True)].contiguous()


class Engine:
    def __init__(self):
        self.lib = ctypes.CDLL(os.environ["VICINAL_KNN_ENGINE"])
        for name in ("knn_prepare", "knn_search", "knn_once", "knn_plan", "knn_select"):
            getattr(self.lib, name).restype = ctypes.c_char_p

    @staticmethod
    def say(trouble):
        if trouble:
            raise RuntimeError(trouble.decode())

    def prepare(self, x, metric="euclidean"):
        made, ms = ctypes.c_void_p(), ctypes.c_double()
        self.say(self.lib.knn_prepare(p(x), code(x), i64(x.shape[0]), i64(x.shape[1]), b"cuda", metric.encode(), ctypes.byref(ms), ctypes.byref(made)))
        return made, ms.value

    def search(self, corpus, y, k, ids, distances, metric="euclidean"):
        out = (ctypes.c_double * 8)()
        self.say(self.lib.knn_search(corpus, p(y), code(y), i64(y.shape[0]), i64(k), b"cuda", metric.encode(), p(ids), p(distances), out))
        return list(out)

    def once(self, x, y, k, ids, distances, metric="euclidean", filter=b"auto"):
        out = (ctypes.c_double * 8)()
        self.say(self.lib.knn_once(p(x), p(y), code(x), i64(x.shape[0]), i64(x.shape[1]), i64(y.shape[0]), i64(k), b"cuda", metric.encode(), filter,
                                   p(ids), p(distances), out))  # fmt: skip
        return list(out)

    def plan(self, x, y, k, metric="euclidean"):
        ms = ctypes.c_double()
        self.say(self.lib.knn_plan(p(x), p(y), code(x), i64(x.shape[0]), i64(x.shape[1]), i64(y.shape[0]), i64(k), b"cuda", metric.encode(),
                                   ctypes.byref(ms)))  # fmt: skip
        return ms.value

    def select(self, values, k, algorithm, out, columns):
        """Queued on torch's stream, which must not be the default one: there a call waits."""
        self.say(self.lib.knn_select(p(values), i64(values.shape[0]), i64(values.shape[1]), i64(values.stride(0)), i64(k), algorithm.encode(),
                                     ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), p(out), p(columns)))  # fmt: skip


def p(t):
    return ctypes.c_void_p(t.data_ptr())


def i64(v):
    return ctypes.c_int64(v)


def code(t):
    return ctypes.c_int(U8 if t.dtype == torch.uint8 else F32)


def by_torch(x, y, k, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    xx, first = (x * x).sum(1), None
    for begin in range(0, y.shape[0], 1024):
        found = torch.topk(torch.addmm(xx, y[begin : begin + 1024], x.T, alpha=-2), k, dim=1, largest=False).indices
        first = found if first is None else first
    return first


def by_sort(x, y):
    """All distances of each query, sorted, stable: some queries at a time."""
    torch.backends.cuda.matmul.allow_tf32 = False
    xx = (x * x).sum(1)
    step = max(1, (1 << 28) // x.shape[0])
    for begin in range(0, y.shape[0], step):
        torch.sort(torch.addmm(xx, y[begin : begin + step], x.T, alpha=-2), dim=1, stable=True)


def recall(found, ids):
    """Share of the neighbours that are among those found, of 64 queries."""
    return statistics.mean(torch.isin(ids[q], found[q]).double().mean().item() for q in range(0, min(found.shape[0], 64)))


def timed(call, repeat):
    """The median of calls that are waited for, in ms, and what the last one said; of ours in its first place the median of the calls' own times, which
    are 12 us and more shorter: calling from Python and waiting once more, where nothing is left to wait for, are not in them."""
    times, own, last = [], [], None
    for i in range(repeat + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        last = call()
        torch.cuda.synchronize()
        if i:
            times.append((time.perf_counter() - start) * 1e3)
            own += last[:1] if isinstance(last, list) else []
        if sum(times) > 20000:
            break
    return statistics.median(times), [statistics.median(own), *last[1:]] if own else last


DISTANCES = {"euclidean": lambda v: v.square().sum(1).sqrt(), "l1": lambda v: v.abs().sum(1), "linf": lambda v: v.abs().amax(1)}


def check(x, y, k, ids, distances, metric):
    """Whether ids and distances of some queries are those of fp64, up to what fp64's own order of summation decides."""
    wrong = 0
    for q in range(0, y.shape[0], max(1, y.shape[0] // 16)):
        d = torch.cat([DISTANCES[metric](part.double() - y[q].double()) for part in x.split(1 << 18)])
        best = torch.topk(d, min(k, 4096), largest=False).values.float()
        mine = distances[q, : best.shape[0]]
        own = d[ids[q]].float()
        wrong += int(not torch.allclose(mine, best, rtol=3e-7, atol=0) or not torch.allclose(own, distances[q], rtol=3e-7, atol=0) or ids[q].unique().numel() != k)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-torch", action="store_true")
    a = parser.parse_args()
    engine, lines = Engine(), csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["device", "case", "n", "q", "d", "k", "data", "engine", "ms", "queries_a_second", "redone", "candidates_a_query", "ranked_a_query", "wrong_of_16", "recall"])
    device = torch.cuda.get_device_name().replace(",", "")
    for name, (n, q, d, k, kind) in CASES.items():
        if a.only and name not in a.only.split(","):
            continue
        metric, x = metric_of(name), make(kind, n, d, 11)
        y = x if name == "graph" or q == n else make(kind, q, d, 12)
        ids = torch.empty(q, k, dtype=torch.int64, device="cuda")
        distances = torch.empty(q, k, dtype=torch.float32, device="cuda")

        def say(engine_name, ms, facts=None, wrong="", share=""):
            rest = ["", "", ""] if facts is None else [int(facts[2]), f"{facts[3] / q:.0f}", f"{facts[4] / q:.0f}"]
            lines.writerow([device, name, n, q, d, k, kind, engine_name, f"{ms:.3f}", f"{q / ms * 1e3:.0f}", *rest, wrong, share])
            sys.stdout.flush()

        torch.cuda.empty_cache()  # what torch keeps for itself is nobody's memory
        try:
            corpus, prepare_ms = engine.prepare(x, metric)
            engine.lib.knn_forget(corpus)
            corpus, prepare_ms = engine.prepare(x, metric)
            say("vicinal prepare", prepare_ms)
            repeat = 4 * a.repeat if q < 1000 else a.repeat if q * n < 1 << 36 else 3
            ms, facts = timed(lambda: engine.search(corpus, y, k, ids, distances, metric), repeat)
            say("vicinal prepared", ms, facts, check(x, y, k, ids, distances, metric))
            if q < 1000:
                say("vicinal prepared by its own clock", facts[0])
            ms, facts = timed(lambda: engine.once(x, y, k, ids, distances, metric), repeat)
            say("vicinal one call", ms, facts)
            engine.lib.knn_forget(corpus)
        except RuntimeError as error:
            print(name, error, file=sys.stderr)
        if a.no_torch or q * n > 1 << 36 or metric != "euclidean":
            continue
        xf, yf = x.float(), y.float()
        for tf32 in (False, True):
            ms, found = timed(lambda: by_torch(xf, yf, k, tf32), min(a.repeat, 3))
            say("torch tf32" if tf32 else "torch fp32", ms, share=f"{recall(found, ids):.4f}")
        if k > 2048:
            say("torch fp32 and a full sort", timed(lambda: by_sort(xf, yf), min(a.repeat, 3))[0])


if __name__ == "__main__":
    main()
