"""Writes README's tables of measured speed: the last run of each case in bench/results/knn.csv and knn_cuda.csv.

  readme_table.py [--check]     --check only says whether the table is what the file gives
"""

import csv
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "knn.csv"
CUDA_RESULTS = ROOT / "bench" / "results" / "knn_cuda.csv"
README = ROOT / "README.md"
BEGIN = "<!-- table: scripts/readme_table.py writes what is between these marks from bench/results -->\n"
END = "<!-- end of table -->\n"


def last_runs():
    """case -> the rows of its last run. A run is a stretch of rows with the same date, commit, machine and threads."""
    runs, current = {}, None
    with RESULTS.open(newline="") as file:
        for row in csv.DictReader(file):
            run = tuple(row[name] for name in ("date", "commit", "machine", "threads", "case"))
            if run != current:
                runs[row["case"]], current = [], run
            runs[row["case"]].append(row)
    return runs


def seconds(row):
    time = float(row["median_s"])
    text = f"{time * 1000:.0f} ms" if time < 10 else f"{time:.1f} s"
    recall = float(row["recall"])
    return text if recall == 1 else f"{text} (recall {recall:.3f})"


def table():
    if not RESULTS.exists():
        return ""
    runs = last_runs()
    columns = []
    for rows in runs.values():
        columns += [key for row in rows if (key := (row["engine"], row["call"])) not in columns]
    heads = [f"{engine}, one call" if call == "one-shot" else f"{engine}, {call}" for engine, call in columns]
    lines = ["| data | queries | rows | columns | k | " + " | ".join(heads) + " |",
             "|---|---|---|---|---|" + "---|" * len(heads)]
    for rows in runs.values():
        first, cells = rows[0], {(row["engine"], row["call"]): seconds(row) for row in rows}
        data = first["data"].removesuffix("+0").replace("+", ", moved by ")
        shape = " | ".join(f"{int(first[name]):,}" for name in ("Q", "n", "d", "k"))
        lines.append(f"| {data} | {shape} | " + " | ".join(cells.get(key, "") for key in columns) + " |")
    facts = sorted({(row[0]["date"], row[0]["machine"], row[0]["threads"], row[0]["commit"]) for row in runs.values()})
    notes = "; ".join(f"{date}, {machine}, {threads} threads, commit {commit}" for date, machine, threads, commit in facts)
    return ("Median wall time of a search, squared Euclidean, all on the same cores; \"one call\" goes from arrays to the "
            "answer,\n\"prepared\" searches a corpus or an index that was built before.\n\n" + "\n".join(lines) +
            f"\n\nMeasured by `make bench`: {notes}.\n")


def cuda_cell(row):
    share = row.get("recall")
    return f"{float(row['ms']):.3g} ms" + (f" (recall {float(share):.3f})" if share and float(share) < 0.9995 else "")


def cuda_table():
    if not CUDA_RESULTS.exists():
        return ""
    cases = {}
    with CUDA_RESULTS.open(newline="") as file:
        for row in csv.DictReader(file):  # the last line of a case and an engine wins
            cases.setdefault(row["case"], {})[row["engine"]] = row
    engines = ("vicinal prepared", "vicinal one call", "torch fp32", "torch tf32")
    lines = ["| data | queries | rows | columns | k | " + " | ".join(name.replace("vicinal ", "vicinal, ") for name in engines) + " |",
             "|---|---|---|---|---|" + "---|" * len(engines)]
    for rows in cases.values():
        first = rows[engines[0]]
        shape = " | ".join(f"{int(first[name]):,}" for name in ("q", "n", "d", "k"))
        cells = (cuda_cell(rows[name]) if name in rows else "" for name in engines)
        lines.append(f"| {first['data']} | {shape} | " + " | ".join(cells) + " |")
    facts = sorted({f"{row['date']}, {row['machine']}, commit {row['commit']}" for rows in cases.values() for row in rows.values()})
    return ("\nOn a GPU, from rows in its memory to results there: ours certified, sorted, with ties by id; torch's a product and `topk`, with the share\n"
            "of the neighbours that it finds where that is not all of them.\n\n" + "\n".join(lines) + f"\n\nMeasured by `bench/knn_cuda.py`: {'; '.join(facts)}.\n")


def main():
    text = README.read_text()
    head, rest = text.split(BEGIN)
    new = head + BEGIN + table() + cuda_table() + END + rest.split(END)[1]
    if "--check" in sys.argv[1:]:
        if new != text:
            print("README.md: the table is not what bench/results gives; run scripts/readme_table.py")
        return int(new != text)
    README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
