"""Averages over prunings against pruning by cross-validation and against plain forests, as Markdown.

python asv_benchmarks/compare_posterior.py                       every part, some minutes on 2 cores
python asv_benchmarks/compare_posterior.py --parts trees --tables adult car
python asv_benchmarks/compare_posterior.py --parts choose        what the default prior of trees was chosen by
"""

from __future__ import annotations

import argparse
import itertools
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import sklearn.tree
from fastens.engine.grow.leaves import weakest_links
from fastens.posterior.averages import leaf_above
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.preprocessing import OrdinalEncoder

from benchmarks.datasets import Table, generated
from comparison.category_tables import Task, read
from comparison.posterior_tables import CHOOSING, FRESH, REPORTING, REPORTING_NUMBERS, WIDER
from comparison.wide_tables import SMALL, quarters, read_wide
from fastens import (
    BayesTreeClassifier,
    BayesTreeRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from fastens.engine.grow.growth import pruning_path
from fastens.posterior.averaging import Prunings, TableSearch
from fastens.posterior.leaf_priors import ClassPrior

Row = list[str]
MAX_ALPHAS = 20


class PrunedTree(ClassifierMixin, BaseEstimator):
    """A decision tree pruned by the price of leaves that has the least log loss in five folds, of all on its path.

    Prices are the geometric means of neighbours on the path (Breiman, Friedman, Olshen & Stone 1984, section 3.4.2),
    and each fold's tree is grown once. Leaves count `smoothing` more rows of each class: without these, one leaf of a
    single class that is wrong makes the log loss infinite. With `n_folds=0` the tree stays whole.
    """

    def __init__(self, smoothing: float = 0.5, n_folds: int = 5) -> None:
        self.smoothing = smoothing
        self.n_folds = n_folds

    def fit(self, X: Any, y: np.ndarray) -> PrunedTree:
        self.classes_ = np.unique(y)
        self.tree_, links = self._grow(X, y)
        self.is_leaf_ = links <= 0.0
        if self.n_folds:
            path = np.unique(np.maximum(pruning_path(self.tree_._ensemble.tree(0), 0.0)[0], 0.0))
            prices = np.append(np.sqrt(path[:-1] * path[1:]), path[-1])
            folds = StratifiedKFold(self.n_folds, shuffle=True, random_state=1)
            loss = sum(self._losses(X, y, rows, others, prices) for rows, others in folds.split(X, y))
            self.is_leaf_ = links <= prices[np.argmin(loss)]
        return self

    def _grow(self, X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
        """A whole tree, and at which price each of its nodes becomes a leaf."""
        tree = DecisionTreeClassifier(criterion="entropy", random_state=0, n_jobs=1).fit(X, y)
        grown = tree._ensemble.tree(0)
        gain = np.ascontiguousarray(grown.gain, dtype=np.float64) / np.float64(grown.weight[0])
        return tree, weakest_links(np.ascontiguousarray(grown.left_child), gain)[0]

    def _losses(self, X: Any, y: np.ndarray, rows: np.ndarray, others: np.ndarray, prices: np.ndarray) -> np.ndarray:
        tree, links = self._grow(X.iloc[rows], y[rows])
        known = np.isin(y[others], tree.classes_)
        leaves, label = tree.apply(X.iloc[others[known]]), np.searchsorted(tree.classes_, y[others[known]])
        log_share = np.log(np.maximum(self._shares(tree), np.finfo(float).eps))
        left_child = np.ascontiguousarray(tree._ensemble.left_child)
        return np.array([-log_share[above(left_child, links <= price)[leaves], label].sum() for price in prices])

    def _shares(self, tree: Any) -> np.ndarray:
        """What each node says."""
        weight = tree._ensemble.weight[:, None].astype(float)
        shares = tree._targets.probabilities(tree._ensemble.value)
        return (weight * shares + self.smoothing) / (weight + self.smoothing * shares.shape[1])

    def predict_proba(self, X: Any) -> np.ndarray:
        left_child = np.ascontiguousarray(self.tree_._ensemble.left_child)
        return self._shares(self.tree_)[above(left_child, self.is_leaf_)[self.tree_.apply(X)]]


def above(left_child: np.ndarray, is_leaf: np.ndarray) -> np.ndarray:
    """For each node the first on the way from the root that is a leaf, or itself."""
    return leaf_above(left_child, is_leaf.view(np.uint8))


def some(alphas: np.ndarray, most: int = MAX_ALPHAS) -> np.ndarray:
    """At most so many prices of the path, one from each part of it, without that of the root alone."""
    alphas = np.unique(np.maximum(alphas[:-1], 0.0)) if len(alphas) > 1 else alphas
    places = np.linspace(0, len(alphas) - 1, min(most, len(alphas))).round().astype(int)
    return alphas[places]


def pruned_by_scikit_learn(X: Any, y: np.ndarray) -> Any:
    """scikit-learn's tree, whose price of leaves has the least log loss in five folds, of at most 30 on its path."""
    tree = sklearn.tree.DecisionTreeClassifier(criterion="entropy", random_state=0)
    grid = {"ccp_alpha": some(tree.cost_complexity_pruning_path(X, y).ccp_alphas, 30)}
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    return GridSearchCV(tree, grid, scoring="neg_log_loss", cv=folds).fit(X, y)


def numbers_pruned_by_validation(X: Any, y: np.ndarray) -> Any:
    """The tree whose price of leaves has the least squared error in five folds, of some."""
    tree = DecisionTreeRegressor(random_state=0, n_jobs=1)
    grid = {"ccp_alpha": some(tree.cost_complexity_pruning_path(X, y).ccp_alphas)}
    folds = KFold(5, shuffle=True, random_state=1)
    return GridSearchCV(tree, grid, scoring="neg_mean_squared_error", cv=folds).fit(X, y)


def measured(
    table: Table, fits: dict[str, Callable[[Any, np.ndarray], Any]], n_folds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Mean loss on the folds left out (log loss, or the share of the variance), and processor seconds of a fit."""
    losses: dict[str, list[float]] = {name: [] for name in fits}
    seconds: dict[str, list[float]] = {name: [] for name in fits}
    folds = (KFold if table.is_regression else StratifiedKFold)(n_folds, shuffle=True, random_state=0)
    for rows, others in folds.split(table.X, table.y):
        X, y, X_test, y_test = table.X.iloc[rows], table.y[rows], table.X.iloc[others], table.y[others]
        for name, fit in fits.items():
            start = time.process_time()
            model = fit(X, y)
            seconds[name].append(time.process_time() - start)
            losses[name].append(loss_of(model, X_test, y_test, table))
    return ({n: float(np.mean(v)) for n, v in losses.items()}, {n: float(np.median(v)) for n, v in seconds.items()})


def loss_of(model: Any, X: Any, y: np.ndarray, table: Table) -> float:
    if table.is_regression:
        return float(np.mean((model.predict(X) - y) ** 2) / np.var(y))
    return float(log_loss(y, model.predict_proba(X), labels=np.arange(table.n_classes)))


def compared(
    tables: dict[str, Task],
    fits: dict[str, Callable[[Any, np.ndarray], Any]],
    n_folds: int,
    read: Callable[[str, Task], Table] = read,
) -> Iterator[Row]:
    """A row for each table: losses and seconds; and one that sums them up."""
    names = list(fits)
    yield ["table", *names, *(f"{name} [s]" for name in names)]
    found = []
    for name, task in tables.items():
        losses, seconds = measured(read(name, task), fits, n_folds)
        found.append((list(losses.values()), list(seconds.values())))
        best = min(losses.values())
        yield [
            name,
            *(f"**{loss:.4f}**" if loss == best else f"{loss:.4f}" for loss in losses.values()),
            *(f"{s:.3f}" for s in seconds.values()),
        ]
    losses_, seconds_ = np.array([row[0] for row in found]), np.array([row[1] for row in found])
    yield ["mean, sum", *(f"{x:.4f}" for x in losses_.mean(axis=0)), *(f"{x:.2f}" for x in seconds_.sum(axis=0))]
    wins = [f"{(losses_[:, 0] < column).sum()} of {len(losses_)}" for column in losses_.T[1:]]
    times = [f"{np.median(column / seconds_[:, 0]):.1f} x" for column in seconds_.T[1:]]
    yield [f"{names[0]} is better, others' time", "", *wins, "", *times]


SINGLE_TREES: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "average": lambda X, y: BayesTreeClassifier(n_jobs=1).fit(X, y),
    "pruned": lambda X, y: PrunedTree().fit(X, y),
    "ten folds": lambda X, y: PrunedTree(n_folds=10).fit(X, y),
    "whole": lambda X, y: PrunedTree(n_folds=0).fit(X, y),
}


def trees() -> Iterator[Row]:
    """Single trees: log loss in three folds."""
    return compared(REPORTING, SINGLE_TREES, 3)


def fresh() -> Iterator[Row]:
    """Single trees on quartiles of regression targets: log loss in three folds."""
    return compared(FRESH, SINGLE_TREES, 3, lambda name, task: quarters(read(name, task)))


def scikit_learn() -> Iterator[Row]:
    """Trees pruned by scikit-learn: log loss and CPU seconds of GridSearchCV, in one fold of three."""
    yield ["table", "log loss", "seconds"]
    for name, task in REPORTING.items():
        table = read(name, task)
        encoder = make_column_transformer(
            (OrdinalEncoder(), make_column_selector(dtype_include="category")), remainder="passthrough"
        )
        X = encoder.fit_transform(table.X)
        rows, others = next(StratifiedKFold(3, shuffle=True, random_state=0).split(X, table.y))
        start = time.process_time()
        model = pruned_by_scikit_learn(X[rows], table.y[rows])
        seconds = time.process_time() - start
        yield [name, f"{loss_of(model, X[others], table.y[others], table):.4f}", f"{seconds:.2f}"]


def numbers() -> Iterator[Row]:
    """Single trees: squared error over the variance in three folds."""
    fits = {"average": BayesTreeRegressor(n_jobs=1).fit, "pruned": numbers_pruned_by_validation}
    return compared(REPORTING_NUMBERS, fits, 3)


def forests() -> Iterator[Row]:
    """Forests: log loss in three folds, with half the trees."""
    fits = {
        "50 trees, average": RandomForestClassifier(50, averaging="posterior", random_state=0).fit,
        "100 trees": RandomForestClassifier(100, random_state=0).fit,
    }
    return compared(REPORTING, fits, 3)


def choose() -> Iterator[Row]:
    """Single trees on the tables of choice: of each kind of prior the one that the rule of choice takes.

    Geometric means of log losses on all tables, on those of the earlier choices and on the wider ones, and on how many
    of all a prior is better than pruning. A leaf's prior is worth some rows of a table of S thresholds, whose whole
    tree parts n rows by L leaves; splits have odds to their number, in the table or in the node itself.
    """
    rows = [*itertools.product((0.15, 0.2, 0.25, 0.3), (0.0,)), *itertools.product((0.6, 0.8, 1.0, 1.2), (0.5,))]
    splits = list(itertools.product(("table", "node"), (2.0, 3.0, 4.0, 5.0, 6.0)))
    tables = [read_wide(name, task) for name, task in (CHOOSING | WIDER).items()]
    found = np.array([_candidates_on(table, rows, splits) for table in tables])
    pruned, priors = found[:, 0], [(*row, *split) for row, split in itertools.product(rows, splits)]
    yield ["prior", "geometric mean", "34 tables", "33 tables", "better than pruned"]
    yield ["none: pruned by cross-validation", *_means(pruned), ""]
    for power, whose in itertools.product((0.0, 0.5), ("table", "node")):
        places = [i for i, (_, b, of, _) in enumerate(priors) if (b, of) == (power, whose)]
        place = places[_by_the_rule(found[:, 1:][:, places], pruned)]
        a, _, _, odds = priors[place]
        worth = f"{a:g} ln S (L / n)^(1/2)" if power else f"{a:g} ln S"
        losses = found[:, 1 + place]
        better = f"{(losses < pruned).sum()} of {len(losses)}"
        yield [f"{worth} rows, odds of {odds:g} to the splits of the {whose}", *_means(losses), better]


def _by_the_rule(losses: np.ndarray, pruned: np.ndarray) -> int:
    """Of the candidates whose mean is within half a percent of the least, the one better than pruning most often."""
    means, better = np.exp(np.log(losses).mean(axis=0)), (losses < pruned[:, None]).sum(axis=0)
    return min(np.flatnonzero(means <= 1.005 * means.min()), key=lambda i: (-better[i], means[i]))


def _means(losses: np.ndarray) -> list[str]:
    parts = (losses, losses[: len(CHOOSING)], losses[len(CHOOSING) :])
    return [f"{np.exp(np.log(part).mean()):.4f}" for part in parts]


def _candidates_on(table: Table, rows: list[tuple[float, float]], splits: list[tuple[str, float]]) -> np.ndarray:
    """The mean losses of a pruned tree and of all candidates."""
    found = []
    for seed in range(5 if len(table.y) < SMALL else 1):
        for own, others in StratifiedKFold(3, shuffle=True, random_state=seed).split(table.X, table.y):
            X, y, X_test, y_test = table.X.iloc[own], table.y[own], table.X.iloc[others], table.y[others]
            losses = [loss_of(PrunedTree().fit(X, y), X_test, y_test, table)]
            model = BayesTreeClassifier(random_state=0).fit(X, y)
            for row, split in itertools.product(rows, splits):
                average_by(model, *row, *split)
                losses.append(loss_of(model, X_test, y_test, table))
            found.append(losses)
    return np.mean(found, axis=0)


def average_by(model: Any, a: float, b: float, whose: str, odds: float) -> None:
    """Average a tree by a candidate's prior."""
    n_classes, tree, counts = len(model.classes_), model._ensemble.tree(0), model._node_statistics
    n_rows = a * np.log(max(model._n_thresholds.sum(), 2.0)) * (tree.n_leaves / tree.weight[0]) ** b
    alpha = max(n_rows, 0.05) / 2 * (1 / n_classes + model._class_shares)
    leaves = ClassPrior(tuple(alpha.tolist()), (n_classes,))
    of_table = TableSearch(model._n_thresholds, None, random_thresholds=False).n_splits(tree)
    n_splits = model._n_splits if whose == "node" else of_table
    prunings = Prunings(tree.left_child, leaves.log_evidence(counts), odds / (odds + n_splits))
    model._ensemble = model._ensemble.with_values(np.ascontiguousarray(prunings.average(leaves.values(counts)).T))


def cost() -> Iterator[Row]:
    """Cost of averaging for a forest of 100 trees on 100,000 x 28: CPU seconds (median of five) and MiB."""
    data, numbers = generated(100_000, 28), generated(100_000, 28, regression=True)
    kinds: dict[str, tuple[Any, dict[str, Any], Table]] = {
        "random forest": (RandomForestClassifier, {}, data),
        "extra trees": (ExtraTreesClassifier, {}, data),
        "random forest, regression": (RandomForestRegressor, {"max_features": 1 / 3}, numbers),
    }
    yield [
        "",
        "plain fit [s]",
        "averaged fit [s]",
        "more",
        "plain file [MiB]",
        "averaged file [MiB]",
        "predict, averaged / plain",
    ]
    for name, (kind, given, table) in kinds.items():
        seconds: dict[Any, list[float]] = {None: [], "posterior": []}
        models = {}
        for seed in range(5):
            for averaging, found in seconds.items():
                start = time.process_time()
                models[averaging] = kind(100, averaging=averaging, random_state=seed, **given).fit(table.X, table.y)
                found.append(time.process_time() - start)
        plain, averaged = (float(np.median(found)) for found in seconds.values())
        sizes = [f"{len(pickle.dumps(model)) / 2**20:.1f}" for model in models.values()]
        ratio = predicting(models["posterior"], table.X) / predicting(models[None], table.X)
        yield [name, f"{plain:.2f}", f"{averaged:.2f}", f"{100 * (averaged / plain - 1):.1f} %", *sizes, f"{ratio:.2f}"]


def predicting(model: Any, X: np.ndarray) -> float:
    """The least processor seconds of a few predictions."""
    found = []
    for _ in range(4):
        start = time.process_time()
        model.predict(X[:50_000])
        found.append(time.process_time() - start)
    return min(found[1:])


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "trees": trees,
    "fresh": fresh,
    "scikit-learn": scikit_learn,
    "numbers": numbers,
    "forests": forests,
    "cost": cost,
    "choose": choose,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--tables", nargs="+", choices=[*REPORTING, *FRESH, *REPORTING_NUMBERS], help="default: all of a part"
    )
    args = parser.parse_args()
    for part in args.parts:
        for tables in (REPORTING, FRESH, REPORTING_NUMBERS):
            for name in [name for name in tables if args.tables and name not in args.tables]:
                del tables[name]
        print(f"\n### {PARTS[part].__doc__}\n")
        for i, row in enumerate(PARTS[part]()):
            print(f"| {' | '.join(row)} |", flush=True)
            if i == 0:
                print(f"| {' | '.join(['---'] * len(row))} |")


if __name__ == "__main__":
    main()
