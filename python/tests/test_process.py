"""How the module behaves in a process: the GIL, signals, fork, threads, memory, the floating-point state."""

import _thread
import concurrent.futures
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import oracle
import pytest
import vicinal


def endless(rng):
    """A search of minutes in 40 MB: ten million overlapping windows of one long vector."""
    corpus = np.lib.stride_tricks.sliding_window_view(rng.standard_normal(10_000_000).astype(np.float32), 96)
    return corpus, rng.standard_normal((20_000, 96)).astype(np.float32)


def run_alone(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_other_threads_run_during_a_search(rng):
    corpus, queries = endless(rng)
    ticks = 0

    def tick():
        nonlocal ticks
        for _ in range(10):
            time.sleep(0.01)
            ticks += 1
        _thread.interrupt_main()

    # A search that held the GIL would come to its end, minutes later, before the thread could interrupt it.
    thread = threading.Thread(target=tick)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        vicinal.knn(corpus, queries, 10)
    thread.join()
    assert ticks == 10


@pytest.mark.parametrize("delay", [0.01, 0.3, 1.5])
def test_ctrl_c(rng, delay):
    corpus, queries = endless(rng)
    fired = 0.0

    def interrupt():
        nonlocal fired
        time.sleep(delay)
        fired = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        vicinal.knn(corpus, queries, 10)
    stopped = time.monotonic()
    thread.join()
    assert stopped - fired < 2  # the contract says 0.1 s; this only tells a stop from a search that ran on


def test_ctrl_c_while_a_corpus_is_prepared(rng):
    corpus, _ = endless(rng)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            vicinal.Corpus(corpus, memory="20GiB")
            vicinal.knn(*endless(rng))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_a_handler_that_returns_lets_the_search_go_on(rng):
    caught = []
    previous = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    corpus, queries = rng.standard_normal((20000, 64)), rng.standard_normal((300, 64))
    try:
        expected = vicinal.knn(corpus, queries)
        signal.raise_signal(signal.SIGUSR1)
        assert oracle.same_bits(vicinal.knn(corpus, queries).ids, expected.ids)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert caught == [signal.SIGUSR1]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of Python 3.12 on, about any thread
def test_fork(small):
    corpus, queries = small
    expected = vicinal.knn(corpus, queries, 5, threads=2)
    prepared = vicinal.Corpus(corpus)
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a hang is a failure, not a wait
        result = vicinal.knn(corpus, queries, 5, threads=2)
        again = prepared.knn(queries, 5)
        os.write(writable, result.distances.tobytes() + again.ids.tobytes())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert answer == expected.distances.tobytes() + expected.ids.tobytes()


def test_one_corpus_in_many_threads(rng):
    corpus = rng.standard_normal((3000, 40)).astype(np.float32)
    prepared = vicinal.Corpus(corpus)
    batches = [rng.standard_normal((17, 40)).astype(np.float32) for _ in range(24)]
    alone = [prepared.knn(queries, 9) for queries in batches]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda queries: prepared.knn(queries, 9), batches))
    for one, other in zip(alone, together):
        assert oracle.same_bits(one.distances, other.distances) and oracle.same_bits(one.ids, other.ids)


def test_many_small_calls_do_not_grow():
    run_alone("""
        import gc, os, numpy as np, vicinal
        rng = np.random.default_rng(1)
        corpus, queries = rng.standard_normal((50, 8)).astype("f4"), rng.standard_normal((4, 8)).astype("f4")
        prepared = vicinal.Corpus(corpus)
        def calls(count):
            for i in range(count):
                a = vicinal.knn(corpus, queries, 3, progress=lambda done, total: None)
                b = prepared.knn(queries, 3)
                vicinal.merge([a, (b.distances, b.ids + 50)])
                prepared.knn(queries, 1, eligible=range(9), labels=([0] * 50, [0] * 4))
                vicinal.knn_graph(corpus, 3, symmetrize="union", eligible=corpus[:, 0] > 0)
                vicinal.range_search(corpus, queries, 3.0)[1]
                try:
                    vicinal.knn(corpus, queries[:, :3], 3)
                except vicinal.InvalidArgument:
                    pass
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        before = calls(500)
        after = calls(2000)
        assert after - before <= 1 << 20, (before, after)
    """)


def test_peak_memory_is_below_the_plan():
    """What the system counts: the high-water mark of the resident set in a search, above what was resident before it."""
    told = run_alone("""
        import numpy as np, vicinal
        rng = np.random.default_rng(1)
        x = rng.standard_normal((40_000, 48)).astype("f4")
        def kilobytes(name):
            return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
        def peak_of(search):
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the mark starts again
            before = kilobytes("VmRSS")
            result = search()
            return (kilobytes("VmHWM") - before) * 1024, result
        vicinal.knn(x[:5000], x[:50], 5)  # threads start, code is read
        for memory in ("4MiB", "1GiB"):
            for search, plan in (
                (lambda: vicinal.knn(x, x[:200], 10, memory=memory), vicinal.plan(x, x[:200], 10, memory=memory)),
                (lambda: vicinal.knn_graph(x[:5000], 10, memory=memory), vicinal.plan_graph(x[:5000], 10, memory=memory)),
            ):
                peak, result = peak_of(search)
                print(memory, peak, plan.peak_bytes, plan.budget_bytes, plan.result_bytes, result.stats.planned_bytes)
    """)
    rows = [[int(word) for word in line.split()[1:]] for line in told.splitlines()]
    assert len(rows) == 4
    for peak, planned, budget, results, stated in rows:
        assert planned <= budget and stated == planned
        assert peak <= planned + results + (1 << 20), told  # stacks of threads and the like
    assert rows[2][0] > 2 * rows[0][0], told  # where there is memory, it is used: the measure can see it


def test_peak_memory_of_an_index_is_below_its_plan():
    told = run_alone("""
        import numpy as np, vicinal
        rng = np.random.default_rng(1)
        x, few = rng.standard_normal((100_000, 16)).astype("f4"), rng.standard_normal((300, 16)).astype("f4")
        def kilobytes(name):
            return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
        def peak_of(work):
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            before = kilobytes("VmRSS")
            result = work()
            return (kilobytes("VmHWM") - before) * 1024, result
        small = vicinal.PermutationIndex(x[:5000], permutants=32, choice="farthest_first")  # threads start, code is read
        small.knn(few, 5), small.knn(few, 5, exact=True), small.knn(few[:1], 5)
        peak, index = peak_of(lambda: vicinal.PermutationIndex(x, permutants=32, choice="farthest_first", memory="14MiB"))
        print(peak, 14 << 20, 14 << 20)
        for memory, aim in (("4MiB", {"fraction": 0.01}), ("4MiB", {"exact": True}), ("16MiB", {}), ("1GiB", {"fraction": 0.01})):
            for queries in (few, few[:1]):
                plan = index.plan(len(queries), memory=memory, **aim)
                peak, result = peak_of(lambda: index.knn(queries, memory=memory, **aim))
                assert result.stats.planned_bytes == plan.peak_bytes
                print(peak, plan.peak_bytes, plan.budget_bytes)
        try:
            index.plan(1, recall=0.9, memory="4MiB")
        except vicinal.MemoryBudget as error:
            print(0, 0, 0, error)
    """)
    rows = [[int(word) for word in line.split()[:3]] for line in told.splitlines()]
    assert len(rows) == 10, told
    for peak, planned, budget in rows:
        assert planned <= budget and peak <= planned + (1 << 20), told
    assert "give a fraction" in told
    assert rows[7][0] > 1.5 * rows[1][0], told  # where there is memory, it is used: the measure can see it


def test_large_results_are_given_back():
    run_alone("""
        import ctypes, os, numpy as np, vicinal
        rng = np.random.default_rng(1)
        corpus, queries = rng.standard_normal((1000, 4)).astype("f4"), rng.standard_normal((1000, 4)).astype("f4")
        def resident():
            ctypes.CDLL(None).malloc_trim(0)  # what is free, the C library may keep
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        kept = [vicinal.knn(corpus, queries, 1000).distances for _ in range(3)]
        before = resident()
        kept += [vicinal.knn(corpus, queries, 1000).distances for _ in range(10)]
        held = resident() - before
        assert held < 10 * 1000 * 1000 * 4 * 1.25, held  # distances alone: the ids (twice that) are gone
        del kept
        assert resident() < before
    """)


def test_the_floating_point_state_is_untouched():
    run_alone("""
        import sys
        import numpy as np
        state = np.geterr()
        import vicinal
        def fine():
            tiny = float("1e-310")
            assert tiny * 1.0 != 0 and np.float64(tiny) * np.float64(0.5) != 0
            assert (np.full(64, 1e-310) * 0.5 != 0).all()
            assert (np.full(64, np.float32(1e-40)) * np.float32(0.5) != 0).all()
            assert 1.0 + 2.0**-53 == 1.0 and np.geterr() == state
        fine()
        x = np.random.default_rng(1).standard_normal((2000, 16)).astype("f4")
        for metric in ("euclidean", "cosine", "inner_product"):
            vicinal.knn(x, x, 5, metric, threads=2)
        fine()
    """)


def test_subnormals_are_values():
    corpus = np.array([[3e-310], [1e-310], [0.0]])
    distances, ids = vicinal.knn(corpus, np.array([[9e-311]]), 3, "l1")
    assert ids.tolist() == [[1, 2, 0]] and (distances > 0).all()


def test_an_array_that_changes_during_the_search_does_no_harm():
    run_alone("""
        import threading
        import numpy as np, vicinal
        rng = np.random.default_rng(1)
        corpus, queries = rng.standard_normal((20000, 24)).astype("f4"), rng.standard_normal((40, 24)).astype("f4")
        values = np.array([0, 1, -1e30, 1e-40, np.inf, np.nan, 3e38], np.float32)
        done = threading.Event()
        def meddle():
            while not done.is_set():
                corpus[rng.integers(0, 20000, 50)] = rng.choice(values, (50, 24))
        thread = threading.Thread(target=meddle)
        thread.start()
        for metric in ("euclidean", "cosine", "correlation", "l1", "inner_product") * 4:
            try:
                vicinal.knn(corpus, queries, 10, metric, degenerate="one")
                vicinal.Corpus(corpus, metric, degenerate="one").knn(queries, 10)
            except vicinal.Error:
                pass
        done.set()
        thread.join()
        again = rng.standard_normal((500, 24))
        assert vicinal.knn(again, again, 1).ids[:, 0].tolist() == list(range(500))
    """)


def test_import_needs_numpy_only():
    loaded = run_alone("""
        import sys
        import numpy
        before = set(sys.modules)
        import vicinal
        print(sorted({name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
    """)
    assert eval(loaded) == ["vicinal"]
