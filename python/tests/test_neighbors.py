"""vicinal.neighbors beside scikit-learn: its checks of estimators, its answers, its errors."""

import ast
import copy
import importlib.util
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import vicinal

theirs = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed: not run")
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from vicinal import neighbors as ours

CHECKS = {
    "NearestNeighbors": 41, "KNeighborsTransformer": 47, "RadiusNeighborsTransformer": 47, "KNeighborsClassifier": 60,
    "KNeighborsRegressor": 53, "RadiusNeighborsClassifier": 60, "RadiusNeighborsRegressor": 53, "LocalOutlierFactor": 44,
}  # fmt: skip
METRICS = ["euclidean", "l2", "sqeuclidean", "manhattan", "cityblock", "l1", "chebyshev", "cosine", "minkowski"]


@pytest.fixture
def data(rng):
    """Rows with duplicates, labels and queries of which some are rows."""
    x = rng.standard_normal((60, 6))
    x[41] = x[3]
    queries = np.vstack([rng.standard_normal((20, 6)), x[[3, 17]]])
    return x, rng.integers(0, 3, 60), queries


def both(name, **parameters):
    return getattr(ours, name)(**parameters), getattr(theirs, name)(**parameters)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_scikit_learn(name):
    results = check_estimator(getattr(ours, name)(algorithm="brute"), on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
    if __import__("sklearn").__version__.startswith("1.9."):
        assert len(results) == CHECKS[name]
        labels_in_pandas = name.endswith(("Classifier", "Regressor")) and importlib.util.find_spec("pandas") is None
        skipped = sum(result["status"] == "skipped" for result in results)
        assert skipped == 1 + ("Classifier" in name) + labels_in_pandas  # as for scikit-learn's own


def test_tensors(data):
    torch = pytest.importorskip("torch", reason="torch is not installed: not run")
    x, y, queries = data
    model, reference = both("KNeighborsClassifier", algorithm="brute")
    model.fit(torch.from_numpy(x).requires_grad_(), torch.from_numpy(y))
    reference.fit(x, y)
    assert model.predict(torch.from_numpy(queries)).tolist() == reference.predict(queries).tolist()
    assert isinstance(model.kneighbors(torch.from_numpy(queries))[1], np.ndarray)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "u1", "i4", "?"])
def test_answers(data, metric, dtype):
    x, _, queries = data
    x, queries = ((10 * values).astype(dtype) for values in (np.abs(x), np.abs(queries)))
    mine, reference = (model.fit(x) for model in both("NearestNeighbors", n_neighbors=7, metric=metric, radius=2))
    reference.set_params(algorithm="brute").fit(x)
    for asked in (queries, None):
        (distances, ids), (expected, _) = mine.kneighbors(asked), reference.kneighbors(asked)
        assert distances.dtype == np.float64 and ids.dtype == np.int64
        np.testing.assert_allclose(distances, expected, rtol=1e-6, atol=2e-7)
        rows = x.astype("f8")
        own = rows if asked is None else asked.astype("f8")
        if metric == "sqeuclidean":  # the ids are those of the distances, ties by id
            all_pairs = ((own[:, None] - rows[None]) ** 2).sum(-1)
            if asked is None:
                np.fill_diagonal(all_pairs, np.inf)
            np.testing.assert_array_equal(ids, np.argsort(all_pairs, kind="stable")[:, :7])
        np.testing.assert_array_equal(mine.kneighbors(asked, return_distance=False), ids)
    assert mine.kneighbors(queries).certificate.all() and mine.kneighbors().stats.threads >= 1


def test_radius_in_both_orders(data):
    x, _, queries = data
    mine, reference = (model.fit(x) for model in both("NearestNeighbors", radius=1.5, algorithm="brute"))
    for asked in (queries, None):
        for sort in (False, True):
            (distances, ids), (expected, near) = (
                m.radius_neighbors(asked, sort_results=sort) for m in (mine, reference)
            )
            assert distances.dtype == ids.dtype == object and len(ids) == len(near)
            for row in range(len(ids)):
                assert ids[row].dtype == np.int64 and distances[row].dtype == np.float64
                np.testing.assert_allclose(distances[row], expected[row], atol=1e-7)
                assert set(ids[row]) == set(near[row]) and (sort or (ids[row] == near[row]).all())
        alone = mine.radius_neighbors(asked, return_distance=False)
        assert all((a == b).all() for a, b in zip(alone, mine.radius_neighbors(asked)[1]))
    graph, expected = (m.radius_neighbors_graph(queries, mode="distance") for m in (mine, reference))
    assert type(graph) is type(expected) and abs(graph - expected).max() < 1e-7
    assert len(mine.radius_neighbors([[9.0] * 6], 0.5, return_distance=False)[0]) == 0


@pytest.mark.parametrize("weights", ["uniform", "distance", None])
@pytest.mark.parametrize("name", ["KNeighborsClassifier", "KNeighborsRegressor", "RadiusNeighborsClassifier",
                                  "RadiusNeighborsRegressor"])  # fmt: skip
def test_predictions(data, name, weights):
    x, y, queries = data
    parameters = dict(weights=weights) if name.startswith("K") else dict(weights=weights, radius=3.0)
    for target in (y, np.stack([y, y[::-1]], 1)):
        mine, reference = (model.fit(x, target) for model in both(name, **parameters, algorithm="brute"))
        np.testing.assert_allclose(mine.predict(queries), reference.predict(queries))
        if "Classifier" in name:
            np.testing.assert_allclose(mine.predict_proba(queries), reference.predict_proba(queries))
            np.testing.assert_array_equal(mine.classes_, reference.classes_)


def test_graphs_keep_zeros_and_order(data):
    x, y = data[0][:41], data[1][:41]  # without duplicates, which scikit-learn's brute force lists in any order
    for mode, width in (("distance", 6), ("connectivity", 5)):
        graph, expected = (m.fit_transform(x) for m in both("KNeighborsTransformer", mode=mode, algorithm="brute"))
        assert type(graph) is type(expected) and graph.nnz == expected.nnz == 41 * width
        assert (graph.dtype, graph.indices.dtype, graph.indptr.dtype) == (
            expected.dtype, expected.indices.dtype, expected.indptr.dtype)  # fmt: skip
        assert abs(graph - expected).max() < 1e-7
    assert (np.diff(graph.indptr) == 5).all()
    found, expected = (make_pipeline(transformer.set_params(n_neighbors=9), theirs.KNeighborsClassifier(5, metric="precomputed"))
                       .fit(x, y).predict(x) for transformer in both("KNeighborsTransformer"))  # fmt: skip
    np.testing.assert_array_equal(found, expected)


def test_outliers(data):
    x = data[0].copy()
    x[5] *= 50
    for parameters in (dict(), dict(n_neighbors=4, metric="manhattan"), dict(contamination=0.1)):
        mine, reference = both("LocalOutlierFactor", **parameters)
        np.testing.assert_array_equal(mine.fit_predict(x), reference.fit_predict(x))
        np.testing.assert_allclose(mine.negative_outlier_factor_, reference.negative_outlier_factor_)


@pytest.mark.parametrize("parameters, x", [
    (dict(metric="canberra"), None), (dict(metric="minkowski", p=3), None), (dict(algorithm="kd_tree"), None),
    (dict(metric="minkowski", metric_params={"w": np.ones(6)}), None), (dict(), "sparse"),
    (dict(metric=lambda a, b: abs(a - b).max()), None),
], ids=["canberra", "p=3", "kd_tree", "weighted", "sparse", "callable"])  # fmt: skip
def test_the_rest_is_left_to_scikit_learn(data, parameters, x):
    from scipy.sparse import csr_matrix

    rows, queries = (csr_matrix(a) if x else a for a in (data[0], data[2]))
    mine, reference = (model.fit(rows) for model in both("NearestNeighbors", **parameters))
    assert mine._fit_method == reference._fit_method
    for got, expected in zip(mine.kneighbors(queries), reference.kneighbors(queries)):
        np.testing.assert_array_equal(got, expected)
    assert not isinstance(mine.kneighbors(queries), vicinal.Neighbors)


@pytest.mark.parametrize("call", [
    lambda m, x: m.kneighbors(x, 61), lambda m, x: m.kneighbors(None, 60), lambda m, x: m.kneighbors(x, 0),
    lambda m, x: m.kneighbors(x, 2.5), lambda m, x: m.kneighbors(x[:, :2]), lambda m, x: m.kneighbors(x[0]),
    lambda m, x: m.kneighbors(np.where(x > 1, np.nan, x)), lambda m, x: m.kneighbors(x[:0]),
    lambda m, x: m.kneighbors_graph(x, mode="x"), lambda m, x: clone(m).kneighbors(x),
    lambda m, x: m.radius_neighbors(x, sort_results=True, return_distance=False),
    lambda m, x: m.set_params(n_neighbors=-1).fit(x), lambda m, x: m.set_params(metric="other").fit(x),
])  # fmt: skip
def test_errors_are_those_of_scikit_learn(data, call):
    raised = []
    for model in both("NearestNeighbors", algorithm="brute"):
        with pytest.raises(Exception) as error:
            call(model.fit(data[0]), data[2])
        raised.append(error)
    assert raised[0].type is raised[1].type and str(raised[0].value) == str(raised[1].value)


def test_few_columns_have_trees(data):
    for columns, method in ((5, "kd_tree"), (6, "brute")):
        mine = ours.NearestNeighbors().fit(data[0][:, :columns].tolist())
        assert mine._fit_method == method and mine.algorithm == "auto"
        assert isinstance(mine.kneighbors(), vicinal.Neighbors) == (columns == 6)


@pytest.mark.parametrize("name", ["NearestNeighbors", "KNeighborsRegressor", "RadiusNeighborsRegressor"])
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
@pytest.mark.parametrize("metric", ["minkowski", "manhattan", "chebyshev"])
def test_many_rows_of_few_columns_are_served_where_that_is_faster(rng, name, columns, metric):
    x, queries = rng.integers(0, 40, (1024, columns)) / 8, rng.integers(0, 40, (70, columns)) / 8
    few = getattr(ours, name)(metric=metric).fit(x[:1023], x[:1023, 0])
    assert few._fit_method == "kd_tree"
    served = columns >= 3 or name.startswith("K")
    mine, tree = (getattr(module, name)(metric=metric).fit(x, x[:, 0]) for module in (ours, theirs))
    assert mine._fit_method == ("brute" if served else "kd_tree") and mine.algorithm == "auto"
    if name != "RadiusNeighborsRegressor":
        assert isinstance(mine.kneighbors(queries), vicinal.Neighbors) == served
        for one in (queries, None):
            np.testing.assert_allclose(mine.kneighbors(one)[0], tree.kneighbors(one)[0], rtol=1e-12)
    if name != "KNeighborsRegressor":
        for one in (queries, None):  # no distance is at the boundary
            found, want = mine.radius_neighbors(one, 0.3), tree.radius_neighbors(one, 0.3)
            for some, others in zip(found[1], want[1]):
                np.testing.assert_array_equal(np.sort(some), np.sort(others))


def test_copies_and_execution(data):
    x, _, queries = data
    heard = []
    model = ours.NearestNeighbors(
        n_neighbors=3, memory="64MiB", n_jobs=1, progress=lambda *done: heard.append(done)
    ).fit(x)
    result = model.kneighbors(queries)
    assert heard and result.stats.threads == 1 and result.stats.planned_bytes <= 64 << 20
    model.set_params(progress=None)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone(model).fit(x)):
        for mine, again in zip(result, other.kneighbors(queries)):
            np.testing.assert_array_equal(mine, again)
    with pytest.raises(vicinal.InvalidArgument):
        model.set_params(device="abacus").kneighbors(queries)
    with pytest.raises(ValueError, match="'device' parameter of NearestNeighbors"):
        model.set_params(device=3).fit(x)
    assert "memory='64MiB'" in repr(ours.NearestNeighbors(memory="64MiB"))


@pytest.mark.parametrize("first, then", [
    (dict(metric="l1"), dict(metric="cosine")), (dict(p=1), dict(p=2)), ({}, dict(metric="correlation")),
])  # fmt: skip
def test_the_metric_is_that_of_fit(data, first, then):
    """Parameters that are set later wait for the next fit, as in scikit-learn."""
    x, _, queries = data
    mine, other = (model.fit(x).set_params(**then) for model in both("NearestNeighbors", algorithm="brute", **first))
    for given in (queries, None):
        found = mine.kneighbors(given)
        assert isinstance(found, vicinal.Neighbors)
        np.testing.assert_allclose(found.distances, other.kneighbors(given)[0], atol=1e-7)
        near, reference = (model.radius_neighbors(given, 2.0, sort_results=True)[0] for model in (mine, other))
        for row in range(len(near)):
            np.testing.assert_allclose(near[row], reference[row], atol=1e-7)


def test_rows_of_float32_are_not_copied(rng):
    x = rng.standard_normal((50, 8)).astype("f4")
    model = ours.NearestNeighbors().fit(x)
    assert model._fit_X is x
    assert model.kneighbors(x[:9]).stats.copied_bytes == 0 and model.kneighbors().stats.copied_bytes == 0


def test_importing_vicinal_imports_no_scikit_learn():
    program = (
        "import sys, vicinal; assert not {'sklearn', 'scipy', 'vicinal.neighbors', 'vicinal.compat'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_stub_has_the_constructors():
    """python/vicinal/neighbors.pyi spells out what is made at run time."""
    stub = ast.parse((Path(vicinal.__file__).parent / "neighbors.pyi").read_text())
    known = {node.name: node for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for name in ours.__all__:
        node = known[name]
        if isinstance(node, ast.ClassDef):
            arguments = next(inner.args for inner in node.body if getattr(inner, "name", "") == "__init__")
            arguments.args.pop(0)
        else:
            arguments = node.args
        parameters = list(inspect.signature(getattr(ours, name)).parameters.values())
        by_place = [p for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
        by_name = [p for p in parameters if p.kind == p.KEYWORD_ONLY]
        assert [a.arg for a in arguments.args] == [p.name for p in by_place]
        assert [a.arg for a in arguments.kwonlyargs] == [p.name for p in by_name]
        defaults = [ast.literal_eval(value) for value in (*arguments.defaults, *arguments.kw_defaults)]
        assert defaults == [p.default for p in (*by_place, *by_name) if p.default is not p.empty]
