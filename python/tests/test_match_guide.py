"""Guided matching against whole numbers, and COLMAP's own where it is installed."""

import pathlib

import match_oracle
import numpy as np
import pytest

import vicinal

VIEWS = pathlib.Path(__file__).resolve().parents[2] / "data" / "demo" / "views.npz"


@pytest.fixture(scope="module")
def views():
    with np.load(VIEWS) as found:
        return {name: found[name] for name in found.files}


def transfer(matrix, a, b):
    """(len(a), len(b)) pixels from where the matrix takes a to b."""
    moved = np.c_[a.astype(float), np.ones(len(a))] @ matrix.T
    with np.errstate(all="ignore"):
        return np.linalg.norm((moved[:, :2] / moved[:, 2:])[:, None] - b[None].astype(float), axis=2)


def sampson(matrix, a, b):
    """(len(a), len(b)): the root of the Sampson error."""
    first, second = np.c_[a.astype(float), np.ones(len(a))], np.c_[b.astype(float), np.ones(len(b))]
    lines, others = first @ matrix.T, second @ matrix
    with np.errstate(all="ignore"):
        return np.abs(second @ lines.T).T / np.sqrt((lines[:, :2] ** 2).sum(1)[:, None] + (others[:, :2] ** 2).sum(1)[None])


def pairs_of(ids):
    return [tuple(pair) for pair in np.asarray(ids).tolist()]


def sides(views, rows=250):
    return [views[f"{name}_{what}"][:rows] for what in ("descriptors", "places") for name in ("first", "second")]


@pytest.mark.parametrize("mutual", [True, "nearest", False])
@pytest.mark.parametrize("distance", ["euclidean", "angle"])
@pytest.mark.parametrize("by", ["homography", "fundamental"])
def test_a_guide_leaves_only_what_is_near(views, by, distance, mutual):
    a, b, places_a, places_b = sides(views)
    skew = np.array([[0, -1.0, 200], [1, 0, -300], [-200, 300, 0]])  # of an epipole: any a and H a are on one line through it
    matrix = views["homography"] if by == "homography" else skew @ views["homography"]
    error = (transfer if by == "homography" else sampson)(matrix, places_a, places_b)
    for most in (0.5, 4.0, 60.0):
        guide = dict(keypoints=(places_a, places_b), **{by: matrix}, max_error=most)
        words = dict(distance=distance, mutual=mutual, ratio=0.9)
        found = vicinal.match(a, b, guide=guide, **words)
        ids, distances = match_oracle.match(a, b, allowed=error <= most, **words)
        assert pairs_of(found.ids) == pairs_of(ids)
        np.testing.assert_allclose(found.distances, distances, rtol=1e-6)
    assert len(vicinal.match(a, b, guide=dict(keypoints=(places_a, places_b), **{by: matrix}, max_error=4.0), **words)) > 20


@pytest.mark.parametrize("lone", ["accept", "reject"])
@pytest.mark.parametrize("apart", [0.0, 10.0, 1e9])
def test_a_second_beside_the_best_is_no_rival(views, apart, lone):
    a, b, places_a, places_b = sides(views, 200)
    b, places_b = np.concatenate([b, b[:80] // 2 * 2]), np.concatenate([places_b, places_b[:80] + 3])
    found = vicinal.match(a, b, guide=dict(keypoints=(places_a, places_b), apart=apart), lone=lone)
    ids, _ = match_oracle.match(a, b, places=(places_a, places_b), apart=apart, lone=lone)
    assert pairs_of(found.ids) == pairs_of(ids)
    plain = vicinal.match(a, b, lone=lone)
    assert pairs_of(plain.ids) == pairs_of(found.ids) if apart == 0 else len(found) > len(plain) or lone == "reject"


def test_both_together_and_lists_that_grow(views):
    """A candidate may stand far back in the list of nearest rows."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 5, (40, 6), dtype=np.uint8), rng.integers(0, 5, (900, 6), dtype=np.uint8)
    places_a, places_b = rng.random((40, 2)) * 100, rng.random((900, 2)) * 100
    shift = np.array([[1.0, 0, 2], [0, 1, -3], [0, 0, 1]])
    for most in (0.3, 1.0, 5.0):
        allowed = transfer(shift, places_a, places_b) <= most
        for mutual in (True, False):
            words = dict(ratio=0.95, mutual=mutual, lone="reject")
            guide = dict(keypoints=(places_a, places_b), homography=shift, max_error=most, apart=1.0)
            ids, _ = match_oracle.match(a, b, allowed=allowed, places=(places_a, places_b), apart=1.0, **words)
            assert pairs_of(vicinal.match(a, b, guide=guide, **words).ids) == pairs_of(ids)
    floats = vicinal.match(a.astype("f4"), np.asfortranarray(b.astype("f8")), guide=guide, **words)
    assert pairs_of(floats.ids) == pairs_of(ids)


@pytest.mark.parametrize("by", ["homography", "fundamental"])
def test_colmap_itself(views, by):
    pycolmap = pytest.importorskip("pycolmap")
    a, b, places_a, places_b = sides(views, 600)
    options = pycolmap.FeatureMatchingOptions(use_gpu=False)
    options.sift.cpu_brute_force_matcher = True
    matcher = pycolmap.FeatureMatcher.create(options, pycolmap.Device.cpu)
    skew = np.array([[0, -1.0, 200], [1, 0, -300], [-200, 300, 0]])
    geometry = pycolmap.TwoViewGeometry()
    if by == "homography":
        matrix, geometry.config = views["homography"], pycolmap.TwoViewGeometryConfiguration.PLANAR
        geometry.H = matrix
    else:
        matrix, geometry.config = skew @ views["homography"], pycolmap.TwoViewGeometryConfiguration.UNCALIBRATED
        geometry.F = matrix

    def features(rows, places):
        four = np.concatenate([places, np.ones_like(places)], axis=1)
        described = pycolmap.FeatureDescriptors(type=pycolmap.FeatureExtractorType.SIFT, data=np.ascontiguousarray(rows))
        camera = pycolmap.Camera(model="SIMPLE_PINHOLE", width=600, height=400, params=[500, 300, 200])
        return pycolmap.keypoints_from_matrix(four), described, camera

    matcher.match_guided(4.0, *features(a, places_a), *features(b, places_b), geometry)
    theirs = geometry.inlier_matches
    guide = dict(keypoints=(places_a, places_b), **{by: matrix}, max_error=4.0)
    assert pairs_of(vicinal.match(a, b, preset="colmap-cpu", guide=guide).ids) == pairs_of(theirs)  # guided, it takes chords always
