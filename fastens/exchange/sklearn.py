"""Import of scikit-learn's trees and ensembles of trees, and export to the data structures of the installed version."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.ensemble._iforest import _average_path_length
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, Tree

from fastens.engine.trees.trees import set_of
from fastens.exchange.export import CannotHoldError, LinkedTarget, ModelView
from fastens.exchange.records import CLASSIFIER, REGRESSOR, ModelColumn, ModelColumns, Objective, at_most, refuse
from fastens.exchange.trees import FlatTrees, ForeignModel, join_trees
from fastens.params.options import HuberLoss
from fastens.table.columns.factorize import is_missing
from fastens.warn import warn

Floats = NDArray[np.float64]


def read_sklearn(model: Any) -> ForeignModel:
    """Read a fitted estimator that consists of trees.

    Parameters
    ----------
    model : estimator
        A single tree, a forest, bagged trees, gradient boosting of either kind, an isolation forest or AdaBoost.
    """
    kind = type(model).__name__
    is_histogram = hasattr(model, "_predictors") or kind.startswith("HistGradientBoosting")
    reader = _read_histogram_boosting if is_histogram else _READERS.get(kind)
    if reader is None:
        raise refuse(f"scikit-learn's {kind} cannot be read; these classes can: {', '.join(_READERS)}")
    if not hasattr(model, "_predictors" if is_histogram else "n_features_in_"):
        raise refuse(f"the {kind} must be fitted")
    foreign = reader(model)
    names = getattr(model, "feature_names_in_", None)
    foreign.columns.names = None if names is None else [str(column) for column in names]
    return foreign


def _tree_of_nodes(tree: Any, value: Floats, features: Any = None) -> FlatTrees:
    """Return a scikit-learn tree with `value`, (n_nodes, n_values), in its leaves.

    `features` are the columns of X that it was trained on; None for all.
    """
    arrays = tree.tree_
    left, right, weight = arrays.children_left, arrays.children_right, arrays.weighted_n_node_samples
    inner = left >= 0
    feature = np.where(inner, arrays.feature, 0)
    decrease = weight * arrays.impurity
    return FlatTrees(
        left=left,
        right=right,
        feature=feature if features is None else np.asarray(features)[feature],
        threshold=np.where(inner, at_most(np.where(inner, arrays.threshold, 0.0)), 0.0),
        missing_left=getattr(arrays, "missing_go_to_left", np.zeros(len(left), np.uint8)),
        value=np.where(inner[:, None], 0.0, value),
        weight=weight,
        n_samples=arrays.n_node_samples,
        gain=np.where(inner, decrease - decrease[left] - decrease[right], 0.0),
    )


def _shares(tree: Any, n_classes: list[int]) -> Floats:
    """Return the class proportions in each node, (n_nodes, sum of n_classes), with targets side by side."""
    value = tree.tree_.value
    shares = value / value.sum(axis=2, keepdims=True) if value.sum(axis=2).max(initial=0.0) > 1.5 else value
    return np.concatenate([shares[:, k, :n] for k, n in enumerate(n_classes)], axis=1)


def _foreign_model(model: Any, parts: list[FlatTrees], objective: Objective, baseline: Any = None) -> ForeignModel:
    """Return the record of a model from its trees, baseline (0 if None) and objective.

    Trees with one value per node are assigned to the outputs in turn.
    """
    width = parts[0].value.shape[1]
    n_outputs = max(width, objective.n_outputs)
    output = np.arange(len(parts)) % objective.n_outputs if width == 1 else np.zeros(len(parts), dtype=np.int64)
    baseline = np.zeros(n_outputs) if baseline is None else np.asarray(baseline, dtype=np.float64)
    return ForeignModel(objective, join_trees(parts, output), ModelColumns(int(model.n_features_in_)), baseline)


def _trees_and_columns(model: Any) -> list[tuple[Any, Any]]:
    """Return (tree, its training columns or None for all) pairs; raise ModelFileError for other members."""
    if hasattr(model, "tree_"):
        return [(model, None)]
    features = getattr(model, "estimators_features_", None)
    trees = list(model.estimators_)
    for tree in trees:
        if not hasattr(tree, "tree_"):
            raise refuse(f"its members must be trees of scikit-learn; got {type(tree).__name__}")
    return list(zip(trees, [None] * len(trees) if features is None else features, strict=True))


def _read_class_forest(name: str, model: Any) -> ForeignModel:
    """Read a model with averaged class proportions; `name` is the corresponding class of fastens."""
    several = isinstance(model.classes_, list)
    classes = model.classes_ if several else [model.classes_]
    counts = [len(each) for each in classes]
    parts = []
    for tree, features in _trees_and_columns(model):
        tree_classes: Any = getattr(tree, "classes_", None)
        value = _shares(tree, counts if several else [len(tree_classes)])
        if not several and len(tree_classes) < counts[0]:  # a bootstrap sample may lack a class
            wide = np.zeros((len(value), counts[0]))
            wide[:, np.asarray(tree_classes, dtype=np.int64)] = value
            value = wide
        parts.append(_tree_of_nodes(tree, value, features))
    fitted = {"_has_all_shares": True}
    labels = classes if several else classes[0]
    return _foreign_model(model, parts, Objective(name, n_targets=len(classes), classes=labels, fitted=fitted))


def _read_number_forest(name: str, model: Any) -> ForeignModel:
    """Read a model with averaged leaf values; `name` is the corresponding class of fastens."""
    parts = [_tree_of_nodes(tree, tree.tree_.value[:, :, 0], features) for tree, features in _trees_and_columns(model)]
    return _foreign_model(model, parts, Objective(name, n_targets=parts[0].value.shape[1]))


def _read_boosting(model: Any) -> ForeignModel:
    """Read gradient boosting: leaf values times the learning rate, added to a constant.

    Raises ModelFileError if `init` does not predict a constant.
    """
    initial = model.init_
    if not isinstance(initial, str) and not type(initial).__name__.startswith("Dummy"):
        raise refuse(f"init must be None, 'zero' or a constant; got {type(initial).__name__}")
    if getattr(initial, "strategy", None) == "stratified":
        raise refuse("init must not predict random classes; got DummyClassifier(strategy='stratified')")
    n_outputs = model.estimators_.shape[1]
    baseline = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0]
    rate = model.learning_rate
    parts = [_tree_of_nodes(tree, rate * tree.tree_.value[:, :, 0]) for trees in model.estimators_ for tree in trees]
    objective = Objective(REGRESSOR, {"loss": model.loss, "learning_rate": float(rate)}, n_outputs)
    if hasattr(model, "classes_"):
        objective.estimator, objective.classes = CLASSIFIER, model.classes_
    elif model.loss == "quantile":
        objective.parameters["quantile"] = float(model.alpha)
    elif model.loss == "huber":
        objective.parameters["loss"] = HuberLoss(alpha=float(model.alpha))
    return _foreign_model(model, parts, objective, baseline)


def _read_isolation_forest(model: Any) -> ForeignModel:
    """Read an isolation forest: a leaf's value is its depth plus the expected path length below it."""
    parts = []
    for tree, features in _trees_and_columns(model):
        below = _average_path_length(tree.tree_.n_node_samples)
        # The depths of scikit-learn begin with 1 at the root.
        parts.append(_tree_of_nodes(tree, (tree.tree_.compute_node_depths() + below - 1.0)[:, None], features))
    fitted = {"offset_": float(model.offset_), "max_samples_": int(model.max_samples_)}
    return _foreign_model(model, parts, Objective("IsolationForest", fitted=fitted))


def _read_adaboost_classifier(model: Any) -> ForeignModel:
    """Read AdaBoost votes as raw predictions of a log loss; probabilities are softmax(decision / (K - 1))."""
    classes, n_classes = model.classes_, len(model.classes_)
    weights = model.estimator_weights_[: len(model.estimators_)]
    total = model.estimator_weights_.sum()
    parts = []
    for (tree, _), weight in zip(_trees_and_columns(model), weights, strict=True):
        vote = _shares(tree, [len(tree.classes_)]).argmax(axis=1)
        is_class = tree.classes_[vote][:, None] == classes
        if n_classes == 2:
            value = np.where(is_class[:, 1:], 2 * weight, -2 * weight) / total
        else:
            value = np.where(is_class, weight, -weight / (n_classes - 1)) / total / (n_classes - 1)
        parts.append(_tree_of_nodes(tree, value))
    return _foreign_model(model, parts, Objective(CLASSIFIER, n_outputs=parts[0].value.shape[1], classes=classes))


def _read_adaboost_regressor(model: Any) -> ForeignModel:
    """Read AdaBoost.R2, which predicts the weighted median of its trees."""
    parts = [_tree_of_nodes(tree, tree.tree_.value[:, :, 0]) for tree, _ in _trees_and_columns(model)]
    n_trees = len(parts)
    fitted = {
        "n_estimators_": n_trees,
        "estimator_weights_": np.array(model.estimator_weights_[:n_trees], dtype=np.float64),
        "estimator_errors_": np.array(model.estimator_errors_[:n_trees], dtype=np.float64),
    }
    return _foreign_model(model, parts, Objective("AdaBoostRegressor", fitted=fitted))


def _read_histogram_boosting(model: Any) -> ForeignModel:
    """Read histogram gradient boosting, which puts categorical columns first and encodes them."""
    columns = ModelColumns(int(model.n_features_in_))
    column_of, is_categorical = np.arange(len(columns)), model.is_categorical_
    if is_categorical is not None:
        column_of = np.argsort(~is_categorical, kind="stable")
        encoder = model._preprocessor.named_transformers_["encoder"]
        for column, values in zip(np.flatnonzero(is_categorical).tolist(), encoder.categories_, strict=True):
            columns[column].categories = [value for value in np.asarray(values).tolist() if not is_missing(value)]
    parts = [_predictor_nodes(predictor, column_of) for of_round in model._predictors for predictor in of_round]
    baseline = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    objective = Objective(REGRESSOR, {"loss": model.loss, "learning_rate": float(model.learning_rate)}, len(baseline))
    if model.loss == "quantile":
        objective.parameters["quantile"] = float(model.quantile)
    if (classes := getattr(model, "classes_", None)) is not None:
        objective.estimator, objective.classes = CLASSIFIER, classes
    return ForeignModel(objective, join_trees(parts, np.arange(len(parts)) % len(baseline)), columns, baseline)


def _predictor_nodes(predictor: Any, column_of: NDArray[np.intp]) -> FlatTrees:
    """Return a tree of histogram gradient boosting; `column_of` has the column of X of each of its features."""
    nodes, bits = predictor.nodes, predictor.raw_left_cat_bitsets
    inner, is_set = nodes["is_leaf"] == 0, nodes["is_categorical"] == 1
    return FlatTrees(
        left=np.where(inner, nodes["left"].astype(np.int64), -1),
        right=np.where(inner, nodes["right"].astype(np.int64), -1),
        feature=column_of[np.where(inner, nodes["feature_idx"], 0)],
        threshold=np.where(inner & ~is_set, nodes["num_threshold"], 0.0),
        missing_left=nodes["missing_go_to_left"],
        value=np.where(inner, 0.0, nodes["value"]),
        weight=nodes["count"],
        n_samples=nodes["count"],
        gain=np.where(inner, nodes["gain"], 0.0),
        sets={
            node: np.flatnonzero(np.unpackbits(bits[nodes["bitset_idx"][node]].view(np.uint8), bitorder="little"))
            for node in np.flatnonzero(inner & is_set).tolist()
        },
    )


_READERS: dict[str, Callable[[Any], ForeignModel]] = {
    "DecisionTreeClassifier": partial(_read_class_forest, "DecisionTreeClassifier"),
    "DecisionTreeRegressor": partial(_read_number_forest, "DecisionTreeRegressor"),
    "ExtraTreeClassifier": partial(_read_class_forest, "DecisionTreeClassifier"),
    "ExtraTreeRegressor": partial(_read_number_forest, "DecisionTreeRegressor"),
    "RandomForestClassifier": partial(_read_class_forest, "RandomForestClassifier"),
    "RandomForestRegressor": partial(_read_number_forest, "RandomForestRegressor"),
    "ExtraTreesClassifier": partial(_read_class_forest, "ExtraTreesClassifier"),
    "ExtraTreesRegressor": partial(_read_number_forest, "ExtraTreesRegressor"),
    "BaggingClassifier": partial(_read_class_forest, "RandomForestClassifier"),
    "BaggingRegressor": partial(_read_number_forest, "RandomForestRegressor"),
    "GradientBoostingClassifier": _read_boosting,
    "GradientBoostingRegressor": _read_boosting,
    "IsolationForest": _read_isolation_forest,
    "AdaBoostClassifier": _read_adaboost_classifier,
    "AdaBoostRegressor": _read_adaboost_regressor,
}


# Export --------------------------------------------------------------------


_N_WORDS = 8  # number of 32-bit words in a set of categories
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
    write_trees = _written_isolation_forest if view.targets[0].link == "anomaly" else _written_forest
    if write_trees is _written_forest and not view.is_mean and view.targets[0].link != "shares":
        return _written_boosting(view)
    if any(column.categories is not None for column in view.columns):
        raise CannotHoldError("categorical columns in trees and forests")
    return write_trees(view)


def _written_boosting(view: ModelView) -> Any:
    """Return a HistGradientBoosting estimator with the trees of the model."""
    target = view.only_target
    many = [c.name for c in view.columns if c.categories is not None and len(c.categories) > _MAX_CATEGORIES]
    if many:
        raise CannotHoldError(f"more than {_MAX_CATEGORIES} categories in {many[0]!r}")
    if target.classes is not None:
        if target.link not in ("sigmoid", "softmax"):
            raise CannotHoldError(f"probabilities with the link {target.link!r}")
        model = HistGradientBoostingClassifier(max_iter=1, early_stopping=False)
    else:
        if view.n_outputs > 1 or target.link not in _LOSSES:
            raise CannotHoldError("several predictions" if view.n_outputs > 1 else f"the link {target.link!r}")
        model = HistGradientBoostingRegressor(loss=_LOSSES[target.link], max_iter=1, early_stopping=False)
    X, is_categorical = _example(view, 2 * view.n_outputs)
    if any(is_categorical):
        warn(
            "format='sklearn' supports categories only for predictions: shap.TreeExplainer ignores them in "
            "scikit-learn's trees and returns wrong values. For shap, export with format='lightgbm', which is "
            "exact."
        )
    model.set_params(categorical_features=is_categorical if any(is_categorical) else None)
    labels = np.ones(1) if target.classes is None else target.classes
    model.fit(X, labels[np.arange(len(X)) % len(labels)])
    rounds = view.rounds()
    n_rounds = len(rounds) // view.n_outputs
    order = _column_order(model, view.columns)
    predictors = [_predictor(tree, view.columns, order) for _, tree in rounds]
    model._predictors = [predictors[k * view.n_outputs : (k + 1) * view.n_outputs] for k in range(n_rounds)]
    # The first trees already include the baseline.
    model._baseline_prediction = np.zeros((1, view.n_outputs))
    return model.set_params(max_iter=n_rounds)


def _predictor(tree: FlatTrees, columns: list[ModelColumn], order: list[tuple[int, NDArray[np.intp]]]) -> TreePredictor:
    """Return the predictor of a tree; `order` has, for each column, its position and its category codes.

    Raises CannotHoldError if missing and unseen categories go to different branches.
    """
    is_leaf, positions = tree.is_leaf, np.array([position for position, _ in order], dtype=np.intp)
    nodes = np.zeros(len(is_leaf), dtype=PREDICTOR_RECORD_DTYPE)
    left, right = (np.where(is_leaf, 0, child) for child in (tree.left, tree.right))
    for name, values in {
        "value": tree.value[:, 0],
        "count": tree.n_samples,
        "feature_idx": np.where(is_leaf, 0, positions[tree.feature]),
        "num_threshold": np.where(np.isnan(tree.threshold), 0.0, tree.threshold),
        "missing_go_to_left": tree.missing_left,
        "left": left,
        "right": right,
        "gain": tree.gain,
        "is_leaf": is_leaf,
    }.items():
        nodes[name] = values
    nodes["depth"] = _depths(tree)
    sets = np.zeros((len(tree.sets), _N_WORDS), dtype=np.uint32)
    for number, (node, members) in enumerate(tree.sets.items()):
        column = int(tree.feature[node])
        if tree.missing_left[node]:
            name = columns[column].name
            raise CannotHoldError(f"missing values of {name!r} that go to another branch than unseen categories")
        codes = order[column][1][members]
        sets[number] = set_of(codes, 32 * _N_WORDS)
        nodes["is_categorical"][node], nodes["bitset_idx"][node] = 1, number
    return TreePredictor(nodes, np.zeros_like(sets), sets)


_LOSSES = {"identity": "squared_error", "exp": "poisson"}


def _example(view: ModelView, n_rows: int) -> tuple[Any, list[bool]]:
    """Return a table from which an estimator learns columns and categories, and True for categorical columns.

    It has at least `n_rows` rows. Raises ImportError if column names require pandas, which is not installed.
    """
    columns = view.columns
    n_rows = max([n_rows, 2, *(len(column.categories or ()) for column in columns)])
    rows = np.arange(n_rows)
    examples = [_example_of(column, rows) for column in columns]
    is_categorical = [column.categories is not None for column in columns]
    if view.note["names"] is None:
        kind = object if any(column.has_strings for column in columns) else None
        return np.column_stack([values.astype(kind or values.dtype) for values in examples]), is_categorical
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("format='sklearn' needs pandas for named columns: pip install pandas") from error
    return pd.DataFrame({column.name: values for column, values in zip(columns, examples, strict=True)}), is_categorical


def _example_of(column: ModelColumn, rows: NDArray[np.intp]) -> NDArray[Any]:
    """Return a column's values at `rows`, which repeat its categories; raise CannotHoldError for mixed types."""
    if column.categories is None:
        return rows.astype(np.float64)
    if column.has_strings and not all(isinstance(value, str) for value in column.categories):
        raise CannotHoldError(f"categories of {column.name!r} that mix strings and numbers")
    return np.array([column.categories[row % len(column.categories)] for row in rows])


def _column_order(model: Any, columns: list[ModelColumn]) -> list[tuple[int, NDArray[np.intp]]]:
    """Return (position, category codes) of each column in `model`, which puts categorical columns first."""
    is_categorical = [column.categories is not None for column in columns]
    positions = np.empty(len(columns), dtype=np.intp)
    positions[np.argsort(np.logical_not(is_categorical), kind="stable")] = np.arange(len(columns))
    lists = iter(model._preprocessor.named_transformers_["encoder"].categories_ if any(is_categorical) else ())
    order = []
    for column, position in zip(columns, positions.tolist(), strict=True):
        code_of = {} if column.categories is None else {value: code for code, value in enumerate(next(lists).tolist())}
        order.append((position, np.array([code_of[value] for value in column.categories or ()], dtype=np.intp)))
    return order


def _written_forest(view: ModelView) -> Any:
    """Return a fitted tree or forest of scikit-learn with the trees of the model."""
    of_classes = view.targets[0].classes is not None
    is_random = view.estimator.startswith("ExtraTrees")
    if of_classes:
        kind: Any = ExtraTreeClassifier if is_random else DecisionTreeClassifier
    else:
        kind = ExtraTreeRegressor if is_random else DecisionTreeRegressor
    targets = (
        view.targets if of_classes else [LinkedTarget(slice(k, k + 1), "identity", None) for k in range(view.n_outputs)]
    )
    members = [_written_tree(kind, view, tree, targets) for tree in view.trees]
    if len(members) == 1 and not view.estimator.endswith(("ForestClassifier", "ForestRegressor")):
        return _with_feature_names(members[0], view)
    model = _FOREST_OF[kind](n_estimators=len(members))
    model.estimator_, model.estimators_ = kind(), members
    if of_classes:
        model.classes_, model.n_classes_ = members[0].classes_, members[0].n_classes_
        if len(targets) == 1:
            for member in members:  # trees of a forest predict class indices
                member.classes_ = np.arange(len(member.classes_))
    model.n_outputs_ = len(targets)
    return _with_feature_names(model, view)


def _written_tree(tree_class: Any, view: ModelView, tree: FlatTrees, targets: list[LinkedTarget]) -> Any:
    """Return a fitted `tree_class` of scikit-learn with the splits and values of `tree`.

    Its values are class proportions, or numbers, for each of the `targets`.
    """
    n_classes = np.array([1 if target.classes is None else len(target.classes) for target in targets], dtype=np.intp)
    value = np.zeros((len(tree.left), len(targets), n_classes.max()))
    for k, target in enumerate(targets):
        shares = tree.value[:, target.outputs] + view.baseline[target.outputs]
        if shares.shape[1] < n_classes[k]:
            shares = np.hstack([1 - shares, shares])
        value[:, k, : n_classes[k]] = shares
    model = tree_class()
    model.tree_ = _sklearn_tree(view, tree, value, n_classes)
    model.n_outputs_, model.max_features_ = len(targets), len(view.columns)
    model.n_features_in_ = len(view.columns)
    if targets[0].classes is not None:
        single = len(targets) == 1
        model.classes_ = targets[0].classes if single else [target.classes for target in targets]
        model.n_classes_ = n_classes[0] if single else n_classes
    return model


def _sklearn_tree(view: ModelView, tree: FlatTrees, value: NDArray[np.float64], n_classes: NDArray[np.intp]) -> Tree:
    """Return a tree as scikit-learn's `Tree`, with `value` of shape (n_nodes, n_targets, most classes)."""
    nodes = np.zeros(len(tree.left), dtype=NODE_DTYPE)
    is_leaf = tree.is_leaf
    for name, column in {
        "left_child": tree.left,
        "right_child": tree.right,
        "feature": np.where(is_leaf, -2, tree.feature),
        "threshold": np.where(is_leaf, -2.0, tree.threshold),
        "impurity": _impurities(tree),
        "n_node_samples": tree.n_samples,
        "weighted_n_node_samples": tree.weight,
        "missing_go_to_left": tree.missing_left,
    }.items():
        nodes[name] = column
    n_features = len(view.columns)
    kinds = (np.full(n_features, -1, dtype=np.intp),) if "left_cat_bitset" in NODE_DTYPE.names else ()
    converted = Tree(n_features, n_classes, len(n_classes), *kinds)
    state = {"max_depth": _depths(tree).max(), "node_count": len(nodes), "nodes": nodes, "values": value}
    converted.__setstate__(state)
    return converted


def _impurities(tree: FlatTrees) -> NDArray[np.float64]:
    """Return node impurities, summed from the gains at and below each node, that keep feature importances."""
    total = tree.gain.copy()
    for node in np.flatnonzero(~tree.is_leaf)[::-1].tolist():
        total[node] += total[tree.left[node]] + total[tree.right[node]]
    return total / np.maximum(tree.weight, np.finfo(np.float64).tiny)


def _depths(tree: FlatTrees) -> NDArray[np.int64]:
    """Return the depth of each node; the root has depth 0."""
    depth = np.zeros(len(tree.left), dtype=np.int64)
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
    return depth


def _written_isolation_forest(view: ModelView) -> Any:
    """Return a fitted IsolationForest with the trees of the model."""
    mean_length, offset = view.targets[0].parameters
    number = [LinkedTarget(slice(0, 1), "identity", None)]
    members = [_written_tree(ExtraTreeRegressor, view, tree, number) for tree in view.trees]
    model = IsolationForest(n_estimators=len(members))
    model.estimator_, model.estimators_ = ExtraTreeRegressor(), members
    model.estimators_features_ = [np.arange(len(view.columns))] * len(members)
    model._max_features = len(view.columns)
    model.max_samples_ = model._max_samples = int(_n_rows_of_path_length(np.array(mean_length)))
    model.offset_ = offset
    for member, tree in zip(members, view.trees, strict=True):  # sampled rows, recovered from the path lengths
        state = member.tree_.__getstate__()
        n_rows = np.where(tree.is_leaf, _n_rows_of_path_length(tree.value[:, 0] - _depths(tree)), 0)
        for node in np.flatnonzero(~tree.is_leaf)[::-1].tolist():
            n_rows[node] = n_rows[tree.left[node]] + n_rows[tree.right[node]]
        state["nodes"]["n_node_samples"] = n_rows
        member.tree_.__setstate__(state)
    trees = [member.tree_ for member in members]
    model._average_path_length_per_tree = [_average_path_length(tree.n_node_samples) for tree in trees]
    model._decision_path_lengths = [tree.compute_node_depths() for tree in trees]
    return _with_feature_names(model, view)


def _n_rows_of_path_length(depth: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the numbers of rows that have these expected path lengths below a leaf."""
    near = np.floor(np.exp(depth / 2 + 1 - np.euler_gamma))[..., None] + np.arange(-2, 2)
    near = np.maximum(near, 1).astype(np.int64)
    best = np.abs(_average_path_length(near) - depth[..., None]).argmin(axis=-1)
    return np.take_along_axis(near, best[..., None], axis=-1)[..., 0]


def _with_feature_names(model: Any, view: ModelView) -> Any:
    """Set the number and the names of the features, and return the model."""
    model.n_features_in_ = len(view.columns)
    if view.note["names"] is not None:
        model.feature_names_in_ = np.array(view.note["names"], dtype=object)
    return model
