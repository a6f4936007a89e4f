"""Writes what was measured of searches where readers look: the tables of docs/performance.md and README's chart.

  performance.py [--check]     --check only says whether the tables and the chart are what bench/results gives

Everything comes from bench/results/knn.csv and knn_cuda.csv. A case is shown by its last run: the last stretch of rows with
one date, commit, machine and case, so that engines which are compared were measured in turn in one process.
"""

import csv
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- scripts/performance.py writes what is between these marks from bench/results -->\n"
END = "<!-- end of what is written -->\n"

# The chart's panels: device, file, case. Two searches of about the same rows.
PANELS = (("CPU", "knn.csv", "128d-1M-k100"), ("GPU", "knn_cuda.csv", "k100"))
NOT_SHOWN = ("vicinal, prepare", "vicinal, prepared by its own clock", "torch fp32 and a full sort")  # parts of a call; not a search that anybody would choose
THEMES = {
    "light": {"ground": "#ffffff", "text": "#1f2328", "quiet": "#59636e", "axis": "#8c959f", "ours": "#0969da", "peer": "#8c959f"},
    "dark": {"ground": "#0d1117", "text": "#f0f6fc", "quiet": "#9198a1", "axis": "#7d8590", "ours": "#4493f8", "peer": "#7d8590"},
}


def cpu_row(row):
    call = "one call" if row["call"] == "one-shot" else row["call"]
    facts = f"{row['machine']}, {row['threads']} threads"
    shape = tuple(int(row[name]) for name in ("Q", "n", "d", "k"))
    data = row["data"].removesuffix("+0").replace("+", ", moved by ")
    return dict(engine=f"{row['engine']}, {call}", ms=float(row["median_s"]) * 1000, recall=float(row["recall"]), shape=shape, data=data, facts=facts)


def cuda_row(row):
    shape = tuple(int(row[name]) for name in ("q", "n", "d", "k"))
    recall = float(row["recall"] or 1)
    return dict(engine=row["engine"].replace("vicinal ", "vicinal, "), ms=float(row["ms"]), recall=recall, shape=shape, data=row["data"], facts=row["machine"])


READERS = {"knn.csv": cpu_row, "knn_cuda.csv": cuda_row}


def last_runs(name):
    """case -> engine -> a row of the case's last run."""
    runs, current = {}, None
    with (RESULTS / name).open(newline="") as file:
        for line in csv.DictReader(file):
            run = tuple(line.get(column) for column in ("date", "commit", "machine", "threads", "case"))
            if run != current:
                runs[line["case"]], current = {}, run
            row = READERS[name](line) | {"date": line["date"], "commit": line["commit"]}
            runs[line["case"]][row["engine"]] = row
    return runs


def time(ms):
    return f"{ms:.3g} ms" if ms < 100 else f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"


def cell(row):
    return "" if row is None else time(row["ms"]) + (f" (recall {row['recall']:.3f})" if row["recall"] < 0.9995 else "")


def engines(runs):
    """The engines that are shown, ours first."""
    found = dict.fromkeys(engine for rows in runs.values() for engine in rows if engine not in NOT_SHOWN)
    return sorted(found, key=lambda engine: (not engine.startswith("vicinal"), engine == "vicinal, one call"))


def faster_peers(runs, heads, call):
    """The cases in which a peer that finds the same neighbours took less time than ours did by this call."""
    for case, rows in runs.items():
        peers = [rows[head] for head in heads if head in rows and not head.startswith("vicinal") and rows[head]["recall"] >= 0.9995]
        if peers and min(row["ms"] for row in peers) < rows[f"vicinal, {call}"]["ms"]:
            yield f"`{case}`"


def table(name):
    runs = last_runs(name)
    heads = engines(runs)
    lines = ["| case | data | queries | rows | columns | k | " + " | ".join(heads) + " |", "|---" * (6 + len(heads)) + "|"]
    for case, rows in runs.items():
        first = rows["vicinal, prepared"]
        shape = " | ".join(f"{number:,}" for number in first["shape"])
        lines.append(f"| `{case}` | {first['data']} | {shape} | " + " | ".join(cell(rows.get(head)) for head in heads) + " |")
    facts = sorted({f"{row['date']}, {row['facts']}, commit {row['commit']}" for rows in runs.values() for row in rows.values()})
    slower = "\n".join(f"- A peer with a recall of 0.9995 or more is faster than \"vicinal, {call}\" in {', '.join(faster_peers(runs, heads, call)) or 'no case'}."
                       for call in ("prepared", "one call"))
    return "\n".join(lines) + f"\n\n{slower}\n\nMeasured: {'; '.join(facts)}.\n"


def page(text):
    """The page with its tables, one between each pair of marks."""
    head, cpu, cuda = text.split(BEGIN)
    return head + BEGIN + table("knn.csv") + END + cpu.split(END)[1] + BEGIN + table("knn_cuda.csv") + END + cuda.split(END)[1]


def step(largest):
    """The distance of an axis's ticks: 1, 2 or 5 times a power of ten, for three to six of them."""
    power = 10 ** math.floor(math.log10(largest / 3))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= largest / 3)


def chart(theme):
    """The chart as SVG, in the colours of a theme: a panel a device, a bar an engine."""
    colour = THEMES[theme]
    width, left, right, bar, top = 860, 285, 690, 22, 12
    parts = []

    def text(x, y, words, size=13, fill="text", anchor="start", weight="normal"):
        parts.append(f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour[fill]}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>')

    y = top
    for device, name, case in PANELS:
        measured = last_runs(name)[case]
        rows = [measured[engine] for engine in engines({case: measured})]
        if all(row["engine"].startswith("vicinal") for row in rows):
            raise SystemExit(f"{name}: the last run of {case} has no other engine to compare with")
        q, n, d, k = rows[0]["shape"]
        text(16, y + 16, f"{device}: the {k} nearest of {n:,} rows x {d} columns, {q:,} queries", 15, weight="600")
        text(16, y + 35, f"{rows[0]['facts']}, {rows[0]['date']}, commit {rows[0]['commit']}", 12, "quiet")
        y += 46
        largest, foot = max(row["ms"] for row in rows), y + bar * len(rows)
        scale = (right - left) / largest
        parts.append(f'<path d="M{left} {y}V{foot}H{right}" fill="none" stroke="{colour["axis"]}"/>')
        for tick in range(int(largest / step(largest)) + 1):
            x = left + tick * step(largest) * scale
            parts.append(f'<path d="M{x:.1f} {foot}v5" stroke="{colour["axis"]}"/>')
            text(x, foot + 18, f"{tick * step(largest):,.0f}", 12, "quiet", "middle")
        for row in rows:
            ours = row["engine"].startswith("vicinal")
            text(left - 10, y + 15, row["engine"], 13, anchor="end", weight="600" if ours else "normal")
            length = max(row["ms"] * scale, 1)
            parts.append(f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{bar - 6}" fill="{colour["ours" if ours else "peer"]}"/>')
            times = f", {row['ms'] / rows[0]['ms']:.1f} times" if row is not rows[0] else ""
            text(left + length + 8, y + 15, time(row["ms"]) + times, 13)
            y += bar
        text(left, foot + 36, "time of a search in milliseconds, median (less is better)", 12, "quiet")
        y = foot + 56
    y += 8
    text(16, y, "Exact search by squared Euclidean distance, Gaussian data. Prepared: the corpus or index was built before.", 12, "quiet")
    text(16, y + 17, "One call: from arrays to the answer; torch: product of matrices and topk. Times: of what the first bar takes.", 12, "quiet")
    y += 17
    title = "Time of exact k-nearest-neighbour searches by vicinal and by other libraries, on a CPU and on a GPU"
    fonts = "-apple-system, BlinkMacSystemFont, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 14:.0f}" width="{width}" height="{y + 14:.0f}" role="img" font-family="{fonts}">\n'
            f'<title>{title}</title>\n<rect width="100%" height="100%" fill="{colour["ground"]}"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    stale = []
    wanted = {PAGE: page(PAGE.read_text())} | {ROOT / "docs" / f"speed-{theme}.svg": chart(theme) for theme in THEMES}
    for path, text in wanted.items():
        if not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in sys.argv[1:]:
                path.write_text(text)
    if stale and "--check" in sys.argv[1:]:
        print(f"{', '.join(stale)}: not what bench/results gives; run scripts/performance.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
