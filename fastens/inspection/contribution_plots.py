"""Plots of contributions: of all rows, and of a single one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from fastens.inspection.arguments import COUNT
from fastens.inspection.model_plots import column_names, shortened
from fastens.inspection.plotting import axes, plain
from fastens.parameters import whole

Array = NDArray[np.float64]
N_DOTS = 1000
N_HEIGHTS = 50
UP, DOWN = "#c23b55", "#3b6fb6"


@dataclass(frozen=True)
class Explained:
    """Contributions (n_rows, n_features), expected predictions by row, the columns' values, and what they add up to."""

    contributions: Array
    expected: Array
    values: Array
    what: str


def plot_contributions(
    estimator: Any,
    X: ArrayLike,
    row: int | None = None,
    *,
    label: Any = None,
    n_top: int = 12,
    ax: Any = None,
) -> Any:
    """Draw what each column contributes to the predictions of all rows, or of one: `TreeModel.plot_contributions`.

    For all rows: a dot for each row and column at its contribution, coloured by the value of the column, from the
    lowest to the highest. For one row: how its columns lead from the expected prediction to its own; columns beyond
    `n_top` are added up. Of several outputs the default is, for one row the class predicted, for all rows the mean size
    of contributions to every class (Lundberg et al. 2020). In place of rows, X may be what `explain` returned for them.
    """
    COUNT.check("n_top", n_top)
    if not hasattr(estimator, "predict_contributions"):
        raise ValueError(f"estimator must have predict_contributions; got {type(estimator).__name__}.")
    contributions, what = _contributions(estimator, X)
    if row is not None and not whole(0, len(contributions) - 1).holds(row):
        raise ValueError(f"row must be a position from 0 to {len(contributions) - 1}; got {row!r}.")
    if row is None and label is None and contributions.shape[1] > 1:
        return _sizes(estimator, contributions, n_top, ax)
    output = _output(estimator, contributions if row is None else contributions[[row]], label)
    explained = Explained(
        contributions[:, output, :-1],
        contributions[:, output, -1],
        _values(estimator, X),
        explained_quantity(estimator, output) if what is None else what,
    )
    return _dots(estimator, explained, n_top, ax) if row is None else _waterfall(estimator, explained, row, n_top, ax)


def _contributions(estimator: Any, X: Any) -> tuple[Array, str | None]:
    """Of rows, or of what `explain` returned: (n_rows, n_outputs, n_features + 1), and what they add up to."""
    if not hasattr(X, "base_values"):
        found = estimator.predict_contributions(X)
        return found[:, None] if found.ndim == 2 else found, None
    values, base = np.asarray(X.values), np.asarray(X.base_values)
    if values.ndim != base.ndim + 1 or values.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X must be an explanation of {estimator.n_features_in_} columns, without interactions; got values of "
            f"shape {values.shape}."
        )
    if base.ndim == 1:
        values, base = values[..., None], base[:, None]
    what = X.output_names if isinstance(X.output_names, str) else None
    return np.moveaxis(np.concatenate([values, base[:, None]], axis=1), 1, 2), what


def _values(estimator: Any, X: Any) -> Array:
    if hasattr(X, "base_values"):
        return np.asarray(X.data, dtype=np.float64)
    values = estimator._encode_table(X)
    return values.toarray() if hasattr(values, "toarray") else values


def _output(estimator: Any, contributions: Array, label: Any) -> int:
    """Which raw prediction is explained."""
    n_outputs = contributions.shape[1]
    if label is None:
        return 0 if n_outputs == 1 else int(contributions.sum(axis=2)[0].argmax())
    known = output_labels(estimator, n_outputs)
    if label not in known:
        raise ValueError(f"label must be one of {known}; got {label!r}.")
    # Of two classes only the second has contributions; those of the first are their opposites.
    if n_outputs == 1 and known.index(label) == 0 and len(known) == 2:
        raise ValueError(
            f"label must be {known[1]!r} with two classes: contributions to the other are their opposites."
        )
    return 0 if n_outputs == 1 else known.index(label)


def output_labels(estimator: Any, n_outputs: int) -> list[Any]:
    """The labels of raw predictions: classes, targets, or pairs of a target and a class."""
    if not is_classifier(estimator):
        return list(range(n_outputs))
    if not isinstance(estimator.classes_, list):
        return list(estimator.classes_.tolist())
    return [
        (target, label)
        for target, classes in enumerate(estimator.classes_)
        for label in (classes[1:] if len(classes) == 2 else classes).tolist()
    ]


def explained_quantity(estimator: Any, output: int) -> str:
    """The name of what the contributions to one of the raw predictions sum to."""
    if not is_classifier(estimator):
        has_link = getattr(estimator, "loss", "squared_error") in ("poisson", "gamma", "tweedie")
        return "logarithm of the prediction" if has_link else "prediction"
    labels = output_labels(estimator, output + 1)
    label = labels[output] if len(labels) > 2 or isinstance(estimator.classes_, list) else labels[1]
    return f"{'probability' if getattr(estimator, '_has_class_shares', False) else 'log odds'} of {label}"


def _top(size: Array, n_top: int) -> NDArray[np.intp]:
    return np.argsort(-size, kind="stable")[:n_top]


def _sizes(estimator: Any, contributions: Array, n_top: int, ax: Any) -> Any:
    """Bars of mean absolute contributions, the classes one beside the other."""
    size = np.abs(contributions[..., :-1]).mean(axis=0)
    top, names = _top(size.sum(axis=0), n_top), column_names(estimator)
    ax = axes(ax, figsize=(6.5, 1.2 + 0.3 * len(top)))
    start = np.zeros(len(top))
    for label, sizes in zip(output_labels(estimator, len(size)), size, strict=True):
        ax.barh(range(len(top)), sizes[top], left=start, label=plain(str(label)), height=0.7)
        start += sizes[top]
    _name_rows(ax, [names[column] for column in top])
    ax.set_xlabel("mean absolute contribution, by class" if is_classifier(estimator) else "mean absolute contribution")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _dots(estimator: Any, explained: Explained, n_top: int, ax: Any) -> Any:
    """A swarm of dots for each column."""
    every = -(-len(explained.values) // N_DOTS)
    parts, values = explained.contributions[::every], explained.values[::every]
    top, names = _top(np.abs(explained.contributions).mean(axis=0), n_top), column_names(estimator)
    ax = axes(ax, figsize=(6.5, 1.2 + 0.36 * len(top)))
    ax.axvline(0, color="0.75", linewidth=0.8, zorder=0)
    for place, column in enumerate(top):
        # Neither categories nor missing values are low or high.
        known = ~np.isnan(values[:, column]) & (estimator._encoder.categories[column] is None)
        heights = place + swarm_heights(parts[:, column])
        ax.scatter(parts[~known, column], heights[~known], s=5, color="0.6", linewidths=0)
        drawn = ax.scatter(
            parts[known, column], heights[known], c=rank_shares(values[known, column]), cmap="coolwarm", vmin=0, vmax=1,
            s=5, linewidths=0,
        )  # fmt: skip
    _name_rows(ax, [names[column] for column in top])
    ax.set_xlabel(plain(f"contribution to the {explained.what}"))
    bar = ax.figure.colorbar(drawn, ax=ax, ticks=[0, 1], fraction=0.04, aspect=30)
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("value of a column of numbers", labelpad=-8)
    bar.outline.set_visible(False)
    return ax


def swarm_heights(values: Array) -> Array:
    """Offsets of the dots of a swarm, from -0.4 to 0.4: up and down in turn, where many lie close together."""
    low, high = values.min(initial=0), values.max(initial=0)
    bins = ((values - low) / ((high - low) or 1) * N_HEIGHTS).astype(np.intp)
    order = np.argsort(bins, kind="stable")
    counts = np.bincount(bins)
    place = np.empty(len(values), dtype=np.intp)
    place[order] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = (place + 1) // 2 * np.where(place % 2, 1, -1)
    return 0.38 * step / max(1, int(counts.max(initial=1)) // 2)


def rank_shares(values: Array) -> Array:
    """Values, none missing, as shares of the way from the lowest to the highest, by rank."""
    _, place = np.unique(values, return_inverse=True)
    return place / max(1, int(place.max(initial=0)))


def _waterfall(estimator: Any, explained: Explained, row: int, n_top: int, ax: Any) -> Any:
    """Bars that lead from the expected prediction to the row's."""
    parts, expected = explained.contributions[row], explained.expected[row]
    top = _top(np.abs(parts), n_top if len(parts) <= n_top else n_top - 1)
    texts = [
        f"{shortened(name, 22)} = {shortened(value, 14)}"
        for name, value in _named_values(estimator, explained, row, top)
    ]
    steps = parts[top]
    if len(top) < len(parts):
        texts.append(f"{len(parts) - len(top)} other columns")
        steps = np.append(steps, parts.sum() - steps.sum())
    ends = expected + np.cumsum(steps)
    starts = ends - steps
    ax = axes(ax, figsize=(6.5, 1.3 + 0.32 * len(steps)))
    ax.barh(range(len(steps)), steps, left=starts, color=np.where(steps > 0, UP, DOWN), height=0.7)
    for place, (end, step) in enumerate(zip(ends, steps, strict=True)):
        ax.annotate(
            f"{step:+.3g}", (end, place), xytext=(3 if step >= 0 else -3, 0), textcoords="offset points", va="center",
            ha="left" if step >= 0 else "right", fontsize=8,
        )  # fmt: skip
    for end, text, height in ((expected, "expected", -0.8), (ends[-1], "this row", len(steps) - 0.2)):
        ax.axvline(end, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        ax.annotate(f"{text}: {end:.4g}", (end, height), ha="center", va="center", fontsize=8, color="0.3")
    ax.set_ylim(-1.2, len(steps) + 0.2)
    _name_rows(ax, texts, limit=48)
    low, high = min(starts.min(), ends.min()), max(starts.max(), ends.max())
    padding = 0.17 * (high - low) or 1.0
    ax.set_xlim(low - padding, high + padding)
    ax.set_xlabel(plain(explained.what))
    return ax


def _named_values(estimator: Any, explained: Explained, row: int, columns: Any) -> list[tuple[str, str]]:
    """The names of columns and the row's values in words."""
    names, categories, found = column_names(estimator), estimator._encoder.categories, []
    for column in columns:
        value, known = explained.values[row, column], categories[column]
        text = f"{value:.4g}" if known is None or np.isnan(value) else str(known[int(value)])
        found.append((names[column], "missing" if np.isnan(value) else text))
    return found


def _name_rows(ax: Any, names: list[str], limit: int = 28) -> None:
    ax.set_yticks(range(len(names)), [plain(shortened(name, limit)) for name in names])
    ax.invert_yaxis()
    ax.locator_params(axis="x", nbins=6)
    ax.spines[["top", "right"]].set_visible(False)
