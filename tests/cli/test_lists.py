"""graph, range, eligible rows and --resume from outside: outputs that other programs read, errors in one line."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

scipy_sparse = pytest.importorskip("scipy.sparse")
COMMAND = os.environ["VICINAL_COMMAND"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    x = random.integers(0, 9, (300, 5)).astype("f4")  # whole numbers: distances are exact, ties are many
    q = random.integers(0, 9, (20, 5)).astype("f4")
    np.save("x.npy", x)
    np.save("q.npy", q)
    np.save("labels.npy", np.arange(300) % 3)
    np.save("query_labels.npy", np.arange(20) % 3)
    np.save("mask.npy", np.arange(300) % 7 == 0)
    np.save("big_endian.npy", np.array([5, 17, 200], ">i8"))
    np.save("short.npy", np.arange(299) % 7 == 0)
    (tmp_path / "ids.txt").write_text("5\n17\r\n200\n")
    return x, q


def run(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True)


def ok(*arguments):
    done = run(*arguments)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def refused(status, code, words, *arguments):
    done = run(*arguments)
    assert done.returncode == status, done
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"vicinal: error [{code}]: ") and words in done.stderr, done.stderr


def squares(a, b):
    return ((a[:, None].astype("f8") - b[None]) ** 2).sum(-1)


def lists(distances, eligible):
    """Ids of each row by (distance, id), eligible ones only."""
    return [[j for j in np.argsort(row, kind="stable") if allowed[j]] for row, allowed in zip(distances, eligible)]


def test_graph_matrix(files):
    x, _ = files
    ok("graph", "x.npy", "-k", 4, "--metric", "sqeuclidean", "-o", "g.npz")
    graph = scipy_sparse.load_npz("g.npz")
    d = squares(x, x)
    want = lists(d, ~np.eye(300, dtype=bool))
    assert graph.shape == (300, 300) and graph.nnz == 1200 and graph.dtype == np.float32
    assert graph.indices.reshape(300, 4).tolist() == [row[:4] for row in want]
    assert (graph.data.reshape(300, 4) == np.take_along_axis(d, graph.indices.reshape(300, 4), 1)).all()
    for how in ("union", "mutual"):
        ok("graph", "x.npy", "-k", 4, "--metric", "sqeuclidean", "--symmetrize", how, "-o", "s.npz")
        both = scipy_sparse.load_npz("s.npz")
        assert (both != both.T).nnz == 0
        structure = {(i, j) for i, row in enumerate(want) for j in row[:4]}
        turned = {(j, i) for i, j in structure}
        edges = structure | turned if how == "union" else structure & turned
        coo = both.tocoo()
        assert set(zip(coo.row.tolist(), coo.col.tolist())) == edges


def test_graph_with_itself(files):
    told = json.loads(ok("graph", "x.npy", "-k", 1, "--include-self", "--json"))
    assert told["include_self"] and told["certificate"]["certified"]
    assert [row[0] for row in told["distances"]] == [0.0] * 300


def test_range(files):
    x, q = files
    ok("range", "x.npy", "q.npy", "-r", 30, "--metric", "sqeuclidean", "-o", "r.npz")
    result = np.load("r.npz")
    d = squares(q, x)
    want = [[j for j in row if d[i, j] <= 30] for i, row in enumerate(lists(d, np.ones((20, 300), bool)))]
    assert np.diff(result["offsets"]).tolist() == [len(row) for row in want]
    assert result["ids"].tolist() == sum(want, [])
    assert (result["distances"] == [d[i, j] for i, row in enumerate(want) for j in row]).all()
    assert json.loads(ok("range", "x.npy", "q.npy", "-r", -1, "--json"))["entries"] == 0
    assert json.loads(ok("range", "x.npy", "q.npy", "-r", "inf", "-o", "all.npz", "--json"))["entries"] == 6000


@pytest.mark.parametrize(
    "flags, allowed",
    [
        (["--eligible", "mask.npy"], lambda i, j: j % 7 == 0),
        (["--eligible", "ids.txt"], lambda i, j: j in (5, 17, 200)),
        (["--eligible", "big_endian.npy"], lambda i, j: j in (5, 17, 200)),
        (["--eligible-ids", "10:40"], lambda i, j: 10 <= j <= 40),
        (["--corpus-labels", "labels.npy", "--query-labels", "query_labels.npy"], lambda i, j: i % 3 == j % 3),
        (
            ["--corpus-labels", "labels.npy", "--query-labels", "query_labels.npy", "--label-rule", "other"],
            lambda i, j: i % 3 != j % 3,
        ),
    ],
)
def test_eligible_rows(files, flags, allowed):
    x, q = files
    told = json.loads(ok("knn", "x.npy", "q.npy", "-k", 3, "--metric", "sqeuclidean", "--json", *flags))
    eligible = [[allowed(i, j) for j in range(300)] for i in range(20)]
    assert told["ids"] == [row[:3] for row in lists(squares(q, x), eligible)]


def test_plans(files):
    assert json.loads(ok("graph", "x.npy", "-k", 3, "--plan", "--json"))["plan"]["peak_bytes"] > 0
    assert "predicted" in ok("range", "x.npy", "q.npy", "-r", 1, "--plan")


@pytest.mark.parametrize(
    "status, code, words, arguments",
    [
        (2, "InvalidArgument", "k=300 exceeds the 299 other rows of n=300 (use pad)", ["graph", "x.npy", "-k", "300"]),
        (2, "InvalidArgument", "k must be >= 1, got 0", ["graph", "x.npy", "-k", "0"]),
        (2, "InvalidArgument", "--symmetrize must be union or mutual", ["graph", "x.npy", "-k", "3", "--symmetrize", "both"]),
        (2, "Unsupported", ".npz", ["graph", "x.npy", "-k", "3", "--symmetrize", "union", "-o", "g.ivecs"]),
        (2, "InvalidArgument", "radius is NaN", ["range", "x.npy", "q.npy", "-r", "nan"]),
        (5, "CapacityExceeded", "the result has 6000 matches, max_results is 10; lower the radius, or pass max_results=6000", ["range", "x.npy", "q.npy", "-r", "inf", "--max-results", "10"]),
        (2, "InvalidArgument", "max_results must be >= 0", ["range", "x.npy", "q.npy", "-r", "1", "--max-results", "-1"]),
        (2, "InvalidArgument", "exceeds 3 eligible rows", ["knn", "x.npy", "q.npy", "-k", "4", "--eligible", "ids.txt"]),
        (2, "InvalidArgument", "the mask of eligible rows has 299 entries, corpus has 300 rows",
         ["knn", "x.npy", "q.npy", "-k", "1", "--eligible", "short.npy"]),
        (2, "InvalidArgument", "--label-rule needs --corpus-labels", ["knn", "x.npy", "q.npy", "-k", "1", "--label-rule", "other"]),
        (2, "InvalidArgument", 'unknown label rule "both"', ["knn", "x.npy", "q.npy", "-k", "1", "--label-rule", "both"]),
        (2, "InvalidArgument", "FIRST:LAST", ["knn", "x.npy", "q.npy", "-k", "1", "--eligible-ids", "5"]),
        (2, "InvalidArgument", "20 labels for the 300 rows of the corpus; give one label a row", ["knn", "x.npy", "q.npy", "-k", "1", "--corpus-labels", "query_labels.npy", "--query-labels", "query_labels.npy"]),
        (4, "IoError", "No such file", ["knn", "x.npy", "q.npy", "-k", "1", "--eligible", "none.npy"]),
        (5, "MemoryBudget", "needs at least", ["graph", "x.npy", "-k", "3", "--memory", "1KiB"]),
        (2, "InvalidArgument", "--resume DIR needs -o", ["knn", "x.npy", "q.npy", "-k", "1", "--resume", "d"]),
        (2, "InvalidArgument", "--resume DIR needs -o", ["range", "x.npy", "q.npy", "-r", "1", "--resume", "d"]),
        (2, "InvalidArgument", "--resume DIR needs -o", ["graph", "x.npy", "-k", "1", "--resume", "d"]),
    ],
)  # fmt: skip
def test_refusals(files, status, code, words, arguments):
    refused(status, code, words, *arguments)


@pytest.mark.parametrize("more", [[], ["--resume", "d"], ["--device", "cpu,cpu"]])
def test_a_bad_row_of_a_graph_is_named_as_one_of_the_corpus(more, files):
    x, _ = files
    x[207, 3] = np.nan
    np.save("x.npy", x)
    refused(3, "InvalidValue", "corpus row 207, column 3 is NaN (1 bad row in all)", "graph", "x.npy", "-k", "3", "-o", "o.npz", *more)
    assert not os.path.exists("o.npz")


SEARCHES = {  # of the rows below, in several blocks
    "knn": ["knn", "x.npy", "the 'queries'.npy", "-k", "20"],
    "range": ["range", "x.npy", "the 'queries'.npy", "-r", "2.5"],
    "graph": ["graph", "the 'queries'.npy", "-k", "5"],
}


def saved_in(folder):
    return sum(name.endswith(".vicinal-piece") for name in os.listdir(folder)) if os.path.isdir(folder) else 0


def stopped_by(number, command, folder):
    """Runs the command until one more piece is saved than there was, then sends the signal; None if it ended before."""
    pieces, end = saved_in(folder), time.monotonic() + 60
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and time.monotonic() < end and saved_in(folder) <= pieces:
        time.sleep(0.002)
    if process.poll() is not None:
        assert process.wait() == 0, process.stderr.read()
        return None
    process.send_signal(number)
    process.wait()
    return process


def large_files():
    random = np.random.default_rng(4)
    np.save("x.npy", random.standard_normal((3000, 16)).astype("f4"))
    np.save("the 'queries'.npy", random.standard_normal((40000, 16)).astype("f4"))


@pytest.mark.parametrize("kind", SEARCHES)
def test_resume_after_kills(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    large_files()
    ok(*SEARCHES[kind], "-o", "whole.npz")
    search = [COMMAND, *SEARCHES[kind], "-o", "pieces.npz", "--resume", "d", "--threads", "1"]
    seen = 0
    while stopped_by(signal.SIGKILL, search, "d"):
        seen += 1
        assert not os.path.exists("pieces.npz")
        if seen == 5:
            ok(*search[1:])
            break
    assert seen >= 1
    assert open("pieces.npz", "rb").read() == open("whole.npz", "rb").read()
    assert not os.path.exists("d")


@pytest.mark.parametrize("words", [
    ["knn", "x.npy", "q.npy", "-k", "5"], ["range", "x.npy", "q.npy", "-r", "3"], ["graph", "x.npy", "-k", "5"],
    ["truth", "x.npy", "--queries", "q.npy", "-k", "5"],
])  # fmt: skip
def test_pieces_stay_until_the_result_is_out(words, files):
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, *words, "--resume", "d", "-o", "npz:-"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4 and "cannot write to stdout" in done.stderr
    assert saved_in("d") > 0
    ok(*words, "--resume", "d", "-o", "-")
    assert not os.path.exists("d")


@pytest.mark.parametrize("kind", SEARCHES)
def test_an_interrupted_search_says_what_is_saved_and_how_to_go_on(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    large_files()
    ok(*SEARCHES[kind], "-o", "whole.npz")
    process = stopped_by(signal.SIGINT, [COMMAND, *SEARCHES[kind], "-o", "my pieces.npz", "--resume", "d $1", "--threads", "1"], "d $1")
    assert process is not None and process.returncode == 130
    said = process.stderr.read().splitlines()[-1]
    assert said.startswith("vicinal: error [Cancelled]: interrupted; ") and " of the pairs are saved in 'd $1'; to go on: " in said
    assert 0 < float(said.split("; ")[1].split()[0]) < 100
    done = subprocess.run(said.split("; to go on: ")[1], shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert open("my pieces.npz", "rb").read() == open("whole.npz", "rb").read()
    assert not os.path.exists("d $1")
