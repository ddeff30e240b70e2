"""Export to scikit-learn estimators, with the trees in the data structures of the installed version."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.ensemble._iforest import _average_path_length
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, Tree

from fastens.exchange.writing.sklearn_histograms import predictors
from fastens.exchange.writing.view import CannotHoldError, Column, FlatTree, ModelView, Target
from fastens.warn import warn

_MAX_CATEGORIES = 255
_FOREST_OF = {
    DecisionTreeClassifier: RandomForestClassifier,
    ExtraTreeClassifier: ExtraTreesClassifier,
    DecisionTreeRegressor: RandomForestRegressor,
    ExtraTreeRegressor: ExtraTreesRegressor,
}


def write(view: ModelView) -> Any:
    """Return a fitted estimator: histogram gradient boosting for sums of trees, a forest or a tree for means.

    Forests and trees of scikit-learn convert X to single precision, so predictions are identical only if X is in single
    precision already.
    """
    write_trees = _isolation_forest if view.targets[0].link == "anomaly" else _forest
    if write_trees is _forest and not view.is_mean and view.targets[0].link != "shares":
        return _boosting(view)
    if any(column.categories is not None for column in view.columns):
        raise CannotHoldError("columns of categories in trees and forests")
    return write_trees(view)


# Histogram gradient boosting --------------------------------------------------


def _boosting(view: ModelView) -> Any:
    target = view.only_target
    many = [c.name for c in view.columns if c.categories is not None and len(c.categories) > _MAX_CATEGORIES]
    if many:
        raise CannotHoldError(f"more than {_MAX_CATEGORIES} categories in {many[0]!r}")
    if target.classes is not None:
        if target.link not in ("sigmoid", "softmax"):
            raise CannotHoldError(f"probabilities by the link {target.link!r}")
        model = HistGradientBoostingClassifier(max_iter=1, early_stopping=False)
    else:
        if view.n_outputs > 1 or target.link not in _LOSSES:
            raise CannotHoldError("several predictions" if view.n_outputs > 1 else f"the link {target.link!r}")
        model = HistGradientBoostingRegressor(loss=_LOSSES[target.link], max_iter=1, early_stopping=False)
    X, is_categorical = _example(view, 2 * view.n_outputs)
    if any(is_categorical):
        warn(
            "format='sklearn' holds categories for predictions only: shap.TreeExplainer ignores them in scikit-learn's "
            "trees and gives other values. For shap, export with format='lightgbm', which is exact."
        )
    model.set_params(categorical_features=is_categorical if any(is_categorical) else None)
    labels = np.ones(1) if target.classes is None else target.classes
    model.fit(X, labels[np.arange(len(X)) % len(labels)])
    rounds = view.rounds()
    n_rounds = len(rounds) // view.n_outputs
    found = predictors([tree for _, tree in rounds], view.columns, _order(model, view.columns))
    model._predictors = [found[k * view.n_outputs : (k + 1) * view.n_outputs] for k in range(n_rounds)]
    # The first trees already include the baseline.
    model._baseline_prediction = np.zeros((1, view.n_outputs))
    return model.set_params(max_iter=n_rounds)


_LOSSES = {"identity": "squared_error", "exp": "poisson"}


def _example(view: ModelView, n_rows: int) -> tuple[Any, list[bool]]:
    """Return a table from which the estimator learns columns and categories, and True for categorical columns."""
    columns = view.columns
    n_rows = max([n_rows, 2, *(len(column.categories or ()) for column in columns)])
    rows = np.arange(n_rows)
    found = [_example_of(column, rows) for column in columns]
    is_categorical = [column.categories is not None for column in columns]
    if view.note["names"] is None:
        kind = object if any(column.has_strings for column in columns) else None
        return np.column_stack([own.astype(kind or own.dtype) for own in found]), is_categorical
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("format='sklearn' needs pandas for columns with names: pip install pandas") from error
    return pd.DataFrame({column.name: own for column, own in zip(columns, found, strict=True)}), is_categorical


def _example_of(column: Column, rows: NDArray[np.intp]) -> NDArray[Any]:
    if column.categories is None:
        return rows.astype(np.float64)
    if column.has_strings and not all(isinstance(own, str) for own in column.categories):
        raise CannotHoldError(f"categories of {column.name!r} that are both texts and numbers")
    return np.array([column.categories[row % len(column.categories)] for row in rows])


def _order(model: Any, columns: list[Column]) -> list[tuple[int, NDArray[np.intp]]]:
    """Return each column's position in scikit-learn, which puts categorical columns first, and its category codes."""
    is_categorical = [column.categories is not None for column in columns]
    place = np.empty(len(columns), dtype=np.intp)
    place[np.argsort(np.logical_not(is_categorical), kind="stable")] = np.arange(len(columns))
    known = iter(model._preprocessor.named_transformers_["encoder"].categories_ if any(is_categorical) else ())
    found = []
    for column, own in zip(columns, place.tolist(), strict=True):
        code_of = {} if column.categories is None else {value: code for code, value in enumerate(next(known).tolist())}
        found.append((own, np.array([code_of[value] for value in column.categories or ()], dtype=np.intp)))
    return found


# Forests and trees --------------------------------------------------


def _forest(view: ModelView) -> Any:
    of_classes = view.targets[0].classes is not None
    is_random = view.estimator.startswith("ExtraTrees")
    if of_classes:
        kind: Any = ExtraTreeClassifier if is_random else DecisionTreeClassifier
    else:
        kind = ExtraTreeRegressor if is_random else DecisionTreeRegressor
    targets = view.targets if of_classes else [Target(slice(k, k + 1), "identity", None) for k in range(view.n_outputs)]
    members = [_tree(kind, view, tree, targets) for tree in view.trees]
    if len(members) == 1 and not view.estimator.endswith(("ForestClassifier", "ForestRegressor")):
        return _named(members[0], view)
    model = _FOREST_OF[kind](n_estimators=len(members))
    model.estimator_, model.estimators_ = kind(), members
    if of_classes:
        model.classes_, model.n_classes_ = members[0].classes_, members[0].n_classes_
        if len(targets) == 1:
            for member in members:  # trees of a forest predict class indices
                member.classes_ = np.arange(len(member.classes_))
    model.n_outputs_ = len(targets)
    return _named(model, view)


def _tree(kind: Any, view: ModelView, tree: FlatTree, targets: list[Target]) -> Any:
    n_classes = np.array([1 if own.classes is None else len(own.classes) for own in targets], dtype=np.intp)
    value = np.zeros((len(tree.left), len(targets), n_classes.max()))
    for k, own in enumerate(targets):
        shares = tree.value[:, own.outputs] + view.baseline[own.outputs]
        if shares.shape[1] < n_classes[k]:
            shares = np.hstack([1 - shares, shares])
        value[:, k, : n_classes[k]] = shares
    model = kind()
    model.tree_ = _arrays(view, tree, value, n_classes)
    model.n_outputs_, model.max_features_ = len(targets), len(view.columns)
    model.n_features_in_ = len(view.columns)
    if targets[0].classes is not None:
        single = len(targets) == 1
        model.classes_ = targets[0].classes if single else [own.classes for own in targets]
        model.n_classes_ = n_classes[0] if single else n_classes
    return model


def _arrays(view: ModelView, tree: FlatTree, value: NDArray[np.float64], n_classes: NDArray[np.intp]) -> Tree:
    """Convert a tree to scikit-learn's data structure."""
    nodes = np.zeros(len(tree.left), dtype=NODE_DTYPE)
    is_leaf = tree.is_leaf
    for name, found in {
        "left_child": tree.left,
        "right_child": tree.right,
        "feature": np.where(is_leaf, -2, tree.feature),
        "threshold": np.where(is_leaf, -2.0, tree.threshold),
        "impurity": _impurities(tree),
        "n_node_samples": tree.n_samples,
        "weighted_n_node_samples": tree.weight,
        "missing_go_to_left": tree.missing_left,
    }.items():
        nodes[name] = found
    n_features = len(view.columns)
    kinds = (np.full(n_features, -1, dtype=np.intp),) if "left_cat_bitset" in NODE_DTYPE.names else ()
    found = Tree(n_features, n_classes, len(n_classes), *kinds)
    state = {"max_depth": _depths(tree).max(), "node_count": len(nodes), "nodes": nodes, "values": value}
    found.__setstate__(state)
    return found


def _impurities(tree: FlatTree) -> NDArray[np.float64]:
    """Return impurities from the gains at and below each node, so that feature importances are unchanged."""
    total = tree.gain.copy()
    for node in np.flatnonzero(~tree.is_leaf)[::-1].tolist():
        total[node] += total[tree.left[node]] + total[tree.right[node]]
    return total / np.maximum(tree.weight, np.finfo(np.float64).tiny)


def _depths(tree: FlatTree) -> NDArray[np.int64]:
    depth = np.zeros(len(tree.left), dtype=np.int64)
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
    return depth


def _isolation_forest(view: ModelView) -> Any:
    mean_length, offset = view.targets[0].parameters
    number = [Target(slice(0, 1), "identity", None)]
    members = [_tree(ExtraTreeRegressor, view, tree, number) for tree in view.trees]
    model = IsolationForest(n_estimators=len(members))
    model.estimator_, model.estimators_ = ExtraTreeRegressor(), members
    model.estimators_features_ = [np.arange(len(view.columns))] * len(members)
    model._max_features = len(view.columns)
    model.max_samples_ = model._max_samples = int(_rows_of(np.array(mean_length)))
    model.offset_ = offset
    for member, tree in zip(members, view.trees, strict=True):  # sampled rows, recovered from the path lengths
        state = member.tree_.__getstate__()
        n_rows = np.where(tree.is_leaf, _rows_of(tree.value[:, 0] - _depths(tree)), 0)
        for node in np.flatnonzero(~tree.is_leaf)[::-1].tolist():
            n_rows[node] = n_rows[tree.left[node]] + n_rows[tree.right[node]]
        state["nodes"]["n_node_samples"] = n_rows
        member.tree_.__setstate__(state)
    trees = [member.tree_ for member in members]
    model._average_path_length_per_tree = [_average_path_length(tree.n_node_samples) for tree in trees]
    model._decision_path_lengths = [tree.compute_node_depths() for tree in trees]
    return _named(model, view)


def _rows_of(depth: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the numbers of rows that have these expected path lengths below a leaf."""
    near = np.floor(np.exp(depth / 2 + 1 - np.euler_gamma))[..., None] + np.arange(-2, 2)
    near = np.maximum(near, 1).astype(np.int64)
    best = np.abs(_average_path_length(near) - depth[..., None]).argmin(axis=-1)
    return np.take_along_axis(near, best[..., None], axis=-1)[..., 0]


def _named(model: Any, view: ModelView) -> Any:
    model.n_features_in_ = len(view.columns)
    if view.note["names"] is not None:
        model.feature_names_in_ = np.array(view.note["names"], dtype=object)
    return model
