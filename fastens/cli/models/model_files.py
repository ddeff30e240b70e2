"""Loading of model files, and prediction for the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_classifier

import fastens
from fastens.cli.table.columns import (
    BOOLEAN,
    NUMBER,
    TEXT,
    WORDS,
    CommandError,
    column_kinds,
    first_line,
    kind_of,
    listed,
    make_features,
)
from fastens.cli.table.split import KEY, HoldoutSplit, ModelCard
from fastens.cli.table.target import CLASSIFICATION, REGRESSION
from fastens.files import TableSchema

# Kinds of columns that are not read if no tree splits on them.
_UNREAD = (NUMBER, TEXT, BOOLEAN)


def load_model(path: str) -> tuple[Any, ModelCard]:
    """Return the model in a file and its card, which has no target and kinds if it was saved from Python."""
    try:
        model = fastens.load(path)
    except FileNotFoundError as error:
        raise CommandError(f"no such file: {path}") from error
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read the model {path}: {first_line(error)}") from error
    saved = (getattr(model, "metadata_", None) or {}).get(KEY)
    if isinstance(saved, dict) and saved.keys() >= {"target", "target_kind", "task", "kinds", "constant"}:
        split = saved.get("split")
        return model, ModelCard(**{**saved, "split": None if split is None else HoldoutSplit(**split)})
    task = CLASSIFICATION if is_classifier(model) else REGRESSION
    return model, ModelCard(None, None, task, {}, None)


def model_features(model: Any, card: ModelCard, table: pa.Table) -> pa.Table:
    """Return the table's columns that the model needs, as features; raise CommandError if one is missing or unfit."""
    return make_features(table, feature_kinds(model, card, table))


def feature_kinds(model: Any, card: ModelCard, table: pa.Table) -> Mapping[str, str]:
    """Map the columns that a model needs to their kinds; raise CommandError if the table lacks one."""
    kinds = card.kinds or _kinds_by_name(model, table)
    missing = [name for name in kinds if name not in table.column_names]
    if missing:
        columns = "column" if len(missing) == 1 else f"{len(missing)} columns"
        raise CommandError(f"the table lacks {columns} that the model was trained on: {listed(missing)}")
    return kinds


def columns_used_by_model(model: Any, kinds: Mapping[str, str], table: pa.Table) -> list[str]:
    """Return the columns, at least one, that predictions may depend on, in the order of `kinds`."""
    names = make_features(table, kinds).column_names
    split_on = _split_features(model)
    if split_on is None or len(names) != model.n_features_in_:
        return list(kinds)
    chosen = {names[feature] for feature in split_on}
    others = {name for name, kind in kinds.items() if kind in _UNREAD and kind == kind_of(table[name].type)} - chosen
    return [name for name in kinds if name not in others] or list(kinds)[:1]


def _split_features(model: Any) -> list[int] | None:
    """Return indices of features that trees split on; None without trees or if target encoding mixes features."""
    if not hasattr(model, "_ensemble") or (hasattr(model, "_statistics_arrays") and model._statistics_arrays()):
        return None
    feature = model._ensemble.feature
    return np.unique(model._column_of[feature[feature >= 0]]).tolist()


@lru_cache(maxsize=16)
def placeholders(type_: pa.DataType, n_rows: int) -> pa.Array:
    """Return `n_rows` zeros, or missing values if not numeric, instead of a column that was not read."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return pa.array(np.zeros(n_rows, dtype=type_.to_pandas_dtype()))
    return pa.nulls(n_rows, type_)


def _kinds_by_name(model: Any, table: pa.Table) -> dict[str, str]:
    """Return {column: kind} for a model saved from Python; without names, it gets the first columns of the table."""
    if hasattr(model, "most_informative_terms"):
        if model._column is None:
            raise CommandError("TextClassifier was fitted on texts without a column name. Fit it on a table.")
        return {str(model._column): WORDS}
    needed = ["predict", "n_features_in_", *(["classes_"] if is_classifier(model) else [])]
    if not all(hasattr(model, name) for name in needed):
        raise CommandError(f"{type(model).__name__} does not predict the rows of a table. Use it in Python.")
    names = [str(name) for name in getattr(model, "feature_names_in_", table.column_names[: model.n_features_in_])]
    kinds = column_kinds(table, [])
    return {name: kinds.get(name, NUMBER) for name in names}


def table_schema(card: ModelCard) -> TableSchema:
    """Return the schema of the training table, with which later tables are read."""
    return TableSchema.from_dict(card.schema)


def probabilities(model: Any, X: pa.Table) -> NDArray:
    """Return class probabilities (n_rows, n_classes); without predict_proba, 1 for the predicted class."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return (np.asarray(model.predict(X))[:, None] == model.classes_).astype(np.float64)


def predict_values(model: Any, X: pa.Table) -> NDArray:
    """Return class probabilities (n_rows, n_classes) or predicted values; raise ValueErrors as CommandError."""
    try:
        return probabilities(model, X) if is_classifier(model) else model.predict(X)
    except ValueError as error:
        raise CommandError(first_line(error)) from error


def predict_one_output(model: Any, X: pa.Table) -> NDArray:
    """Return `predict_values`; raise CommandError if the model has several quantiles or targets."""
    values = predict_values(model, X)
    if isinstance(values, list) or (not is_classifier(model) and values.ndim > 1):
        raise CommandError(f"{type(model).__name__} has several outputs, which only fastens predict supports")
    return values
