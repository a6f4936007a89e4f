"""Draws the CSV files of repro/results that repro/selection_gpu.py and repro/searches_gpu.py write, one SVG a figure, on the papers' axes.

    python3 repro/plot.py [--folder repro/results]

Needs matplotlib.
"""

import argparse
import collections
import csv
import math
import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "vicinal", "font.size": 8, "axes.grid": True, "grid.alpha": 0.3})
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parent.parent
# figure -> (title, what x is, its label)
X_N = (lambda p: p["n"], "n")
X_ROWS = (lambda p: p["rows"], "Q")
CURVES = {
    "komarov_fig5": ("Komarov 2014, figure 5: Q = 8192", *X_N),
    "komarov_fig6": ("Komarov 2014, figure 6: n = 65536", *X_ROWS),
    "komarov_fig7": ("Komarov 2014, figure 7: nQ = 2^27", lambda p: p["n"] / p["rows"], "n / Q"),
    "komarov_fig8": ("Komarov 2014, figure 8: nQ = 2^28, values alone", lambda p: p["n"] / p["rows"], "n / Q"),
    "komarov_fig9": ("Komarov 2014, figure 9: n = 2^20", *X_ROWS),
    "sismanis_fig2": ("Sismanis 2012, figure 2: one row", *X_N),
}
DASHES = {"vicinal": "-", "cub": "--", "torch": ":", "read": "-.", "std": "-.", "separate": "--", "in": "-."}


def points(path):
    with path.open() as file:
        for line in csv.DictReader(file):
            yield {"rows": int(line["rows"]), "n": int(line["n"]), "d": int(line.get("d", 0)), "k": int(line["k"]), "engine": line["engine"], "ms": float(line["milliseconds"])}


def colours(engines):
    ring = pyplot.get_cmap("tab20").colors
    plain = {engine: ring[i % len(ring)] for i, engine in enumerate(sorted(engines))}
    return plain | {"vicinal auto": "black", "read": "grey"}


def panels(title, lines, x, x_label, y, y_label, reads, path):
    """One panel for each k: a line an engine. y(point) may be None: not drawn."""
    ks = sorted({p["k"] for p in lines})
    colour = colours({p["engine"] for p in lines})
    figure, axes = pyplot.subplots(1, len(ks), figsize=(3.1 * len(ks) + 1.8, 3.6), sharey=True, squeeze=False)
    for k, axis in zip(ks, axes[0], strict=True):
        curves = collections.defaultdict(list)
        for p in lines + [{**p, "k": k} for p in reads]:
            if p["k"] == k and y(p) is not None:
                curves[p["engine"]].append((x(p), y(p)))
        for engine, xy in sorted(curves.items()):
            style = DASHES[engine.split()[0].split("::")[0]]
            axis.plot(*zip(*sorted(xy), strict=True), style, marker=".", markersize=3, color=colour[engine], label=engine, linewidth=2 if engine == "vicinal auto" else 1)
        axis.set(xscale="log", yscale="log", title=f"k = {k}", xlabel=x_label)
        axis.set_xscale("log", base=2)
    axes[0][0].set_ylabel(y_label)
    handles = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="center right", fontsize=7)
    figure.suptitle(title)
    figure.tight_layout(rect=(0, 0, 1 - 1.7 / figure.get_figwidth(), 1))
    save(figure, path)


def save(figure, path):
    figure.savefig(path, metadata={"Date": None})
    text = path.read_text().replace("\N{MINUS SIGN}", "-").replace("\N{MULTIPLICATION SIGN}", "x")
    path.write_text(re.sub(r" +$", "", re.sub(r"(\d\.\d)\d+", r"\1", text), flags=re.M))  # a tenth of a point is what a screen shows
    pyplot.close(figure)
    print(path)


def gains(lines, baseline):
    """Times of the baseline divided by each point's own, at the same shape."""
    times = {(p["rows"], p["n"], p["k"]): p["ms"] for p in lines if p["engine"] == baseline}
    return lambda p: times.get((p["rows"], p["n"], p["k"]), math.nan) / p["ms"]


def draw(folder):
    for name, (title, x, x_label) in CURVES.items():
        path = folder / f"{name}.csv"
        if path.exists():
            lines = list(points(path))
            panels(title, [p for p in lines if p["engine"] != "read"], x, x_label, lambda p: p["ms"] / p["rows"] * 1e3, "microseconds a query",
                   [p for p in lines if p["engine"] == "read"], folder / f"{name}.svg")  # fmt: skip
    if (path := folder / "komarov_fig10.csv").exists():
        lines = [p for p in points(path) if p["engine"] != "read"]
        panels("Komarov 2014, figure 10: Q = 256, gain over nth_element on one core", lines, *X_N, gains(lines, "std::nth_element, one core"), "times faster", [],
               folder / "komarov_fig10.svg")  # fmt: skip
    if (path := folder / "li_fig4.csv").exists():
        lines = list(points(path))
        for part, wanted, axis in (("queries", lambda p: p["n"] == 100_000, X_ROWS), ("references", lambda p: p["rows"] == 90, X_N)):
            mine = [p for p in lines if wanted(p)]
            panels(f"Li and Amenta 2015, figure 4: selection as the {part} vary", [p for p in mine if p["engine"] != "read"], *axis, lambda p: p["ms"], "milliseconds",
                   [p for p in mine if p["engine"] == "read"], folder / f"li_fig4_{part}.svg")  # fmt: skip
    if (path := folder / "sismanis_fig1.csv").exists():
        lines = list(points(path))
        alone = [p for p in lines if "distances" not in p["engine"]]
        panels("Sismanis 2012, figure 1: gain over a full sort, one query, without distances", alone, *X_N, gains(alone, "cub sort"), "times faster", [], folder / "sismanis_fig1_alone.svg")
        both = [p for p in lines if "distances" in p["engine"]]
        panels("Sismanis 2012, figure 1: the same with distances, d = 128", both, *X_N, gains(both, "cub sort + distances"), "times faster", [], folder / "sismanis_fig1_distances.svg")
    if (path := folder / "sismanis_fig4.csv").exists():
        shares(list(points(path)), folder / "sismanis_fig4.svg")
    if (path := folder / "sismanis_fig3.csv").exists():
        lines = list(points(path))
        for rows in sorted({p["rows"] for p in lines}):
            mine = [p for p in lines if p["rows"] == rows and "auto" not in p["engine"]]
            panels(f"Sismanis 2012, figure 3: gain over distances and TBiS apart, d = 128, queries: {rows}", mine, *X_N, gains(mine, "separate bitonic"), "times faster", [],
                   folder / f"sismanis_fig3_{rows}.svg")  # fmt: skip
    for name, title in (("li_fig1", "whole searches, k = 1000, and their parts"), ("li_fig2", "selection by merges, k = 1000"), ("li_fig3", "distances alone")):
        if (path := folder / f"{name}.csv").exists():
            li_axes(list(points(path)), f"Li and Amenta 2015, figure {name[-1]}: {title}", folder / f"{name}.svg")


def li_axes(lines, title, path):
    """A panel for each of m, n and d as it varies: a line an engine."""
    axes_of = [("m", "rows", [p for p in lines if (p["n"], p["d"]) == (100_000, 64)]), ("n", "n", [p for p in lines if (p["rows"], p["d"]) == (90, 64)]),
               ("d", "d", [p for p in lines if (p["rows"], p["n"]) == (500, 100_000)])]  # fmt: skip
    axes_of = [axis for axis in axes_of if len({p[axis[1]] for p in axis[2]}) > 1]
    colour = colours({p["engine"] for p in lines})
    figure, axes = pyplot.subplots(1, len(axes_of), figsize=(3.4 * len(axes_of) + 2.4, 3.8), sharey=True, squeeze=False)
    for (label, key, mine), axis in zip(axes_of, axes[0], strict=True):
        curves = collections.defaultdict(list)
        for p in mine:
            curves[p["engine"]].append((p[key], p["ms"]))
        for engine, xy in sorted(curves.items()):
            axis.plot(*zip(*sorted(xy), strict=True), "-" if engine.startswith("vicinal") else "--", marker=".", color=colour[engine], label=engine)
        axis.set(xscale="log", yscale="log", xlabel=label)
    axes[0][0].set_ylabel("milliseconds")
    handles = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="center right", fontsize=7)
    figure.suptitle(title)
    figure.tight_layout(rect=(0, 0, 1 - 2.3 / figure.get_figwidth(), 1))
    save(figure, path)


def shares(lines, path):
    """Stacked bars: transfer, distances, selection, as shares of their sum."""
    figure, axes = pyplot.subplots(2, 1, figsize=(9, 6))
    engines = ("cub sort", "vicinal bitonic", "vicinal auto")
    for axis, rows in zip(axes, (1, 128), strict=True):
        at = {(p["n"], p["engine"]): p["ms"] for p in lines if p["rows"] == rows}
        labels = []
        for n in sorted({n for n, _ in at}):
            for engine in engines:
                parts = [at[n, "transfer"], at[n, "distances"], at[n, engine]]
                bottom = 0
                for part, colour in zip(parts, ("tab:blue", "tab:red", "tab:green"), strict=True):
                    axis.bar(len(labels), part / sum(parts), bottom=bottom, color=colour)
                    bottom += part / sum(parts)
                labels.append(f"2^{int(math.log2(n))}\n{engine.replace('vicinal ', '')}")
        axis.set_xticks(range(len(labels)), labels, fontsize=5)
        axis.set_title(f"{rows} {'query' if rows == 1 else 'queries'}: transfer (blue), distances (red), selection (green); k = 128, d = 128")
    figure.suptitle("Sismanis 2012, figure 4")
    figure.tight_layout()
    save(figure, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "repro" / "results")
    draw(parser.parse_args().folder)
