"""`vicinal match`: databases as COLMAP's scene/database_sqlite.cc lays them out, made here by sqlite3."""

import json
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
from conftest import COMMAND, ROOT

sys.path.insert(0, str(ROOT / "python" / "tests"))
import match_oracle  # noqa: E402

TABLES = """
CREATE TABLE cameras (camera_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, model INTEGER NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
  params BLOB, prior_focal_length INTEGER NOT NULL);
CREATE TABLE images (image_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, name TEXT NOT NULL UNIQUE, camera_id INTEGER NOT NULL);
CREATE TABLE keypoints (image_id INTEGER PRIMARY KEY NOT NULL, rows INTEGER NOT NULL, cols INTEGER NOT NULL, data BLOB);
CREATE TABLE descriptors (image_id INTEGER PRIMARY KEY NOT NULL, {type} rows INTEGER NOT NULL, cols INTEGER NOT NULL, data BLOB);
CREATE TABLE matches (pair_id INTEGER PRIMARY KEY NOT NULL, rows INTEGER NOT NULL, cols INTEGER NOT NULL, data BLOB);
CREATE TABLE two_view_geometries (pair_id INTEGER PRIMARY KEY NOT NULL, rows INTEGER NOT NULL, cols INTEGER NOT NULL, data BLOB, config INTEGER NOT NULL);
"""
SIFT, ALIKED = 0, 1


def pair_id(one, other):
    return 2147483647 * min(one, other) + max(one, other)


def make(path, pictures, *, typed=True, journal="WAL"):
    """pictures: name to descriptors (None: no row), in order of image_id from 1."""
    with sqlite3.connect(path) as base:
        base.execute(f"PRAGMA journal_mode = {journal}")
        base.executescript(TABLES.format(type="type INTEGER NOT NULL," if typed else ""))
        base.execute("INSERT INTO cameras VALUES (1, 0, 640, 480, ?, 0)", (b"12345678" * 3,))
        for name, rows in pictures.items():
            (image,) = base.execute("INSERT INTO images (name, camera_id) VALUES (?, 1) RETURNING image_id", (name,)).fetchone()
            if rows is None:
                continue
            base.execute("INSERT INTO keypoints VALUES (?, ?, 2, ?)", (image, len(rows), np.zeros((len(rows), 2), np.float32).tobytes()))
            kind = (SIFT if rows.dtype == np.uint8 else ALIKED,) if typed else ()
            cells = (image, *kind, len(rows), rows.shape[1] * rows.itemsize, rows.tobytes())
            base.execute(f"INSERT INTO descriptors VALUES ({', '.join('?' * len(cells))})", cells)
    base.close()
    return path


def matches_of(path):
    """pair_id to pairs of rows."""
    base = sqlite3.connect(path)
    found = {}
    for pair, rows, cols, data in base.execute("SELECT pair_id, rows, cols, data FROM matches ORDER BY pair_id"):
        assert cols == 2 and len(data) == rows * 8
        found[pair] = [tuple(row) for row in np.frombuffer(data, "<u4").reshape(-1, 2).tolist()]
    assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    base.close()
    return found


def dump(path, *left_out):
    """Every row of every other table."""
    base = sqlite3.connect(path)
    tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") if name not in left_out]
    rows = {name: base.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    base.close()
    return rows


def expected(a, b, **tests):
    ids, _ = match_oracle.match(a, b, **{"distance": "angle", "max_distance": 0.7, **tests})
    return [tuple(pair) for pair in ids.tolist()]


def sift(seed, rows=60, of=None):
    """Rows of length 512 or so: some of `of`, a little changed."""
    rng = np.random.default_rng(seed)
    values = rng.gamma(0.7, 1.0, (rows, 128))
    values *= 512 / np.linalg.norm(values, axis=1)[:, None]
    found = np.minimum(values, 255).astype(np.uint8)
    if of is not None:
        shared = min(len(of), rows) * 2 // 3
        changed = of[rng.permutation(len(of))[:shared]].astype(int) + rng.integers(-6, 7, (shared, 128))
        found[:shared] = np.clip(changed, 0, 255)
    return np.ascontiguousarray(found[rng.permutation(rows)])


def scene():
    first = sift(1)
    return {"c.png": first, "a.png": sift(2, 70, first), "b.png": sift(3, 50, first), "empty.png": None, "d.png": sift(4, 1, first)}


def files_beside(path):
    return sorted(name for name in os.listdir(path.parent) if name.startswith(path.stem))


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_matches_are_written_and_the_rest_stays(vicinal, tmp_path, typed, journal):
    pictures = scene()
    path = make(tmp_path / "scene.db", pictures, typed=typed, journal=journal)
    before = dump(path, "matches")
    outcome = vicinal("match", path)
    assert outcome.status == 0 and outcome.err == "vicinal: note: 1 picture without descriptors: empty.png\n"
    assert "matched 10 pairs of 5 pictures" in outcome.out and f"wrote {path}" in outcome.out
    names = list(pictures)
    found = matches_of(path)
    assert len(found) == 10 and sum(map(len, found.values())) > 60
    for i, one in enumerate(names):
        for j in range(i + 1, len(names)):
            other = pictures[names[j]]
            wanted = [] if pictures[one] is None or other is None else expected(pictures[one], other)
            assert found[pair_id(i + 1, j + 1)] == wanted
    assert dump(path, "matches") == before
    assert files_beside(path) == ["scene.db"]
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone()[0].upper() == journal


def test_another_file_or_in_place(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    made = path.read_bytes()
    told = vicinal("match", path, "-o", tmp_path / "out.db", "--json").json
    assert path.read_bytes() == made and not matches_of(path)
    assert (told["command"], told["pictures"], told["rows"], told["pairs"], told["skipped"]) == ("match", 5, 181, 10, 0)
    assert told["tests"] == {"distance": "angle", "ratio": 0.8, "max_distance": 0.7, "strict": True, "mutual": "yes", "lone": "accept"}
    found = matches_of(tmp_path / "out.db")
    assert told["matches"] == sum(map(len, found.values()))
    assert vicinal("match", path, "--in-place").status == 0
    assert matches_of(path) == found
    assert sorted(os.listdir(tmp_path)) == ["out.db", "scene.db"]


def test_options_are_those_of_the_library(vicinal, tmp_path):
    a, b = sift(1), sift(2, 70, sift(1))
    path = make(tmp_path / "two.db", {"a": a, "b": b})
    for words, tests in (
        (["--preset", "colmap-cpu"], dict(distance="euclidean", max_distance=512 * 0.7)),
        (["--preset", "opencv"], dict(distance="euclidean", ratio=0.75, max_distance=None, mutual=False, lone="reject")),
        (["--ratio", "0.6"], dict(ratio=0.6)),
        (["--ratio", "none", "--max-distance", "0.4"], dict(ratio=None, max_distance=0.4)),
        (["--distance", "manhattan", "--max-distance", "5000", "--mutual", "nearest", "--inclusive"],
         dict(distance="manhattan", max_distance=5000, mutual="nearest", strict=False)),
    ):  # fmt: skip
        assert vicinal("match", path, *words).succeeds()
        assert matches_of(path)[pair_id(1, 2)] == expected(a, b, **tests)


def test_pairs(vicinal, tmp_path):
    pictures = {name: sift(seed, 30, sift(0, 30)) for seed, name in enumerate(["c", "a", "e", "b", "d"])}
    ids = {name: number for number, name in enumerate(pictures, 1)}

    def pairs_written(*words):
        path = make(tmp_path / "five.db", pictures)
        vicinal("match", path, *words).succeeds()
        found = matches_of(path)
        os.remove(path)
        return found

    wanted = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    assert set(pairs_written("--pairs", "sequential:1")) == {pair_id(ids[x], ids[y]) for x, y in wanted}
    (tmp_path / "list.txt").write_text("# pairs\n\ne c\nc\te\n  a d \r\na a\n")
    one_way = pairs_written("--pairs", tmp_path / "list.txt", "--mutual", "no")
    assert set(one_way) == {pair_id(ids["c"], ids["e"]), pair_id(ids["a"], ids["d"])}
    asked = expected(pictures["e"], pictures["c"], mutual=False)  # from e to c, as it is listed; written with c first
    assert one_way[pair_id(ids["c"], ids["e"])] == sorted((y, x) for x, y in asked)
    places = np.array([[1, 0], [1, 0.1], [0, 1], [-1, 0], [0, 1.1]], np.float32)
    np.save(tmp_path / "global.npy", places)
    near = pairs_written("--pairs", "nearest:1", "--global-descriptors", tmp_path / "global.npy")
    assert set(near) == {pair_id(1, 2), pair_id(3, 5), pair_id(3, 4)}
    names = {"with space 1": sift(1, 5), "with space 2": sift(2, 5)}
    path = make(tmp_path / "space.db", names)
    (tmp_path / "list.txt").write_text("with space 2\twith space 1\n")
    vicinal("match", path, "--pairs", tmp_path / "list.txt").succeeds()
    assert set(matches_of(path)) == {pair_id(1, 2)}


def test_floats(vicinal, tmp_path):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 16)).astype(np.float32)
    b = np.concatenate([a[10:30] + 0.01, rng.standard_normal((20, 16))]).astype(np.float32)
    path = make(tmp_path / "floats.db", {"a": a, "b": b})
    vicinal("match", path, "--distance", "cosine", "--max-distance", "0.3").succeeds()
    assert matches_of(path)[pair_id(1, 2)] == [(10 + i, i) for i in range(20)]


def test_a_pair_that_changes_loses_its_geometry(vicinal, tmp_path):
    pictures = scene()
    path = make(tmp_path / "scene.db", pictures)
    vicinal("match", path)
    kept, changed = pair_id(1, 2), pair_id(1, 3)
    with sqlite3.connect(path) as base:
        base.executemany("INSERT INTO two_view_geometries VALUES (?, 0, 2, NULL, 3)", [(kept,), (changed,)])
        base.execute("UPDATE matches SET rows = 0, data = x'' WHERE pair_id = ?", (changed,))
    base.close()
    assert "1 pair had other matches before" in vicinal("match", path).out
    assert [row[0] for row in dump(path)["two_view_geometries"]] == [kept]
    assert matches_of(path)[changed] == expected(pictures["c.png"], pictures["b.png"])


def test_resume_leaves_out_what_is_there(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    vicinal("match", path, "--pairs", "sequential:1")
    found = matches_of(path)
    told = vicinal("match", path, "--resume", "--json").json
    assert (told["skipped"], told["pairs"]) == (4, 6)
    assert len(matches_of(path)) == 10 and found.items() <= matches_of(path).items()
    assert "--plan" not in vicinal("match", path, "--resume", "--plan").out and len(matches_of(path)) == 10


def test_plan_touches_nothing(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    made = path.read_bytes()
    assert "comparisons" in vicinal("match", path, "--plan").out
    told = vicinal("match", path, "--plan", "--json", "--pairs", "sequential:2").json
    assert (told["pairs"], told["rows"]) == (7, 181)
    assert path.read_bytes() == made and files_beside(path) == ["scene.db"]


def test_broken_blobs_name_the_picture_and_the_sizes(vicinal, tmp_path):
    for number, (change, told) in enumerate((
        ("UPDATE descriptors SET data = substr(data, 2) WHERE image_id = 2", r'"a.png" \(image 2\).*70 rows of 128 bytes.*8959 bytes'),
        ("UPDATE descriptors SET rows = -1 WHERE image_id = 2", r'"a.png" \(image 2\).*-1 rows'),
        ("UPDATE descriptors SET rows = 1 << 62 WHERE image_id = 2", r'"a.png" \(image 2\).*4611686018427387904 rows'),
        ("UPDATE descriptors SET data = NULL WHERE image_id = 2", r'"a.png" \(image 2\).*0 bytes'),
        ("UPDATE descriptors SET cols = 64, rows = 140 WHERE image_id = 2", r"140 descriptors for 70 keypoints"),
        ("UPDATE descriptors SET cols = 64, rows = 140 WHERE image_id = 2; UPDATE keypoints SET rows = 140 WHERE image_id = 2",
         r'"a.png".*64 columns.*"c.png" \(image 1\) have 128'),
        ("DROP TABLE descriptors", "no table descriptors.*feature_extractor"),
    )):  # fmt: skip
        path = make(tmp_path / f"broken{number}.db", scene())
        with sqlite3.connect(path) as base:
            base.executescript(change)
        base.close()
        made = path.read_bytes()
        vicinal("match", path).fails(3, "FormatError", told)
        assert path.read_bytes() == made and files_beside(path) == [path.name]


def test_missing_pictures_and_files(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    pairs = tmp_path / "list.txt"
    pairs.write_text("a.png b.png\na.png z.png\n")
    vicinal("match", path, "--pairs", pairs).fails(3, "FormatError", r'list.txt:2: the database has no picture "z.png"')
    pairs.write_text("a.png\n")
    vicinal("match", path, "--pairs", pairs).fails(3, "FormatError", "list.txt:1: expected the names of two pictures")
    vicinal("match", path, "--pairs", "sequentil:3").fails(4, "IoError", "not exhaustive, sequential:N or nearest:K")
    vicinal("match", path, "--pairs", "sequential:0").fails(2, "InvalidArgument", "N >= 1")
    vicinal("match", path, "--pairs", "nearest:3").fails(2, "InvalidArgument", "--global-descriptors")
    np.save(tmp_path / "global.npy", np.ones((3, 4), np.float32))
    vicinal("match", path, "--pairs", "nearest:3", "--global-descriptors", tmp_path / "global.npy").fails(2, "InvalidArgument", "3 rows.*5 pictures")
    vicinal("match", tmp_path / "none.db").fails(4, "IoError", "No such file")
    (tmp_path / "text.db").write_text("no database " * 100)
    vicinal("match", tmp_path / "text.db").fails(3, "FormatError", "not a database of SQLite")
    vicinal("match", path, "-o", tmp_path / "no" / "out.db").fails(4, "IoError", "No such file")
    vicinal("match", path, "-o", path).fails(2, "InvalidArgument", "same file")
    vicinal("match", path, "--in-place", "-o", tmp_path / "out.db").fails(2, "InvalidArgument", "excludes -o")
    vicinal("match", path, "--mutual", "maybe").fails(2, "InvalidArgument", "no, nearest, yes")
    vicinal("match", path, "--ratio", "half").fails(2, "InvalidArgument", "number or none")
    vicinal("match", path, "--ratio", "-1").fails(2, "InvalidArgument", "ratio")


def test_a_locked_database(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene(), journal="DELETE")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for words in ([], ["--in-place"]):
        vicinal("match", path, *words).fails(4, "IoError", "another program has the database open or locked")
    other.execute("ROLLBACK")
    other.close()
    assert not matches_of(path)
    assert vicinal("match", path).status == 0


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root writes everywhere")
def test_a_database_that_cannot_be_written(tmp_path):
    path = make(tmp_path / "scene.db", scene(), journal="DELETE")
    path.chmod(0o444)
    for folder in [tmp_path, *tmp_path.parents][:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    words = [COMMAND, "match", str(path)]
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    for more in ([], ["--in-place"]):
        done = subprocess.run([*words, *more], capture_output=True, text=True, check=False)
        if "Permission denied" in done.stderr and "[IoError]" not in done.stderr:
            pytest.skip("the command is where another user cannot run it")
        assert done.returncode == 4 and "cannot write" in done.stderr, done.stderr
    assert not matches_of(path)


def many(path, count=30, rows=800):
    return make(path, {f"{i:03}.png": sift(i, rows) for i in range(count)})


def started(words):
    return subprocess.Popen([COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_pairs(path, process, such="true"):
    """Until some pairs are written, such as this condition says."""
    for _ in range(2000):
        if process.poll() is not None:
            return False
        try:
            base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            count = base.execute(f"SELECT count(*) FROM matches WHERE {such}").fetchone()[0]
            base.close()
            if count:
                return True
        except sqlite3.Error:
            pass
        time.sleep(0.005)
    return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_kill_in_the_middle(vicinal, tmp_path, number, in_place):
    path = many(tmp_path / "many.db")
    words = ["--in-place"] if in_place else []
    process = started(["match", path, *words])
    written = path if in_place else path.with_name("many.db.matching")
    if not wait_for_pairs(written, process):
        pytest.skip("this machine is done before it can be stopped")
    process.send_signal(number)
    _, said = process.communicate()
    if process.returncode == 0:
        pytest.skip("this machine is done before it can be stopped")
    if number == signal.SIGINT:
        assert process.returncode == 130 and "to go on" in said and "--resume" in said
    done = matches_of(written)
    assert 0 < len(done) < 435
    if not in_place:
        assert not matches_of(path)
        vicinal("match", path).fails(2, "InvalidArgument", "left of a run that was stopped: --resume")
        vicinal("match", path, "--resume", "--ratio", "0.5").fails(2, "InvalidArgument", "other options")
    told = vicinal("match", path, *words, "--resume", "--json").json
    assert told["skipped"] == len(done) and told["skipped"] + told["pairs"] == 435
    whole = many(tmp_path / "again.db")
    vicinal("match", whole).succeeds()
    assert matches_of(path) == matches_of(whole)
    assert files_beside(path) == ["many.db"] and dump(path, "matches") == dump(whole, "matches")


@pytest.mark.parametrize("in_place", [False, True])
def test_a_resumed_run_matches_again_what_others_had_matched(vicinal, tmp_path, in_place):
    path, words = many(tmp_path / "many.db"), ["--ratio", "0.5"] + ["--in-place"] * in_place
    vicinal("match", path).succeeds()
    whole = many(tmp_path / "whole.db")
    vicinal("match", whole, "--ratio", "0.5").succeeds()
    with sqlite3.connect(path) as base:  # as if others had found the same match in every pair
        base.execute("UPDATE matches SET rows = 1, data = x'0000000000000000'")
    base.close()
    process = started(["match", path, *words])
    written = path if in_place else path.with_name("many.db.matching")
    if not wait_for_pairs(written, process, "rows != 1"):
        pytest.skip("this machine is done before it can be stopped")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    if process.returncode == 0:
        pytest.skip("this machine is done before it can be stopped")
    assert process.returncode == 130, said
    resumed = vicinal("match", path, *words, "--resume", "--json")
    assert resumed.status == 0, resumed.err
    assert resumed.json["skipped"] < 435
    assert matches_of(path) == matches_of(whole) and dump(path, "matches") == dump(whole, "matches")


def test_a_target_that_cannot_be_written_is_refused_before_the_work(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    (tmp_path / "out").mkdir()
    vicinal("match", path, "-o", tmp_path / "out").fails(4, "IoError", "is a folder")
    vicinal("match", path, "--pairs", tmp_path / "out").fails(4, "IoError", "out")
    assert sorted(os.listdir(tmp_path)) == ["out", "scene.db"] and not matches_of(path)


def test_a_read_only_database_is_matched_into_another():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = make(folder / "scene.db", scene(), journal="DELETE")
        path.chmod(0o444)
        words = [COMMAND, "match", str(path), "-o", str(folder / "out.db")]
        if os.geteuid() == 0:  # whom no mode stops
            for made in (path, folder):
                os.chown(made, 65534, 65534)
            words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0 and "vicinal: error" not in done.stderr:
            pytest.skip("the command is where another user cannot run it")
        assert done.returncode == 0, done.stderr
        assert sorted(os.listdir(folder)) == ["out.db", "scene.db"]
        assert os.stat(folder / "out.db").st_mode & 0o7777 == 0o444 and len(matches_of(folder / "out.db")) == 10


def test_a_copy_is_not_resumed_after_the_database_changed(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM images").fetchone()
    vicinal("match", path).fails(4, "IoError", "another program has the database open")
    reader.close()
    with sqlite3.connect(path) as base:
        base.execute("UPDATE images SET name = 'new.png' WHERE image_id = 1")
    base.close()
    vicinal("match", path, "--resume").fails(2, "InvalidArgument", "has been written since")
    os.remove(tmp_path / "scene.db.matching-run")
    vicinal("match", path, "--resume").fails(2, "InvalidArgument", "not a copy that vicinal match has left")
    os.remove(tmp_path / "scene.db.matching")
    assert vicinal("match", path).status == 0 and files_beside(path) == ["scene.db"]


def test_a_copy_is_not_resumed_after_a_change_that_sqlite_does_not_count(vicinal, tmp_path):
    """In journal_mode WAL a change that leaves page 1 alone is not counted, and leaving that mode is one change."""
    path = make(tmp_path / "scene.db", scene())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("SELECT count(*) FROM images").fetchone()
    vicinal("match", path).fails(4, "IoError", "another program has the database open")
    other.execute("UPDATE images SET name = upper(name)")
    other.close()
    other = sqlite3.connect(path, isolation_level=None)
    assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    names = other.execute("SELECT name FROM images").fetchall()
    other.close()
    vicinal("match", path, "--resume").fails(2, "InvalidArgument", "has been written since")
    with sqlite3.connect(path) as base:
        assert base.execute("SELECT name FROM images").fetchall() == names


def test_a_database_that_is_being_read_is_refused_before_it_is_copied(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM images").fetchone()
    with sqlite3.connect(path, isolation_level=None) as writer:
        writer.execute("UPDATE images SET name = name")
    vicinal("match", path).fails(4, "IoError", "is being read or written by another program")
    writer.close()
    other.close()
    assert files_beside(path) == ["scene.db"]
    assert vicinal("match", path).status == 0


def test_colmap_opens_what_is_written(vicinal, tmp_path):
    pycolmap = pytest.importorskip("pycolmap")
    path = make(tmp_path / "scene.db", scene())
    vicinal("match", path)
    database = pycolmap.Database.open(str(path))
    assert database.num_matched_image_pairs() == 10 and database.num_images() == 5
    assert [tuple(pair) for pair in np.asarray(database.read_matches(1, 2)).tolist()] == matches_of(path)[pair_id(1, 2)]
    database.close()


def test_little_memory_gives_the_same(vicinal, tmp_path):
    path = many(tmp_path / "many.db", 12, 60)
    vicinal("match", path, "-o", tmp_path / "all.db").succeeds()
    told = json.loads(vicinal("match", path, "--memory", "32MiB", "--json").out)
    assert told["pairs"] == 66 and matches_of(path) == matches_of(tmp_path / "all.db")


def test_a_disk_that_is_full(tmp_path):
    path = many(tmp_path / "many.db", 6, 400)
    made = path.read_bytes()
    limit = len(made) // 2
    done = subprocess.run([COMMAND, "match", str(path)], capture_output=True, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))  # fmt: skip
    assert done.returncode == 4 and "[IoError]" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert path.read_bytes() == made


def test_a_database_that_is_written_meanwhile_is_not_replaced(vicinal, tmp_path):
    """Whoever has it open keeps it: what is matched stays in the copy."""
    path = make(tmp_path / "scene.db", scene())
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM images").fetchone()
    outcome = vicinal("match", path)
    assert outcome.status == 4 and "another program has the database open or locked" in outcome.err
    reader.close()
    assert not matches_of(path) and len(matches_of(path.with_name("scene.db.matching"))) == 10
    told = vicinal("match", path, "--resume", "--json").json
    assert (told["pairs"], told["skipped"]) == (0, 10) and len(matches_of(path)) == 10 and files_beside(path) == ["scene.db"]


def test_what_is_left_of_other_files_is_no_part_of_ours(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    for left in ("-journal", "-wal", "-shm"):
        (tmp_path / f"scene.db.matching{left}").write_bytes(b"left")
    assert vicinal("match", path).status == 0 and len(matches_of(path)) == 10 and files_beside(path) == ["scene.db"]
    (tmp_path / "out.db-wal").write_bytes(b"left")
    vicinal("match", path, "-o", tmp_path / "out.db").fails(4, "IoError", "out.db-wal")


def test_a_link_stays_a_link(vicinal, tmp_path):
    path = make(tmp_path / "scene.db", scene())
    path.chmod(0o640)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(path)
    assert vicinal("match", link).status == 0
    assert link.is_symlink() and len(matches_of(path)) == 10 and path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(link.parent) == ["link.db"]


def test_few_pictures(vicinal, tmp_path):
    for pictures in ({}, {"a": sift(1)}, {"a": None, "b": None}):
        path = make(tmp_path / f"{len(pictures)}.db", pictures)
        told = vicinal("match", path, "--json")
        assert told.status == 0 and told.json["pairs"] == len(pictures) * (len(pictures) - 1) // 2 and told.json["matches"] == 0


def test_the_mapper_goes_on(vicinal, tmp_path):
    """A scene with known poses, drawn and extracted by pycolmap: its own matcher fills the table with the same pairs, and all pictures are registered."""
    pycolmap = pytest.importorskip("pycolmap")
    pycolmap.set_random_seed(1)
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig = 1, 1, 6
    options.num_points3D, options.num_points2D_without_point3D = 300, 0
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    pycolmap.synthesize_images(pycolmap.SyntheticImageOptions(), pycolmap.synthesize_dataset(options), str(pictures))
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    pycolmap.extract_features(str(ours), str(pictures), camera_mode=pycolmap.CameraMode.SINGLE, device=pycolmap.Device.cpu)
    shutil.copy(ours, theirs)
    vicinal("match", ours).succeeds()
    matching = pycolmap.FeatureMatchingOptions(use_gpu=False, skip_geometric_verification=True)
    matching.sift.cpu_brute_force_matcher = True
    pycolmap.match_exhaustive(str(theirs), matching_options=matching, device=pycolmap.Device.cpu)
    found = matches_of(ours)
    assert {pair: rows for pair, rows in found.items() if len(rows) >= 15} == {pair: rows for pair, rows in matches_of(theirs).items() if rows}
    pycolmap.geometric_verification(str(ours))
    (model,) = pycolmap.incremental_mapping(str(ours), str(pictures), str(tmp_path / "model")).values()
    assert model.num_reg_images() == 6 and model.num_points3D() > 100


KILL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
static int calls;
static void tick(void) {
  if (++calls == atoi(getenv("KILL_AT"))) kill(getpid(), SIGKILL);
}
__attribute__((destructor)) static void tell(void) { fprintf(stderr, "%d", calls); }
#define CALL(result, name, parameters, arguments)            \
  result name parameters {                                   \
    static result(*next) parameters;                         \
    if (!next) next = dlsym(RTLD_NEXT, #name);               \
    tick();                                                  \
    return next arguments;                                   \
  }
CALL(int, fsync, (int file), (file))
CALL(int, fdatasync, (int file), (file))
CALL(int, rename, (const char* from, const char* to), (from, to))
CALL(int, unlink, (const char* path), (path))
CALL(int, ftruncate64, (int file, off_t size), (file, size))
CALL(int, chmod, (const char* path, mode_t mode), (path, mode))
CALL(ssize_t, pwrite64, (int file, const void* bytes, size_t count, off_t at), (file, bytes, count, at))
"""


@pytest.fixture(scope="module")
def kill_at(tmp_path_factory):
    """Runs the command and kills it before its n-th call that changes a file; 0: how many such calls it makes."""
    folder = tmp_path_factory.mktemp("kill")
    (folder / "kill.c").write_text(KILL)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", folder / "kill.so", folder / "kill.c"], check=True)

    def run(n, *words):
        environment = {**os.environ, "LD_PRELOAD": str(folder / "kill.so"), "KILL_AT": str(n)}
        done = subprocess.run([COMMAND, *map(str, words)], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == (-signal.SIGKILL if n else 0), (n, done.stderr)
        return None if n else int(done.stderr)

    return run


def make_matched(path, pictures, journal):
    """Every pair has a match that is none."""
    make(path, pictures, journal=journal)
    with sqlite3.connect(path) as base:
        for i in range(1, len(pictures) + 1):
            for j in range(i + 1, len(pictures) + 1):
                base.execute("INSERT INTO matches VALUES (?, 1, 2, ?)", (pair_id(i, j), bytes(8)))
    base.close()
    return path


@pytest.mark.parametrize("mode", ["copy", "other", "in place"])
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_kill_at_any_moment_is_resumed(vicinal, kill_at, tmp_path, journal, mode):
    """Matches that were there before are no part of the run: they are matched again."""
    pictures = dict(list(scene().items())[:3])
    made, path = make_matched(tmp_path / "made.db", pictures, journal), tmp_path / "work" / "scene.db"
    before = matches_of(made)
    wanted = {pair_id(i, j): expected(a, b, ratio=0.7) for i, a in enumerate(pictures.values(), 1) for j, b in enumerate(pictures.values(), 1) if i < j}
    out = path.with_name("out.db") if mode == "other" else path
    words = ["match", path, "--ratio", "0.7", *{"copy": [], "other": ["-o", out], "in place": ["--in-place"]}[mode]]

    def begin():
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        shutil.copy(made, path)

    begin()
    calls = kill_at(0, *words)
    assert calls > 30 and matches_of(out) == wanted
    for n in sorted({*range(1, calls, 6), *range(calls - 30, calls + 1)}):  # the copy takes its name in the last ones
        begin()
        kill_at(n, *words)
        if mode == "copy":
            assert matches_of(path) in (before, wanted), n
        begun = out.with_name(f"{out.name}.matching-run").exists()
        resumed = vicinal(*words, "--resume")
        assert (resumed.status, resumed.err) == (0, ""), n
        found = matches_of(out)
        # A run that was killed before it wrote anything has left nothing to be known by.
        assert found == wanted or (not begun and found == before), n
        left = {"scene.db-journal"} if mode == "in place" else set()  # of SQLite, empty
        assert set(os.listdir(path.parent)) - left == {"scene.db", out.name}, n
        assert not [name for name in dump(out) if "vicinal" in name], n


def cut(path, page_size=4096):
    """The file without a part of its last page."""
    size = path.stat().st_size
    assert size % page_size == 0
    os.truncate(path, size - page_size // 2)
    return path


@pytest.mark.parametrize("words", [[], ["--in-place"], ["-o", "out.db"]])
def test_a_database_that_is_cut_short_is_refused(vicinal, tmp_path, words):
    """SQLite reads zeros in place of what is missing: rows of NULL."""
    path = cut(make(tmp_path / "scene.db", {"a": sift(1), "b": sift(2)}, journal="DELETE"))
    made = path.read_bytes()
    vicinal("match", path, *words, cwd=tmp_path).fails(3, "FormatError", "cut short: .* bytes are there, and its head says")
    assert path.read_bytes() == made and os.listdir(tmp_path) == ["scene.db"]


def test_sizes_that_are_null(vicinal, tmp_path):
    path = tmp_path / "scene.db"
    with sqlite3.connect(path) as base:
        base.executescript(TABLES.format(type="").replace("rows INTEGER NOT NULL", "rows INTEGER").replace("cols INTEGER NOT NULL", "cols INTEGER"))
        base.execute("INSERT INTO images VALUES (1, 'a.png', 1)")
        base.execute("INSERT INTO descriptors VALUES (1, NULL, NULL, NULL)")
    base.close()
    vicinal("match", path).fails(3, "FormatError", r'"a.png" \(image 1\).*NULL')


@pytest.mark.parametrize("place", [[], ["--in-place"], ["-o", "out.db"]])
def test_a_mistake_leaves_nothing_behind(vicinal, tmp_path, place):
    zero = sift(2)
    zero[7] = 0
    path = make(tmp_path / "scene.db", {"a.png": sift(1), "b.png": zero, "c.png": sift(3)}, journal="DELETE")
    made = path.read_bytes()
    for words, status, code, said in (
        (["--ratio", "0"], 2, "InvalidArgument", "ratio must be"),
        (["--ratio", "nan"], 2, "InvalidArgument", "ratio must be"),
        (["--max-distance", "-1"], 2, "InvalidArgument", "max_distance must be"),
        (["--threads", "-1"], 2, "InvalidArgument", "threads must be"),
        (["--device", "bogus"], 2, "InvalidArgument", "bogus"),
        (["--distance", "levenshtein"], 2, "InvalidArgument", "levenshtein"),
        (["--memory", "1KiB"], 5, "MemoryBudget", "KiB"),
        (["--preset", "hloc"], 3, "InvalidValue", r'row 7 of picture "b.png" \(image 2\) is zero: cosine undefined \(1 row\); remove them$'),
    ):  # fmt: skip
        for more in ([], ["--resume"]):
            vicinal("match", path, *words, *place, *more, cwd=tmp_path).fails(status, code, said)
            assert os.listdir(tmp_path) == ["scene.db"] and path.read_bytes() == made
    vicinal("match", path, *place, cwd=tmp_path).succeeds()


def test_a_list_of_pairs_with_a_byte_order_mark(vicinal, tmp_path):
    path = make(tmp_path / "two.db", {"a": sift(1, 20), "b": sift(2, 20)})
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfa b\n")
    vicinal("match", path, "--pairs", tmp_path / "list.txt").succeeds()
    assert set(matches_of(path)) == {pair_id(1, 2)}
