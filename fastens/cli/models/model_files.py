"""Model files, and predictions for the rows of a table."""

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
    features,
    first_line,
    kind_of,
    listed,
)
from fastens.cli.table.split import KEY, ModelCard, Split
from fastens.cli.table.target import CLASSIFICATION, REGRESSION
from fastens.files import TableSchema

# Kinds of columns that are not read where no tree splits on them.
_UNREAD = (NUMBER, TEXT, BOOLEAN)


def load_model(path: str) -> tuple[Any, ModelCard]:
    """The model in a file and its card; a model saved from Python has a card without a target."""
    try:
        model = fastens.load(path)
    except FileNotFoundError as error:
        raise CommandError(f"no such file: {path}") from error
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read the model {path}: {first_line(error)}") from error
    saved = (getattr(model, "metadata_", None) or {}).get(KEY)
    if isinstance(saved, dict) and saved.keys() >= {"target", "target_kind", "task", "kinds", "constant"}:
        split = saved.get("split")
        return model, ModelCard(**{**saved, "split": None if split is None else Split(**split)})
    task = CLASSIFICATION if is_classifier(model) else REGRESSION
    return model, ModelCard(None, None, task, {}, None)


def model_features(model: Any, card: ModelCard, table: pa.Table) -> pa.Table:
    """The columns of a new table as the model was trained on them, whatever their order and whatever else there is."""
    return features(table, feature_kinds(model, card, table))


def feature_kinds(model: Any, card: ModelCard, table: pa.Table) -> Mapping[str, str]:
    """The columns that a model needs of a table, and what they hold; CommandError where one is not there."""
    kinds = card.kinds or _kinds_by_name(model, table)
    missing = [name for name in kinds if name not in table.column_names]
    if missing:
        columns = "column" if len(missing) == 1 else f"{len(missing)} columns"
        raise CommandError(f"the table lacks {columns} that the model was trained on: {listed(missing)}")
    return kinds


def read_columns(model: Any, kinds: Mapping[str, str], table: pa.Table) -> list[str]:
    """The columns whose values predictions depend on, at least one: not those that no tree splits on."""
    names = features(table, kinds).column_names
    split_on = _split_on(model)
    if split_on is None or len(names) != model.n_features_in_:
        return list(kinds)
    chosen = {names[feature] for feature in split_on}
    others = {name for name, kind in kinds.items() if kind in _UNREAD and kind == kind_of(table[name].type)} - chosen
    return [name for name in kinds if name not in others] or list(kinds)[:1]


def _split_on(model: Any) -> list[int] | None:
    """The features that trees split on; None for a model that depends on others besides."""
    if not hasattr(model, "_ensemble") or (hasattr(model, "_statistics_arrays") and model._statistics_arrays()):
        return None
    feature = model._ensemble.feature
    return np.unique(model._column_of[feature[feature >= 0]]).tolist()


@lru_cache(maxsize=16)
def unread(type_: pa.DataType, n_rows: int) -> pa.Array:
    """What stands for the values of a column that is not read."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return pa.array(np.zeros(n_rows, dtype=type_.to_pandas_dtype()))
    return pa.nulls(n_rows, type_)


def _kinds_by_name(model: Any, table: pa.Table) -> dict[str, str]:
    """For a model that was saved from Python: its columns by name, or all of them in order."""
    if hasattr(model, "most_informative_terms"):
        return {_column_of_texts(model): WORDS}
    needed = ["predict", "n_features_in_", *(["classes_"] if is_classifier(model) else [])]
    if not all(hasattr(model, name) for name in needed):
        raise CommandError(f"{type(model).__name__} predicts nothing for the rows of a table; use it in Python")
    names = [str(name) for name in getattr(model, "feature_names_in_", table.column_names[: model.n_features_in_])]
    kinds = column_kinds(table, [])
    return {name: kinds.get(name, NUMBER) for name in names}


def _column_of_texts(model: Any) -> str:
    """The column that a model of texts was fitted on."""
    if model._column is None:
        raise CommandError("TextClassifier was fitted on texts without the name of a column; fit it on a table")
    return str(model._column)


def table_schema(card: ModelCard) -> TableSchema:
    """How the table of training was read, and so every later one is."""
    return TableSchema.from_dict(card.schema)


def probabilities(model: Any, X: pa.Table) -> NDArray:
    """Probabilities of the classes; all on the class predicted where a model, such as a hard vote, gives none."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return (np.asarray(model.predict(X))[:, None] == model.classes_).astype(np.float64)


def predicted_values(model: Any, X: pa.Table) -> NDArray:
    """Probabilities, one column per class, or values."""
    try:
        return probabilities(model, X) if is_classifier(model) else model.predict(X)
    except ValueError as error:
        raise CommandError(first_line(error)) from error


def values_of_one_output(model: Any, X: pa.Table) -> NDArray:
    """The same of a model of one output; CommandError for several quantiles or targets."""
    found = predicted_values(model, X)
    if isinstance(found, list) or (not is_classifier(model) and found.ndim > 1):
        raise CommandError(f"{type(model).__name__} has several outputs; only fastens predict is for such models")
    return found
