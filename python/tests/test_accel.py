"""patch_sklearn and python -m vicinal.accel: programs that know nothing of vicinal use it, and come out the same."""

import runpy
import subprocess
import sys
import types

import pytest
import vicinal

pytest.importorskip("sklearn", reason="scikit-learn is not installed: not run")

PROGRAM = """
import sys
import numpy as np
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors, NearestCentroid

x = np.random.default_rng(1).standard_normal((80, 6))
print(sys.argv[1:], KNeighborsClassifier().fit(x, x[:, 0] > 0).predict(x[:9] + 0.2).tolist())
print(NearestNeighbors(algorithm="kd_tree").fit(x).kneighbors(x[:2])[1].tolist(), Isomap().fit_transform(x).shape)
"""


def test_a_script(tmp_path, capsys, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    monkeypatch.setattr(sys, "argv", [script, "a", "-b"])
    runpy.run_path(str(script))  # by scikit-learn alone
    script.write_text(PROGRAM + "sys.exit(7)")
    done = subprocess.run([sys.executable, "-m", "vicinal.accel", script, "a", "-b"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, capsys.readouterr().out)
    lines = [line.split() for line in done.stderr.splitlines()]
    assert lines[0][:4] == ["estimator", "method", "where", "calls"]
    seen = {tuple(line[:4]): line[5:] for line in lines[1:]}
    assert seen["KNeighborsClassifier", "kneighbors", "vicinal", "1"] == []
    assert seen["NearestNeighbors", "kneighbors", "scikit-learn", "1"] == ["algorithm=kd_tree"]
    assert ("NearestNeighbors", "kneighbors", "vicinal", "1") in seen  # Isomap's
    usage = subprocess.run([sys.executable, "-m", "vicinal.accel"], capture_output=True, text=True)
    assert usage.returncode == 2
    assert usage.stderr == "usage: python -m vicinal.accel [--quiet] script.py [argument ...]\n"


def test_patching_and_back():
    import sklearn.manifold._isomap as user
    import sklearn.neighbors as theirs

    original = theirs.NearestNeighbors
    vicinal.patch_sklearn()
    vicinal.patch_sklearn()
    try:
        assert theirs.NearestNeighbors is user.NearestNeighbors is vicinal.neighbors.NearestNeighbors
        assert vicinal.neighbors.theirs.KNeighborsClassifier is vicinal.neighbors.KNeighborsClassifier
        model = theirs.KNeighborsClassifier(n_neighbors=1, algorithm="brute").fit([[0.0], [1.0]], [3, 4])
        assert model.predict_proba([[0.9]]).tolist() == [[0.0, 1.0]]
        assert "KNeighborsClassifier" in vicinal.accel.report()
        assert {call.where for call in vicinal.accel.calls()} == {"vicinal"}
    finally:
        vicinal.unpatch_sklearn()
    assert theirs.NearestNeighbors is user.NearestNeighbors is original


def test_unpatching_reaches_modules_that_were_imported_meanwhile(monkeypatch):
    import sklearn.neighbors as theirs

    before, meanwhile = types.ModuleType("before"), types.ModuleType("meanwhile")
    before.Model = vicinal.neighbors.NearestNeighbors  # asked for by name
    monkeypatch.setitem(sys.modules, "before", before)
    vicinal.patch_sklearn()
    try:
        meanwhile.Model = theirs.NearestNeighbors
        monkeypatch.setitem(sys.modules, "meanwhile", meanwhile)
    finally:
        vicinal.unpatch_sklearn()
    assert meanwhile.Model is theirs.NearestNeighbors is not vicinal.neighbors.NearestNeighbors
    assert before.Model is vicinal.neighbors.NearestNeighbors


def test_packages_that_are_out_of_reach_are_told(monkeypatch):
    from vicinal import accel

    monkeypatch.setattr(accel, "_calls", {})
    assert "not reached" not in accel.report()
    for name in ("umap", "faiss", "hnswlib"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert accel.out_of_reach() == ("faiss", "umap", "hnswlib")
    lines = accel.report().splitlines()
    assert lines[0] == "no search of neighbours was made"
    assert lines[1:] == [
        "not reached: faiss (vicinal.compat.faiss has its calls)",
        "not reached: umap (its precomputed_knn takes those of vicinal.knn_graph(..., include_self=True))",
        "not reached: hnswlib",
    ]
