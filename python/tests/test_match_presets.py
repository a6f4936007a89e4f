"""The presets of vicinal.match against whole numbers, always, and against the tools themselves where they are installed.

What the tools' own rounding may decide otherwise is said in docs/matching.md; nothing of these rows is so near to a threshold.
"""

import inspect
import pathlib

import match_oracle
import numpy as np
import pytest

import vicinal
from vicinal._match_presets import PRESETS

DEMO = pathlib.Path(__file__).resolve().parents[2] / "data" / "demo" / "sift.npz"


def photographs(rows=600):
    """(name, descriptors of a distorted picture, descriptors of the picture), u8 SIFT."""
    with np.load(DEMO) as demo:
        of_rows, of_queries = demo["corpus_picture"].ravel(), demo["queries_picture"].ravel()
        for picture in range(6):
            yield f"picture {picture}", demo["queries"][of_queries == picture][:150], demo["corpus"][of_rows == picture][:rows]


def hostile():
    """(name, a, b): rows that tie, repeat, are alone or are not there."""
    rng = np.random.default_rng(4)
    small = rng.integers(1, 4, (90, 6), dtype=np.uint8)
    far = rng.integers(0, 256, (40, 128), dtype=np.uint8)
    yield "many ties", small[:50], small[30:]
    yield "all equal", np.full((7, 5), 3, np.uint8), np.full((9, 5), 3, np.uint8)
    yield "each twice", np.repeat(far, 2, 0), far[::-1]
    yield "long rows", far[:20], far[10:]
    yield "one row and many", small[:1], small[1:30]
    yield "many rows and one", small[1:30], small[:1]
    yield "one and one", small[:1], small[:1]
    yield "none and some", small[:0], small[:5]
    yield "some and none", small[:5], small[:0]


CASES = {name: (a, b) for name, a, b in [*photographs(), *hostile()]}


def pairs_of(ids):
    return [tuple(pair) for pair in np.asarray(ids).tolist()]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_the_whole_numbers(preset, case):
    a, b = CASES[case]
    if preset == "hloc" and len(b) > 200:
        a, b = a[:40], b[:200]
    if preset == "hloc" and case in ("many ties", "each twice"):
        b = b[:30]
    ids, distances = match_oracle.match(a, b, **PRESETS[preset])
    found = vicinal.match(a, b, preset=preset)
    assert pairs_of(found.ids) == pairs_of(ids)
    np.testing.assert_allclose(np.asarray(found.distances, np.float64), distances.astype(np.float64), rtol=1e-6, atol=1e-7)


def test_a_preset_is_its_keywords_and_a_keyword_wins():
    a, b = CASES["picture 0"]
    for preset, tests in PRESETS.items():
        assert list(tests) == ["distance", "ratio", "max_distance", "mutual", "strict", "lone"]
        assert set(tests) < set(inspect.signature(vicinal.match).parameters)
        by_preset, by_words = vicinal.match(a, b, preset=preset), vicinal.match(a, b, **tests)
        assert np.array_equal(by_preset.ids, by_words.ids) and np.array_equal(by_preset.distances, by_words.distances)
    strict = vicinal.match(a, b, preset="colmap", ratio=0.5)
    assert np.array_equal(strict.ids, vicinal.match(a, b, **{**PRESETS["colmap"], "ratio": 0.5}).ids)
    assert 0 < len(strict) < len(vicinal.match(a, b, preset="colmap"))
    for ratio in (0.8, 0.5):  # the first is equal to the default
        given, said = vicinal.match(a, b, preset="kornia", ratio=ratio), vicinal.match(a, b, **{**PRESETS["kornia"], "ratio": ratio})
        assert np.array_equal(given.ids, said.ids)
        assert np.array_equal(vicinal.match_pairs([a, b], preset="kornia", ratio=ratio).ids, said.ids)


def test_an_unknown_preset_names_all():
    with pytest.raises(vicinal.errors.InvalidArgument, match="bundler.*" + ".*".join(PRESETS)):
        vicinal.match(np.ones((2, 2)), np.ones((2, 2)), preset="bundler")
    with pytest.raises(TypeError, match="preset"):
        vicinal.match(np.ones((2, 2)), np.ones((2, 2)), preset=3)


@pytest.mark.parametrize("case", [name for name in CASES if CASES[name][0].shape[1] == 128])
def test_colmap_itself(case):
    pycolmap = pytest.importorskip("pycolmap")
    a, b = CASES[case]
    options = pycolmap.FeatureMatchingOptions(use_gpu=False)
    options.sift.cpu_brute_force_matcher = True
    matcher = pycolmap.FeatureMatcher.create(options, pycolmap.Device.cpu)

    def features(rows):
        places = pycolmap.keypoints_from_matrix(np.zeros((len(rows), 4), np.float32))
        return places, pycolmap.FeatureDescriptors(type=pycolmap.FeatureExtractorType.SIFT, data=np.ascontiguousarray(rows))

    theirs = matcher.match(*features(a), *features(b))
    assert pairs_of(vicinal.match(a, b, preset="colmap").ids) == pairs_of(theirs)


@pytest.mark.parametrize("case", [name for name in CASES if CASES[name][0].shape[1] == 128])
def test_colmap_through_its_database(case, tmp_path):
    """The default of COLMAP on the CPU; of 512 rows and more it is approximate, and fewer than 15 matches are dropped."""
    pycolmap = pytest.importorskip("pycolmap")
    a, b = CASES[case][0], CASES[case][1][:511]
    database = pycolmap.Database.open(str(tmp_path / "two.db"))
    camera = database.write_camera(pycolmap.Camera(model="SIMPLE_PINHOLE", width=640, height=480, params=[500, 320, 240]))
    for number, rows in enumerate((a, b)):
        image = database.write_image(pycolmap.Image(name=f"{number}.png", camera_id=camera))
        database.write_keypoints(image, np.random.default_rng(1).random((len(rows), 2), dtype=np.float32))
        descriptors = pycolmap.FeatureDescriptors(type=pycolmap.FeatureExtractorType.SIFT, data=np.ascontiguousarray(rows))
        database.write_descriptors(image, descriptors)
    database.close()
    options = pycolmap.FeatureMatchingOptions(use_gpu=False, skip_geometric_verification=True, num_threads=1)
    pycolmap.match_exhaustive(str(tmp_path / "two.db"), matching_options=options, device=pycolmap.Device.cpu)
    database = pycolmap.Database.open(str(tmp_path / "two.db"))
    theirs = pairs_of(np.asarray(database.read_matches(1, 2)).reshape(-1, 2))
    database.close()
    ours = pairs_of(vicinal.match(a, b, preset="colmap-cpu").ids)
    assert theirs == (ours if len(ours) >= 15 else [])


@pytest.mark.parametrize("case", [name for name, (a, b) in CASES.items() if len(a) and len(b)])
def test_opencv_itself(case):
    cv2 = pytest.importorskip("cv2")
    a, b = (rows.astype(np.float32) for rows in CASES[case])
    theirs = [
        (found[0].queryIdx, found[0].trainIdx)
        for found in cv2.BFMatcher(cv2.NORM_L2).knnMatch(a, b, k=2)
        if len(found) == 2 and found[0].distance < 0.75 * found[1].distance
    ]
    assert pairs_of(vicinal.match(*CASES[case], preset="opencv").ids) == theirs
    crossed = cv2.BFMatcher(cv2.NORM_L2, crossCheck=True).match(a, b)
    assert pairs_of(vicinal.match(*CASES[case], ratio=None).ids) == sorted((one.queryIdx, one.trainIdx) for one in crossed)


@pytest.mark.parametrize("detector", ["ORB_create", "AKAZE_create"])
def test_binary_descriptors_of_opencv(detector):
    cv2 = pytest.importorskip("cv2")
    make = getattr(cv2, detector, None) or getattr(getattr(cv2, "xfeatures2d", None), detector, None)
    if make is None:
        pytest.skip(f"this OpenCV has no {detector}")
    with np.load(DEMO.with_name("views.npz")) as views:
        a, b = (make().detectAndCompute(views[f"{name}_picture"], None)[1] for name in ("first", "second"))
    crossed = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True).match(a, b)
    found = vicinal.match(a, b, ratio=None, distance="hamming")
    assert pairs_of(found.ids) == sorted((one.queryIdx, one.trainIdx) for one in crossed) and len(found) > 30
    near = cv2.BFMatcher(cv2.NORM_HAMMING).knnMatch(a, b, k=2)
    passing = [(one.queryIdx, one.trainIdx) for one, two in near if one.distance < 0.75 * two.distance]
    assert pairs_of(vicinal.match(a, b, preset="opencv", distance="hamming").ids) == passing


@pytest.mark.parametrize("case", CASES)
def test_kornia_itself(case):
    kornia, torch = pytest.importorskip("kornia.feature"), pytest.importorskip("torch")
    a, b = (torch.tensor(rows.copy()).float() for rows in CASES[case])
    _, theirs = kornia.match_smnn(a, b, 0.95)
    ours = vicinal.match(a.numpy().astype(np.uint8), b.numpy().astype(np.uint8), preset="kornia")
    assert pairs_of(ours.ids) == pairs_of(theirs)


def by_hloc(a, b, ratio=0.8):
    """hloc's rule over torch's products of unit rows, in our words."""
    torch = pytest.importorskip("torch")
    unit = [torch.nn.functional.normalize(torch.tensor(rows.copy()).double(), dim=1) for rows in (a, b)]
    alike = unit[0] @ unit[1].T

    def nearest(alike):
        values, columns = alike.topk(2, dim=1)
        squares = 2 * (1 - values)
        return torch.where(squares[:, 0] <= ratio**2 * squares[:, 1], columns[:, 0], -1)

    there, back = nearest(alike), nearest(alike.T)
    return [(row, int(column)) for row, column in enumerate(there) if column >= 0 and back[column] == row]


@pytest.mark.parametrize("case", ["picture 0", "picture 3", "picture 5", "long rows"])
def test_hloc_in_torch(case):
    a, b = CASES[case]
    assert pairs_of(vicinal.match(a, b, preset="hloc").ids) == by_hloc(a, b)


def by_vlfeat(a, b, threshold=1.5):
    """vl_ubcmatch's loop: one way, the first of equal rows, no second is a huge one."""
    found = []
    for row, query in enumerate(a.astype(np.int64)):
        best, second, column = 2**31 - 1, 2**31 - 1, -1
        for other, square in enumerate(((query - b.astype(np.int64)) ** 2).sum(1).tolist()):
            if square < best:
                best, second, column = square, best, other
            elif square < second:
                second = square
        if column >= 0 and threshold * best <= second:
            found.append((row, column))
    return found


@pytest.mark.parametrize("case", CASES)
def test_vlfeat_in_a_loop(case):
    a, b = CASES[case]
    assert pairs_of(vicinal.match(a, b, preset="vlfeat").ids) == by_vlfeat(a, b)
