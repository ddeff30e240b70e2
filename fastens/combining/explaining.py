"""Explanations of ensembles whose predictions are weighted sums of what their members predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.combining.responses import METHODS, is_all_ours, places_of_classes
from fastens.inspection.model_plots import column_names
from fastens.parameters import FLAG
from fastens.table.parts import take_columns
from fastens.tree_model.explanations import Explanation, for_shap
from fastens.tree_model.tree_model import TreeModel

Array = NDArray[np.float64]


class Part(NamedTuple):
    """A member's model, the columns that it is given, and what its prediction is multiplied by."""

    name: str
    model: Any
    columns: list[int] | None
    weight: float


class Rows(NamedTuple):
    """Rows to explain, and rows to compare them with or None; whether pairs are wanted."""

    X: Any
    background: Any
    pairs: bool

    def of(self, columns: list[int] | None) -> Rows:
        """The same with some of the columns."""
        background = None if self.background is None else take_columns(self.background, columns)
        return Rows(take_columns(self.X, columns), background, self.pairs)


def explain_sum(owner: Any, parts: Sequence[Part], constant: float, rows: Rows) -> Any:
    """The explanation of the sum of a constant and of parts: of numbers, or of the probabilities of classes."""
    FLAG.check("interactions", rows.pairs)
    n_rows, n_outputs = rows.X.shape[0], len(owner.classes_) if is_classifier(owner) else 1
    base = np.full((n_rows, n_outputs), constant)
    explained = []
    for part in parts:
        if is_classifier(owner) and len(part.model.classes_) == 1:
            base += part.weight * (owner.classes_ == part.model.classes_[0])
        else:
            explained.append((part, _explained(part, rows.of(part.columns))))
    features = column_names(owner)
    n_features = len(features)
    values = np.zeros((n_rows, *[n_features] * (1 + rows.pairs), n_outputs))
    data, shown = np.full((n_rows, n_features), np.nan), np.full((n_rows, n_features), np.nan, dtype=object)
    for part, found in explained:
        places = np.arange(n_features) if part.columns is None else np.array(part.columns)
        of_part, of_base = _by_class(owner, part, found) if is_classifier(owner) else (found.values[..., None], None)
        values[np.ix_(np.arange(n_rows), *[places] * (1 + rows.pairs))] += part.weight * of_part
        base += part.weight * (found.base_values[:, None] if of_base is None else of_base)
        data[:, places] = found.data
        shown[:, places] = found.data if found.display_data is None else found.display_data
    names: Any = "prediction"
    if is_classifier(owner):
        names = [str(label) for label in owner.classes_]
    if n_outputs == 2:
        values, base, names = values[..., 1:], base[:, 1:], f"probability of {names[1]}"
    is_one = values.shape[-1] == 1
    known = ~np.isnan(data)
    has_categories = any(not isinstance(value, float) for value in shown[known])
    return for_shap(
        Explanation(
            values[..., 0] if is_one else values,
            base[:, 0] if is_one else base,
            data,
            shown if has_categories else None,
            features,
            names,
        )
    )


def _explained(part: Part, rows: Rows) -> Any:
    """The explanation of a model's prediction, not of what is behind a link."""
    model = part.model
    is_known = is_all_ours(model, METHODS) or not is_all_ours(model, ["explain"])
    if not hasattr(model, "explain") or not is_known:
        raise ValueError(
            f"member {part.name!r} must be a model of trees of this package to be explained; got {model!r}. "
            "fastens.from_model reads trees of other libraries."
        )
    try:
        if not isinstance(model, TreeModel) or model._predicts_raw:
            return model.explain(rows.X, rows.background, interactions=rows.pairs)
        if rows.background is None:
            raise ValueError(
                "background must be a table of rows, as the raw predictions are behind a link and what is combined "
                "is not; got None."
            )
        return model.explain(rows.X, rows.background, output="probability", interactions=rows.pairs)
    except ValueError as error:
        raise ValueError(f"member {part.name!r} cannot be explained: {error}") from error


def _by_class(owner: Any, part: Part, found: Any) -> tuple[Array, Array]:
    """Values and base of a classifier's member, with an output for each class of the owner."""
    values, base = found.values, found.base_values
    if base.ndim == 1:  # of two classes, the second
        values, base = np.stack([-values, values], axis=-1), np.stack([1 - base, base], axis=-1)
    places = places_of_classes(f"member {part.name!r}", np.asarray(part.model.classes_), owner.classes_)
    out, of_base = np.zeros((*values.shape[:-1], len(owner.classes_))), np.zeros((len(base), len(owner.classes_)))
    out[..., places], of_base[:, places] = values, base
    return out, of_base
