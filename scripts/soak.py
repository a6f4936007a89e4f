"""Mixed calls from many threads for some minutes, by hand: `.venv/bin/python scripts/soak.py --minutes 60`.

Searches of vectors, graphs, ranges, selections, strings, permutation indexes and kept or saved corpora run at once. Where arrays do not
change, every answer is compared with the bits of a call that ran alone. Beside them run calls whose arrays another thread changes (their
values are undefined, a crash is a fault), whose progress functions raise or cancel, that Ctrl-C interrupts, and forked children that search.
Memory must stay level after the first fifth. Ends with one line of counts; exit status 1 where something was wrong, or the process died.
"""

import argparse
import faulthandler
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

import vicinal

LEVEL = 48 << 20  # bytes that memory may grow by after the warm-up, for what threads and the allocator keep


class Raised(Exception):
    """What progress functions raise here."""


def bits(result):
    """Every array of a result as bytes."""
    names = ("ids", "distances", "offsets", "values", "payload")
    return tuple(np.ascontiguousarray(getattr(result, name)).tobytes() for name in names if getattr(result, name, None) is not None)


class Soak:
    def __init__(self, folder, seed, changes):
        self.changes = changes
        self.random = np.random.default_rng(seed)
        self.counts, self.faults, self.lock = Counter(), [], threading.Lock()
        self.end = 0.0
        rows = self.random.standard_normal((6000, 24)).astype("f4")
        asked = self.random.standard_normal((300, 24)).astype("f4")
        heavy = (self.random.standard_cauchy((3000, 40)) * 3).astype("f8")
        small = self.random.integers(0, 9, (4000, 3)).astype("f4")
        values = self.random.standard_normal((50, 3000)).astype("f4")
        words = ["".join(self.random.choice(list("abcd"), int(n))) for n in self.random.integers(0, 14, 1500)]
        corpus = vicinal.Corpus(rows, metric="cosine")
        corpus.save(folder / "kept.vicinal")
        opened = vicinal.Corpus.open(folder / "kept.vicinal")
        index = vicinal.PermutationIndex(rows)
        self.large = rows
        self.changing = [rows.copy(), small.copy(), heavy.copy()]

        # Each takes options of its call, and always gives the same bits.
        self.searches = {
            "knn": lambda **o: vicinal.knn(rows, asked, 10, **o),
            "knn heavy": lambda **o: vicinal.knn(heavy, heavy[:50], 3, "sqeuclidean", **o),
            "knn small": lambda **o: vicinal.knn(small, small[:900], 5, **o),
            "graph": lambda **o: vicinal.knn_graph(rows[:2000], 7, **o),
            "range": lambda **o: vicinal.range_search(rows, asked[:100], 5.0, **o),
            "strings": lambda **o: vicinal.knn(words, words[:40], 4, "levenshtein", **o),
            "corpus": lambda **o: corpus.knn(asked, 9, **o),
            "opened": lambda **o: opened.knn(asked, 9, **o),
            "index": lambda **o: index.knn(asked[:20], 5, fraction=0.1, **o),
        }
        self.others = {
            "select": lambda: vicinal.select_k(values, 20),
            "saved": lambda: vicinal.Corpus.open(folder / "kept.vicinal").knn(asked[:10], 3),
            "made": lambda: vicinal.Corpus(rows, metric="cosine").knn(asked[:10], 3),
        }
        self.known = {name: bits(call()) for name, call in {**self.searches, **self.others}.items()}

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)
        print(f"soak: {text}", file=sys.stderr, flush=True)

    def check(self, name, result):
        self.count("checked")
        if bits(result) != self.known[name]:
            self.fault(f"{name}: other bits")

    def plain(self, choose):
        name = choose.choice(sorted(self.known))
        threads = {"threads": choose.choice((0, 1, 2, 3))} if name in self.searches else {}
        self.check(name, {**self.searches, **self.others}[name](**threads))

    def stopped(self, choose):
        """A progress function that raises, or cancels, at one of its calls; before that the search may end."""
        name, calls, raises = choose.choice(sorted(self.searches)), choose.randint(1, 4), choose.random() < 0.5

        def progress(done, total):
            nonlocal calls
            calls -= 1
            if calls == 0 and raises:
                raise Raised
            return calls != 0

        try:
            self.check(name, self.searches[name](progress=progress))
        except Raised:
            self.count("raised")
        except vicinal.Cancelled:
            self.count("cancelled")

    def changed(self, choose):
        x = choose.choice(self.changing)
        try:
            choose.choice((
                lambda: vicinal.knn(x, x[:100], 5),
                lambda: vicinal.knn_graph(x[:1500], 4),
                lambda: vicinal.range_search(x, x[:30], 1.0, max_results=10**6),
                lambda: vicinal.Corpus(x).knn(x[:50], 5),
                lambda: vicinal.select_k(x[:40], 2),
            ))()  # fmt: skip
        except (vicinal.InvalidValue, vicinal.RangeError, vicinal.CapacityExceeded):  # what such values are to a search
            self.count("refused")
        else:
            self.count("changed")

    def work(self, seed):
        choose = random.Random(seed)
        while time.monotonic() < self.end:
            try:
                choose.choices((self.plain, self.stopped, self.changed), (6, 2, 2 * self.changes))[0](choose)
            except BaseException as error:
                self.fault(f"unexpected {type(error).__name__}: {error}")

    def change(self):
        """Other values in arrays that searches read; NaN and infinity for moments only, since a check that finds them ends a search at once."""
        own = np.random.default_rng(5)
        while time.monotonic() < self.end:
            for x in self.changing:
                at = own.integers(0, len(x), 50)
                x[at] = own.choice([np.nan, np.inf, -np.inf, 0, 1e30], (50, 1))
                time.sleep(own.choice([0, 1e-4]))
                x[at] = own.standard_normal((50, x.shape[1]))
            time.sleep(own.choice([1e-4, 3e-3]))

    def interrupt(self):
        """A search of the main thread that Ctrl-C ends; a signal that comes late is taken where it comes."""
        timer = threading.Timer(0.05 + 0.2 * random.random(), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while True:
                vicinal.knn_graph(self.large, 20, threads=1)
        except KeyboardInterrupt:
            self.count("interrupted")
        timer.join()

    def fork(self):
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            os._exit(0 if all(bits(self.searches[name]()) == self.known[name] for name in ("knn", "graph", "strings")) else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.count("forks")
        if status:
            self.fault(f"a forked child ended with {status}")


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(minutes, threads, seed, changes):
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us in the background has Ctrl-C ignored
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), seed, changes)
        begin = time.monotonic()
        soak.end = begin + 60 * minutes
        crew = [threading.Thread(target=soak.work, args=(seed + i,)) for i in range(threads)] + [threading.Thread(target=soak.change)]
        for one in crew:
            one.start()
        held = []  # seconds, bytes
        while time.monotonic() < soak.end:
            soak.interrupt()
            soak.fork()
            held.append((time.monotonic() - begin, resident()))
        for one in crew:
            one.join()
    warm = max([size for at, size in held if at < 12 * minutes], default=held[0][1])
    last = min([size for at, size in held if at > 54 * minutes], default=held[-1][1])
    if last > warm + LEVEL:
        soak.fault(f"memory grew from {warm >> 20} MiB to {last >> 20} MiB")
    told = ", ".join(f"{soak.counts[name]} {name}" for name in ("checked", "changed", "refused", "raised", "cancelled", "interrupted", "forks"))
    print(f"soak: {told}; {warm >> 20} MiB after warm-up, {last >> 20} MiB at the end; {len(soak.faults)} faults", flush=True)
    return int(bool(soak.faults))


def main():
    parser = argparse.ArgumentParser(description="Mixed calls from many threads for some minutes.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--still", action="store_true", help="leave out the calls whose arrays change")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return run(arguments.minutes, arguments.threads, arguments.seed, not arguments.still)
    status = subprocess.call([sys.executable, __file__, *sys.argv[1:], "--inside"])
    if status < 0:
        print(f"soak: the process died of {signal.Signals(-status).name}; 1 faults")
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())
