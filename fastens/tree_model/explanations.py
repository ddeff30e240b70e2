"""Explanations of predictions, of probabilities and of losses too, as the library shap has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from fastens.engine.parts import as_array
from fastens.inspection.contribution_plots import explained_quantity, output_labels
from fastens.inspection.model_plots import column_names
from fastens.parameters import FLAG, one_of, rows_of
from fastens.table.columns.dates import instants_of
from fastens.table.opening import in_passes
from fastens.tree_model.contributions import Scales, raw_contributions

Array = NDArray[np.float64]
_MOST_LOSSES = 1 << 22  # in memory at a time
OUTPUTS = one_of("raw", "probability", "loss")


@dataclass(frozen=True)
class Explanation:
    """What `explain` returns where shap is not installed, with the attributes of ``shap.Explanation``.

    Attributes
    ----------
    values : float64 array of shape (n_samples, n_features), (n_samples, n_features, n_features) for pairs
        The Shapley values; with several outputs there is another axis at the end.
    base_values : float64 array of shape (n_samples,) or (n_samples, n_outputs)
        What the values of a row start from.
    data : float64 array of shape (n_samples, n_features)
        The rows: numbers, and positions of categories.
    display_data : object array of shape (n_samples, n_features) or None
        The rows with their categories, where there are any.
    feature_names : list of str
        The columns.
    output_names : str or list of str
        What the values of a row add up to, or of several outputs the classes or targets.
    """

    values: Array
    base_values: Array
    data: Array
    display_data: NDArray[Any] | None
    feature_names: list[str]
    output_names: str | list[str]


def explain(model: Any, X: Any, background: Any, output: str, y: Any, **flags: bool) -> Any:
    """What `TreeModel.explain` of a fitted model returns; the flags are `interactions` and `parts`."""
    interactions, parts = flags["interactions"], flags["parts"]
    FLAG.check("interactions", interactions)
    FLAG.check("parts", parts)
    _check(model, background, output, y)
    X = in_passes(X)
    rows = model._check_table(X)
    with rows_of("background"):
        others = None if background is None else model._check_table(background)
    game = None if output == "raw" or others is None else _game_of(model, rows, others, output, y)
    scales = None if game is None else game.scales
    found = raw_contributions(model, rows, pairs=interactions, parts=parts, background=others, scales=scales)
    if interactions:
        values, base = found[..., :-1, :-1], found[..., -1, -1]
    else:
        values, base = found[..., :-1], found[..., -1]
    if game is not None:
        base = game.base[:, None]
    if parts:
        return _explanation_of_parts(model, rows, np.moveaxis(values, 1, -1), base, output)
    return _explanation(model, X, np.moveaxis(values, 1, -1), base, output)


def _check(model: Any, background: Any, output: str, y: Any) -> None:
    OUTPUTS.check("output", output)
    if output != "raw" and background is None:
        raise ValueError(f"background must be a table of rows for output={output!r}; got None.")
    if (y is None) != (output != "loss"):
        got = "None" if y is None else "targets"
        raise ValueError(f"y must be given for output='loss', and for no other; got {got} with output={output!r}.")


# What is explained besides raw predictions --------------------------------------------------


@dataclass(frozen=True)
class _Game:
    """An output of one raw prediction: its mean over the background, by row, and the scales of contributions."""

    base: Array
    scales: Scales


def _game_of(model: Any, rows: Any, others: Any, output: str, y: Any) -> _Game | None:
    """None where the output is the raw prediction."""
    if output == "probability" and model._has_class_shares:
        return None
    if model._predicting_trees().n_outputs != 1:
        raise ValueError(f"output must be 'raw' for a model of several raw predictions; got {output!r}.")
    scale = model._contribution_scale()
    raw, base_raw = (scale * model._predicting_trees().predict_raw(as_array(table))[:, 0] for table in (rows, others))
    if output == "probability":
        after, base_after = model._inverse_link(raw), model._inverse_link(base_raw)
        return _Game(
            np.full(len(raw), base_after.mean()),
            lambda first, last: _slopes(raw[first:last], after[first:last, None], base_raw, base_after[None]),
        )
    target = _target(model, y, len(raw))
    loss = _row_losses(model)

    def losses(first: int, last: int) -> Array:
        """Of rows' targets with the background rows' predictions."""
        found = loss(np.repeat(target[first:last], len(base_raw)), np.tile(base_raw, last - first))
        return found.reshape(last - first, -1)

    after, step = loss(target, raw), max(_MOST_LOSSES // len(base_raw), 1)
    starts = range(0, max(len(raw), 1), step)
    return _Game(
        np.concatenate([losses(first, min(first + step, len(raw))).mean(axis=1) for first in starts]),
        lambda first, last: _slopes(raw[first:last], after[first:last, None], base_raw, losses(first, last)),
    )


def _slopes(raw: Array, after: Array, base_raw: Array, base_after: Array) -> Array:
    """Differences of outputs over those of raw predictions, 1 where the latter are 0, (n_rows, n_background)."""
    change = raw[:, None] - base_raw
    return np.divide(after - base_after, change, out=np.ones(change.shape), where=change != 0)


def _target(model: Any, y: Any, n_rows: int) -> Array:
    if get_tags(model).estimator_type is None:
        raise ValueError("output must be 'raw' or 'probability' for rankers and survival models; got 'loss'.")
    target: Array = model._encode_target(model._read_target(y))
    if target.shape != (n_rows,):
        raise ValueError(f"y must have a target for each row of X, {n_rows}; got shape {target.shape}.")
    return target


def _row_losses(model: Any) -> Callable[[Array, Array], Array]:
    if model._has_class_shares:
        raise ValueError("output must be 'raw' or 'probability' for means of class shares; got 'loss'.")
    if model._targets is not None or model._loss.name == "squared_error":
        return lambda y, raw: (y - raw) ** 2
    if model._loss.name == "huber":
        raise ValueError("output must be 'raw' with loss='huber', whose limit is that of a round of fit; got 'loss'.")
    model._loss.check_measured()
    found: Callable[[Array, Array], Array] = model._loss.row_losses
    return found


# What comes out --------------------------------------------------


def _explanation(model: Any, X: Any, values: Array, base: Array, output: str) -> Any:
    data = _known(model, as_array(model._encode_table(X))[:, : model.n_features_in_].astype(np.float64))
    return _as_explanation(model, values, base, output, (data, _displayed(model, data)), column_names(model))


def _explanation_of_parts(model: Any, rows: Any, values: Array, base: Array, output: str) -> Any:
    """The same of what the trees see: means of targets, and the numbers of dates."""
    data = as_array(rows).astype(np.float64)
    return _as_explanation(model, values, base, output, (data, None), model.feature_parts_)


def _as_explanation(
    model: Any, values: Array, base: Array, output: str, data: tuple[Array, NDArray[Any] | None], names: list[str]
) -> Any:
    n_outputs = values.shape[-1]
    return for_shap(
        Explanation(
            np.ascontiguousarray(values if n_outputs > 1 else values[..., 0]),
            np.ascontiguousarray(base if n_outputs > 1 else base[:, 0]),
            *data,
            names,
            [str(label) for label in output_labels(model, n_outputs)] if n_outputs > 1 else _output_name(model, output),
        )
    )


def for_shap(found: Explanation) -> Any:
    """An explanation as the library shap has it, where that is installed."""
    try:
        from shap import Explanation as ShapExplanation
    except ImportError:
        return found
    return ShapExplanation(**vars(found))


def _output_name(model: Any, output: str) -> str:
    name = explained_quantity(model, 0)
    if output == "raw":
        return name
    linked = {"log odds of the prediction": "prediction", "log odds": "probability"}
    linked |= {"logarithm of the ": "", "path length": "score"}
    for raw, text in linked.items():
        name = name.replace(raw, text)
    return "loss" if output == "loss" else name


def _known(model: Any, data: Array) -> Array:
    """The rows, NaN in the place of a category for missing values or for unseen ones."""
    for column, kind in enumerate(model._encoder.categories):
        if kind is not None:
            values = data[:, column]
            values[(values < 0) | (values >= len(kind))] = np.nan
    return data


def _displayed(model: Any, data: Array) -> NDArray[Any] | None:
    """The rows with categories and dates instead of their numbers; None where there are only numbers."""
    kinds, dates = model._encoder.categories, model._encoder.dates
    if all(kind is None for kind in kinds) and not dates:
        return None
    shown = data.astype(object)
    for column, kind in enumerate(kinds):
        if kind is not None:
            known = ~np.isnan(data[:, column])
            shown[known, column] = [kind[int(place)] for place in data[known, column]]
    for column in dates:
        known = ~np.isnat(instants := instants_of(data[:, column]))
        shown[known, column] = instants[known].tolist()
    return shown
