"""Compare predictions of deep forests, and their pickles, with scikit-learn and oneDAL; print a Markdown table.

python asv_benchmarks/compare_deep_predict.py                   200,000 rows, 100 trees grown on 100,000 rows, 2 threads
python asv_benchmarks/compare_deep_predict.py --rows 20000 --grown-on 20000 --repeats 3 --threads 1

With --cpu, times of many rows are of the processor, for one thread on a machine with other work.
"""

from __future__ import annotations

import argparse
import importlib.util
import pickle
import statistics
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier as PeerForest

from benchmarks.datasets import generated
from comparison.measure import interleaved, median_of_calls
from comparison.report import table
from fastens import RandomForestClassifier


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows to predict")
    parser.add_argument("--grown-on", type=int, default=100_000, help="rows to train on")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="time of the processor")
    return parser.parse_args()


def onedal_call(X: np.ndarray, y: np.ndarray, rows: np.ndarray, args: argparse.Namespace) -> Callable[[], Any]:
    """A forest of oneDAL's own, through daal4py's plain interface."""
    # Its patches of scikit-learn, which are not used here, fail to import with scikit-learn 1.9.
    sys.modules.setdefault("daal4py.sklearn", types.ModuleType("daal4py.sklearn"))
    import daal4py

    daal4py.daalinit(args.threads)
    training = daal4py.decision_forest_classification_training(
        nClasses=2,
        nTrees=args.trees,
        featuresPerNode=int(np.sqrt(X.shape[1])),
        minObservationsInLeafNode=1,
        maxBins=256,
        method="hist",
        fptype="float",
        bootstrap=True,
    )
    model = training.compute(X, y[:, None].astype(np.float32)).model
    predict = daal4py.decision_forest_classification_prediction(
        nClasses=2, fptype="float", resultsToEvaluate="computeClassProbabilities", votingMethod="unweighted"
    )
    return lambda: predict.compute(rows, model)


def main() -> None:
    args = arguments()
    training, rows = generated(args.grown_on, 28), generated(args.rows, 28, seed=1).X
    peer = PeerForest(args.trees, n_jobs=args.threads, random_state=0).fit(training.X, training.y)
    models = {
        f"fastens, {bins} bins": RandomForestClassifier(
            args.trees, max_bins=bins, n_jobs=args.threads, random_state=0
        ).fit(training.X, training.y)
        for bins in (255, 65_535)
    } | {"scikit-learn": peer}
    calls = {name: (lambda model=model: model.predict_proba(rows)) for name, model in models.items()}
    if importlib.util.find_spec("daal4py"):
        calls["oneDAL"] = onedal_call(training.X, training.y, rows, args)
    for call in calls.values():
        call()
    seconds = interleaved(calls, args.repeats, clock=time.process_time if args.cpu else time.perf_counter)
    lines = [["library", "s", "ns per row, tree and thread", "one row, us", "nodes", "pickle, bytes a node"]]
    for name in calls:
        middle = statistics.median(seconds[name])
        line = [name, f"{middle:.3f}", f"{middle * 1e9 * args.threads / args.rows / args.trees:.1f}"]
        lines.append(line + (sizes(models[name], rows) if name in models else ["", "", ""]))
    print(table(lines))


def sizes(model: Any, rows: np.ndarray) -> list[str]:
    """Time of one row, number of nodes and size of the pickle."""
    model.set_params(n_jobs=1)
    one = 1e6 * median_of_calls(lambda: model.predict_proba(rows[:1]), 50)
    ours = hasattr(model, "_ensemble")
    n_nodes = len(model._ensemble.feature) if ours else sum(tree.tree_.node_count for tree in model.estimators_)
    return [f"{one:.0f}", f"{n_nodes:,}", f"{len(pickle.dumps(model)) / n_nodes:.1f}"]


if __name__ == "__main__":
    main()
