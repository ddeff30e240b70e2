"""From Parquet to Parquet on the command line: time and peak memory of training and predicting, beside reading alone.

python compare_files.py --rows 3000000 --columns 28
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastens
from comparison.report import machine, table

ROW_GROUP = 100_000
MEASURED = """
import resource, sys, time
sys.argv = sys.argv[1:]
start = time.perf_counter()
{work}
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = time.perf_counter() - start
print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
"""
READ = """
import pyarrow.parquet as pq
table = pq.ParquetFile(sys.argv[0])
for batch in table.iter_batches(columns=table.schema_arrow.names[:-1]):
    pass
"""
COMMAND = "from fastens.cli import main; assert main(sys.argv) == 0"


def write_table(path: Path, n_rows: int, n_columns: int) -> None:
    """Random numbers, of which two make the target."""
    rng = np.random.default_rng(0)
    names = [f"x{number}" for number in range(n_columns)]
    with pq.ParquetWriter(path, pa.schema([(name, pa.float32()) for name in [*names, "y"]])) as writer:
        for _ in range(0, n_rows, ROW_GROUP):
            part = {name: rng.normal(size=ROW_GROUP).astype(np.float32) for name in names}
            writer.write_table(pa.table(part | {"y": part["x0"] + part["x1"]}))


def measure(name: str, work: str, *arguments: str) -> list[str]:
    """What a process of its own takes, its imports apart from the wall time."""
    environment = os.environ | {"PYTHONPATH": str(Path(fastens.__file__).parents[1])}
    command = [sys.executable, "-c", MEASURED.format(work=work), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    wall, cpu, peak = map(float, done.stderr.splitlines()[-1].split())
    return [name, f"{wall:.1f} s", f"{cpu:.1f} s", f"{peak:.0f} MB"]


def main() -> None:
    """Write a table, and measure reading it, training on it and predicting for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--columns", type=int, default=28)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names = ("table.parquet", "model.fastens", "out.parquet")
        path, model, predictions = (os.path.join(folder, name) for name in names)
        write_table(Path(path), options.rows, options.columns)
        rows = [
            ["", "time", "CPU time", "peak memory"],
            measure("reading the columns with pyarrow alone", READ, path),
            measure("train, 20 rounds", COMMAND, "train", path, "--target", "y", "--n-estimators", "20", "-o", model),
            measure("predict, Parquet to Parquet", COMMAND, "predict", model, path, "-o", predictions),
        ]
    print(machine(), table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
