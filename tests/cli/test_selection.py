"""vicinal select from outside: files in and out, both ends, payloads, the list, errors in one line."""

import json

import numpy as np
import pytest
from conftest import call


@pytest.fixture
def scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(5).integers(-20, 20, (12, 300)).astype("f4")  # whole numbers: ties are many
    x[:, 7] = np.nan
    np.save("x.npy", x)
    np.savez("many.npz", a=x, b=np.arange(5, dtype=">u8"))
    np.save("labels.npy", np.arange(x.size, dtype=">i4").reshape(x.shape))
    return x


def first(x, k, largest=False):
    key = np.where(np.isnan(x), np.inf, -x if largest else x)
    return np.lexsort((np.broadcast_to(np.arange(x.shape[1]), x.shape), key, np.isnan(x)), axis=-1)[:, :k]


def test_several_devices_write_the_file_of_one(scores, tmp_path):
    call("select", "x.npy", "-k", 6, "--device", "cpu", "-o", "one.npz").succeeds()
    out = call("select", "x.npy", "-k", 6, "--device", "cpu,cpu", "-o", "two.npz", "--explain").succeeds().out
    assert "2 devices, each with 6 rows: one pass" in out
    assert "on cpu,cpu (threshold" in out
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_table(scores):
    out = call("select", "x.npy", "-k", 6, "--explain").succeeds().out
    ids = first(scores, 6)
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["row", "id", "value"]
    assert lines[1].split()[:3] == ["0", str(ids[0, 0]), f"{scores[0, ids[0, 0]]:#.6g}"]
    assert "and 4 rows more; 2 values more a row" in out
    assert "6 smallest of 300 values of each of 12 rows, f32: " in out and "why " in out and "threshold" in out
    assert "possible" in out and "threshold; merge; bitonic" in out


@pytest.mark.parametrize("largest", [False, True])
def test_json(scores, largest):
    result = call("select", "many.npz:a", "-k", 5, "--json", "--explain", *["--largest"] * largest).succeeds().json
    ids = first(scores, 5, largest)
    assert result["ids"] == ids.tolist() and result["values"] == np.take_along_axis(scores, ids, 1).tolist()
    assert (result["command"], result["algorithm"], result["device"], result["largest"]) == ("select", "threshold", "cpu", largest)
    assert result["input"]["type"] == "f32" and result["input"]["mapped"] and result["why"]
    assert {"name": "heap", "refusal": None} in result["choices"] and "quick_warp" not in {one["name"] for one in result["choices"]}
    assert call("select", "x.npy", "-k", 300, "--json").succeeds().json["values"][0][299] is None  # NaN
    line = call("select", "many.npz:b", "-k", 1, "--largest", "--json").succeeds().json
    assert (line["values"], line["input"]["rows"], line["input"]["type"]) == ([[4]], 1, "u64")


def test_files(scores):
    ids = first(scores, 9)
    for name in ("heap", "radix"):
        out = call("select", "x.npy", "-k", 9, "--payload", "labels.npy", "--algorithm", name, "-o", "out.npz").succeeds().out
        assert f"({name}, " in out and out.endswith("wrote out.npz\n")
        with np.load("out.npz") as saved:
            assert np.array_equal(saved["ids"], ids) and saved["values"].dtype == np.float32
            assert saved["values"].tobytes() == np.take_along_axis(scores, ids, 1).tobytes()
            assert saved["payload"].dtype == np.int32 and np.array_equal(saved["payload"], ids + 300 * np.arange(12)[:, None])
    call("select", "x.npy", "-k", 9, "-o", "ids.npy", "--threads", 2).succeeds()
    assert np.array_equal(np.load("ids.npy"), ids)
    call("select", "x.npy", "-k", 9, "--unsorted", "-o", "set.npy").succeeds()
    assert np.array_equal(np.sort(np.load("set.npy")), np.sort(ids))
    assert json.loads(call("select", "x.npy", "-k", 9, "-o", "ids.npy", "--json").succeeds().out)["output"] == "ids.npy"


def test_streams(scores):
    text = b"3,1,nan\n-0,0,-1\n"
    out = call("select", "-", "-k", 2, "-o", "-", input=text).succeeds().out
    assert out == "id_0,id_1,v_0:f64,v_1:f64\n1,0,1,3\n2,0,-1,-0\n"
    call("select", "-", "-k", 2, "-o", "-", "--json", input=text).fails(2, "InvalidArgument", "exclude each other")


def test_list():
    text = call("select", "--list").succeeds().out
    names = [line.split()[0] for line in text.splitlines()]
    assert names[0] == "auto" and "heap" in names and "cuda" in text
    algorithms = call("select", "--list", "--json").succeeds().json["algorithms"]
    assert [one["name"] for one in algorithms] == names and set(algorithms[1]) == {"name", "devices", "source", "about"}


@pytest.mark.parametrize("arguments, status, code, pattern", [
    ([], 2, "InvalidArgument", "FILE is required: vicinal select FILE -k K"),
    (["x.npy"], 2, "InvalidArgument", "-k is required: vicinal select FILE -k K"),
    (["x.npy", "-k", 0], 2, "InvalidArgument", "k must be >= 1, got 0"),
    (["x.npy", "-k", 301], 2, "InvalidArgument", "k=301 exceeds the 300 values of a row"),
    (["x.npy", "-k", 2.5], 2, "InvalidArgument", "-k must be an integer"),
    (["x.npy", "-k", 1, "--algorithm", "haep"], 2, "InvalidArgument", 'did you mean "heap"'),
    (["x.npy", "-k", 1, "--algorithm", "quick_warp"], 2, "InvalidArgument", "runs on CUDA only"),
    (["x.npy", "-k", 1, "--payload", "many.npz:b"], 2, "InvalidArgument", "many.npz:b has 1 x 5 items, x.npy has 12 x 300"),
    (["x.npy", "-k", 1, "-o", "a.fvecs"], 2, "Unsupported", "vicinal writes selections to .npy, .npz, .csv, .tsv"),
    (["x.npy", "-k", 1, "-o", "no/a.npz"], 4, "IoError", "no"),
    (["x.foo", "-k", 1], 2, "Unsupported", "vicinal reads values from .npy"),
    (["nothing.npy", "-k", 1], 4, "IoError", "nothing.npy"),
    (["x.npy", "-k", 1, "--device", "gpu"], 2, "InvalidArgument", 'unknown device "gpu"'),
])  # fmt: skip
def test_errors(scores, arguments, status, code, pattern):
    call("select", *arguments).fails(status, code, pattern)
