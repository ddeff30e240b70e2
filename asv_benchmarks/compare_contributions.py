"""Time Shapley values of fastens, XGBoost, LightGBM and shap; print a Markdown table.

python asv_benchmarks/compare_contributions.py                    2,000 rows, 100 trees of 8, of 31 and of 255 leaves
python asv_benchmarks/compare_contributions.py --rows 500 --threads 1 --interactions
python asv_benchmarks/compare_contributions.py --background 100 --threads 1 --rows 500         interventional, with shap
python asv_benchmarks/compare_contributions.py --background 100 --output probability --threads 1 --rows 500

With --cpu, times are of the processor, for one thread on a machine with other work.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import Table, generated
from benchmarks.peer_models import Settings, make_fastens, make_lightgbm, make_xgboost_lossguide
from comparison.measure import interleaved
from comparison.report import table

# shap takes milliseconds a row.
MAX_ROWS_OF_SHAP = 20
Calls = dict[str, tuple[Callable[[], Any], int]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000, help="rows to explain")
    parser.add_argument("--grown-on", type=int, default=50_000, help="rows to train on")
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, nargs="+", default=[8, 31, 255])
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--interactions", action="store_true", help="of pairs, which LightGBM has not")
    parser.add_argument("--background", type=int, default=0, help="background rows: interventional values")
    parser.add_argument("--output", choices=["raw", "probability"], default="raw", help="with --background")
    parser.add_argument("--cpu", action="store_true", help="time of the processor")
    return parser.parse_args()


def path_dependent(data: Table, rows: np.ndarray, settings: Settings, *, pairs: bool) -> Calls:
    """A call for each library, checked for values that add up to the raw predictions."""
    from xgboost import DMatrix

    ours = make_fastens(settings).fit(data.X, data.y)
    booster = make_xgboost_lossguide(settings).fit(data.X, data.y).get_booster()
    found: Calls = {
        "fastens": (lambda: ours.predict_contributions(rows, interactions=pairs), len(rows)),
        "XGBoost": (
            lambda: booster.predict(
                DMatrix(rows, nthread=settings.n_threads), pred_contribs=not pairs, pred_interactions=pairs
            ),
            len(rows),
        ),
    }
    raw = {"fastens": ours.decision_function(rows), "XGBoost": booster.predict(DMatrix(rows), output_margin=True)}
    if not pairs:
        lightgbm = make_lightgbm(settings).fit(data.X, data.y)
        found["LightGBM"] = (lambda: lightgbm.predict(rows, pred_contrib=True), len(rows))
        raw["LightGBM"] = lightgbm.predict(rows, raw_score=True)
    for name, (call, _) in found.items():
        np.testing.assert_allclose(call().reshape(len(rows), -1).sum(axis=1), raw[name], rtol=1e-3, atol=1e-3)
    return found


def interventional(data: Table, rows: np.ndarray, settings: Settings, background: np.ndarray, output: str) -> Calls:
    """Of fastens, and of shap for the same trees, which it reads from XGBoost's format; the values are compared."""
    from shap import TreeExplainer
    from xgboost import XGBClassifier

    ours = make_fastens(settings).fit(data.X, data.y)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.json")
        ours.export(path, format="xgboost")
        same = XGBClassifier()
        same.load_model(path)
    few = rows[:MAX_ROWS_OF_SHAP]
    explainer = TreeExplainer(same, background, feature_perturbation="interventional", model_output=output)
    expected = explainer.shap_values(few, check_additivity=False)
    found = ours.explain(few, background, output=output)
    np.testing.assert_allclose(found.values, expected, atol=1e-5 * abs(expected).max())
    return {
        "fastens": (lambda: ours.explain(rows, background, output=output), len(rows)),
        "shap": (lambda: explainer.shap_values(few, check_additivity=False), len(few)),
    }


def main() -> None:
    args = arguments()
    lines: list[list[str]] = []
    names: list[str] = []
    for n_leaves in args.leaves:
        settings = Settings(n_threads=args.threads, n_leaves=n_leaves, n_trees=args.trees)
        # As XGBoost has them, so that shap may read the same trees.
        rows = generated(args.rows, args.features, seed=1).X.astype(np.float32).astype(np.float64)
        data = generated(args.grown_on, args.features)
        if args.background:
            background = data.X[: args.background].astype(np.float32).astype(np.float64)
            found = interventional(data, rows, settings, background, args.output)
        else:
            found = path_dependent(data, rows, settings, pairs=args.interactions)
        names = list(found)
        clock = time.process_time if args.cpu else time.perf_counter
        times = interleaved({name: call for name, (call, _) in found.items()}, args.repeats, 1e6, clock)
        middle = {name: statistics.median(values) / found[name][1] for name, values in times.items()}
        ratios = {name: f"{value:.4g} ({value / middle['fastens']:.2f}x)" for name, value in middle.items()}
        lines.append([f"{n_leaves} leaves, us a row", *ratios.values()])
    print(table([["", *names], *lines]))


if __name__ == "__main__":
    main()
