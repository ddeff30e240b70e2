"""Compare fits of large tables: time, and the peak of memory above the input, each measured in a process of its own.

python asv_benchmarks/compare_scale.py                              2 million rows of 28 columns, some minutes
python asv_benchmarks/compare_scale.py --rows 100e6 --workloads parquet --libraries fastens "fastens, codes in files"

Workloads: `memory`, an array of float32; `parquet`, files that are generated in a temporary folder and read from there
(fastens and XGBoost in batches, LightGBM by way of an array); `tf-idf`, a sparse matrix of 18 846 x 50 000; `wide`, an
array of 1000 x 20 000. All train 20 trees of 31 leaves on log loss. Medians of rounds in which every library has its
turn. Linux only: memory is read from /proc.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from comparison.measure import ROOT
from comparison.report import machine, table
from comparison.scale_workloads import write_files

LIBRARIES = {
    "memory": ["fastens", "LightGBM", "XGBoost"],
    "parquet": ["fastens", "fastens, codes in files", "LightGBM", "XGBoost"],
    "tf-idf": ["fastens", "LightGBM", "XGBoost"],
    "wide": ["fastens", "LightGBM", "XGBoost"],
}
Measurement = tuple[float, int, int, int]


def run(workload: str, library: str, folder: str, n_threads: int) -> Measurement:
    command = [sys.executable, "-m", "comparison.scale_workloads", workload, library, folder, str(n_threads)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{workload}, {library}: {done.stderr[-1000:]}")
    seconds, own, whole, n_rows = done.stdout.split()[-4:]
    return float(seconds), int(own), int(whole), int(n_rows)


def row(workload: str, library: str, found: list[Measurement]) -> list[str]:
    seconds, own, whole, n_rows = (statistics.median(values) for values in zip(*found, strict=True))
    return [
        workload,
        library,
        f"{seconds:.1f} s",
        f"{own / 1e6:.0f} MB",
        f"{own / n_rows:.0f} B",
        f"{whole / 1e6:.0f} MB",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000, help="default 2e6")
    parser.add_argument("--workloads", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), metavar="NAME")
    parser.add_argument("--libraries", nargs="+", default=sorted({name for own in LIBRARIES.values() for name in own}))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", help="where files go (default: the system's folder of temporary files)")
    args = parser.parse_args()
    header = ["workload", "library", "time", "peak above the input", "a row", "with pages of files"]
    rows = [header]
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if {"memory", "parquet"} & set(args.workloads):
            write_files(Path(folder), args.rows, 5_000_000)
        for workload in args.workloads:
            libraries = [name for name in LIBRARIES[workload] if name in args.libraries]
            found: dict[str, list[Measurement]] = {name: [] for name in libraries}
            for _ in range(args.repeats):
                for name in libraries:
                    found[name].append(run(workload, name, folder, args.threads))
            rows += [row(workload, name, found[name]) for name in libraries]
            print(*rows[-len(libraries) :], sep="\n", flush=True)
    print(machine(), table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
