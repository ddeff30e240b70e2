"""Version spaces, the average over all trees, and combinations of classifiers: time, memory and log loss, as Markdown.

python asv_benchmarks/compare_spaces.py                    everything, about two minutes on 2 cores
python asv_benchmarks/compare_spaces.py --parts spaces     one part
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from benchmarks.spaces import concept_table, tree_table
from fastens import BayesOptimalClassifier, ExactTreeAverageClassifier, VersionSpaceClassifier

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("FASTENS_DATA", HERE.parents[1] / "shared" / "data"))
TABLES = ["breast_w", "heart_c", "tic_tac_toe", "vote", "kr_vs_kp", "credit_g", "diabetes", "australian"]
ALPHAS = [0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05]
Row = list[str]


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The least processor time of some runs: all of these work on one thread."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def peak_memory(code: str) -> float:
    """Megabytes that a fresh process takes beyond those of its imports (Linux)."""
    program = f"import sys; sys.path.insert(0, {str(HERE)!r})\n{code}"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    return float(found)


# The high-water mark of a process that starts afresh; `ru_maxrss` would be inherited from this one.
MEMORY = """
from pathlib import Path
from benchmarks.spaces import concept_table, tree_table
from fastens import ExactTreeAverageClassifier, VersionSpaceClassifier
X, y = {table}
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before = peak()
model = {model}.fit(X, y)
print((peak() - before) / 1024)
"""


def spaces(repeats: int) -> Iterator[Row]:
    """One positive example and 999 negative ones, all attributes constrained."""
    yield ["attributes", "hypotheses", "fit and count [CPU s]", "predict 1 000 rows [CPU s]", "memory [MB]"]
    for k in (10, 15, 20, 25, 28, 30):
        X, y = concept_table(1000, k)
        model = VersionSpaceClassifier().fit(X, y)
        memory = peak_memory(MEMORY.format(table=f"concept_table(1000, {k})", model="VersionSpaceClassifier()"))
        times = (
            seconds(lambda: VersionSpaceClassifier().fit(X, y).n_hypotheses_, repeats),  # noqa: B023
            seconds(lambda: model.predict_proba(X), repeats),  # noqa: B023
        )
        yield [str(k), f"{model.n_hypotheses_:,}", *(f"{t:.4f}" for t in times), f"{memory:.0f}"]


def all_trees(repeats: int) -> Iterator[Row]:
    """All trees on binary columns, 20 000 rows."""
    yield ["questions", "fit [CPU s]", "predict 20 000 rows [CPU s]", "MAP tree [CPU s]", "memory [MB]"]
    for p in (6, 8, 10, 12, 14):
        X, y = tree_table(20_000, p)
        model = ExactTreeAverageClassifier(p).fit(X, y)
        memory = peak_memory(MEMORY.format(table=f"tree_table(20_000, {p})", model=f"ExactTreeAverageClassifier({p})"))
        times = (
            seconds(lambda: ExactTreeAverageClassifier(p).fit(X, y), repeats),  # noqa: B023
            seconds(lambda: model.predict_proba(X), repeats),  # noqa: B023
            seconds(lambda: model.map_estimator_, repeats),  # noqa: B023
        )
        yield [str(p), *(f"{t:.4f}" for t in times), f"{memory:.0f}"]


def pruned_tree() -> GridSearchCV:
    """A greedy tree, its cost-complexity pruning chosen by cross-validation."""
    return GridSearchCV(DecisionTreeClassifier(random_state=0), {"ccp_alpha": ALPHAS}, scoring="neg_log_loss")


def members() -> list[tuple[str, object]]:
    """Three classifiers to combine."""
    return [
        ("nb", GaussianNB()),
        ("tree", DecisionTreeClassifier(max_depth=4, random_state=0)),
        ("line", LogisticRegression(max_iter=5000)),
    ]


def held_out_losses(name: str, models: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Log loss on held-out rows, the mean over five folds."""
    table = pd.read_parquet(DATA / f"{name}.parquet").dropna()
    X = pd.get_dummies(table.iloc[:, :-1]).astype(float).to_numpy()
    y = table.iloc[:, -1].astype(str).to_numpy()
    found = dict.fromkeys(models, 0.0)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        for key, make in models.items():
            model = make().fit(X[train], y[train])  # type: ignore[attr-defined]
            found[key] += log_loss(y[test], model.predict_proba(X[test])) / 5
    return found


def compared(models: dict[str, Callable[[], object]]) -> Iterator[Row]:
    yield ["log loss", *models]
    for name in TABLES:
        yield [name, *(f"{loss:.4f}" for loss in held_out_losses(name, models).values())]


def against_trees(repeats: int) -> Iterator[Row]:
    """Average over all trees on 10 questions, compared with a greedy tree pruned by cross-validation."""
    yield from compared({"all trees": ExactTreeAverageClassifier, "pruned tree": pruned_tree})


def combinations(repeats: int) -> Iterator[Row]:
    """Three ways to weight three classifiers."""
    methods = ("bma", "pool", "pseudo-bma+")
    models = {m: lambda m=m: BayesOptimalClassifier(members(), method=m, random_state=0) for m in methods}
    yield from compared(models)


PARTS = {"spaces": spaces, "all-trees": all_trees, "against-trees": against_trees, "combinations": combinations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    for name in args.parts:
        print(f"\n### {name}: {PARTS[name].__doc__}\n")
        for number, row in enumerate(PARTS[name](args.repeats)):
            print("| " + " | ".join(row) + " |", flush=True)
            if number == 0:
                print("|" + "---|" * len(row))


if __name__ == "__main__":
    main()
