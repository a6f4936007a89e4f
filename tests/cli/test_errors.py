"""The bad-input table of docs/semantics.md as far as it reaches the command: status, one line, nothing on stdout."""

import os
import re
import resource

import numpy as np
import pytest
from conftest import ROOT, call

USAGE = [
    ([], "no command given; commands: knn, graph, range, truth, select, index, verify, convert, "),
    (["kn"], "unknown command kn; did you mean knn\\?"),
    (["kn", "a.npy", "b.npy", "-k", "10"], "unknown command kn; did you mean knn\\?"),
    (["kn", "a.npy", "b.npy", "--metrc", "l1"], "unknown command kn; did you mean knn\\?"),
    (["sel", "a.npy"], "unknown command sel; did you mean select\\?"),
    (["search", "a.npy"], "unknown command search; commands: knn, "),
    (["help", "kn"], "unknown command kn; did you mean knn\\?"),
    (["help", "-k"], "unknown option -k; vicinal help --help lists all"),
    (["--quiet"], "unknown option --quiet; vicinal --help lists all"),
    (["knn", "a.npy", "b.npy", "-k", "3", "--quiet"], "unknown option --quiet; vicinal knn --help lists all"),
    (["knn", "a.npy", "--queries", "b.npy", "-k", "3"], "unknown option --queries; QUERIES stands without a name before it"),
    (["knn", "a.npy", "b.npy", "-j", "3"], "unknown option -j; vicinal knn --help lists all"),
    (["knn", "a.npy", "b.npy", "-K", "3"], "unknown option -K; did you mean -k\\?"),
    (["knn", "a.npy", "b.npy", "-k", "3", "--mem", "1GiB"], "unknown option --mem; did you mean --memory\\?"),
    (["--jsno"], "unknown option --jsno"),
    (["knn"], "CORPUS is required"),
    (["knn", "a.npy"], "QUERIES is required"),
    (["knn", "a.npy", "b.npy"], "-k is required"),
    (["knn", "a.npy", "b.npy", "-k"], "-k needs a value"),
    (["knn", "a.npy", "b.npy", "-k", "2.5"], "-k must be an integer, got 2.5"),
    (["knn", "a.npy", "b.npy", "-k", "ten"], "-k must be an integer, got ten"),
    (["knn", "a.npy", "b.npy", "-k", "9" * 20], "-k does not fit 64 bits"),
    (["knn", "a.npy", "b.npy", "-k", "3", "-k", "4"], "-k was given more than once"),
    (["knn", "a.npy", "b.npy", "c.npy", "-k", "3"], "unexpected argument c.npy"),
    (["knn", "a.npy", "b.npy", "-k", "3", "--metrc", "l1"], "unknown option --metrc; did you mean --metric\\?"),
    (["knn", "a.npy", "b.npy", "--trheads=3"], "unknown option --trheads; did you mean --threads\\?"),
    (["knn", "a.npy", "b.npy", "-k", "3", "--metric", "l2sq"], 'unknown metric "l2sq"; did you mean "sqeuclidean"'),
    (["knn", "a.npy", "b.npy", "-k", "3", "--distance-type", "f16"], 'distance type "f16"'),
    (["knn", "a.npy", "b.npy", "-k", "3", "--degenerate", "two"], '"two"'),
    (["knn", "a.npy", "b.npy", "-k", "3", "--memory", "lots"], 'memory "lots"'),
    (["knn", "a.npy", "b.npy", "-k", "3", "--distances", "d.npy"], "--distances PATH needs -o"),
    (["knn", "a.npy", "b.npy", "-k", "3", "--metric", "emd"], "emd is a distance of indexes alone: vicinal index build --metric emd"),
    (["range", "a.npy", "b.npy", "-r", "3", "--metric", "wasserstein"], "emd is a distance of indexes alone"),
    (["verify", "a.npy", "b.npy", "r.npy", "--metric", "dtw"], "dtw is a distance of indexes alone"),
    (["completion", "tcsh"], "unknown shell tcsh; shells: bash, zsh, fish"),
]


@pytest.mark.parametrize("arguments, pattern", USAGE)
def test_usage(vicinal, arguments, pattern):
    vicinal(*arguments).fails(2, "InvalidArgument", pattern)


COMMANDS = ["knn", "graph", "range", "truth", "select", "index", "verify", "convert", "recall", "merge", "info", "bench", "demo", "completion", "man", "help"]


def test_help_as_a_command(vicinal):
    assert vicinal("help").succeeds().out == vicinal("--help").out
    for command in COMMANDS:
        assert vicinal("help", command).succeeds().out == vicinal(command, "--help").out
        assert f"\n  {command} " in vicinal("help").out


def test_messages_name_no_types_of_cpp():
    """What the library says reaches users of the command and of Python, too: no word of its C++ interface is in a message."""
    files = [path for folder in ("src", "cli") for path in (ROOT / folder).rglob("*.?pp")]
    assert len(files) > 200
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith(("//", "#include")):
                continue
            for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
                assert not re.search(r"\b[A-Z]\w*::\w|std::|vicinal::", text), f"{path}:{number}: {text}"


def test_files_may_have_names_of_commands(vicinal, tmp_path):
    for name in ("graph", "help"):
        (tmp_path / name).write_text("one\ntwo\n")
    found = vicinal("knn", "graph", "help", "-k", 1, "--metric", "levenshtein", "--json", cwd=tmp_path).succeeds()
    assert found.json["ids"] == [[0], [1]]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_slip_of_one_letter_is_understood(vicinal, command):
    for i in range(len(command) if len(command) > 2 else 0):
        slip = command[:i] + command[i + 1:]
        if slip in COMMANDS:
            continue
        vicinal(slip, "a.npy", "-k", "3").fails(2, "InvalidArgument", f"unknown command {slip}; did you mean {command}\\?")


def rows(shape, value=1.0, dtype=np.float32):
    return np.full(shape, value, dtype)


def spoiled(array, positions, value):
    array = array.copy()
    for position in positions:
        array[position] = value
    return array


ONES = rows((10, 64)) + np.arange(64, dtype=np.float32)

# name, corpus, queries, options, status, code, message
VALUES = [
    ("no rows", rows((0, 64)), ONES, ["-k", 1], 2, "InvalidArgument", "corpus has 0 rows"),
    ("no columns", rows((10, 0)), rows((10, 0)), ["-k", 1], 2, "InvalidArgument", "dimension is 0"),
    ("widths", ONES, rows((5, 30)), ["-k", 1], 2, "InvalidArgument", "query has d=30, corpus has d=64"),
    ("k negative", ONES, ONES, ["-k", -3], 2, "InvalidArgument", "k must be >= 1, got -3"),
    ("k zero", ONES, ONES, ["-k", 0], 2, "InvalidArgument", "k must be >= 1, got 0"),
    ("k too large", ONES, ONES, ["-k", 50], 2, "InvalidArgument", "k=50 exceeds the n=10 rows of the corpus"),
    ("one dimension", ONES, rows(64), ["-k", 1], 2, "InvalidArgument", r"expected 2 dimensions.*got 1 with shape \(64,\)"),
    ("NaN in queries", ONES, spoiled(rows((20, 64)), [(17, 3), (19, 0)], np.nan), ["-k", 1], 3, "InvalidValue",
     r"query row 17, column 3 is NaN \(2 bad rows in all\)"),
    ("infinity in corpus", spoiled(ONES, [(4, 9)], -np.inf), ONES, ["-k", 1], 3, "InvalidValue",
     "corpus row 4, column 9 is -?inf"),
    ("zero rows, cosine", spoiled(ONES, [5, 7], 0), ONES, ["-k", 1, "--metric", "cosine"], 3, "InvalidValue",
     "corpus row 5 is zero"),
    ("constant row, correlation", ONES, spoiled(ONES, [2], 8), ["-k", 1, "--metric", "correlation"], 3, "InvalidValue",
     "query row 2 is constant"),
    ("overflow of f32", rows((10, 64), 1e30), rows((1, 64), -1e30), ["-k", 1, "--metric", "sqeuclidean"], 3,
     "RangeError", "euclidean.*f64"),
    ("integers that no float holds", rows((10, 64), 2**53 + 1, np.int64), ONES, ["-k", 1], 3, "InvalidValue",
     "row 0, column 0 is 9007199254740993"),
    ("complex", rows((10, 64), 1, np.complex64), ONES, ["-k", 1], 2, "InvalidArgument", "complex64 not supported"),
    ("complex", rows((10, 64), 1, np.complex64), ONES, ["-k", 1], None, None, "not supported|unsupported|refused"),
    ("objects", np.array([["a", None]], object), ONES, ["-k", 1], 3, "FormatError", "object arrays are refused"),
    ("threads negative", ONES, ONES, ["-k", 1, "--threads", -2], 2, "InvalidArgument", "threads must be >= 0"),
    ("device cuda", ONES, ONES, ["-k", 1, "--device", "cuda"], 6, "DeviceError", "CUDA"),
    ("device unknown", ONES, ONES, ["-k", 1, "--device", "abacus"], 2, "InvalidArgument", "abacus"),
    ("memory too small", ONES, ONES, ["-k", 1, "--memory", "1k"], 5, "MemoryBudget", "1.0 KiB|1024"),
    ("hamming on floats", ONES, ONES, ["-k", 1, "--metric", "hamming"], 2, "InvalidArgument", "hamming"),
    ("distance type of hamming", ONES, ONES, ["-k", 1, "--distance-type", "u32"], 2, "InvalidArgument", "u32"),
]


@pytest.mark.parametrize("corpus, queries, options, status, code, pattern", [v[1:] for v in VALUES],
                         ids=[v[0] for v in VALUES])
def test_values(vicinal, tmp_path, corpus, queries, options, status, code, pattern):
    np.save(tmp_path / "c.npy", corpus)
    np.save(tmp_path / "q.npy", queries)
    done = vicinal("knn", tmp_path / "c.npy", tmp_path / "q.npy", *options, "-o", tmp_path / "out.npz", "--json")
    if status is None:  # the table gives a type error to Python; here either face of "not vectors" will do
        assert done.status in (2, 3)
        status, code = (2, "InvalidArgument") if done.status == 2 else (3, "FormatError")
    done.fails(status, code, pattern)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.npy", "q.npy"]


def npy_bytes(shape_text, descr="<f4", payload=b""):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape_text}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + payload


def fvecs(*widths):
    return b"".join(np.int32(d).tobytes() + np.ones(d, np.float32).tobytes() for d in widths)


FILES = [
    ("empty", "c.npy", b"", 3, "FormatError", "empty"),
    ("wrong magic", "c.npy", b"\x89PNG\r\n\x1a\n" + bytes(100), 3, "FormatError", "89 50 4E"),
    ("truncated", "c.npy", npy_bytes("(10, 64)", payload=bytes(100)), 3, "FormatError", ""),
    ("huge counts", "c.npy", npy_bytes("(1152921504606846976, 64)"), 3, "FormatError", ""),
    ("huge counts, fbin", "c.fbin", b"\xff\xff\xff\x7f\xff\xff\xff\x7f" + bytes(82), 3, "FormatError", "the file has 90"),
    ("mixed widths", "c.fvecs", fvecs(*[64] * 12, 63) + bytes(4), 3, "FormatError", "row 12 has d=63, expected 64"),
    ("unknown suffix", "c.parquet", b"PAR1", 2, "Unsupported", r"\.npy.*\.fvecs"),
    ("ids as vectors", "c.ivecs", fvecs(64, 64), 2, None, ""),
    ("not a zip", "c.npz", b"PK but not really", 3, "FormatError", ""),
]


@pytest.mark.parametrize("name, content, status, code, pattern", [f[1:] for f in FILES], ids=[f[0] for f in FILES])
def test_files(vicinal, tmp_path, name, content, status, code, pattern):
    (tmp_path / name).write_bytes(content)
    np.save(tmp_path / "q.npy", ONES)
    done = vicinal("knn", tmp_path / name, tmp_path / "q.npy", "-k", 1)
    done.fails(status, code or done.err.split("[")[1].split("]")[0], pattern)


def test_files_that_cannot_be_opened(vicinal, data):
    vicinal("knn", data.path("none.npy"), data.queries_path, "-k", 1).fails(4, "IoError", "none.npy: No such file")
    data.path("folder.npy").mkdir()
    vicinal("knn", data.path("folder.npy"), data.queries_path, "-k", 1).fails(4, "IoError", "folder.npy")


def test_files_without_permission(vicinal, data):
    """Root may read everything, so root asks as nobody."""
    data.corpus_path.chmod(0)
    options = {"preexec_fn": lambda: os.setuid(65534)} if os.geteuid() == 0 else {}
    try:
        vicinal("--version", **options).succeeds()
    except OSError:
        pytest.skip("nobody may not run the command here")
    vicinal("knn", *data.pair, "-k", 1, **options).fails(4, "IoError", "Permission denied")


def test_a_missing_member_of_an_npz(vicinal, data):
    np.savez(data.path("both.npz"), x=data.corpus)
    done = vicinal("knn", str(data.path("both.npz")) + ":y", data.queries_path, "-k", 1)
    done.fails(done.status, done.err.split("[")[1].split("]")[0], '"?y"?')
    assert done.status in (2, 3)


def test_outputs_are_checked_before_any_work(vicinal, data):
    """The corpus does not exist, and the complaint is about the output all the same."""
    nothing = ("knn", data.path("none.npy"), data.queries_path, "-k", 1, "-o")
    vicinal(*nothing, data.path("out.xyz")).fails(2, "Unsupported", r"\.npz")
    vicinal(*nothing, data.path("no/folder/out.npz")).fails(4, "IoError", "No such file")
    vicinal(*nothing, data.path("out.npz"), "--distances", data.path("d.ivecs")).fails(2, "Unsupported", "ivecs")
    assert data.names() == ["corpus.npy", "queries.npy"]


def test_what_a_format_cannot_hold(vicinal, data):
    large = ("knn", *data.pair, "-k", 2, "--first-id", 2**31 - 5, "-o")
    for name in ("out.ivecs", "out.ibin"):
        vicinal(*large, data.path(name)).fails(3, "RangeError", r"2147483\d\d\d.*npy")
    wide = ("knn", *data.pair, "-k", 2, "--distance-type", "f64", "-o", data.path("out.npy"), "--distances")
    for name in ("d.fvecs", "d.fbin"):
        vicinal(*wide, data.path(name)).fails(3, "RangeError", "npy")
    assert data.names() == ["corpus.npy", "queries.npy"]


def test_a_full_disk_keeps_the_old_file(vicinal, data):
    out = data.path("out.npy")
    out.write_bytes(b"old")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    done = call("knn", *data.pair, "-k", 100, "-o", out, preexec_fn=limit)
    done.fails(4, "IoError", "File too large")
    assert out.read_bytes() == b"old" and data.names() == ["corpus.npy", "out.npy", "queries.npy"]


def test_an_error_stays_one_line_whatever_it_quotes(vicinal):
    vicinal("knn", "a\nb.npy", "c.npy", "-k", "1\n2").fails(2, "InvalidArgument", "got 1 2")
    vicinal("--x\ny").fails(2, "InvalidArgument", "unknown option --x y")
