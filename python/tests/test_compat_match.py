"""The matchers of vicinal.compat beside OpenCV, kornia and hloc's rule; what is not installed is not run."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import vicinal
from vicinal.compat import hloc, kornia, opencv


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


def by_hloc(rows0, rows1, ratio=None, distance=None, mutual=True):
    """hloc's rule in loops over products of binary64."""
    alike = rows0.astype(np.float64) @ rows1.astype(np.float64).T
    if min(alike.shape) == 1:
        ratio = None

    def one_way(alike):
        best = []
        for row in alike:
            order = np.argsort(-row, kind="stable")
            squares = 2 * (1 - row[order[:2]])
            passes = (not ratio or squares[0] <= ratio**2 * squares[1]) and (not distance or squares[0] <= distance**2)
            best.append(int(order[0]) if passes else -1)
        return best

    there, back = one_way(alike), one_way(alike.T)
    return [column if column >= 0 and (not mutual or back[column] == row) else -1 for row, column in enumerate(there)]


class TestHloc:
    @pytest.fixture
    def rows(self, rng):
        a = rng.standard_normal((50, 16))
        b = np.concatenate([a[10:40] + 0.2 * rng.standard_normal((30, 16)), rng.standard_normal((30, 16))])
        return [(one / np.linalg.norm(one, axis=1, keepdims=True)).astype(np.float32) for one in (a, b)]

    @pytest.mark.parametrize("conf", [
        {}, {"ratio_threshold": 0.8}, {"distance_threshold": 0.7}, {"ratio_threshold": 0.9, "distance_threshold": 0.9, "do_mutual_check": False},
    ])  # fmt: skip
    def test_the_rule(self, rows, conf):
        matcher = hloc.NearestNeighbor({"name": "nearest_neighbor", **conf})
        words = dict(ratio=conf.get("ratio_threshold"), distance=conf.get("distance_threshold"), mutual=conf.get("do_mutual_check", True))
        a, b = rows
        for one, two in ((a, b), (b, a), (a[:1], b), (a, b[:1]), (a[:2], b[:2])):
            found = matcher({"descriptors0": one.T[None], "descriptors1": two.T[None]})
            assert found["matches0"].tolist() == [by_hloc(one, two, **words)]
            assert found["matching_scores0"].shape == (1, len(one)) and found["matching_scores0"].dtype == np.float32
        empty = matcher({"descriptors0": a.T[None], "descriptors1": b[:0].T[None]})
        assert (empty["matches0"] == -1).all() and (empty["matching_scores0"] == 0).all()
        empty = matcher({"descriptors0": np.stack([a[:0].T] * 3), "descriptors1": np.stack([b.T] * 3)})
        assert empty["matches0"].shape == empty["matching_scores0"].shape == (3, 0)

    def test_the_preset_is_the_rule_of_unit_rows(self, rows):
        a, b = (one.astype(np.float64) for one in rows)
        a, b = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (a, b))
        matches, _ = hloc.NearestNeighbor({"ratio_threshold": 0.8}).match(a, b)
        assert [[i, j] for i, j in enumerate(matches) if j >= 0] == vicinal.match(a, b, preset="hloc").ids.tolist()

    def test_tensors(self, rows):
        torch = pytest.importorskip("torch", reason="torch is not installed: not run")
        data = {f"descriptors{i}": torch.from_numpy(one.T[None].copy()) for i, one in enumerate(rows)}
        found = hloc.NearestNeighbor({"ratio_threshold": 0.8}).eval().to("cpu")(data)
        assert found["matches0"].dtype == torch.int64 and found["matches0"][0].tolist() == by_hloc(*rows, ratio=0.8)

    def test_files(self, rows, tmp_path):
        h5py = pytest.importorskip("h5py", reason="h5py is not installed: not run")
        a, b = rows
        pictures = {"db/one.jpg": a, "two.jpg": b, "three.jpg": b[:0], "four.jpg": a[5:20]}
        with h5py.File(tmp_path / "features.h5", "w") as file:
            for name, descriptors in pictures.items():
                file.create_group(name)["descriptors"] = descriptors.T.astype(np.float16)
        (tmp_path / "pairs.txt").write_text("db/one.jpg two.jpg\ntwo.jpg db/one.jpg\n\ntwo.jpg three.jpg\ntwo.jpg four.jpg\n")
        out = tmp_path / "matches.h5"
        conf = {"output": "matches-NN", "model": {"name": "nearest_neighbor", "ratio_threshold": 0.8}}
        hloc.match_from_paths(conf, tmp_path / "pairs.txt", out, tmp_path / "features.h5")
        with h5py.File(out) as file:
            group = file["db-one.jpg"]["two.jpg"]
            assert group["matches0"].dtype == np.int16 and group["matching_scores0"].dtype == np.float16
            halves = [one.astype(np.float16) for one in (a, b)]
            assert group["matches0"][()].tolist() == by_hloc(*halves, ratio=0.8) and sorted(file["two.jpg"]) == ["four.jpg", "three.jpg"]
            assert (file["two.jpg/three.jpg/matches0"][()] == -1).all() and "db-one.jpg" not in file["two.jpg"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["features.h5", "matches.h5", "pairs.txt"]
        with h5py.File(out, "a") as file:
            file["two.jpg/four.jpg/matches0"][...] = 7
        hloc.match_from_paths(conf, tmp_path / "pairs.txt", out, tmp_path / "features.h5")
        with h5py.File(out) as file:
            assert (file["two.jpg/four.jpg/matches0"][()] == 7).all()  # it was there
        hloc.match_from_paths(conf, tmp_path / "pairs.txt", out, tmp_path / "features.h5", overwrite=True)
        with h5py.File(out) as file:
            assert not (file["two.jpg/four.jpg/matches0"][()] == 7).all()

    @pytest.fixture
    def files(self, rng, tmp_path):
        """Arguments of a call for twelve pairs, and what it finds by conf."""
        h5py = pytest.importorskip("h5py", reason="h5py is not installed: not run")
        with h5py.File(tmp_path / "features.h5", "w") as file:
            for number in range(6):
                file.create_group(f"{number}.jpg")["descriptors"] = rng.standard_normal((16, 200)).astype(np.float32)
        names = [f"{first}.jpg {second}.jpg\n" for first in range(6) for second in range(first)][:12]
        (tmp_path / "pairs.txt").write_text("".join(names))

        def read(path):
            with h5py.File(path) as file:
                return {f"{a}/{b}/{kind}": file[a][b][kind][()].tobytes() for a in file for b in file[a] for kind in file[a][b]}

        def found(conf, path):
            hloc.match_from_paths(conf, tmp_path / "pairs.txt", tmp_path / path, tmp_path / "features.h5")
            return read(tmp_path / path)

        return [tmp_path / "pairs.txt", tmp_path / "matches.h5", tmp_path / "features.h5"], read, found

    def stopped(self, monkeypatch, conf, files, after, **options):
        """The call is left when so many pairs are matched, of which four make a file."""
        calls, match = iter(range(100)), hloc.NearestNeighbor.match

        def some(self, *rows):
            if next(calls) == after:
                raise KeyboardInterrupt
            return match(self, *rows)

        with monkeypatch.context() as changed:
            changed.setattr(hloc.NearestNeighbor, "match", some)
            with pytest.raises(KeyboardInterrupt):
                hloc.match_from_paths(conf, *files, **options)

    @pytest.mark.parametrize("after", [0, 3, 6, 11])
    def test_the_same_call_goes_on(self, files, monkeypatch, after):
        paths, read, found = files
        monkeypatch.setattr(hloc, "_FLUSHED", 4)
        want = found({}, "want.h5")
        assert len(want) == 24
        self.stopped(monkeypatch, {}, paths, after)
        calls, match = [], hloc.NearestNeighbor.match
        monkeypatch.setattr(hloc.NearestNeighbor, "match", lambda self, *rows: calls.append(0) or match(self, *rows))
        hloc.match_from_paths({}, *paths)
        assert read(paths[1]) == want and len(calls) == 12 - after // 4 * 4
        assert sorted(path.name for path in paths[1].parent.iterdir()) == ["features.h5", "matches.h5", "pairs.txt", "want.h5"]

    def test_a_call_goes_on_after_kills(self, files, tmp_path):
        paths, read, found = files
        want = found({}, "want.h5")
        code = f"""if True:
            import os, signal, sys
            from vicinal.compat import hloc
            hloc._FLUSHED, match, left = 1, hloc.NearestNeighbor.match, [int(sys.argv[1])]
            def some(self, *rows):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return match(self, *rows)
            hloc.NearestNeighbor.match = some
            hloc.match_from_paths({{}}, *{[str(path) for path in paths]})
        """
        statuses = [subprocess.run([sys.executable, "-c", code, count], capture_output=True).returncode for count in ("5", "1", "100")]
        assert statuses == [-signal.SIGKILL, -signal.SIGKILL, 0] and read(paths[1]) == want

    def test_pairs_of_another_matching_are_not_taken(self, files, monkeypatch):
        paths, read, found = files
        monkeypatch.setattr(hloc, "_FLUSHED", 4)
        one, other = {"do_mutual_check": False}, {"ratio_threshold": 0.99}
        want = found(other, "want.h5")
        assert found(one, "one.h5") != want
        self.stopped(monkeypatch, one, paths, 6)
        with pytest.raises(vicinal.errors.InvalidArgument, match="matches.h5.part has pairs of another matching"):
            hloc.match_from_paths(other, *paths)
        hloc.match_from_paths(other, *paths, overwrite=True)
        assert read(paths[1]) == want
        self.stopped(monkeypatch, one, paths, 6, overwrite=True)
        (paths[1].parent / "matches.h5.part/whole").write_bytes(paths[1].read_bytes()[:1000])  # the last step, which was killed
        hloc.match_from_paths(one, *paths, overwrite=True)
        assert read(paths[1]) == found(one, "one.h5")
        self.stopped(monkeypatch, one, [paths[0], paths[1].with_name("new.h5"), paths[2]], 6)
        os.utime(paths[2], (1, 1))
        with pytest.raises(vicinal.errors.InvalidArgument, match="of another matching"):
            found(one, "new.h5")

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_files_of_others_stay(self, files, monkeypatch, overwrite):
        paths, read, found = files
        monkeypatch.setattr(hloc, "_FLUSHED", 4)
        want, folder = found({}, "want.h5"), paths[1].with_name("matches.h5.part")
        folder.mkdir()
        for name in ("7.h5", "notes.txt"):
            (folder / name).write_text("mine")
        with pytest.raises(vicinal.errors.InvalidArgument, match="is no folder of a matching"):
            hloc.match_from_paths({}, *paths, overwrite=overwrite)
        assert sorted((path.name, path.read_text()) for path in folder.iterdir()) == [("7.h5", "mine"), ("notes.txt", "mine")]
        (folder / "7.h5").unlink()
        (folder / "notes.txt").unlink()
        self.stopped(monkeypatch, {}, paths, 6, overwrite=overwrite)
        for name in ("notes.txt", "a.h5"):
            (folder / name).write_text("mine")
        hloc.match_from_paths({}, *paths, overwrite=overwrite)
        assert read(paths[1]) == want
        assert sorted((path.name, path.read_text()) for path in folder.iterdir()) == [("a.h5", "mine"), ("notes.txt", "mine")]

    def test_overwrite_keeps_what_is_not_asked_for(self, files):
        paths, read, found = files
        want = found({}, "matches.h5")
        paths[0].write_text("1.jpg 0.jpg\n")
        hloc.match_from_paths({"do_mutual_check": False}, *paths, overwrite=True)
        now = read(paths[1])
        assert {name for name in want if now[name] != want[name]} <= {"1.jpg/0.jpg/matches0", "1.jpg/0.jpg/matching_scores0"} and now != want
        assert now.keys() == want.keys()

    def test_refused(self, rows, tmp_path):
        for conf, named in (({"ratio": 0.8}, "'ratio'; it takes ratio_threshold"), ({"ratio_threshold": "x"}, "ratio_threshold")):
            with pytest.raises((vicinal.errors.InvalidArgument, TypeError), match=named):
                hloc.NearestNeighbor(conf)
        with pytest.raises(vicinal.errors.InvalidArgument, match="descriptors1 is missing"):
            hloc.NearestNeighbor({})({"descriptors0": rows[0].T[None]})
        h5py = pytest.importorskip("h5py", reason="h5py is not installed: not run")
        with h5py.File(tmp_path / "features.h5", "w") as file:
            file.create_group("one")["descriptors"] = rows[0].T
        for text, named in (("one two\n", "no descriptors of 'two'"), ("one\n", "pairs.txt:1: expected two names")):
            (tmp_path / "pairs.txt").write_text(text)
            with pytest.raises(vicinal.errors.FormatError, match=named):
                hloc.match_from_paths({}, tmp_path / "pairs.txt", tmp_path / "out.h5", tmp_path / "features.h5")
        with pytest.raises(vicinal.errors.Unsupported, match="superglue"):
            hloc.match_from_paths({"model": {"name": "superglue"}}, tmp_path / "pairs.txt", tmp_path / "out.h5", tmp_path / "features.h5")
        assert not (tmp_path / "out.h5").exists()
