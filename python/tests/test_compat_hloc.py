"""vicinal.compat.hloc beside hloc's rule, and its files; without h5py what needs it is not run."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import vicinal
from vicinal.compat import hloc


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
