"""Times to fit with and without bundles of columns, with the defaults on one thread: the same models to the bit.

python asv_benchmarks/compare_bundles.py
python asv_benchmarks/compare_bundles.py --tables kr_vs_kp mushroom --repeats 28
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext

import numpy as np

from comparison.category_tables import Task, read
from comparison.report import table
from fastens import GradientBoostingClassifier
from fastens.engine.bins.binning import without_bundles

TABLES = {
    "kr_vs_kp": "class",
    "dna_statlog": "Class",
    "mushroom": "class",
    "splice": "Class",
    "telco_churn": "Churn",
    "car": "class",
    "credit_g": "class",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--repeats", type=int, default=10, help="fits of each, in turns; the shortest counts")
    args = parser.parse_args()
    rows = [["table", "with bundles, ms", "without, ms", "speed-up"]]
    for name in args.tables:
        data = read(name, Task(TABLES[name]))
        least = dict.fromkeys((nullcontext, without_bundles), np.inf)
        for _ in range(args.repeats):
            for bundles in least:
                start = time.perf_counter()
                with bundles():
                    GradientBoostingClassifier(n_jobs=1).fit(data.X, data.y)
                least[bundles] = min(least[bundles], time.perf_counter() - start)
        with_them, without = least.values()
        rows.append([name, f"{1e3 * with_them:.1f}", f"{1e3 * without:.1f}", f"{without / with_them:.2f}"])
    print(table(rows))


if __name__ == "__main__":
    main()
