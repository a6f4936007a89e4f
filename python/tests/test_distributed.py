"""Searches in parts without any engine: every cut and every tree of merges has the bits of one search."""

import subprocess
import sys

import numpy as np
import pytest
import vicinal
from vicinal import distributed


def whole_numbers(rng, rows, columns=8):
    """Rows with many equal distances."""
    return rng.integers(0, 4, (rows, columns)).astype(np.float32)


def equal(left, right):
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() and a.dtype == b.dtype for a, b in zip(left, right))


def cut(x, count, rng):
    """Pieces of random sizes with the number of the first row of each."""
    borders = [0, *sorted(rng.choice(len(x) + 1, count - 1)), len(x)]
    return [(int(first), x[first:last]) for first, last in zip(borders[:-1], borders[1:]) if last > first]


def reduced(lists, rng, *arguments):
    """The root of a random tree of merges over lists in random order."""
    lists = [lists[at] for at in rng.permutation(len(lists))]
    while len(lists) > 1:
        size = int(rng.integers(2, 5))
        lists = [distributed.merge(lists[:size], *arguments), *lists[size:]]
    return lists[0]


@pytest.mark.parametrize("metric", ["euclidean", "inner_product", "cosine", "l1"])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_any_cut_and_tree_has_the_bits_of_one_search(metric, count, rng):
    corpus, queries = whole_numbers(rng, 500) + 1, whole_numbers(rng, 40) + 1
    wanted = vicinal.knn(corpus, queries, 20, metric)
    lists = [distributed.local(part, queries, first, 20, metric) for first, part in cut(corpus, count, rng)]
    root = distributed.merge([reduced(lists, rng, 20, metric)], 20, metric, pad=False, columns=500)
    assert equal(root, wanted)
    assert root.columns == 500 and root.certificate.all() and root.certificate.queries == 40 * len(lists)
    assert root.to_csr().shape == (40, 500)


@pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
@pytest.mark.parametrize("include_self", [False, True])
def test_graph_in_parts(metric, include_self, rng):
    x = whole_numbers(rng, 300)
    wanted = vicinal.knn_graph(x, 12, metric, include_self=include_self)
    found = []
    for first_query, block in cut(x, 3, rng):
        lists = [distributed.local(part, block, first, 12, metric, first_query=first_query, exclude_self=not include_self)
                 for first, part in cut(x, 4, rng)]  # fmt: skip
        found.append(distributed.merge(lists, 12, metric, pad=False))
    assert equal([np.concatenate([one[at] for one in found]) for at in range(2)], wanted)


def test_graph_with_parts_of_few_rows(rng):
    x = whole_numbers(rng, 9)
    lists = [distributed.local(x[row : row + 1], x, row, 5, exclude_self=True) for row in range(9)]
    assert equal(distributed.merge(lists, 5, pad=False), vicinal.knn_graph(x, 5))


@pytest.mark.parametrize("how", ["union", "mutual"])
def test_symmetric_graphs_in_blocks(how, rng):
    x = whole_numbers(rng, 200)
    wanted = vicinal.knn_graph(x, 6, symmetrize=how)
    lists = vicinal.knn_graph(x, 6)
    spans = [(0, 50), (50, 51), (51, 200)]
    blocks = [vicinal.Neighbors(lists.distances[a:b], lists.ids[a:b], lists.certificate, lists.stats) for a, b in spans]
    turned = [distributed.transposed(block, span[0], spans) for block, span in zip(blocks, spans)]
    found = [distributed.symmetrized(block, [edges[at] for edges in turned], how, 200) for at, block in enumerate(blocks)]
    assert np.concatenate([one.ids for one in found]).tobytes() == wanted.ids.tobytes()
    assert np.concatenate([one.distances for one in found]).tobytes() == wanted.distances.tobytes()
    assert np.concatenate([np.diff(one.offsets) for one in found]).tolist() == np.diff(wanted.offsets).tolist()


@pytest.mark.parametrize(("metric", "radius"), [("euclidean", 3.0), ("inner_product", 25.0)])
def test_ranges_in_parts(metric, radius, rng):
    corpus, queries = whole_numbers(rng, 400), whole_numbers(rng, 30)
    wanted = vicinal.range_search(corpus, queries, radius, metric)
    lists = [distributed.local_range(part, queries, radius, first, metric) for first, part in cut(corpus, 5, rng)]
    found = distributed.merge_ranges(lists, metric, columns=400)
    assert equal((found.offsets, found.distances, found.ids), (wanted.offsets, wanted.distances, wanted.ids))
    with pytest.raises(vicinal.CapacityExceeded, match=rf"has {len(wanted.ids)} matches, max_results is 3; lower the radius, or pass max_results={len(wanted.ids)}$"):
        distributed.merge_ranges(lists, metric, 3)


def test_eligible_rows_and_labels_in_parts(rng):
    corpus, queries = whole_numbers(rng, 300), whole_numbers(rng, 20)
    mask, labels = rng.random(300) < 0.3, (rng.integers(0, 3, 300), rng.integers(0, 3, 20))
    for eligible in (mask, np.flatnonzero(mask) + 1000, range(1100, 1250), slice(1100, None)):
        for pair in (None, labels):
            wanted = vicinal.knn(corpus, queries, 25, first_id=1000, eligible=eligible, labels=pair, pad=True)
            lists = []
            for first, part in cut(corpus, 4, rng):
                last = first + len(part)
                mine = distributed.eligible_part(eligible, first, last, first_id=1000)
                lists.append(distributed.local(part, queries, first + 1000, 25, eligible=mine, labels=pair and (pair[0][first:last], pair[1])))
            found = distributed.merge(lists, 25, pad=True)
            assert equal(found, wanted) and found.counts.tolist() == wanted.counts.tolist()


@pytest.mark.parametrize("eligible, kind, message", [
    (slice(0, 60, 2), vicinal.InvalidArgument, "a range of ids has step 1, got 2"),
    (range(0, 60, 2), vicinal.InvalidArgument, "a range of ids has step 1, got 2"),
    (np.ma.masked_array(np.ones(60, bool), np.arange(60) > 3), TypeError, "eligible: masked arrays are not supported"),
    (np.arange(4.0), TypeError, "eligible: expected bools or integers, got dtype float64"),
])  # fmt: skip
def test_eligible_rows_that_no_search_takes(eligible, kind, message):
    for ids in (None, np.arange(0, 30, 3)):
        with pytest.raises(kind, match=message):
            distributed.eligible_part(eligible, 0, 30, ids)
    assert distributed.eligible_part([], 0, 30).dtype == np.int64
    for span, wanted in ((range(9, 3), []), (slice(4, None), [4, 5]), (range(3, 5), [3, 4])):
        assert np.flatnonzero(distributed.eligible_part(span, None, 6, np.arange(6))).tolist() == wanted


def test_masked_rows_of_parts():
    rows = np.ma.masked_greater(np.arange(12.0).reshape(6, 2), 9)
    for part in (rows, [rows[:3], rows[3:]]):
        with pytest.raises(TypeError, match="masked arrays are not supported"):
            distributed.local(part, np.zeros((1, 2)), 0, 1)


@pytest.mark.parametrize("left, right", [
    ("i2", "u2"), ("u2", "i1"), ("i2", "i2"), ("u1", "i1"), ("f2", "i2"), ("i4", "f4"), ("u8", "i8"), ("?", "u1"),
])  # fmt: skip
def test_types_of_both_sides_are_taken_as_a_local_call_takes_them(left, right, rng, tmp_path):
    """NumPy's common type of int16 and uint16 is int32, whose distances are float64."""
    corpus, queries = (rng.integers(0, 2, (40, 3)).astype(kind) for kind in (left, right))
    wanted = vicinal.knn(corpus, queries, 5).distances.dtype
    told = distributed.plan(corpus, queries, 5)
    assert told.distance_type == {"float32": "f32", "float64": "f64"}[wanted.name]
    if "f" not in left + right:
        np.save(tmp_path / "left.npy", corpus)
        np.save(tmp_path / "right.npy", queries)
        files = distributed.described([tmp_path / "left.npy", tmp_path / "right.npy"])
        whole = [distributed.RowSlice(file, 0, 40) for file in files]
        for part in (whole, [corpus, queries]):
            assert distributed.local(part, queries, 0, 5).distances.dtype == wanted
        assert distributed.plan(files, queries, 5).distance_type == told.distance_type


def test_distances_beyond_their_type_are_the_error_of_the_whole_alone(rng, monkeypatch):
    """Two rows are beyond float32 from the first queries; from the last query all rows are."""
    corpus = np.array([[0, 0], [1, 0], [2, 0], [3e30, 0], [1e18, 0], [2e30, 0]], np.float32)
    queries = np.array([[0, 0], [1e18, 0], [5e29, 0]], np.float32)

    def found(asked, k, count, **options):
        lists = [distributed.local(part, asked, first, k, "sqeuclidean", **options) for first, part in cut(corpus, count, rng)]
        while len(lists) > 2:
            lists = [distributed.merge(lists[:2], k, "sqeuclidean", partial=True), *lists[2:]]
        return distributed.merge(lists, k, "sqeuclidean", pad=bool(options))

    for count in (2, 3, 6):
        for k, more in ((1, {}), (2, {}), (4, {}), (2, dict(eligible=range(2, 6)))):
            got = found(queries[:2], k, count, **more)
            assert equal(got, vicinal.knn(corpus, queries[:2], k, "sqeuclidean", **more)) and got.certificate.all()
        for asked, k, more in ((queries[:2], 5, {}), (queries, 1, {}), (queries[:2], 4, dict(eligible=range(2, 6)))):
            with pytest.raises(vicinal.RangeError, match="exceeds"):
                vicinal.knn(corpus, asked, k, "sqeuclidean", **more)
            with pytest.raises(vicinal.RangeError, match="sqeuclidean of its . nearest exceeds float32; use euclidean"):
                found(asked, k, count, **more)
    with pytest.raises(vicinal.RangeError):  # a product beyond the type is the nearest there is
        distributed.local(np.array([[3e30, 0]], np.float32), queries[1:], 0, 1, "inner_product")
    with pytest.raises(vicinal.RangeError):
        distributed.local(np.array([[1e200, 0]]), np.array([[1.0, 0]]), 0, 1, "cosine")
    graph = [distributed.local(part, corpus[:3], first, 1, "sqeuclidean", exclude_self=True) for first, part in cut(corpus, 3, rng)]
    assert distributed.merge(graph, 1, "sqeuclidean", pad=False).ids.tolist() == [[1], [0], [1]]


def test_integers_of_one_piece_stay_exact_or_are_refused(tmp_path):
    """Beside float32 they become float64, which holds no 2^53 + 1."""
    floats, query = np.array([[5, 0]], np.float32), np.array([[2.0**53, 0]])
    for kind, value in (("i8", 2**53 + 1), ("u8", 2**63 + 1), ("i8", 2**53 + 2)):
        integers = np.array([[1, 2], [value, 0]], kind)
        np.save(tmp_path / "integers.npy", integers)
        np.save(tmp_path / "floats.npy", floats)
        files = distributed.described([tmp_path / "floats.npy", tmp_path / "integers.npy"])
        for part in ([floats, integers], [distributed.RowSlice(file, 0, file.rows) for file in files]):
            if value % 2 == 0:
                assert distributed.local(part, query, 0, 1).distances.tolist() == [[2.0]]
                continue
            with pytest.raises(vicinal.InvalidValue, match=f"corpus row 12.*column 0 is {value}: integers beyond 2.53"):
                distributed.local(part, query, 10, 1)
            with pytest.raises(vicinal.InvalidValue, match=f"query row 2.*column 0 is {value}: integers beyond 2.53"):
                distributed.local(query, part, 0, 1)
    with pytest.raises(vicinal.InvalidValue, match="corpus row 1, column 0"):
        distributed.local([np.array([[3]]), np.array([[2**53 + 1]], np.uint64)], np.zeros((1, 1)), 0, 1)


def test_carried_integers_of_both_kinds_stay_exact(rng):
    corpus = whole_numbers(rng, 4)
    lists = [distributed.local(corpus[:2], corpus, 0, 2), distributed.local(corpus[2:], corpus, 2, 2)]
    names = np.array([2**60 + 1, 2**60 + 3], np.int64), np.array([2**60 + 5, 2**60 + 7], np.uint64)
    found = distributed.merge(lists, 4)
    carried = [distributed.carry(one, own, first) for one, own, first in zip(lists, names, (0, 2))]
    assert (distributed.merge_carried(lists, carried, found) == 2**60 + 1 + 2 * found.ids).all()
    carried[1] = carried[1] + np.uint64(2**63)
    with pytest.raises(vicinal.InvalidArgument, match="does not fit int64"):
        distributed.merge_carried(lists, carried, found)


def test_what_lists_carry_follows_the_merges(rng):
    corpus, queries = whole_numbers(rng, 300), whole_numbers(rng, 25)
    names = rng.permutation(10**12 + np.arange(300))
    lists, carried = [], []
    for first, part in cut(corpus, 6, rng):
        lists.append(distributed.local(part, queries, first, 9))
        carried.append(distributed.carry(lists[-1], names[first : first + len(part)], first))
    found = distributed.merge(lists, 9)
    assert (distributed.merge_carried(lists, carried, found) == names[found.ids]).all()


def test_verify_of_a_block_knows_the_named_rows_alone(rng):
    corpus, queries = whole_numbers(rng, 300), whole_numbers(rng, 20)
    truth = vicinal.knn(corpus, queries, 8)
    claimed = truth.ids.copy()
    claimed[3, 7] = (set(range(300)) - set(truth.ids[3])).pop()
    claimed[4, [0, 1]] = claimed[4, [1, 0]]
    claimed[5, 2] = 10**6  # a row that there is not
    wanted = vicinal.verify(corpus, queries, (truth.distances, claimed))
    parts = [distributed.gathered(part, first, truth.ids, claimed) for first, part in cut(corpus, 4, rng)]
    found = distributed.verify_block(queries, truth, (truth.distances, claimed), parts)
    for name in ("correct", "wrong", "tie_order", "distance", "recall"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert [(one.row, one.kind, one.rank) for one in found.faults] == [(one.row, one.kind, one.rank) for one in wanted.faults]
    assert equal(found.truth, truth)
    both = distributed.joined_verdict([found, found], [0, 20], truth)
    assert both.rows == 40 and both.wrong == 2 * wanted.wrong and both.faults[-1].row == wanted.faults[-1].row + 20


@pytest.mark.parametrize("eligible", [[], np.zeros(6, bool), None])
def test_verify_where_nothing_may_answer(eligible):
    corpus, queries = np.arange(12.0).reshape(6, 2), np.ones((2, 2))
    truth = vicinal.knn(corpus, queries, 2, eligible=[], pad=True)
    for claimed in (truth.ids, np.array([[-1, 7], [6, 9]])):
        wanted = vicinal.verify(corpus, queries, claimed, eligible=[])
        parts = [distributed.gathered(part, 10 + first, truth.ids, claimed) for first, part in ((0, corpus[:3]), (3, corpus[3:]))]
        found = distributed.verify_block(queries, truth, (None, np.where(claimed < 0, claimed, claimed + 10)), parts, first_id=10, eligible=eligible)
        assert (found.correct, found.wrong, found.recall) == (wanted.correct, wanted.wrong, wanted.recall) and (found.truth.ids == -1).all()


def test_plan_fits_what_a_worker_has():
    told = distributed.plan([(125_000, 64)] * 16, (5_000, 64), 20, workers=4, memory="300 MiB")
    assert told.parts[0][0] == 0 and told.parts[-1][1] == 2_000_000 and told.blocks[-1][1] == 5_000
    assert all(a[1] == b[0] for a, b in zip(told.parts[:-1], told.parts[1:]))
    assert told.task_bytes <= 300 << 20 and told.tasks >= 4 and told.tasks == len(told.parts) * len(told.blocks)
    smaller = distributed.plan([(125_000, 64)] * 16, (5_000, 64), 20, workers=4, memory="40 MiB")
    assert smaller.task_bytes <= 40 << 20 and smaller.tasks > told.tasks
    assert 8**smaller.levels >= len(smaller.parts) and "levels of 8" in str(smaller)
    # A search of little memory reads its part often: smaller parts, of which each has enough, take less time.
    tight = distributed.plan([(125_000, 64)] * 16, (5_000, 64), 20, workers=2, memory="130 MiB")
    assert tight.seconds < 4 * distributed.plan([(125_000, 64)] * 16, (5_000, 64), 20, workers=2).seconds
    assert distributed.plan((1000, 4), (0, 4)).blocks == ((0, 0),)
    assert max(last - first for first, last in distributed.plan((10**6, 8), (10**5, 8), block_rows=1000).blocks) <= 1000
    assert distributed.plan((100, 4), (5, 4), metric="hamming", dtype="uint8").distance_type == "u32"
    assert distributed.plan((100, 4), (5, 4), dtype="int64").distance_type == "f64"


def test_plan_refuses_and_says_what_would_do():
    with pytest.raises(vicinal.MemoryBudget, match="needs .* bytes.*give workers more memory"):
        distributed.plan((10**6, 64), (100, 64), memory="200 KiB")
    with pytest.raises(vicinal.MemoryBudget, match="chunk of 1000000 rows .* rechunk it to 20480 rows a chunk"):
        distributed.plan((10**6, 64), (100, 64), memory="20 MiB", chunk_rows=10**6)
    with pytest.raises(vicinal.InvalidArgument, match="corpus has 3 columns, queries have 4"):
        distributed.plan((10, 3), (10, 4))
    with pytest.raises(vicinal.InvalidArgument, match="source 1 has 4 columns, the first has 3"):
        distributed.plan([(10, 3), (10, 4)], (10, 3))
    with pytest.raises(vicinal.InvalidArgument, match="workers must be >= 1, got 0"):
        distributed.plan((10, 3), (10, 3), workers=0)


def test_tree_and_pieces():
    assert distributed.tree(1) == []
    assert distributed.tree(3, 2) == [[[0, 1], [2]], [[0, 1]]]
    assert distributed.pieces([3, 0, 4], 2, 5) == [(0, 2, 3), (2, 0, 2)]


def test_an_error_names_file_and_row(rng, tmp_path):
    rows = whole_numbers(rng, 100)
    np.save(tmp_path / "good.npy", rows)
    rows[17, 3] = np.nan
    np.save(tmp_path / "bad.npy", rows)
    files = distributed.described([tmp_path / "good.npy", tmp_path / "bad.npy"])
    part = [distributed.RowSlice(files[0], 50, 100), distributed.RowSlice(files[1], 10, 90)]
    with pytest.raises(vicinal.InvalidValue, match=r"bad\.npy row 17 \(corpus row 107\), column 3 is NaN \(1 bad row of this part\)"):
        distributed.local(part, rows[:3], 50, 5)
    with pytest.raises(vicinal.InvalidValue, match=r"^query row 217, column 3"):
        distributed.local(rows[:10], rows, 0, 5, first_query=200)


def test_no_engine_is_imported_by_vicinal():
    code = "import sys, vicinal, vicinal.distributed; print([name for name in ('dask', 'ray', 'distributed', 'pandas', 'pyarrow') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
