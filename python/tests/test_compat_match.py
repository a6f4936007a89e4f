"""The matchers of vicinal.compat beside OpenCV and kornia; what is not installed is not run."""

import numpy as np
import pytest

import vicinal
from vicinal.compat import kornia, opencv


@pytest.fixture
def bytes_(rng):
    """(query, train) uint8 with many ties: sums of 32 bits are exact, ties are by row."""
    return rng.integers(0, 4, (30, 8), dtype=np.uint8), rng.integers(0, 4, (50, 8), dtype=np.uint8)


def told(matches):
    """Fields of DMatch, of lists of them too."""
    return [told(one) if isinstance(one, (tuple, list)) else (one.queryIdx, one.trainIdx, one.imgIdx, one.distance) for one in matches]


class TestOpenCV:
    @pytest.fixture
    def cv2(self):
        return pytest.importorskip("cv2", reason="OpenCV is not installed: not run")

    def both(self, cv2, norm, **words):
        return opencv.BFMatcher(getattr(opencv, norm), **words), cv2.BFMatcher(getattr(cv2, norm), **words)

    @pytest.mark.parametrize("norm", ["NORM_L1", "NORM_L2", "NORM_L2SQR", "NORM_HAMMING", "NORM_HAMMING2"])
    def test_of_uint8_all_is_equal(self, cv2, bytes_, norm):
        query, train = bytes_
        ours, theirs = self.both(cv2, norm)
        assert told(ours.match(query, train)) == told(theirs.match(query, train))
        for k in (1, 2, 7, 60):
            assert told(ours.knnMatch(query, train, k)) == told(theirs.knnMatch(query, train, k=k))
        near = sorted(one.distance for one in theirs.match(query, train))[20]
        for radius in (near, near * 1.5, 0.5):  # equal distances stand in any order there
            found, wanted = told(ours.radiusMatch(query, train, radius)), told(theirs.radiusMatch(query, train, radius))
            assert [sorted(one, key=lambda hit: (hit[3], hit[1])) for one in wanted] == found
        crossed, theirs = self.both(cv2, norm, crossCheck=True)
        assert told(crossed.match(query, train)) == told(theirs.match(query, train))
        assert told(crossed.knnMatch(query, train, 1)) == told(theirs.knnMatch(query, train, k=1))
        assert told(crossed.match(train, query)) == told(theirs.match(train, query))

    def test_of_floats_the_rows_are_equal(self, cv2, rng):
        query, train = rng.standard_normal((40, 64), dtype=np.float32), rng.standard_normal((90, 64), dtype=np.float32)
        for norm in ("NORM_L1", "NORM_L2", "NORM_L2SQR"):
            ours, theirs = self.both(cv2, norm)
            found, wanted = ours.knnMatch(query, train, 3), theirs.knnMatch(query, train, k=3)
            assert [[one[:3] for one in row] for row in told(found)] == [[one[:3] for one in row] for row in told(wanted)]
            np.testing.assert_allclose(
                [one.distance for row in found for one in row], [one.distance for row in wanted for one in row], rtol=2e-6
            )

    def test_masks(self, cv2, bytes_, rng):
        query, train = bytes_
        ours, theirs = self.both(cv2, "NORM_L2")
        mask = (rng.random((30, 50)) < 0.1).astype(np.uint8)
        mask[:5] = 0
        assert told(ours.match(query, train, mask)) == told(theirs.match(query, train, mask=mask))
        for compact in (False, True):
            found = ours.knnMatch(query, train, 3, mask=mask, compactResult=compact)
            assert told(found) == told(theirs.knnMatch(query, train, 3, mask=mask, compactResult=compact))
            found, wanted = (told(one.radiusMatch(query, train, 4.0, mask=mask, compactResult=compact)) for one in (ours, theirs))
            wanted = [one for one in wanted if one or not compact]  # theirs moves the empty lists to the end
            assert [sorted(one, key=lambda hit: (hit[3], hit[1])) for one in wanted] == found

    def test_several_train_images(self, cv2, bytes_):
        query, train = bytes_
        ours, theirs = self.both(cv2, "NORM_HAMMING")
        for matcher in (ours, theirs):
            assert matcher.empty() and matcher.isMaskSupported()
            matcher.add([train[:10], train[10:13]])
            matcher.add([train[13:]])
            matcher.train()
            assert not matcher.empty() and [len(rows) for rows in matcher.getTrainDescriptors()] == [10, 3, 37]
        assert told(ours.match(query)) == told(theirs.match(query))
        assert told(ours.knnMatch(query, k=3)) == told(theirs.knnMatch(query, k=3)) == told(ours.knnMatch(query, 3))
        masks = [np.ones((30, 10), np.uint8), np.zeros((30, 3), np.uint8), np.eye(30, 37, dtype=np.uint8)]
        assert told(ours.match(query, masks=masks)) == told(theirs.match(query, masks=masks))
        whole = [[one[1] + (0, 10, 13)[one[2]] for one in row] for row in told(ours.knnMatch(query, 20))]  # more than an image has
        assert whole == [[one[1] for one in row] for row in told(ours.knnMatch(query, train, 20))]
        kept = ours.clone()
        ours.clear()
        assert ours.empty() and not kept.empty() and told(ours.match(query)) == []

    def test_nothing_matches_nothing(self, cv2, bytes_):
        query, train = bytes_
        ours, theirs = self.both(cv2, "NORM_L2")
        for a, b in ((query, train[:0]), (query[:0], train)):
            assert ours.match(a, b) == theirs.match(a, b) and ours.knnMatch(a, b, 2) == theirs.knnMatch(a, b, 2)
        assert ours.match(query) == theirs.match(query) == ()

    def test_without_opencv_a_match_has_the_same_fields(self, bytes_):
        one = opencv.BFMatcher().match(*bytes_)[0]
        assert one.imgIdx == 0 and isinstance(one.distance, float) and one.trainIdx < 50

    def test_refused(self, bytes_):
        query, train = bytes_
        crossed = opencv.BFMatcher_create(opencv.NORM_L2, True)
        with pytest.raises(vicinal.errors.Unsupported, match="crossCheck is for k = 1"):
            crossed.knnMatch(query, train, 2)
        with pytest.raises(vicinal.errors.Unsupported, match="crossCheck is for k = 1"):
            crossed.match(query, train, np.ones((30, 50)))
        crossed.add([train, train])
        with pytest.raises(vicinal.errors.Unsupported, match="one train image"):
            crossed.match(query)
        plain = opencv.BFMatcher()
        for call, named in (
            (lambda: plain.knnMatch(query, train, 0), "k must be >= 1"),
            (lambda: plain.radiusMatch(query, train, 0.0), "maxDistance must be > 0"),
            (lambda: plain.match(query, train, np.ones((30, 49))), "mask has shape"),
            (lambda: plain.match(query, masks=[np.ones((30, 50))]), "1 masks for 0 train images"),
            (lambda: plain.match(query[0], train), "2 dimensions"),
            (lambda: opencv.BFMatcher(opencv.NORM_HAMMING).match(query.astype("f4"), train), "uint8"),
        ):
            with pytest.raises(vicinal.errors.InvalidArgument, match=named):
                call()
        with pytest.raises(vicinal.errors.Unsupported, match="normType 1 is none of"):
            opencv.BFMatcher(1)


def frames(places):
    """Local affine frames at these places."""
    found = np.zeros((1, len(places), 2, 3), np.float32)
    found[0, :, :, 2] = places
    return found


def turned(ids, by):
    """Pairs of rows in another order, as sets are compared."""
    return ids[np.argsort(ids[:, by], kind="stable")]


class TestKornia:
    @pytest.fixture
    def theirs(self):
        pytest.importorskip("torch", reason="torch is not installed: not run")
        return pytest.importorskip("kornia.feature", reason="kornia is not installed: not run")

    @pytest.fixture
    def rows(self, rng):
        """Whole numbers, whose sums of 32 bits are exact in products too."""
        a = rng.integers(0, 200, (60, 32)).astype(np.float32)
        b = np.concatenate([a[20:50] + rng.integers(-9, 10, (30, 32)), rng.integers(0, 200, (40, 32))]).astype(np.float32)
        return a, b

    def same(self, found, wanted):
        """Tensors of equal types; what is a ratio here is divided from distances that are one rounding away at most."""
        order = found[1][:, 0].argsort(stable=True), wanted[1][:, 0].argsort(stable=True)
        assert [one.dtype for one in found] == [one.dtype for one in wanted] and found[0].shape == wanted[0].shape
        assert found[1][order[0]].tolist() == wanted[1][order[1]].tolist()
        np.testing.assert_allclose(found[0][order[0]].numpy(), wanted[0][order[1]].numpy(), rtol=3e-7)

    @pytest.mark.parametrize("name, words", [("match_nn", {}), ("match_mnn", {}), ("match_snn", {"th": 0.9}), ("match_smnn", {"th": 0.9})])
    def test_both(self, theirs, rows, name, words):
        torch = pytest.importorskip("torch")
        a, b = (torch.from_numpy(one) for one in rows)
        ours, other = getattr(kornia, name), getattr(theirs, name)
        for one, two in ((a, b), (b, a), (a[:20], b[:15]), (a[:2], b[:2])):
            self.same(ours(one, two, **words), other(one, two, **words))
        matrix = torch.cdist(a.double(), b.double()).float()
        self.same(ours(a, b, **words, dm=matrix), other(a, b, **words, dm=matrix))
        for one, two in ((a[:0], b), (a[:1], b[:1]), (a, b[:1])):
            assert ours(one, two, **words)[1].shape == other(one, two, **words)[1].shape

    @pytest.mark.parametrize("mutual", [False, True])
    def test_fginn(self, theirs, rows, rng, mutual):
        torch = pytest.importorskip("torch")
        a, b = (torch.from_numpy(one) for one in rows)
        b = torch.cat([b, b[:30] + 1])  # a second nearest beside each nearest
        places = rng.random((len(rows[1]), 2)) * 300
        places = np.concatenate([places, places[:30] + 3])
        of_a, of_b = torch.from_numpy(frames(np.zeros((60, 2)))), torch.from_numpy(frames(places))
        found = kornia.match_fginn(a, b, of_a, of_b, 0.8, mutual=mutual)
        self.same(found, theirs.match_fginn(a, b, of_a, of_b, 0.8, mutual=mutual))
        assert 20 <= len(found[1]) <= 40 and len(kornia.match_snn(a, b, 0.8)[1]) < 5

    def test_arrays_without_torch(self, rows):
        a, b = rows
        distances, ids = kornia.match_nn(a, b)
        assert isinstance(ids, np.ndarray) and ids.dtype == np.int64 and distances.shape == (60, 1)
        found = vicinal.match(a, b, ratio=0.9, strict=False, lone="reject")
        ratios, ids = kornia.match_smnn(a, b, 0.9)
        np.testing.assert_array_equal(ids, found.ids)
        np.testing.assert_allclose(ratios[:, 0], found.ratios, rtol=2e-7)
        assert kornia.match_smnn(a, b[:1])[1].shape == kornia.match_snn(a[:0], b)[1].shape == (0, 2)
        for one, two in ((a, b[:0]), (a[:0], b[:0]), (a[:0], b), (a, b[:1])):
            assert kornia.match_fginn(one, two, None, frames(two[:, :2]))[1].shape == (0, 2)
        for kind, of in (("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("u1", "f4")):
            assert kornia.match_nn(a.astype(kind), b.astype(kind))[0].dtype == of
        with pytest.raises(vicinal.errors.InvalidArgument, match="dm has shape"):
            kornia.match_nn(a, b, np.zeros((3, 3), np.float32))
        with pytest.raises(vicinal.errors.InvalidArgument, match="lafs2 has 3 frames"):
            kornia.match_fginn(a, b, frames(a[:, :2]), frames(b[:3, :2]))
