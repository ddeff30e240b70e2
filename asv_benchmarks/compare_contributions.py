"""Time path-dependent Shapley values of fastens, XGBoost and LightGBM; print a Markdown table.

python asv_benchmarks/compare_contributions.py                           2,000 rows, 100 trees of 31 and of 255 leaves
python asv_benchmarks/compare_contributions.py --rows 500 --threads 1 --interactions
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.datasets import Table, generated
from benchmarks.peer_models import Settings, make_fastens, make_lightgbm, make_xgboost_lossguide
from comparison.measure import interleaved
from comparison.report import table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000, help="rows to explain")
    parser.add_argument("--grown-on", type=int, default=50_000, help="rows to train on")
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, nargs="+", default=[31, 255])
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--interactions", action="store_true", help="of pairs, which LightGBM has not")
    return parser.parse_args()


def calls(data: Table, rows: np.ndarray, settings: Settings, *, pairs: bool) -> dict[str, Callable[[], Any]]:
    """A call for each library, checked for values that add up to the raw predictions."""
    from xgboost import DMatrix

    ours = make_fastens(settings).fit(data.X, data.y)
    booster = make_xgboost_lossguide(settings).fit(data.X, data.y).get_booster()
    found: dict[str, Callable[[], Any]] = {
        "fastens": lambda: ours.predict_contributions(rows, interactions=pairs),
        "XGBoost": lambda: booster.predict(
            DMatrix(rows, nthread=settings.n_threads), pred_contribs=not pairs, pred_interactions=pairs
        ),
    }
    raw = {"fastens": ours.decision_function(rows), "XGBoost": booster.predict(DMatrix(rows), output_margin=True)}
    if not pairs:
        lightgbm = make_lightgbm(settings).fit(data.X, data.y)
        found["LightGBM"] = lambda: lightgbm.predict(rows, pred_contrib=True)
        raw["LightGBM"] = lightgbm.predict(rows, raw_score=True)
    for name, call in found.items():
        np.testing.assert_allclose(call().reshape(len(rows), -1).sum(axis=1), raw[name], rtol=1e-3, atol=1e-3)
    return found


def main() -> None:
    args = arguments()
    lines = []
    for n_leaves in args.leaves:
        settings = Settings(n_threads=args.threads, n_leaves=n_leaves, n_trees=args.trees)
        rows = generated(args.rows, args.features, seed=1).X
        found = calls(generated(args.grown_on, args.features), rows, settings, pairs=args.interactions)
        times = interleaved(found, args.repeats, scale=1e6 / args.rows)
        middle = {name: statistics.median(values) for name, values in times.items()}
        ratios = {name: f"{value:.4g} ({value / middle['fastens']:.2f}x)" for name, value in middle.items()}
        lines.append([f"{n_leaves} leaves, us a row", *ratios.values()])
    print(table([["", *found], *lines]))


if __name__ == "__main__":
    main()
