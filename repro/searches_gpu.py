"""The papers' figures of whole searches, on the GPU, on the papers' axes: scoring and selecting separate, in turn, and fused.

    python3 repro/searches_gpu.py [--out repro/results] [--only li_fig1] [--seconds 0.02]

Sismanis 2012: figure 3. Li and Amenta 2015: figures 1 to 3. Needs torch and VICINAL_KNN_ENGINE, the path of libknn_engine.so. One CSV a
figure, a line a point; repro/plot.py draws them. What runs:

    separate NAME      torch's product makes the distances of all rows, then our selection of that name takes the k smallest
    in turn NAME, S    the same by segments of S rows: distances of a segment, then a selection from them and the list so far
    vicinal fused      a prepared corpus, bytes on tensor cores: nothing is written but what may be in the answer; certified
    vicinal differences, vicinal canonical    the filter forced by name: f32 differences; every pair's fp64 key written, then selected
    torch              product and topk, ties in any order
Sismanis' figure times the queue of the device alone (one recorded graph a call) but for ours, which are whole calls, waited for.
"""

import os
import statistics
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "repro")]
import torch
from cuda_selections import Times, times_of
from knn_cuda import Engine, by_torch, make
from selection_gpu import Report, arguments, log2

LI_POINTS = ([(m, 100_000, 64) for m in (50, 100, 200, 400, 700, 1000)] + [(90, n, 64) for n in (50_000, 100_000, 200_000, 400_000, 700_000, 1_000_000)]
             + [(500, 100_000, d) for d in (50, 100, 200, 400, 700, 1000)])  # fmt: skip
LI_K = 1000


@contextmanager
def forced(filter):
    os.environ["VICINAL_FILTER"] = filter
    yield
    del os.environ["VICINAL_FILTER"]


def waited(call, seconds, most=20):
    """Times of a call that waits itself, by the clock."""
    torch.cuda.synchronize()
    call()
    times = []
    while len(times) < 3 or (sum(times) < seconds * 1e3 and len(times) < most):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return Times(statistics.median(times), statistics.mean(times), statistics.stdev(times), len(times))


class Search:
    """One shape: rows and queries on the device, and every way to search them."""

    def __init__(self, engine, x, y, k):
        self.engine, self.x, self.y, self.k = engine, x, y, k
        self.rows, self.n = y.shape[0], x.shape[0]
        self.squares = (x * x).sum(1)
        self.ids = torch.empty(self.rows, k, dtype=torch.int64, device="cuda")
        self.values = torch.empty(self.rows, k, device="cuda")
        self.columns = torch.empty_like(self.ids)
        self.matrix = torch.empty(self.rows, self.n, device="cuda")
        torch.cuda.synchronize()  # ours works on a stream of its own

    def distances(self, first=0, last=None, out=None):
        """Squared distances less the query's square, by the vendor's product."""
        torch.addmm(self.squares[first:last], self.y, self.x[first:last].T, alpha=-2, out=self.matrix if out is None else out)

    def select(self, algorithm):
        self.engine.select(self.matrix, self.k, algorithm, self.values, self.ids)

    def separate(self, algorithm):
        self.distances()
        self.select(algorithm)

    def in_turn(self, algorithm, segment):
        k, lines = self.k, self.lines(segment)
        lines[:, :k] = float("inf")
        for first in range(0, self.n, segment):
            last = min(self.n, first + segment)
            self.distances(first, last, lines[:, k : k + last - first])
            self.engine.select(lines[:, : k + last - first], k, algorithm, self.values, self.columns)
            self.ids.copy_(torch.where(self.columns < k, self.ids.gather(1, self.columns.clamp_max(k - 1)), self.columns + (first - k)))
            lines[:, :k] = self.values

    def lines(self, segment):
        if getattr(self, "line_of", None) != segment:
            self.line_of, self.line = segment, torch.empty(self.rows, self.k + segment, device="cuda")
        return self.line

    def prepared(self, corpus):
        self.engine.search(corpus, self.y, self.k, self.ids, self.values)

    def once(self, filter="auto"):
        self.engine.once(self.x, self.y, self.k, self.ids, self.values, filter.encode())

    def from_host(self):
        """Everything there and back."""
        host = [t.cpu().pin_memory() for t in (self.x, self.y, self.ids, self.values)]
        return lambda: self.engine.once(host[0], host[1], self.k, host[2], host[3])

    def transfer(self):
        host = [t.cpu().pin_memory() for t in (self.x, self.y, self.ids, self.values)]

        def run():
            for to, from_ in zip((self.x, self.y), host[:2], strict=True):
                to.copy_(from_, non_blocking=True)
            for to, from_ in zip(host[2:], (self.ids, self.values), strict=True):
                to.copy_(from_, non_blocking=True)

        return run


def kernels(call, names):
    """Milliseconds of the kernels whose names contain each of these, in one call."""
    from torch.profiler import ProfilerActivity, profile

    call()
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        call()
        torch.cuda.synchronize()
    total = dict.fromkeys(names, 0.0)
    for event in record.profiler.kineto_results.events():
        for name in names:
            if name in event.name() and str(event.device_type()).endswith("CUDA"):
                total[name] += event.duration_ns() / 1e6
    return total


def recorded(call):
    """The same as one graph of the device, so that the host's part costs nothing; or the call itself, where it cannot be one."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        graph.capture_begin(capture_error_mode="relaxed")
        call()
        graph.capture_end()
    except RuntimeError as error:
        print(f"not recorded: {error}", file=sys.stderr)
        return call
    return graph.replay


def once(milliseconds):
    return Times(milliseconds, milliseconds, 0, 1)


def check(search, name):
    """The answer that stands in `ids` against the product's order, of 16 queries: by distance, since equal ones may change places."""
    for q in range(0, search.rows, max(1, search.rows // 16)):
        d = (search.x.double() - search.y[q].double()).square().sum(1)
        best = torch.topk(d, search.k, largest=False).values
        mine = d[search.ids[q]].sort().values
        if not torch.allclose(mine, best, rtol=1e-4, atol=1e-4):
            raise SystemExit(f"{name}: query {q} is wrong")


def sismanis_fig3(engine, report, seconds):
    """Distances and selection apart, and in turn: one query and 128, d = 128."""
    for rows in (1, 128):
        for n in log2(10, 20):
            x, y = make("sift", n, 128, 11).float(), make("sift", rows, 128, 12).float()
            torch.cuda.synchronize()
            corpus, _ = engine.prepare(x)
            for k in (16, 64, 256, 1024):
                if k > n // 4:
                    continue
                search = Search(engine, x, y, k)
                for algorithm in ("bitonic", "auto"):
                    report.line("sismanis_fig3", rows, n, 128, k, "separate " + algorithm, times_of(recorded(lambda a=algorithm: search.separate(a)), seconds, 20))
                    for segment in (1 << 12, 1 << 14, 1 << 16, 1 << 18):
                        if k < segment < n and n // segment <= 64:
                            times = times_of(recorded(lambda a=algorithm, s=segment: search.in_turn(a, s)), seconds, 20)
                            report.line("sismanis_fig3", rows, n, 128, k, f"in turn {algorithm}, {segment}", times)
                            if n == 1 << 20:
                                check(search, f"in turn {algorithm}, {segment}")
                report.line("sismanis_fig3", rows, n, 128, k, "vicinal fused", waited(lambda: search.prepared(corpus), seconds))
                check(search, "vicinal fused")
                with forced("canonical"):
                    report.line("sismanis_fig3", rows, n, 128, k, "vicinal canonical", waited(lambda: search.prepared(corpus), seconds))
                report.line("sismanis_fig3", rows, n, 128, k, "torch", times_of(recorded(lambda: by_torch(x, y, k, False)), seconds, 20))
            engine.lib.knn_forget(corpus)


def li_data(engine, point):
    m, n, d = point
    g = torch.Generator("cuda").manual_seed(5)
    x, y = (torch.rand(count, d, generator=g, device="cuda") * 2 - 1 for count in (n, m))
    return Search(engine, x, y, LI_K)


def li_fig1(engine, report, seconds):
    """The whole time and its parts: distances, selection, transfer; and what fuses them."""
    for point in LI_POINTS:
        search = li_data(engine, point)
        say = lambda name, times: report.line("li_fig1", *point, LI_K, name, times)
        say("transfer", times_of(search.transfer(), seconds, 20))
        say("matrix", times_of(search.distances, seconds, 20))
        for algorithm in ("merge", "auto"):
            say("select " + algorithm, times_of(lambda a=algorithm: search.select(a), seconds, 20))
        corpus, _ = engine.prepare(search.x)
        say("vicinal fused", waited(lambda: search.prepared(corpus), seconds))
        check(search, "vicinal fused")
        engine.lib.knn_forget(corpus)
        say("vicinal one call", waited(search.once, seconds))
        say("vicinal one call, from host to host", waited(search.from_host(), seconds))
        for filter, name in (("f32", "vicinal differences, one call"), ("canonical", "vicinal canonical, one call")):
            say(name, waited(lambda f=filter: search.once(f), seconds))
            check(search, name)
        for tf32 in (False, True):
            say("torch tf32" if tf32 else "torch", times_of(lambda t=tf32: by_torch(search.x, search.y, LI_K, t), seconds, 20))
        torch.backends.cuda.matmul.allow_tf32 = False


def li_fig2(engine, report, _seconds):
    """Selection by merges, k = 1000: sorting chunks and merging them."""
    for point in LI_POINTS:
        if point[2] != 64:
            continue
        search = li_data(engine, point)
        search.distances()
        for name, milliseconds in kernels(lambda: search.select("merge"), ("sort_chunks", "merge_pairs", "emit")).items():
            report.line("li_fig2", *point, LI_K, name, once(milliseconds))


def li_fig3(engine, report, seconds):
    """Distances alone: a product that writes the matrix, differences that write it, and our kernels, which test instead of writing."""
    for point in LI_POINTS:
        search = li_data(engine, point)
        say = lambda name, times: report.line("li_fig3", *point, LI_K, name, times)
        for tf32 in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            say("sgemm tf32" if tf32 else "sgemm", times_of(lambda: torch.mm(search.y, search.x.T, out=search.matrix), seconds, 20))
        torch.backends.cuda.matmul.allow_tf32 = False
        say("torch cdist by differences", times_of(lambda: torch.cdist(search.y, search.x, compute_mode="donot_use_mm_for_euclid_dist"), seconds, 20))
        for filter, kernel in (("f32", "filter_float_mma"), ("int8", "filter_int8_wgmma")):
            say(f"vicinal {kernel} ({filter})", once(kernels(lambda f=filter: search.once(f), (kernel,))[kernel]))


def main():
    a = arguments(__doc__, seconds=0.01)
    report, engine, start = Report(a.out, a.commit, ("rows", "n", "d", "k")), Engine(), time.perf_counter()
    with torch.cuda.stream(torch.cuda.Stream()):
        for figure in (li_fig1, li_fig2, li_fig3, sismanis_fig3):
            if a.only in figure.__name__:
                before = time.perf_counter()
                figure(engine, report, a.seconds)
                print(f"{figure.__name__}: {time.perf_counter() - before:.1f} s", flush=True)
    print(f"in all {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
