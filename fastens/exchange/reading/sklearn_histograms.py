"""Reader of scikit-learn's histogram gradient boosting, which puts categorical columns first and encodes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastens.exchange.reading.records import Columns, ForeignModel, join_trees, refuse
from fastens.table.columns.factorize import is_missing


def read_histogram_boosting(model: Any) -> ForeignModel:
    """Read a fitted HistGradientBoostingClassifier or HistGradientBoostingRegressor."""
    predictors = getattr(model, "_predictors", None)
    if predictors is None:
        raise refuse(f"the {type(model).__name__} must be fitted")
    names = getattr(model, "feature_names_in_", None)
    columns = Columns(int(model.n_features_in_), None if names is None else [str(name) for name in names])
    column_of = _set_categories(model, columns)
    parts = [_tree(predictor, column_of) for of_round in predictors for predictor in of_round]
    baseline = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    n_outputs = len(baseline)
    parameters: dict[str, Any] = {"loss": model.loss, "learning_rate": float(model.learning_rate)}
    if model.loss == "quantile":
        parameters["quantile"] = float(model.quantile)
    classes = getattr(model, "classes_", None)
    return ForeignModel(
        estimator="GradientBoostingRegressor" if classes is None else "GradientBoostingClassifier",
        parameters=parameters,
        trees=join_trees(parts, np.tile(np.arange(n_outputs), len(predictors))),
        columns=columns,
        baseline=baseline.tolist(),
        classes=classes,
    )


def _set_categories(model: Any, columns: Columns) -> np.ndarray:
    """Return the column of each feature of the trees, and set the categories by value."""
    is_categorical = model.is_categorical_
    if is_categorical is None:
        return np.arange(columns.n_features)
    own = np.flatnonzero(is_categorical)
    encoder = model._preprocessor.named_transformers_["encoder"]
    for column, values in zip(own.tolist(), encoder.categories_, strict=True):
        columns.categories[column] = [value for value in np.asarray(values).tolist() if not is_missing(value)]
    return np.concatenate([own, np.flatnonzero(~is_categorical)])


def _tree(predictor: Any, column_of: np.ndarray) -> dict[str, Any]:
    nodes, bits = predictor.nodes, predictor.raw_left_cat_bitsets
    inner = nodes["is_leaf"] == 0
    sets = {
        node: np.flatnonzero(np.unpackbits(bits[nodes["bitset_idx"][node]].view(np.uint8), bitorder="little"))
        for node in np.flatnonzero(inner & (nodes["is_categorical"] == 1)).tolist()
    }
    return {
        "left": np.where(inner, nodes["left"].astype(np.int64), -1),
        "right": np.where(inner, nodes["right"].astype(np.int64), -1),
        "feature": column_of[np.where(inner, nodes["feature_idx"], 0)],
        "threshold": np.where(inner & (nodes["is_categorical"] == 0), nodes["num_threshold"], 0.0),
        "missing_left": nodes["missing_go_to_left"].astype(bool),
        "value": np.where(inner, 0.0, nodes["value"]),
        "weight": nodes["count"].astype(float),
        "n_samples": nodes["count"].astype(np.int64),
        "gain": np.where(inner, nodes["gain"], 0.0),
        "sets": sets,
    }
