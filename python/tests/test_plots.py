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
