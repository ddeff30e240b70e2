"""Compare TAN, AODE and A2DE with naive Bayes on the same bins: time on a generated table, errors on real ones.

python asv_benchmarks/compare_dependence.py                     some minutes on 2 cores; writes dependence.md
python asv_benchmarks/compare_dependence.py --tables car vote --scale 0.1
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import fastens
from comparison.bayes_workloads import DATA
from comparison.measure import interleaved

HERE = Path(__file__).resolve().parent
# Table and target. None of them had a part in choosing max_bins.
TABLES = {
    "adult": "income",
    "audiology": "class",
    "car": "class",
    "credit_g": "class",
    "diabetes": "class",
    "iris": "class",
    "letter": "class",
    "mushroom": "class",
    "nursery": "class",
    "oml_kropt": "target",
    "optdigits": "class",
    "pendigits": "class",
    "splice": "Class",
    "tic_tac_toe": "Class",
    "vote": "Class",
}
# With no value common enough to be a parent, AODE is naive Bayes.
MODELS = {
    "naive Bayes": fastens.AODEClassifier(min_count=1e18),
    "TANClassifier": fastens.TANClassifier(),
    "AODEClassifier": fastens.AODEClassifier(),
    "order=2": fastens.AODEClassifier(order=2),
}
SEEN = 3  # rows of a class, at least, so that every fold has some


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of each timing (default 3; 0: errors alone)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of 1 000 000 generated rows (default 1)")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder to write to")
    return parser.parse_args()


def times(repeats: int, scale: float) -> list[str]:
    """Median seconds of fit and predict_proba on 30 columns of 8 categories, whole numbers."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 8, (int(1_000_000 * scale), 30)), rng.integers(0, 2, int(1_000_000 * scale))
    lines = [f"# Seconds, {len(X)} rows x 30 columns of 8 categories, 2 classes", "", "| | fit | predict_proba |"]
    lines.append("| --- | --- | --- |")
    for name, model in MODELS.items():
        fits = interleaved({name: lambda model=model: model.fit(X, y)}, repeats)[name]
        calls = interleaved({name: lambda model=model: model.predict_proba(X)}, repeats)[name]
        lines.append(f"| {name} | {np.median(fits):.2f} | {np.median(calls):.2f} |")
    return lines


def errors(table: str) -> list[str]:
    """Error and log loss of each model, 5-fold cross-validation."""
    data = pd.read_parquet(DATA / f"{table}.parquet")
    y = data[TABLES[table]].astype(str)
    kept = (y.map(y.value_counts()) >= SEEN).to_numpy()
    X, y = data.drop(columns=TABLES[table])[kept], y[kept].to_numpy()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    cells = []
    for model in MODELS.values():
        try:
            proba = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
        except ValueError as error:
            if "order=2 must" not in str(error):
                raise
            cells.append("too large")
            continue
        labels = np.unique(y)
        error = np.mean(labels[proba.argmax(axis=1)] != y)
        cells.append(f"{error:.4f} / {log_loss(y, proba, labels=labels):.4f}")
    return cells


def main() -> None:
    args = arguments()
    lines = [f"`python asv_benchmarks/compare_dependence.py {' '.join(sys.argv[1:])}`".replace(" `", "`"), ""]
    lines += times(args.repeats, args.scale) if args.repeats else []
    lines += ["", "# Error / log loss, 5-fold cross-validation", "", f"| table | {' | '.join(MODELS)} |"]
    lines.append("| --- " * (len(MODELS) + 1) + "|")
    for table in args.tables:
        print(f"{table} ...", file=sys.stderr, flush=True)
        lines.append(f"| {table} | {' | '.join(errors(table))} |")
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "dependence.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
