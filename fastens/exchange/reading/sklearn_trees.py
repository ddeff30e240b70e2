"""Reader of scikit-learn's trees, forests, bagged trees, gradient boosting, isolation forests and AdaBoost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.exchange.reading.records import Columns, ForeignModel, at_most, join_trees, refuse
from fastens.params.options import HuberLoss

Floats = NDArray[np.float64]


def read_trees(model: Any) -> ForeignModel:
    """Read a fitted estimator that consists of `sklearn.tree` trees.

    Parameters
    ----------
    model : estimator
        A single tree, a forest, bagged trees, gradient boosting, an isolation forest or AdaBoost.
    """
    name = type(model).__name__
    reader = _READERS.get(name)
    if reader is None:
        raise refuse(f"scikit-learn's {name} is none of those that can be read: {', '.join(_READERS)}")
    if not hasattr(model, "n_features_in_"):
        raise refuse(f"the {name} must be fitted")
    found = reader(model)
    names = getattr(model, "feature_names_in_", None)
    found.columns.names = None if names is None else [str(column) for column in names]
    return found


def _nodes(tree: Any, value: Floats, features: Any = None) -> dict[str, Any]:
    """Return a tree's arrays, with values of shape (n_nodes, n_values); `features` are its training columns."""
    own = tree.tree_
    left, right, weight = own.children_left, own.children_right, own.weighted_n_node_samples
    inner = left >= 0
    feature = np.where(inner, own.feature, 0)
    decrease = weight * own.impurity
    missing = getattr(own, "missing_go_to_left", np.zeros(len(left), np.uint8))
    return {
        "left": left,
        "right": right,
        "feature": feature if features is None else np.asarray(features)[feature],
        "threshold": np.where(inner, at_most(np.where(inner, own.threshold, 0.0)), 0.0),
        "missing_left": missing.astype(bool),
        "value": np.where(inner[:, None], 0.0, value),
        "weight": weight,
        "n_samples": own.n_node_samples,
        "gain": np.where(inner, decrease - decrease[left] - decrease[right], 0.0),
    }


def _shares(tree: Any, n_classes: list[int]) -> Floats:
    """Return the class proportions in each node, with the targets next to each other."""
    value = tree.tree_.value
    shares = value / value.sum(axis=2, keepdims=True) if value.sum(axis=2).max(initial=0.0) > 1.5 else value
    return np.concatenate([shares[:, k, :n] for k, n in enumerate(n_classes)], axis=1)


def _joined(model: Any, parts: list[dict[str, Any]], **given: Any) -> ForeignModel:
    """Return the record of a model from its trees and their outputs."""
    n_outputs = given.pop("n_outputs", parts[0]["value"].shape[1])
    output = given.pop("output", np.zeros(len(parts), dtype=np.int64))
    baseline = given.pop("baseline", [0.0] * n_outputs)
    columns = Columns(int(model.n_features_in_))
    return ForeignModel(trees=join_trees(parts, output), columns=columns, baseline=baseline, **given)


def _members(model: Any) -> list[tuple[Any, Any]]:
    """Return the trees of a model, each with its training columns."""
    if hasattr(model, "tree_"):
        return [(model, None)]
    features = getattr(model, "estimators_features_", None)
    trees = list(model.estimators_)
    for tree in trees:
        if not hasattr(tree, "tree_"):
            raise refuse(f"its members must be scikit-learn's trees; got {type(tree).__name__}")
    return list(zip(trees, [None] * len(trees) if features is None else features, strict=True))


def _classes(name: str, model: Any) -> ForeignModel:
    """Read trees whose class proportions are averaged."""
    several = isinstance(model.classes_, list)
    classes = model.classes_ if several else [model.classes_]
    counts = [len(own) for own in classes]
    parts = []
    for tree, features in _members(model):
        known: Any = getattr(tree, "classes_", None)
        value = _shares(tree, counts if several else [len(known)])
        if not several and len(known) < counts[0]:  # a bootstrap sample may lack a class
            wide = np.zeros((len(value), counts[0]))
            wide[:, np.asarray(known, dtype=np.int64)] = value
            value = wide
        parts.append(_nodes(tree, value, features))
    n_targets = len(classes)
    fitted = {"_has_all_shares": True}
    return _joined(
        model,
        parts,
        estimator=name,
        classes=classes if several else classes[0],
        n_targets=n_targets,
        fitted=fitted,
    )


def _numbers(name: str, model: Any) -> ForeignModel:
    """Read trees whose values are averaged."""
    parts = [_nodes(tree, tree.tree_.value[:, :, 0], features) for tree, features in _members(model)]
    return _joined(model, parts, estimator=name, n_targets=parts[0]["value"].shape[1])


def _boosting(model: Any) -> ForeignModel:
    """Read gradient boosting: leaf values times the learning rate, added to a constant."""
    initial = model.init_
    if not isinstance(initial, str) and not type(initial).__name__.startswith("Dummy"):
        raise refuse(f"init must be None or 'zero', or a constant; got {type(initial).__name__}")
    if getattr(initial, "strategy", None) == "stratified":
        raise refuse("init must not draw classes for each row; got DummyClassifier(strategy='stratified')")
    n_outputs = model.estimators_.shape[1]
    baseline = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0]
    rate = model.learning_rate
    parts = [_nodes(tree, rate * tree.tree_.value[:, :, 0]) for trees in model.estimators_ for tree in trees]
    given = {
        "n_outputs": n_outputs,
        "output": np.tile(np.arange(n_outputs), len(model.estimators_)),
        "baseline": baseline.tolist(),
    }
    parameters: dict[str, Any] = {"loss": model.loss, "learning_rate": float(rate)}
    if hasattr(model, "classes_"):
        return _joined(
            model,
            parts,
            estimator="GradientBoostingClassifier",
            parameters=parameters,
            classes=model.classes_,
            **given,
        )
    if model.loss == "quantile":
        parameters["quantile"] = float(model.alpha)
    if model.loss == "huber":
        parameters["loss"] = HuberLoss(alpha=float(model.alpha))
    return _joined(model, parts, estimator="GradientBoostingRegressor", parameters=parameters, **given)


def _isolation(model: Any) -> ForeignModel:
    """Read an isolation forest: a leaf's value is its depth plus the expected path length below it."""
    parts = []
    for tree, features in _members(model):
        own = tree.tree_
        n = own.n_node_samples.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = 2.0 * (np.log(n - 1.0) + np.euler_gamma) - 2.0 * (n - 1.0) / n
        below = np.where(n <= 1, 0.0, np.where(n == 2, 1.0, below))
        depth = np.zeros(len(n))
        for node in range(len(n)):  # parents precede their children
            for child in (own.children_left[node], own.children_right[node]):
                if child >= 0:
                    depth[child] = depth[node] + 1
        parts.append(_nodes(tree, (depth + 1 + below - 1.0)[:, None], features))
    fitted = {"offset_": float(model.offset_), "max_samples_": int(model.max_samples_)}
    return _joined(model, parts, estimator="IsolationForest", fitted=fitted)


def _adaboost_classifier(model: Any) -> ForeignModel:
    """Read AdaBoost votes as raw predictions of a log loss; probabilities are softmax(decision / (K - 1))."""
    classes, n_classes = model.classes_, len(model.classes_)
    weights = model.estimator_weights_[: len(model.estimators_)]
    total = model.estimator_weights_.sum()
    parts = []
    for (tree, _), weight in zip(_members(model), weights, strict=True):
        vote = _shares(tree, [len(tree.classes_)]).argmax(axis=1)
        is_class = tree.classes_[vote][:, None] == classes
        if n_classes == 2:
            value = np.where(is_class[:, 1:], 2 * weight, -2 * weight) / total
        else:
            value = np.where(is_class, weight, -weight / (n_classes - 1)) / total / (n_classes - 1)
        parts.append(_nodes(tree, value))
    return _joined(model, parts, estimator="GradientBoostingClassifier", classes=classes)


def _adaboost_regressor(model: Any) -> ForeignModel:
    """Read AdaBoost.R2, which predicts the weighted median of its trees."""
    parts = [_nodes(tree, tree.tree_.value[:, :, 0]) for tree, _ in _members(model)]
    n_trees = len(parts)
    fitted = {
        "n_estimators_": n_trees,
        "estimator_weights_": np.array(model.estimator_weights_[:n_trees], dtype=np.float64),
        "estimator_errors_": np.array(model.estimator_errors_[:n_trees], dtype=np.float64),
    }
    return _joined(model, parts, estimator="AdaBoostRegressor", fitted=fitted)


_READERS: dict[str, Callable[[Any], ForeignModel]] = {
    "DecisionTreeClassifier": partial(_classes, "DecisionTreeClassifier"),
    "DecisionTreeRegressor": partial(_numbers, "DecisionTreeRegressor"),
    "ExtraTreeClassifier": partial(_classes, "DecisionTreeClassifier"),
    "ExtraTreeRegressor": partial(_numbers, "DecisionTreeRegressor"),
    "RandomForestClassifier": partial(_classes, "RandomForestClassifier"),
    "RandomForestRegressor": partial(_numbers, "RandomForestRegressor"),
    "ExtraTreesClassifier": partial(_classes, "ExtraTreesClassifier"),
    "ExtraTreesRegressor": partial(_numbers, "ExtraTreesRegressor"),
    "BaggingClassifier": partial(_classes, "RandomForestClassifier"),
    "BaggingRegressor": partial(_numbers, "RandomForestRegressor"),
    "GradientBoostingClassifier": _boosting,
    "GradientBoostingRegressor": _boosting,
    "IsolationForest": _isolation,
    "AdaBoostClassifier": _adaboost_classifier,
    "AdaBoostRegressor": _adaboost_regressor,
}
