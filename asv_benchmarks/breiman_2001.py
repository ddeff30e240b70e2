"""Reproduce Table 2 of Breiman (2001), "Random forests": test error (%) of forests and of single trees.

python asv_benchmarks/breiman_2001.py                       100 repeats, some minutes
python asv_benchmarks/breiman_2001.py --repeats 10 --only glass sonar
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.datasets import data_folder
from fastens import RandomForestClassifier


class Published(NamedTuple):
    """A row of the table: forest chosen out of bag, forest of one input a split, one tree."""

    selection: float
    single_input: float
    one_tree: float


# Table 2, without its column for AdaBoost.
PUBLISHED = {
    "glass": Published(20.6, 21.2, 36.9),
    "breast_w": Published(2.9, 2.7, 6.3),
    "diabetes": Published(24.2, 24.3, 33.1),
    "sonar": Published(15.9, 18.0, 31.7),
    "vowel": Published(3.4, 3.3, 30.4),
    "ionosphere": Published(7.1, 7.5, 12.7),
    "vehicle": Published(25.8, 26.4, 33.1),
    "credit_g": Published(24.4, 26.2, 33.3),
    "segment": Published(2.1, 2.7, 6.4),
    "ecoli": Published(12.8, 13.0, 24.5),
    "vote": Published(4.1, 4.6, 7.4),
    "liver_bupa": Published(25.1, 24.7, 40.6),
    "letter": Published(3.5, 4.7, 19.8),
    "mlbench_satellite": Published(8.6, 10.5, 17.2),
    "usps_zip": Published(6.3, 7.8, 20.6),
    "waveform": Published(17.2, 17.3, 34.0),
    "twonorm": Published(3.9, 3.9, 24.7),
    "threenorm": Published(17.5, 17.5, 38.4),
    "ringnorm": Published(4.9, 4.9, 25.7),
}
# Columns that are no inputs.
LEFT_OUT = {"vowel": ["Train or Test", "Speaker Number", "Sex"], "usps_zip": ["split"]}
# The rows that the larger tables give to train on; the rest are to test.
N_TRAINING = {"letter": 15_000, "mlbench_satellite": 4_435, "usps_zip": 7_291}


class Split(NamedTuple):
    """Rows to train and to test on."""

    X: pd.DataFrame | np.ndarray
    y: np.ndarray
    X_test: pd.DataFrame | np.ndarray
    y_test: np.ndarray


class Errors(NamedTuple):
    """Errors (%) of one forest: on test rows, out of bag, and of its single trees out of bag."""

    test: float
    out_of_bag: float
    one_tree: float


# Data --------------------------------------------------


def waveform(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes, each a mixture of two of three waves, with noise (Breiman et al. 1984)."""
    place = np.arange(1, 22)
    waves = np.maximum(6 - np.abs(place - np.array([[7], [15], [11]])), 0)
    y = rng.integers(0, 3, n_rows)
    first, second = waves[np.array([0, 0, 1])[y]], waves[np.array([1, 2, 2])[y]]
    share = rng.random((n_rows, 1))
    return share * first + (1 - share) * second + rng.standard_normal((n_rows, 21)), y


def norms(name: str) -> Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]:
    """Two classes of normal distributions in 20 dimensions (Breiman 1998)."""

    def draw(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 2, n_rows)
        X = rng.standard_normal((n_rows, 20))
        a = 2 / np.sqrt(20)
        if name == "twonorm":
            return X + np.where(y == 0, a, -a)[:, None], y
        if name == "threenorm":
            side = rng.choice([-a, a], n_rows)[:, None]
            turned = np.where(np.arange(20) % 2 == 0, a, -a)
            return X + np.where(y[:, None] == 0, side, turned), y
        return np.where(y[:, None] == 0, 2 * X, X + a / 2), y

    return draw


GENERATORS = {"waveform": waveform, **{name: norms(name) for name in ("twonorm", "threenorm", "ringnorm")}}
TARGETS = {"glass": "Type", "liver_bupa": "selector", "mlbench_satellite": "classes", "usps_zip": "digit"}


def read(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Inputs and class numbers of a real table; text columns are categories."""
    folder = data_folder()
    if folder is None:
        raise FileNotFoundError("no real tables: set FASTENS_DATA to a folder of Parquet files")
    frame = pd.read_parquet(folder / f"{name}.parquet")
    target = TARGETS.get(name, "Class" if "Class" in frame else "class")
    y, _ = pd.factorize(frame[target])
    return frame.drop(columns=[target, *LEFT_OUT.get(name, [])]), y


def splits(name: str, n_repeats: int) -> Iterator[Split]:
    """A tenth of a table, drawn at random, to test on; the given test rows; or 300 new rows, and 3000 to test on."""
    rng = np.random.default_rng(2001)
    if name in GENERATORS:
        for _ in range(n_repeats):
            yield Split(*GENERATORS[name](rng, 300), *GENERATORS[name](rng, 3000))
        return
    X, y = read(name)
    for _ in range(n_repeats):
        order = np.arange(len(y)) if name in N_TRAINING else rng.permutation(len(y))
        train, test = np.split(order, [N_TRAINING.get(name, len(y) - round(len(y) / 10))])
        yield Split(X.iloc[train], y[train], X.iloc[test], y[test])


# Forests --------------------------------------------------


def fit_and_test(split: Split, n_inputs: int, seed: int) -> Errors:
    """Errors of a forest of 100 trees that look at so many inputs for each split."""
    forest = RandomForestClassifier(100, max_features=n_inputs, oob_score=True, random_state=seed)
    forest.fit(split.X, split.y)
    trees = []
    for tree, predicted in enumerate(forest.predict_all(split.X)):
        left_out = forest.in_bag(tree) == 0
        trees.append(np.mean(predicted[left_out] != split.y[left_out]))
    test = np.mean(forest.predict(split.X_test) != split.y_test)
    return Errors(100 * test, 100 * forest.oob_error_curve_[-1], 100 * float(np.mean(trees)))


def row(name: str, n_repeats: int) -> str:
    """A row of the table: means over the repeats, and the standard error of the selection's."""
    chosen, single = [], []
    for seed, split in enumerate(splits(name, n_repeats)):
        one = fit_and_test(split, 1, seed)
        several = fit_and_test(split, int(np.log2(split.X.shape[1]) + 1), seed)
        single.append(one)
        chosen.append(one if one.out_of_bag < several.out_of_bag else several)
    mean, mean_single = Errors(*np.mean(chosen, axis=0)), Errors(*np.mean(single, axis=0))
    spread = np.std([errors.test for errors in chosen], ddof=1) / np.sqrt(n_repeats) if n_repeats > 1 else np.nan
    published = PUBLISHED[name]
    return (
        f"| {name} | {mean.test:.1f} ± {spread:.1f} | {published.selection} | {mean_single.test:.1f} | "
        f"{published.single_input} | {mean.one_tree:.1f} | {published.one_tree} | {mean.out_of_bag:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100, help="random splits of each table (default 100)")
    parser.add_argument("--only", nargs="+", choices=PUBLISHED, default=list(PUBLISHED), metavar="NAME")
    args = parser.parse_args()
    print("| data | selection | Breiman | one input | Breiman | one tree | Breiman | selection out of bag |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.only:
        # Where the test rows are given, only the seeds of the forests differ.
        print(row(name, min(args.repeats, 5) if name in N_TRAINING else args.repeats), flush=True)
    print(f"done: {args.repeats} repeats", file=sys.stderr)


if __name__ == "__main__":
    main()
