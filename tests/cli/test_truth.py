"""vicinal truth from outside: one file or many, tiers, prefixes of k, kills at any moment, runbooks, and what it refuses."""

import random
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import COMMAND, call, exact, read_bin, read_vecs


@pytest.fixture
def parts(data):
    """The corpus again, as files of several formats: 1, 119, 80 and 100 rows."""
    np.save(data.path("a.npy"), data.corpus[:1])
    data.path("b.fbin").write_bytes(np.array([119, 24], np.uint32).tobytes() + data.corpus[1:120].tobytes())
    data.path("c.fbin").write_bytes(np.array([80, 24], np.uint64).tobytes() + data.corpus[120:200].tobytes())
    np.savez(data.path("d.npz"), rows=data.corpus[200:], other=data.queries)
    return [data.path("a.npy"), data.path("b.fbin"), data.path("c.fbin"), str(data.path("d.npz")) + ":rows"]


def test_files_numbered_through(vicinal, data, parts):
    ids, distances = exact(data.corpus, data.queries, 6)
    out = data.path("gt.ibin")
    done = vicinal("truth", *parts, "--queries", data.queries_path, "-k", 6, "-o", out, "--distances", data.path("gt.fbin")).succeeds()
    assert "6 nearest of 300 rows in 4 files for 17 queries" in done.out and "verified 8 queries by ranking every row" in done.out
    assert re.search(r"million rows/s, \S+ GB/s", done.out)
    assert np.array_equal(read_bin(out, np.int32), ids) and np.array_equal(read_bin(data.path("gt.fbin"), np.float32), distances)
    answer = vicinal("truth", *parts, "--queries", data.queries_path, "-k", 6, "-o", data.path("gt.npz"), "--json", "--verify", 3).succeeds().json
    assert answer["rows"] == 300 and answer["verified"] == [2, 8, 14] and answer["certificate"]["certified"]
    assert [part["rows"] for part in answer["base"]] == [1, 119, 80, 100]
    assert answer["outputs"] == [{"rows": 300, "k": 6, "ids": str(data.path("gt.npz"))}]
    vicinal("knn", *data.pair, "-k", 6, "-o", data.path("knn.npz")).succeeds()
    assert data.path("knn.npz").read_bytes() == data.path("gt.npz").read_bytes()


@pytest.mark.parametrize("name", ["gt.npy", "gt.ivecs", "gt.u64bin", "gt.hdf5"])
def test_formats(vicinal, data, parts, name):
    if name.endswith("hdf5") and "built without" in vicinal("info").out:
        pytest.skip("the command was built without HDF5")
    vicinal("truth", *parts, "--queries", data.queries_path, "-k", 6, "-o", data.path(name), "--first-id", 7).succeeds()
    vicinal("verify", *data.pair, data.path(name), "--first-id", 7).succeeds()


def test_tiers_and_prefixes(vicinal, data, parts):
    out = data.path("gt.ivecs")
    vicinal("truth", *parts, "--queries", data.queries_path, "-k", "2,6", "--tiers", "50,210", "-o", out, "--distances", data.path("d.fvecs")).succeeds()
    made = [name for name in data.names() if name.endswith("vecs")]
    assert made == sorted(f"{stem}.{rows}.k{k}.{kind}" for stem, kind in (("gt", "ivecs"), ("d", "fvecs")) for rows in (50, 210) for k in (2, 6))
    for rows in (50, 210):
        for k in (2, 6):
            ids, distances = exact(data.corpus[:rows], data.queries, k)
            assert np.array_equal(read_vecs(data.path(f"gt.{rows}.k{k}.ivecs"), np.int32), ids)
            assert np.array_equal(read_vecs(data.path(f"d.{rows}.k{k}.fvecs"), np.float32), distances)
    refused = vicinal("truth", *parts, "--queries", data.queries_path, "-k", 6, "--tiers", "50,1k", "-o", out)
    refused.fails(2, "InvalidArgument", "tiers must ascend from 1 to the 300 rows of the base, got 1000 after 50")


@pytest.mark.parametrize(("code", "status", "pattern", "words"), [
    ("InvalidArgument", 2, "truth needs -o PATH", ["-k", "1"]),
    ("InvalidArgument", 2, "-k must be counts from 1 on.*got 1,x", ["-k", "1,x", "-o", "g.npz"]),
    ("InvalidArgument", 2, "-k must be counts", ["-k", "0", "-o", "g.npz"]),
    ("InvalidArgument", 2, "-k must be counts", ["-k", "1,", "-o", "g.npz"]),
    ("InvalidArgument", 2, "--tiers must be counts.*got 9999999999G", ["-k", "1", "--tiers", "9999999999G", "-o", "g.npz"]),
    ("InvalidArgument", 2, "would be written twice", ["-k", "1,2,1", "-o", "g.npz"]),
    ("InvalidArgument", 2, "g.1.npy is the same file as", ["-k", "1", "--tiers", "1", "-o", "g.npy"]),
    ("InvalidArgument", 2, "go with --update OLD", ["-k", "1", "--deleted", "x.txt", "-o", "g.npz"]),
    ("InvalidArgument", 2, "--resume DIR needs -o|needs -o", ["-k", "1", "--resume", "d"]),
    ("InvalidArgument", 2, "k=301 exceeds", ["-k", "301", "-o", "g.npz"]),
    ("InvalidArgument", 2, "verified_queries must be >= 0", ["-k", "1", "-o", "g.npz", "--verify", "-1"]),
    ("Unsupported", 2, "unknown suffix", ["-k", "1", "-o", "g.foo"]),
])  # fmt: skip
def test_refusals(vicinal, data, code, status, pattern, words, monkeypatch):
    monkeypatch.chdir(data.folder)
    np.save("g.1.npy", data.corpus)
    before = data.names()
    vicinal("truth", "g.1.npy", "--queries", data.queries_path, *words).fails(status, code, pattern)
    assert data.names() == before


def test_bad_rows_are_named_with_their_file(vicinal, data, parts):
    bad = data.corpus[120:200].copy()
    bad[3, 5] = np.nan
    np.save(data.path("bad.npy"), bad)
    done = vicinal("truth", *parts[:2], data.path("bad.npy"), "--queries", data.queries_path, "-k", 1, "-o", data.path("o.npz"))
    done.fails(3, "InvalidValue", r"bad\.npy: corpus.* row 3, column 5")
    np.save(data.path("wide.npy"), data.corpus.astype(np.float64))
    done = vicinal("truth", *parts[:2], data.path("wide.npy"), "--queries", data.queries_path, "-k", 1, "-o", data.path("o.npz"))
    done.fails(2, "InvalidArgument", r"wide\.npy: rows are f64, those of the first part f32; convert them")
    assert "o.npz" not in data.names()


def test_plan(vicinal, data, parts):
    answer = vicinal("truth", *parts, "--queries", data.queries_path, "-k", "3,6", "--plan", "--json").succeeds().json
    assert answer["k"] == [3, 6] and answer["rows"] == 300 and answer["plan"]["corpus_chunk"] >= 1


def test_a_runbook(vicinal, data, monkeypatch):
    """Lists of 200 rows follow two steps of insertions and deletions, each time to the bytes of a search of what remains."""
    monkeypatch.chdir(data.folder)
    rng = np.random.default_rng(1)
    for name, rows in (("base.npy", data.corpus[:200]), ("one.npy", data.corpus[200:250]), ("two.npy", data.corpus[250:])):
        np.save(name, rows)
    queries = ["--queries", data.queries_path, "-k", "6"]
    vicinal("truth", "base.npy", *queries, "-o", "gt0.npz").succeeds()
    gone = np.load("gt0.npz")["ids"][3, :2].tolist()
    for step, (base, new, rows) in enumerate((([], "one.npy", 250), (["one.npy"], "two.npy", 300))):
        gone = sorted({*gone, *rng.choice(rows, 9).tolist()})
        data.path("gone.txt").write_text("".join(f"{i}\n" for i in gone))
        done = vicinal("truth", "base.npy", *base, *queries, "--update", f"gt{step}.npz", "--inserted", new, "--deleted", "gone.txt",
                       "-o", f"gt{step + 1}.npz").succeeds()
        assert re.search(r"note: [1-9]\d* of 17 queries lost rows", done.out)
        assert re.search(rf"quer(y|ies) kept what is left of gt{step}.npz: as exact as that", done.out)
        left = np.setdiff1d(np.arange(rows), gone)
        np.save("left.npy", left)
        np.save("all.npy", data.corpus[:rows])
        vicinal("knn", "all.npy", data.queries_path, "-k", 6, "--eligible", "left.npy", "-o", "want.npz").succeeds()
        for member in ("ids", "distances"):
            assert np.array_equal(np.load(f"gt{step + 1}.npz")[member], np.load("want.npz")[member])
    mask = np.zeros(300, bool)
    mask[gone] = True
    np.save("mask.npy", mask)
    vicinal("truth", "base.npy", "one.npy", *queries, "--update", "gt1.npz", "--inserted", "two.npy", "--deleted", "mask.npy", "-o", "m.npz").succeeds()
    assert data.path("m.npz").read_bytes() == data.path("gt2.npz").read_bytes()
    np.save("short.npy", mask[:-1])
    vicinal("truth", "base.npy", "one.npy", *queries, "--update", "gt1.npz", "--inserted", "two.npy", "--deleted", "short.npy", "-o", "m.npz").fails(
        2, "InvalidArgument", "the mask has 299 entries, the base and what is inserted 300 rows")
    np.save("ids.npy", np.load("gt0.npz")["ids"])
    vicinal("truth", "base.npy", *queries, "--update", "ids.npy", "-o", "x.npz").fails(2, "InvalidArgument", "ids.npy has no distances")


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """A base of three files whose truth takes some seconds."""
    folder = tmp_path_factory.mktemp("truth")
    rng = np.random.default_rng(8)
    base = rng.integers(0, 256, (180_001, 64), dtype=np.uint8)
    for number, rows in enumerate(np.split(base, [70_000, 70_777])):
        with (folder / f"base.{number}.u8bin").open("wb") as file:
            np.array(rows.shape, np.uint32).tofile(file)
            rows.tofile(file)
    np.save(folder / "q.npy", rng.integers(0, 256, (3000, 64), dtype=np.uint8))
    return folder


def count_of_gpus():
    return sum(device["name"].startswith("cuda:") for device in call("info", "--json").json["devices"])


@pytest.fixture(scope="module")
def long_for_a_gpu(tmp_path_factory):
    """What takes a GPU some seconds: blocks of queries, of which each saves what it has."""
    folder = tmp_path_factory.mktemp("truth_on_gpus")
    rng = np.random.default_rng(9)
    for number, rows in enumerate((1_500_000, 777, 2_500_000)):
        with (folder / f"base.{number}.u8bin").open("wb") as file:
            np.array((rows, 128), np.uint32).tofile(file)
            rng.integers(0, 256, (rows, 128), dtype=np.uint8).tofile(file)
    np.save(folder / "q.npy", rng.integers(0, 256, (200_000, 128), dtype=np.uint8))
    return folder


@pytest.mark.parametrize(("device", "most"), [("cpu", 20), ("cpu,cpu", 6), ("cuda:0", 20), ("cuda:0,cuda:1", 20)])
def test_killed_at_random_moments(longer, request, monkeypatch, device, most):
    """Twenty kills, fewer of two devices on the CPU; each run that gets to its end has the bytes of the one that was left alone."""
    tiers = ("50k", "70777", "180001")
    if device.startswith("cuda"):
        if count_of_gpus() < device.count("cuda"):
            pytest.skip(f"no {device} here: not run")
        longer, tiers = request.getfixturevalue("long_for_a_gpu"), ("1M", "1500777", "4000777")
    monkeypatch.chdir(longer)
    words = [COMMAND, "truth", *sorted(path.name for path in longer.glob("base.*.u8bin")), "--queries", "q.npy", "-k", "10,40", "--tiers", ",".join(tiers),
             "--threads", "1" if device.startswith("cpu") else "8", "--verify", "2", "--device", device]
    names = [f"{tier}.k{k}.npz" for tier in tiers for k in (10, 40)]
    start = time.monotonic()
    subprocess.run([*words, "-o", "whole.npz"], check=True, capture_output=True)
    took = time.monotonic() - start
    chance = random.Random(4)
    kills = 0
    while True:
        process = subprocess.Popen([*words, "-o", "pieces.npz", "--resume", "d"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.wait(chance.uniform(0.02, 0.6) * took if kills < most else None)
        except subprocess.TimeoutExpired:
            process.kill()
        status, said = process.wait(), process.stderr.read()
        process.stderr.close()
        kills += status == -signal.SIGKILL
        if status == -signal.SIGKILL:
            continue
        assert status == 0, said
        assert not (longer / "d").exists()
        for name in names:
            assert (longer / f"pieces.{name}").read_bytes() == (longer / f"whole.{name}").read_bytes()
            (longer / f"pieces.{name}").unlink()
        if kills == most:
            break
    for name in names:
        (longer / f"whole.{name}").unlink()


@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
def test_an_interrupt_says_how_to_go_on(longer, monkeypatch, device):
    monkeypatch.chdir(longer)
    folder = f"pieces of {device}"  # its own: pieces of the other case would send the signal before the command is ready
    words = [COMMAND, "truth", "base.0.u8bin", "base.1.u8bin", "base.2.u8bin", "--queries", "q.npy", "-k", "900", "--threads", "1", "-o", "o.npz", "--resume", folder,
             "--device", device]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any((longer / folder).glob("*.vicinal-piece")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b""), err
    assert re.search(rb"interrupted; \S+ %% of the pairs are saved in '%b'; to go on: .*truth base.0.u8bin" % folder.encode(), err), err
    assert not (longer / "o.npz").exists()


@pytest.mark.parametrize(("words", "pattern"), [
    (["-o", "g.ibin", "--first-id", "2147483400"], r"g\.ibin: ids may be up to 2147483699, .*\.npy, \.npz and \.u64bin can hold it"),
    (["-o", "g.ivecs", "--tiers", "200,300", "--first-id", "2147483400"], r"g\.300\.ivecs: ids may be up to 2147483699"),
    (["-o", "g.ibin", "--distances", "g.fbin", "--metric", "hamming"], r"g\.fbin: fbin holds float32, the distances are uint32; \.npy and \.npz hold any"),
    (["-o", "g.bin", "--distance-type", "f64"], r"g\.bin: bin holds float32, the distances are float64"),
])  # fmt: skip
def test_formats_that_cannot_hold_the_lists_are_refused_before_the_search(vicinal, data, parts, words, pattern, monkeypatch):
    monkeypatch.chdir(data.folder)
    rows, queries = parts, data.queries_path
    if "hamming" in words:
        np.save("bits.npy", np.zeros((300, 8), np.uint8))
        rows, queries = ["bits.npy"], "bits.npy"
    before = data.names()
    vicinal("truth", *rows, "--queries", queries, "-k", 1, *words, "--resume", "d").fails(3, "RangeError", pattern)
    assert data.names() == before
    # The search itself is what takes the time of a base of 2^31 rows; ids that may not answer need no room.
    if "ibin" in words[1] and "--first-id" in words:
        vicinal("truth", *rows, "--queries", queries, "-k", 1, *words, "--eligible-ids", "0:2147483647").succeeds()


def test_outputs_that_are_one_file(vicinal, data, parts, monkeypatch):
    monkeypatch.chdir(data.folder)
    data.path("d.1.fbin").write_bytes(b"old")
    data.path("g.2.ibin").symlink_to("g.1.ibin")
    words = ("truth", *parts, "--queries", data.queries_path, "-k", 1, "--tiers", "1,2", "-o", "g.ibin")
    vicinal(*words).fails(2, "InvalidArgument", r"g\.2\.ibin would be written twice, as g\.1\.ibin too")
    data.path("g.2.ibin").unlink()
    data.path("d.2.fbin").hardlink_to(data.path("d.1.fbin"))
    vicinal(*words, "--distances", "d.fbin").fails(2, "InvalidArgument", r"d\.2\.fbin would be written twice, as d\.1\.fbin too")
    data.path("d.2.fbin").unlink()
    data.path("d.2.fbin").symlink_to("g.2.ibin")
    vicinal(*words, "--distances", "d.fbin").fails(2, "InvalidArgument", r"would be written twice|named for the ids and for the distances")
    assert data.path("d.1.fbin").read_bytes() == b"old" and not data.path("g.1.ibin").exists()


def test_searches_that_share_a_folder(longer, monkeypatch):
    """Killed, then another search with its folder, an update that needs no search with its folder, then itself again."""
    monkeypatch.chdir(longer)
    rows = ("base.0.u8bin", "base.1.u8bin", "base.2.u8bin")
    words = [COMMAND, "truth", *rows, "--queries", "q.npy", "-k", "300", "--verify", "0"]
    call(*words[1:], "-o", "old.npz").succeeds()
    process = subprocess.Popen([*words, "-o", "o.npz", "--resume", "shared", "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any((longer / "shared").glob("*.vicinal-piece")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    running = call("knn", "base.1.u8bin", "q.npy", "-k", 3, "-o", "k.npz", "--resume", "shared")
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert "a search that is running saves its pieces in shared" in running.err
    saved = sorted((longer / "shared").glob("*.vicinal-piece"))
    pattern = r"belongs to another search, of other rows or other options \(ground truth, k=300, euclidean, 3000 queries, 180001 rows of 64 columns\); name another"
    call("knn", "base.1.u8bin", "q.npy", "-k", 3, "-o", "k.npz", "--resume", "shared").fails(2, "InvalidArgument", pattern)
    (longer / "gone.txt").write_text("1\n")
    update = ("truth", *rows, "--queries", "q.npy", "-k", 5, "--update", "old.npz", "--deleted", "gone.txt", "-o", "new.npz", "--verify", "0")
    call(*update, "--resume", "shared").fails(2, "InvalidArgument", pattern)
    call(*update, "--resume", "own").succeeds()
    assert sorted((longer / "shared").glob("*.vicinal-piece")) == saved and not (longer / "own").exists()
    call(*words[1:], "-o", "o.npz", "--resume", "shared").succeeds()
    assert (longer / "o.npz").read_bytes() == (longer / "old.npz").read_bytes() and not (longer / "shared").exists()
    call("knn", "base.1.u8bin", "q.npy", "-k", 3, "-o", "k.npz", "--resume", "shared").succeeds()
    assert not (longer / "shared").exists()


def test_an_update_that_searches_nothing_claims_no_search(vicinal, data, parts):
    queries = ("--queries", data.queries_path)
    vicinal("truth", *parts, *queries, "-k", 20, "-o", data.path("old.npz")).succeeds()
    data.path("gone.txt").write_text("0\n0\n5\n299\n")  # one of them twice
    done = vicinal("truth", *parts, *queries, "-k", 10, "--update", data.path("old.npz"), "--deleted", data.path("gone.txt"), "-o", data.path("new.npz")).succeeds()
    assert "nothing was searched" in done.out and "certified" not in done.out and "threads" not in done.out
    kept = np.setdiff1d(np.arange(300), [0, 5, 299])
    ids, _ = exact(data.corpus[kept], data.queries, 10)
    assert np.array_equal(np.load(data.path("new.npz"))["ids"], kept[ids])


@pytest.mark.parametrize(("command", "words"), [
    ("truth", ["-o", "w.npz", "--resume", "w.npz"]),
    ("truth", ["-o", "w.npy", "--distances", "d.npy", "--resume", "./d.npy"]),
    ("truth", ["-k", "1,2", "-o", "w.npz", "--resume", "w.k2.npz"]),
    ("knn", ["-o", "w.npz", "--resume", "w.npz"]),
    ("knn", ["-o", "w.npy", "--distances", "d.npy", "--resume", "d.npy"]),
])  # fmt: skip
def test_a_folder_of_pieces_that_is_the_output_is_refused_before_the_search(vicinal, data, command, words):
    asked = ["--queries", data.queries_path] if command == "truth" else [data.queries_path]
    k = [] if "-k" in words else ["-k", 3]
    outcome = vicinal(command, data.corpus_path, *asked, *k, *words, cwd=data.folder)
    outcome.fails(2, "InvalidArgument", "is a folder for pieces, and .* is to be written")
    assert data.names() == ["corpus.npy", "queries.npy"]
