"""Losses on tables with categories, each library with its own handling of them, on matched settings.

python asv_benchmarks/compare_categories.py                          the tables that no default was chosen on
python asv_benchmarks/compare_categories.py --tables insteval okc --libraries fastens LightGBM --seeds 3
python asv_benchmarks/compare_categories.py --variants '{"ordered": {"categories__encoding": "ordered"}}'
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterable

import numpy as np
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks.datasets import Table
from benchmarks.peer_models import loss
from comparison import posterior_tables
from comparison.category_tables import (
    CHOOSING,
    FURTHER,
    LIBRARIES,
    MAKERS,
    REPORTING,
    Library,
    read,
    settings_for,
    variants,
)

# Any table of the other comparisons may be named, too.
TABLES = {
    **posterior_tables.CHOOSING,
    **posterior_tables.WIDER,
    **posterior_tables.REPORTING,
    **posterior_tables.CHOOSING_NUMBERS,
    **posterior_tables.REPORTING_NUMBERS,
    **CHOOSING,
    **REPORTING,
    **FURTHER,
}


def arguments() -> argparse.Namespace:
    names = [library.name for library in LIBRARIES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(REPORTING), metavar="NAME")
    parser.add_argument("--libraries", nargs="*", choices=names, default=names, metavar="NAME")
    parser.add_argument("--variants", type=json.loads, default={}, help="fastens with other parameters, as JSON")
    parser.add_argument("--family", choices=list(MAKERS), default="boosting", help="what the variants are of")
    parser.add_argument("--seeds", type=int, default=3, help="splits into training and test rows (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def measured(library: Library, table: Table, n_seeds: int, n_threads: int) -> tuple[float, float]:
    """Mean loss on the test rows, root mean squared error for numbers, and mean seconds to fit and predict."""
    settings = settings_for(table, n_threads)
    losses, seconds = [], []
    for seed in range(n_seeds):
        stratify = None if table.is_regression else table.y
        train, test = train_test_split(np.arange(table.y.size), test_size=0.25, random_state=seed, stratify=stratify)
        start = time.perf_counter()
        with threadpool_limits(n_threads, user_api="openmp"):
            predicted = library.fit_predict(table.X.iloc[train], table.y[train], table.X.iloc[test], settings)
        seconds.append(time.perf_counter() - start)
        losses.append(loss(table.y[test], predicted, regression=table.is_regression))
    losses = np.sqrt(losses) if table.is_regression else losses
    return float(np.mean(losses)), float(np.mean(seconds))


def attempted(library: Library, table: Table, n_seeds: int, n_threads: int) -> tuple[float, float]:
    """The same, or not a number where the library stops with an error."""
    try:
        return measured(library, table, n_seeds, n_threads)
    except Exception as error:
        print(f"{library.name} on {table.name}: {error}", file=sys.stderr)
        return np.nan, np.nan


def compare(tables: Iterable[Table], libraries: list[Library], n_seeds: int, n_threads: int) -> None:
    """Print the losses of libraries on tables, and the times to the other stream."""
    names = [library.name for library in libraries]
    print("| table | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
    ratios = []
    for table in tables:
        found = [attempted(library, table, n_seeds, n_threads) for library in libraries]
        best = np.nanmin([value for value, _ in found])
        ratios.append([value / best for value, _ in found])
        cells = [f"**{value:.4g}**" if value == best else f"{value:.4g}" for value, _ in found]
        print(f"| {table.name} | " + " | ".join(cells) + " |", flush=True)
        seconds = " ".join(f"{who} {seconds:.2f} s" for who, (_, seconds) in zip(names, found, strict=True))
        print(table.name, seconds, file=sys.stderr)
    means = np.exp(np.nanmean(np.log(ratios), axis=0))
    print("| loss over the best, geometric mean | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")


def main() -> None:
    args = arguments()
    warnings.filterwarnings("ignore")
    libraries = [library for library in LIBRARIES if library.name in args.libraries] + variants(
        args.variants, args.family
    )
    tables = (read(name, TABLES[name]) for name in args.tables)
    compare(tables, libraries, args.seeds, args.threads)


if __name__ == "__main__":
    main()
