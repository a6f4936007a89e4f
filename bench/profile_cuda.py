"""The kernels of an exact k-NN on a CUDA device under NVIDIA's Nsight Compute: clocks, issue, shared memory, tensor cores, stalls.

    PYTHONPATH=build/python python3 bench/profile_cuda.py [--only CASE,...] [--kernels REGEX] [--commit HASH] [--output FILE | --no-save]

Each case is a process of its own under

    ncu --csv --page details --clock-control none --kernel-name regex:REGEX --section ... python3 bench/profile_cuda.py --run CASE

which leaves the device's clocks alone. For each kernel, the launch that took longest is told: a line a figure, on stdout and in
bench/results/ncu_cuda.csv. `clocks_a_tile` is of filters of one slab: the clocks of a multiprocessor for 256 queries and 128 rows, of which products
take 1,024, over all launches of a search.
`keys` is the filter that tests each row by itself, which serves rows of which not all may answer; `groups` tests sixteen at once. Timelines need no script:
stages are NVTX ranges, so `nsys profile -t cuda,nvtx python3 ...` names them. Needs numpy beside the module.
"""

import argparse
import csv
import io
import pathlib
import subprocess
import sys

import numpy as np

CASES = {  # name: rows, queries, columns, k, whether all rows may answer
    "groups-k10": (1 << 20, 10_240, 128, 10, True), "groups-k1000": (1 << 20, 10_240, 128, 1000, True), "keys-k10": (1 << 20, 10_240, 128, 10, False),
    "slabs-784d": (100_000, 20_000, 784, 15, True), "slabs-768d": (1_000_000, 1000, 768, 10, True), "few-q1": (1_000_000, 1, 128, 10, True), "few-q16": (1_000_000, 16, 128, 10, True),
    "q128": (1_000_000, 128, 128, 10, True),
}  # fmt: skip
SECTIONS = ("SpeedOfLight", "SchedulerStats", "WarpStateStats", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis")
WANTED = ("Duration", "Elapsed Cycles", "SM Frequency", "Compute (SM) Throughput", "Memory Throughput", "DRAM Throughput", "L1/TEX Cache Throughput",
          "L2 Cache Throughput", "Issued Warp Per Scheduler", "No Eligible", "Warp Cycles Per Issued Instruction", "Executed Ipc Active", "Issue Slots Busy",
          "SM Busy", "Mem Busy", "Mem Pipes Busy", "L2 Hit Rate", "Max Bandwidth")  # fmt: skip
FIELDS = ["date", "commit", "machine", "case", "kernel", "figure", "value", "unit"]
SEARCHES = 2  # of a case, the first of them with cold memory
MULTIPROCESSORS = 132  # of an H100 or H200
FILTERS = ("filter_int8_wgmma", "filter_int8_wgmma_groups")  # of one slab


def run(name):
    import vicinal

    n, q, d, k, everything = CASES[name]
    random = np.random.default_rng(1)
    corpus = vicinal.Corpus(random.standard_normal((n, d), dtype=np.float32), device="cuda")
    queries = random.standard_normal((q, d), dtype=np.float32)
    for _ in range(SEARCHES):
        corpus.knn(queries, k, **({} if everything else {"eligible": range(1, n)}))


def profiled(name, kernels):
    """kernel -> {figure: (value, unit)} of its longest launch, with the clocks of all of them."""
    sections = [word for section in SECTIONS for word in ("--section", section)]
    command = ["ncu", "--csv", "--page", "details", "--clock-control", "none", "--kernel-name", f"regex:{kernels}", *sections, sys.executable, __file__, "--run", name]
    done = subprocess.run(command, capture_output=True, text=True)
    begin = done.stdout.find('"ID"')
    if done.returncode != 0 or begin < 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    launches = {}
    for line in csv.DictReader(io.StringIO(done.stdout[begin:])):
        launches.setdefault((line["ID"], line["Kernel Name"].split("(")[0].split("<")[0].split("::")[-1].removeprefix("void ")), {})[line["Metric Name"]] = (
            line["Metric Value"].replace(",", ""), line["Metric Unit"])  # fmt: skip
    longest, clocks = {}, {}
    for (_, kernel), figures in launches.items():
        own = float(figures["Elapsed Cycles"][0])
        if own >= float(longest.get(kernel, figures)["Elapsed Cycles"][0]):
            longest[kernel] = figures
        clocks[kernel] = clocks.get(kernel, 0) + own
    return {kernel: (figures, clocks[kernel]) for kernel, figures in longest.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(CASES), help="of " + ", ".join(CASES))
    parser.add_argument("--kernels", default="filter|rerank|refine|fused_search|scatter|thresholds")
    parser.add_argument("--commit", default="")
    parser.add_argument("--output", default="")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--run", choices=CASES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        return run(args.run)
    from run import ROOT, append_lines
    from several_gpus import machine_name

    for name in args.only.split(","):
        lines = []
        for kernel, (figures, clocks) in profiled(name, args.kernels).items():
            told = {figure: figures[figure] for figure in WANTED if figure in figures}
            n, q, d, *_ = CASES[name]
            if kernel in FILTERS and d <= 128:
                tiles = -(-n // 128) * -(-q // 256)
                told["clocks_a_tile"] = (f"{clocks / SEARCHES * MULTIPROCESSORS / tiles:.0f}", "clock")
            lines += [dict(machine=machine_name("cuda:0"), case=name, kernel=kernel, figure=figure, value=value, unit=unit) for figure, (value, unit) in told.items()]
        for line in lines:
            print(",".join(line[field] for field in FIELDS[3:]), flush=True)
            if args.commit:
                line["commit"] = args.commit
        if not args.no_save:
            append_lines(pathlib.Path(args.output or ROOT / "bench" / "results" / "ncu_cuda.csv"), FIELDS, lines)


if __name__ == "__main__":
    main()
