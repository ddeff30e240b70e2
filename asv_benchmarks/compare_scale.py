"""Compare fits and predictions of large tables: time, and the peak of memory above the input, each in its own process.

python asv_benchmarks/compare_scale.py                              2 million rows of 28 columns, some minutes
python asv_benchmarks/compare_scale.py --rows 100e6 --workloads parquet --libraries "fastens, 12GB" "fastens, 4GB" \\
    --folder DIR --results FILE

Workloads: `memory`, an array of float32; `parquet`, files that are read in batches (LightGBM by a Sequence or an Arrow
table, XGBoost into a QuantileDMatrix or pages on disk); `predict`, from Parquet to Parquet, beside reading alone, and
as the command `fastens predict`, its start and the memory of its whole process included;
`tf-idf`, a sparse matrix of 18 846 x 50 000; `wide`, an array of 1000 x 20 000. All train 20 trees of 31 leaves on log
loss. Medians of rounds in which every library has its turn. "fastens, 4GB" is a fit under this ceiling, "fastens,
files" under the lowest, with codes in files. With `--folder` the Parquet files stay for the next time, with `--results`
what was measured does, and is not measured again. Linux only: memory is read from /proc.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from comparison.measure import ROOT
from comparison.report import machine, table
from comparison.scale_files import write_files
from comparison.scale_workloads import CEILING, LIBRARIES, OF_FILES

HEADER = ["workload", "rows", "library", "time", "CPU time"]
HEADER += ["peak memory above the input", "memory per row", "memory with the file cache"]
Measurement = dict[str, Any]


class Results:
    """What was measured, in a file of a JSON object a line if it has a path."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        is_there = path is not None and path.exists()
        self.found: list[Measurement] = list(map(json.loads, path.read_text().splitlines())) if is_there else []

    def of(self, key: Measurement) -> list[Measurement]:
        """Those of a workload, a library, a number of rows and of threads."""
        return [each for each in self.found if key.items() <= each.items()]

    def add(self, each: Measurement) -> None:
        self.found.append(each)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(each) + "\n")


def run(key: Measurement, folder: str) -> Measurement:
    """Measure in a process of its own; a failure, as of memory, is a result."""
    command = [sys.executable, "-m", "comparison.scale_workloads", key["workload"], key["library"], folder]
    done = subprocess.run([*command, str(key["threads"])], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return key | {"failed": f"{done.returncode}: {lines[-1][:300] if lines else ''}"}
    return json.loads(done.stdout.splitlines()[-1]) | key


def row(key: Measurement, found: list[Measurement]) -> list[str]:
    whole = [each for each in found if "failed" not in each]
    if not whole:
        return [key["workload"], f"{key['asked']:,}", key["library"], found[0]["failed"], *[""] * 4]
    names = ("seconds", "processor", "own", "whole", "rows")
    seconds, processor, own, with_files, n_rows = (statistics.median(each[name] for each in whole) for name in names)
    return [
        key["workload"],
        f"{n_rows:,.0f}",
        key["library"],
        f"{seconds:.1f} s",
        f"{processor:.1f} s",
        f"{own / 1e6:.0f} MB",
        f"{own / n_rows:.0f} B",
        f"{with_files / 1e6:.0f} MB",
    ]


def chosen_libraries(workload: str, wanted: list[str] | None) -> list[str]:
    """All of a workload, or those wanted that it has; a ceiling is no library of its own."""
    if wanted is None:
        return LIBRARIES[workload]
    return [
        name for name in wanted if name in LIBRARIES[workload] or (workload == "parquet" and name.startswith(CEILING))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000, help="default 2e6")
    parser.add_argument("--workloads", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), metavar="NAME")
    parser.add_argument("--libraries", nargs="+", metavar="NAME", help="default: all of each workload")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where Parquet files are or go (default: a temporary folder)")
    parser.add_argument("--results", type=Path, help="a file for what is measured, and was before")
    args = parser.parse_args()
    results, rows = Results(args.results), [HEADER]
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        if set(OF_FILES) & set(args.workloads):
            write_files(folder, args.rows)
        for workload in args.workloads:
            asked = args.rows if workload in OF_FILES else 0
            keys = [
                {"workload": workload, "library": name, "asked": asked, "threads": args.threads}
                for name in chosen_libraries(workload, args.libraries)
            ]
            for number in range(args.repeats):
                for key in keys:
                    if len(results.of(key)) <= number:
                        results.add(run(key, str(folder.resolve())))
            rows += [row(key, results.of(key)) for key in keys]
            print(*rows[-len(keys) :], sep="\n", flush=True)
    print(machine(), table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
