"""vicinal.plots: the numbers against plain counting, and that a figure comes out."""

import numpy as np
import pytest
import vicinal
from vicinal import plots


@pytest.fixture
def star():
    """Row 0 is the nearest of all others."""
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    return np.vstack([[0, 0], np.stack([np.cos(angles), np.sin(angles)], 1) * (1 + np.arange(8)[:, None] / 100)])


def test_hubness(star):
    found = vicinal.knn_graph(star * [[1], *[[2]] * 8], 1)
    told = plots.hubness(found, 2)
    expected = np.array([(found.ids == row).sum() for row in range(9)])
    np.testing.assert_array_equal(told.in_degree, expected)
    centred = expected - expected.mean()
    assert told.skewness == pytest.approx((centred**3).mean() / (centred**2).mean() ** 1.5)
    assert told.never == (expected == 0).sum() and told.hubs[0] == expected.argmax() and len(told.hubs) == 2
    padded = vicinal.knn(star[:2], star, 4, pad=True)
    assert plots.hubness(padded).in_degree.tolist() == [9, 9]
    ring = vicinal.knn_graph(np.repeat([[0.0], [9.0]], 2, 0), 1)
    assert plots.hubness(ring).skewness == 0
    with pytest.raises(vicinal.InvalidArgument):
        plots.hubness(vicinal.merge([found]))


def test_figures(star, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: not run")
    for number, found in enumerate((vicinal.knn_graph(star, 3), vicinal.knn_graph(star, 3, symmetrize="mutual"),
                                    vicinal.range_search(star, star + 1, 1.0), vicinal.range_search(star, star, -1.0),
                                    vicinal.knn(star[:2], star, 4, pad=True))):  # fmt: skip
        figure = plots.graph(found)
        assert len(figure.axes) == 3
        figure.savefig(tmp_path / f"{number}.svg")
        assert (tmp_path / f"{number}.svg").stat().st_size > 5000


def test_matches(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: not run")
    rng = np.random.default_rng(2)
    small, large = rng.integers(0, 256, (40, 60), dtype=np.uint8), rng.random((50, 30, 3))
    places = rng.random((5, 4)) * 30  # further columns are not read
    found = vicinal.match(np.eye(5), np.eye(5)[[2, 0, 1]])
    for ids, words in ((found, {}), (found.ids, {"below": True}), (found, {"wrong": [True, False, False]}), ([], {}), (found.ids[:1], {})):
        figure = plots.matches(small, large, places, places[:3], ids, **words)
        (axes,) = figure.axes
        drawn = [segment for lines in axes.collections if hasattr(lines, "get_segments") for segment in lines.get_segments()]
        count = len(getattr(ids, "ids", ids))
        assert len(drawn) == count and axes.get_title().startswith(f"{count} match")
        if count == 3:
            moved = [0, 40] if "below" in words else [60, 0]
            wanted = {(*places[a, :2], *(places[b, :2] + moved)) for a, b in found.ids}
            assert {tuple(segment.ravel()) for segment in drawn} == wanted
            assert ("1 of them wrong" in axes.get_title()) == ("wrong" in words)
        figure.savefig(tmp_path / "matches.png")
    for change, named in (
        (dict(picture_a=small[0]), "picture_a must be"), (dict(keypoints_b=[1, 2]), "keypoints_b must be"), (dict(matches=[[0, 3]]), "3 keypoints"),
        (dict(matches=[[0.5, 1]]), "integers"), (dict(wrong=[True]), "wrong has shape"),
    ):  # fmt: skip
        given = dict(picture_a=small, picture_b=large, keypoints_a=places, keypoints_b=places[:3], matches=found)
        with pytest.raises(vicinal.InvalidArgument, match=named):
            plots.matches(**{**given, **change})
