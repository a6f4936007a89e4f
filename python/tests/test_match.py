"""Matching against loops over whole numbers and fractions: every distance, strictness, way of being mutual, and what is odd."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import vicinal


def squares(a, b):
    a, b = a.astype(np.int64), b.astype(np.int64)
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)


def best_two(table):
    """Of each row: (id, best, second or None), ties by id; Python integers."""
    for row in table.tolist():
        order = sorted(range(len(row)), key=lambda j: (row[j], j))[:2]
        yield order[0], row[order[0]], row[order[1]] if len(order) > 1 else None


def passing(table, power, ratio, strict, most, lone):
    """Of each row what it is matched with, or None: best < ratio * second of roots (power 2) or of the numbers themselves."""
    found = []
    for j, best, second in best_two(table):
        distance = math.sqrt(best) if power == 2 else float(best)
        good = most is None or distance <= most
        if good and ratio is not None:
            if second is None:
                good = lone == "accept"
            else:
                bound = Fraction(ratio) ** power * second
                good = best < bound or (best == bound and not strict)
        found.append(j if good else None)
    return found


def expected(table, power, ratio=0.8, strict=True, max_distance=None, lone="accept", mutual=True):
    if 0 in table.shape:
        return []
    ways = (power, ratio, strict, max_distance, lone)
    forth = passing(table, *ways)
    if mutual == "nearest":
        back = [j for j, *_ in best_two(table.T)]
    else:
        back = passing(table.T, *ways)
    return [[i, j] for i, j in enumerate(forth) if j is not None and (mutual is False or back[j] == i)]


def rows(rng, count, dtype=np.uint8, columns=128, spread=40):
    """Rows around few centres, many of them equal: ratios of every size, and ties."""
    low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
    centres = np.random.default_rng(7).integers(low, high, (40, columns))
    made = centres[rng.integers(0, 40, count)] + rng.integers(-spread, spread + 1, (count, columns)) * rng.integers(0, 2, (count, 1))
    return made.clip(low, high - 1).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("mutual", [True, "nearest", False])
@pytest.mark.parametrize("strict", [True, False])
def test_whole_numbers(dtype, mutual, strict):
    rng = np.random.default_rng(1)
    for n, m, columns, spread in [(200, 150, 128, 40), (33, 257, 7, 3), (64, 64, 1, 2), (100, 31, 20, 1)]:
        a, b = rows(rng, n, dtype, columns, spread), rows(rng, m, dtype, columns, spread)
        for ratio, most in [(0.8, None), (None, None), (0.75, 900.0), (1.0, None), (1.5, 3.0), (0.5, None)]:
            got = vicinal.match(a, b, ratio=ratio, max_distance=most, mutual=mutual, strict=strict)
            table = squares(a, b)
            assert got.ids.tolist() == expected(table, 2, ratio, strict, most, mutual=mutual)
            best = np.sqrt(table[got.ids[:, 0], got.ids[:, 1]].astype(np.float64)).astype(np.float32)
            assert got.distances.dtype == np.float32 and got.distances.tolist() == best.tolist()


@pytest.mark.parametrize("distance, power", [("sqeuclidean", 1), ("l1", 1), ("manhattan", 1), ("linf", 1), ("hamming", 1)])
def test_other_metrics(distance, power):
    rng = np.random.default_rng(2)
    a, b = rows(rng, 120, columns=16, spread=9), rows(rng, 90, columns=16, spread=9)
    wide = np.abs(a.astype(np.int64)[:, None] - b.astype(np.int64)[None])
    table = {
        "sqeuclidean": lambda: (wide**2).sum(-1), "l1": lambda: wide.sum(-1), "manhattan": lambda: wide.sum(-1),
        "linf": lambda: wide.max(-1), "hamming": lambda: np.unpackbits(a[:, None] ^ b[None], axis=-1).sum(-1).astype(np.int64),
    }[distance]()  # fmt: skip
    for mutual in (True, "nearest", False):
        for strict in (True, False):
            got = vicinal.match(a, b, distance=distance, mutual=mutual, strict=strict)
            assert got.ids.tolist() == expected(table, power, strict=strict, mutual=mutual)
            assert got.distances.tolist() == table[got.ids[:, 0], got.ids[:, 1]].tolist()
    assert got.distances.dtype == (np.uint32 if distance == "hamming" else np.float32)


def sift_like(rng, count):
    made = rng.gamma(0.6, 1, (count, 128))
    made = np.minimum(made / np.linalg.norm(made, axis=1, keepdims=True), 0.2)
    return np.rint(512 * made / np.linalg.norm(made, axis=1, keepdims=True)).clip(0, 255).astype(np.uint8)


def test_angle_of_sift_rows():
    rng = np.random.default_rng(3)
    a = sift_like(rng, 300)
    b = np.concatenate([a[:150].astype(np.int64) + rng.integers(-6, 7, (150, 128)), sift_like(rng, 90)]).clip(0, 255).astype(np.uint8)
    products = a.astype(np.int64) @ b.astype(np.int64).T
    angle = np.arccos(np.minimum(products / 512**2, 1))

    def one_way(products, angle):
        order = np.lexsort((np.broadcast_to(np.arange(products.shape[1]), products.shape), -products))
        lines = np.arange(len(products))
        best, second = angle[lines, order[:, 0]], angle[lines, order[:, 1]]
        return np.where((best <= 0.7) & (best < 0.8 * second), order[:, 0], -1)

    forth, back = one_way(products, angle), one_way(products.T, angle.T)
    wanted = [[i, j] for i, j in enumerate(forth.tolist()) if j >= 0 and back[j] == i]
    got = vicinal.match(a, b, distance="angle", max_distance=0.7)
    assert got.ids.tolist() == wanted and len(wanted) > 50
    np.testing.assert_allclose(got.distances, angle[got.ids[:, 0], got.ids[:, 1]], rtol=1e-6, atol=1e-9)


def test_floats_are_ranked_as_knn_ranks():
    rng = np.random.default_rng(4)
    for dtype in (np.float32, np.float64, np.float16):
        a, b = rng.normal(size=(90, 24)).astype(dtype), rng.normal(size=(70, 24)).astype(dtype)
        for distance in ("euclidean", "cosine", "correlation", "l1"):
            near, ids = vicinal.knn(b, a, k=2, metric=distance, distance_type="f64")
            wanted = [[i, int(ids[i, 0])] for i in range(90) if Fraction(near[i, 0]) < Fraction(0.95) * Fraction(near[i, 1])]
            got = vicinal.match(a, b, ratio=0.95, mutual=False, distance=distance)
            assert got.ids.tolist() == wanted
            chosen = near[got.ids[:, 0]]
            assert got.distances.tolist() == chosen[:, 0].astype(np.float64 if dtype == np.float64 else np.float32).tolist()
            assert got.ratios.tolist() == (chosen[:, 0] / chosen[:, 1]).tolist()


def test_ratios():
    a, b = np.array([[0, 0]], np.uint8), np.array([[3, 4], [0, 10], [200, 0]], np.uint8)
    one_way = vicinal.match(a, b, mutual=False)
    assert one_way.ids.tolist() == [[0, 0]] and one_way.ratios.tolist() == [0.5]
    both = vicinal.match(np.array([[0, 0], [3, 11]], np.uint8), b, ratio=None)
    # of (0, 0) 5 / 10 one way; of (3, 4) back 5 / 7
    assert both.ids.tolist() == [[0, 0], [1, 1]]
    assert both.ratios[0] == 5 / 7


def test_exact_at_the_border():
    """4 : 5 is below the double 0.8, which is more than four fifths, and 3 : 4 is not below 0.75."""
    a, b = np.array([[0]], np.uint8), np.array([[4], [5]], np.uint8)
    assert len(vicinal.match(a, b, mutual=False, ratio=0.8)) == 1
    assert len(vicinal.match(a, b, mutual=False, ratio=float(np.nextafter(0.8, 0)))) == 0
    b = np.array([[3], [4]], np.uint8)
    assert len(vicinal.match(a, b, mutual=False, ratio=0.75)) == 0
    assert len(vicinal.match(a, b, mutual=False, ratio=0.75, strict=False)) == 1


def test_equal_rows():
    a, b = np.array([[5, 5]], np.uint8), np.array([[5, 6], [1, 1], [5, 6]], np.uint8)
    for distance in ("euclidean", "sqeuclidean", "l1", "angle"):
        assert len(vicinal.match(a, b, mutual=False, distance=distance)) == 0
        assert len(vicinal.match(a, b, mutual=False, distance=distance, ratio=1.0)) == 0
        assert vicinal.match(a, b, mutual=False, distance=distance, ratio=1.0, strict=False).ids[:, 0].tolist() == [0]
    assert vicinal.match(a, b, mutual=False, ratio=None).ids.tolist() == [[0, 0]]


def test_lone_rows_and_none():
    one, many = np.array([[1, 2]], np.uint8), np.array([[9, 9], [1, 1], [30, 2]], np.uint8)
    accepted = vicinal.match(many, one, mutual=False)
    assert accepted.ids.tolist() == [[0, 0], [1, 0], [2, 0]] and accepted.ratios.tolist() == [0, 0, 0]
    assert len(vicinal.match(many, one, mutual=False, lone="reject")) == 0
    assert len(vicinal.match(many, one, mutual=False, lone="reject", ratio=None)) == 3
    assert vicinal.match(one, many).ids.tolist() == [[0, 1]]
    assert len(vicinal.match(one, many, lone="reject")) == 0
    none = np.empty((0, 2), np.uint8)
    for a, b in [(none, many), (many, none), (none, none), (np.empty((0, 0), np.uint8), many)]:
        got = vicinal.match(a, b)
        assert got.ids.shape == (0, 2) and got.ids.dtype == np.int64 and got.distances.dtype == np.float32


def test_pairs():
    rng = np.random.default_rng(5)
    images = [rows(rng, count) for count in (40, 0, 77, 1, 130)]
    every = vicinal.match_pairs(images)
    assert every.pairs.tolist() == [[i, j] for i in range(5) for j in range(i + 1, 5)]
    for p, (i, j) in enumerate(every.pairs.tolist()):
        alone = vicinal.match(images[i], images[j])
        for name in ("ids", "distances", "ratios"):
            assert getattr(every[p], name).tobytes() == getattr(alone, name).tobytes()
    assert len(every) == 10 and every.offsets[-1] == len(every.ids)
    assert vicinal.match_pairs(images, "sequential:2").pairs.tolist() == [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3], [2, 4], [3, 4]]
    chosen = vicinal.match_pairs(images, [[4, 0], [2, 2]])
    assert chosen[0].ids.tolist() == vicinal.match(images[4], images[0]).ids.tolist()
    offsets = np.cumsum([0] + [len(image) for image in images])
    ragged = vicinal.match_pairs((np.concatenate(images), offsets))
    assert ragged.ids.tobytes() == every.ids.tobytes() and ragged.offsets.tolist() == every.offsets.tolist()
    assert len(vicinal.match_pairs(images, np.empty((0, 2), np.int64))) == 0
    assert len(vicinal.match_pairs([])) == 0
    with pytest.raises(IndexError):
        every[10]


def guided_loops(table, near, first, second, ratio, apart, mutual):
    """Matches of candidates alone, by plain loops over exact squares."""

    def one_way(table, near, points):
        found = []
        for i in range(len(table)):
            js = [j for j in range(table.shape[1]) if near[i, j]]
            if not js:
                found.append(None)
                continue
            best = min(js, key=lambda j: (table[i, j], j))
            others = [int(table[i, j]) for j in js if j != best and (apart == 0 or ((points[j] - points[best]) ** 2).sum() > apart**2)]
            good = not others or int(table[i, best]) < Fraction(ratio) ** 2 * min(others)
            found.append(best if good else None)
        return found

    forth, back = one_way(table, near, second), one_way(table.T, near.T, first)
    return [[i, j] for i, j in enumerate(forth) if j is not None and (not mutual or back[j] == i)]


@pytest.mark.parametrize("mutual", [True, False])
def test_guides(mutual):
    rng = np.random.default_rng(8)
    a, b = rows(rng, 60, columns=16), rows(rng, 50, columns=16)
    first, second = rng.uniform(0, 100, (60, 2)), rng.uniform(0, 100, (50, 2)).astype(np.float32)
    table = squares(a, b)
    homography = np.array([[0.9, 0.1, 5.0], [-0.1, 1.1, 2.0], [1e-4, 2e-4, 1.0]])
    x = np.c_[first, np.ones(60)] @ homography.T
    moved = x[:, :2] / x[:, 2:]
    by_h = (((moved[:, None] - second.astype(float)[None]) ** 2).sum(-1)) <= 30.0**2
    fundamental = rng.normal(size=(3, 3)) * [[1e-3, 1e-3, 0.1], [1e-3, 1e-3, 0.1], [0.1, 0.1, 3]]
    lines, y = np.c_[first, np.ones(60)] @ fundamental.T, np.c_[second.astype(float), np.ones(50)]
    slopes = (y @ fundamental)[:, :2]
    by_f = (lines @ y.T) ** 2 <= 15.0**2 * ((lines[:, :2] ** 2).sum(1)[:, None] + (slopes**2).sum(1)[None])
    assert 0.02 < by_h.mean() < 0.9 and 0.02 < by_f.mean() < 0.9
    everywhere, keypoints = np.ones_like(by_h), (first, second)
    for guide, near in [
        (dict(homography=homography, max_error=30.0, keypoints=keypoints), by_h),
        (dict(fundamental=fundamental, max_error=15.0, keypoints=keypoints), by_f),
        (dict(apart=20.0, keypoints=keypoints), everywhere), ({}, everywhere),
        (dict(homography=homography, max_error=30.0, apart=15.0, keypoints=keypoints), by_h),
    ]:  # fmt: skip
        got = vicinal.match(a, b, guide=guide, mutual=mutual, ratio=0.9)
        apart = guide.get("apart", 0)
        assert got.ids.tolist() == guided_loops(table, near, first, second.astype(float), 0.9, apart, mutual)
    assert vicinal.match(a, b, guide={}, mutual=mutual, ratio=0.9).ratios.tobytes() == vicinal.match(a, b, mutual=mutual, ratio=0.9).ratios.tobytes()
    pairs = vicinal.match_pairs([a, b, a], [[0, 1], [1, 2]], ratio=0.9, mutual=mutual, guide=dict(
        homography=[homography, np.eye(3)], max_error=30.0, keypoints=[first, second, first]))  # fmt: skip
    alone = vicinal.match(a, b, ratio=0.9, mutual=mutual, guide=dict(homography=homography, max_error=30.0, keypoints=keypoints))
    assert pairs[0].ids.tobytes() == alone.ids.tobytes() and pairs[0].ratios.tobytes() == alone.ratios.tobytes()


def test_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    a, b = rows(rng, 50), rows(rng, 60)
    got = vicinal.match(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(got.ids, torch.Tensor) and got.ids.tolist() == vicinal.match(a, b).ids.tolist()


def test_refusals():
    a = np.ones((3, 4), np.float32)
    with pytest.raises(vicinal.InvalidArgument, match="image 1 has 5 columns, image 0 has 4"):
        vicinal.match(a, np.ones((3, 5), np.float32))
    bad = a.copy()
    bad[2, 1] = np.nan
    with pytest.raises(vicinal.InvalidValue, match="^row 2 of image 1, column 1 is NaN"):
        vicinal.match_pairs([a, bad])
    zero = a * [[1], [0], [1]]
    with pytest.raises(vicinal.InvalidValue, match=r"^row 1 of image 1 is zero: cosine undefined \(1 row\); remove them$"):
        vicinal.match_pairs([a, zero], distance="cosine")
    for wrong in (0, -1.0, np.nan, np.inf):
        with pytest.raises(vicinal.InvalidArgument, match="ratio"):
            vicinal.match(a, a, ratio=wrong)
    for name, value, kind in [
        ("max_distance", -1.0, vicinal.InvalidArgument), ("distance", "inner_product", vicinal.InvalidArgument),
        ("distance", "levenshtein", vicinal.InvalidArgument), ("mutual", "both", vicinal.InvalidArgument),
        ("mutual", 3, TypeError), ("lone", "maybe", vicinal.InvalidArgument), ("strict", 1, TypeError), ("ratio", "x", TypeError),
        ("threads", -1, vicinal.InvalidArgument), ("guide", 1, TypeError), ("guide", {"else": 1}, vicinal.InvalidArgument),
        ("guide", {"homography": np.eye(2)}, vicinal.InvalidArgument), ("guide", {"homography": np.eye(3)}, vicinal.InvalidArgument),
        ("guide", {"apart": -1.0}, vicinal.InvalidArgument), ("guide", {"max_error": -1.0}, vicinal.InvalidArgument),
    ]:  # fmt: skip
        with pytest.raises(kind):
            vicinal.match(a, a, **{name: value})
    for pairs in ("exhaust", "sequential:0", "sequential:x", [[0, 2]], [[-1, 0]], [[0, 1, 2]]):
        with pytest.raises(vicinal.InvalidArgument):
            vicinal.match_pairs([a, a], pairs)
    with pytest.raises(vicinal.InvalidArgument, match="offsets"):
        vicinal.match_pairs((a, np.array([0, 4])))
    with pytest.raises(vicinal.Cancelled):
        vicinal.match(a, a, progress=lambda done, total: False)


def test_resume(tmp_path):
    """A call that was cancelled, the same call again, and once more from the pieces alone: the bytes of one without a folder."""
    rng = np.random.default_rng(4)
    around = rng.integers(0, 250, (60, 16), np.uint8)
    images = [around + rng.integers(0, 5, around.shape, np.uint8) for _ in range(14)]
    whole = vicinal.match_pairs(images, ratio=0.9)
    folder = tmp_path / "pieces"

    with pytest.raises(vicinal.Cancelled):
        vicinal.match_pairs(images, ratio=0.9, resume=folder, progress=lambda done, total: False)
    for _ in range(2):
        found = vicinal.match_pairs(images, ratio=0.9, resume=str(folder))
        for part in ("pairs", "offsets", "ids", "distances", "ratios"):
            one, other = getattr(found, part), getattr(whole, part)
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
        assert list(folder.glob("*.vicinal-piece"))
    with pytest.raises(vicinal.InvalidArgument, match=r"belongs to another search.*matching of 91 pairs of 14 images"):
        vicinal.match_pairs(images, ratio=0.8, resume=folder)
    with pytest.raises(OSError, match="cannot make the directory"):
        vicinal.match_pairs(images, resume=tmp_path / "no" / "such")
    assert whole.distances.flags.writeable and whole.ids.flags.c_contiguous
