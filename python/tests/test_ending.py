"""The end of an interpreter, and of objects: daemon threads that search while Python ends, and cycles through what we hold."""

import concurrent.futures
import gc
import os
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest
import vicinal

HEAD = """
import atexit, os, sys, threading, time
import numpy as np
import vicinal

rng = np.random.default_rng(int(sys.argv[1]))
few, many = rng.standard_normal((300, 16)).astype(np.float32), rng.standard_normal((6000, 64)).astype(np.float32)
words = ["".join(map(chr, 97 + rng.integers(0, 26, 12))) for _ in range(4000)]
prepared = vicinal.Corpus(many)
near = vicinal.knn(many, many[:50], 10)
started = threading.Event()

def forever(call):
    def run():
        while True:
            started.set()
            call()
    threading.Thread(target=run, daemon=True).start()

def slow(done, total):
    started.set()
    time.sleep(0.02)

def stuck(done, total):
    started.set()
    time.sleep(3600)
"""
CALLS = {
    "knn": "vicinal.knn(many, many, 10, threads=2)",
    "small knn": "vicinal.knn(few, few[:3], 2)",
    "knn of integers": "vicinal.knn(many.astype(np.int64), few[:, :1].repeat(64, 1).astype(np.int32), 3)",
    "corpus": "vicinal.Corpus(many)",
    "corpus.knn": "prepared.knn(many, 10)",
    "graph": "vicinal.knn_graph(many, 5, symmetrize='union')",
    "range": "vicinal.range_search(many, many, 9.0)",
    "select": "vicinal.select_k(many, 3)",
    "verify": "vicinal.verify(many, many[:50], near)",
    "merge": "vicinal.merge([near], k=7)",
    "strings": "vicinal.knn(words, words[:200], 3, 'levenshtein')",
    "string graph": "vicinal.knn_graph(words, 3, 'levenshtein')",
    "index": "vicinal.PermutationIndex(many).knn(many[:50], 3, fraction=0.1)",
    "callable": "vicinal.PermutationIndex(few, lambda a, b: float(abs(a - b).sum()), permutants=8, fraction=0.3).knn(few, 3)",
    "slow callable": "vicinal.PermutationIndex(few, lambda a, b: slow(0, 0) or 1.0, permutants=8)",
    "stuck callable": "vicinal.PermutationIndex(few, lambda a, b: stuck(0, 0) or 1.0, permutants=8)",
    "progress": "vicinal.knn(many, many, 10, progress=lambda done, total: None)",
    "slow progress": "vicinal.knn(many, many, 10, progress=slow)",
    "stuck progress": "vicinal.knn(many, many, 10, progress=stuck)",
    "nested": "vicinal.knn(many, many, 10, progress=lambda done, total: vicinal.knn(few, few, 3) and None)",
    "info": "vicinal.info()",
    "estimator": "__import__('vicinal.neighbors').neighbors.NearestNeighbors(algorithm='brute').fit(many).kneighbors(many)",
}  # fmt: skip
RUNS = int(os.environ.get("VICINAL_ENDINGS", 2))  # of each call; a hundred of them for a change of gil.cpp


def run_alone(code, *arguments):
    program = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120)


def quiet(done):
    return (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("call", CALLS)
def test_daemon_threads_that_search_when_the_interpreter_ends(call):
    if call == "estimator":
        pytest.importorskip("sklearn", reason="scikit-learn is not installed: not run")
    threads = 1 if call.startswith("stuck") else 3
    code = HEAD + f"for _ in range({threads}): forever(lambda: {CALLS[call]})\nstarted.wait()\ntime.sleep(0.03 * int(sys.argv[1]))\n"
    for run in range(1 if call.startswith("stuck") else RUNS):
        assert quiet(run_alone(code, run)) == (0, "", "")


def test_searches_of_the_main_thread_go_on_to_the_end():
    """In functions of atexit, before and after ours, while daemon threads are stopped."""
    code = HEAD.replace("import vicinal\n", "atexit.register(lambda: last())\nimport vicinal\n") + """
def last():
    result = vicinal.knn(many, many, 10, progress=lambda done, total: None)
    print(result.certificate.all(), len(result.ids), flush=True)

atexit.register(last)
forever(lambda: vicinal.knn(many, many, 10))
started.wait()
"""
    assert quiet(run_alone(code, 1)) == (0, "True 6000\nTrue 6000\n", "")


@pytest.mark.parametrize("before", [True, False])
def test_pools_of_threads_that_are_ended_at_the_end(before):
    """Their own functions of atexit come before ours, or after, and wait for what runs."""
    pool = "import atexit\nfrom multiprocessing.pool import ThreadPool\npool = ThreadPool(3)\natexit.register(pool.terminate)\n"
    code = """
def search(_):
    started.set()
    vicinal.knn(many, many, 10)

found = pool.map_async(search, range(300))
started.wait()
time.sleep(0.05)
"""
    assert quiet(run_alone(pool + HEAD + code if before else HEAD + pool + code, 1)) == (0, "", "")


def test_threads_can_be_joined_at_the_end():
    code = """
import atexit
threads = []

@atexit.register
def join():
    for thread in threads:
        thread.join()
    print("joined")
""" + HEAD + """
for _ in range(3):
    threads.append(threading.Thread(target=lambda: [(started.set(), vicinal.knn(many, many, 10)) for _ in range(1000)], daemon=True))
    threads[-1].start()
started.wait()
time.sleep(0.05)
"""
    assert quiet(run_alone(code, 1)) == (0, "joined\n", "")


def test_executors_come_to_their_end():
    code = HEAD + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
for _ in range(4):
    pool.submit(vicinal.knn, many, many, 10).add_done_callback(lambda found: sys.stdout.write(f"{found.result().certificate.all()}\\n"))
"""
    assert quiet(run_alone(code, 1)) == (0, "True\n" * 4, "")


def test_an_exit_with_a_status_keeps_it():
    code = HEAD + "forever(lambda: vicinal.knn(many, many, 10))\nstarted.wait()\nsys.exit(7)"
    assert quiet(run_alone(code, 1)) == (7, "", "")


def test_an_exit_while_the_first_search_begins():
    """Many at once, so that a thread often loses its core where it has just given the lock back."""
    code = HEAD + "forever(lambda: vicinal.knn(many, many, 10))\nstarted.wait()\nsys.exit(7)"
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert {quiet(done) for done in pool.map(lambda _: run_alone(code, 1), range(12 * RUNS))} == {(7, "", "")}


def test_a_forked_child_ends_at_once():
    code = HEAD + """
forever(lambda: vicinal.knn(many, many, 10))
started.wait()
time.sleep(0.1)
child = os.fork()
if child == 0:
    vicinal.knn(few, few, 3)
    sys.exit(5)
assert os.waitpid(child, 0)[1] >> 8 == 5
"""
    assert quiet(run_alone(code.replace("import vicinal\n", "import vicinal, warnings; warnings.simplefilter('ignore')\n", 1), 1)) == (0, "", "")


ALIVE = {
    "index of a callable": "kept = vicinal.PermutationIndex(few, lambda a, b: float(abs(a - b).sum()), permutants=4)",
    "index of a callable, in a cycle": """
class Owner:
    def distance(self, a, b): return float(abs(a - b).sum())
kept = Owner()
kept.index = vicinal.PermutationIndex(few, kept.distance, permutants=4)
""",
    "index": "kept = vicinal.PermutationIndex(few)",
    "corpus": "kept = vicinal.Corpus(few)",
    "corpus of an array that knows it": """
class Array(np.ndarray): pass
kept = few.view(Array)
kept.corpus = vicinal.Corpus(kept)
""",
    "results": "kept = vicinal.knn(few, few, 3), vicinal.select_k(few, 2)",
    "an error with its frames": """
def stop(done, total): raise ValueError
try: vicinal.knn(many, many, 3, progress=stop)
except ValueError as error: kept = error
""",
    "everything, in builtins": "import builtins; builtins.kept = [vicinal.Corpus(few), vicinal.PermutationIndex(few, lambda a, b: 1.0, permutants=2)]",
}  # fmt: skip


@pytest.mark.parametrize("alive", ALIVE)
def test_what_is_alive_at_the_end_is_not_complained_of(alive):
    assert quiet(run_alone(HEAD + ALIVE[alive], 1)) == (0, "", "")


class Owner:
    """What a callable belongs to; it can be watched."""

    def distance(self, a, b):
        return float(abs(a - b).sum())

    def go_on(self, done, total):
        return None


class Array(np.ndarray):
    pass


def cycles():
    """Functions that tie an owner to what holds it, and return the owner."""
    x = np.random.default_rng(1).standard_normal((40, 5)).astype(np.float32)

    def index_of_a_bound_method():
        owner = Owner()
        owner.index = vicinal.PermutationIndex(x, owner.distance, permutants=4)
        owner.index.knn(x[:2], 3, exact=True)
        return owner

    def index_of_a_closure():
        owner = Owner()
        owner.index = vicinal.PermutationIndex(x, lambda a, b: owner.distance(a, b), permutants=4)
        return owner

    def index_of_objects():
        owner = Owner()
        owner.index = vicinal.PermutationIndex([owner, 1, 2, 3], lambda a, b: float(a is not b), permutants=2)
        return owner

    def corpus_of_an_array():
        owner = x.view(Array)
        owner.corpus = vicinal.Corpus(owner)
        owner.corpus.knn(x[:2], 3)
        return owner

    def index_of_an_array():
        owner = x.view(Array)
        owner.index = vicinal.PermutationIndex(owner, permutants=4)
        return owner

    def native_rows():
        owner = x.view(Array)
        owner.rows = vicinal._native.Rows.from_buffer(owner, "corpus", False)
        owner.values = vicinal._native.ValueRows.from_buffer(owner, "values", False)
        return owner

    def options_with_progress():
        owner = Owner()
        owner.options = vicinal._inputs.options(progress=owner.go_on)
        return owner

    def progress_that_raised():
        owner = Owner()

        def stop(done, total):
            raise ValueError(owner)

        try:
            vicinal.knn(x, x, 3, progress=stop)
        except ValueError as error:
            owner.error = error
        return owner

    return [one for name, one in sorted(locals().items()) if callable(one)]


@pytest.mark.parametrize("tie", cycles(), ids=lambda tie: tie.__name__)
def test_cycles_are_collected(tie):
    gc.collect()
    gone = weakref.ref(tie())
    gc.collect()
    assert gone() is None


def test_what_others_hold_is_not_collected(rng):
    x = rng.standard_normal((40, 5)).astype(np.float32)
    owner = x.view(Array)
    corpora = [vicinal.Corpus(owner), vicinal.PermutationIndex(owner, permutants=4)]
    rows = vicinal._native.Rows.from_buffer(owner, "corpus", False)
    again = [vicinal._native.Corpus(rows, vicinal._inputs.options(), False) for _ in range(3)]  # these share one buffer
    expected = corpora[0].knn(x, 3).ids.tolist()
    owner.corpora = corpora, rows, again
    gone = weakref.ref(owner)
    del owner, rows, again
    for _ in range(3):
        gc.collect()
    assert gone() is not None
    assert corpora[0].knn(x, 3).ids.tolist() == corpora[1].knn(x, 3, exact=True).ids.tolist() == expected
    gone().corpora = None  # several hold one reference to the array, so that none of them may claim it
    del corpora
    gc.collect()
    assert gone() is None


def test_collections_during_searches_of_other_threads(rng):
    x = rng.standard_normal((3000, 32)).astype(np.float32)
    prepared = vicinal.Corpus(x.view(Array))
    expected = prepared.knn(x, 5).ids
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [pool.submit(prepared.knn, x, 5) for _ in range(4)]
        while not all(one.done() for one in found):
            gc.collect()
    assert all(np.array_equal(one.result().ids, expected) for one in found)
