"""Plots of Shapley values: for all rows, for one row, and for one column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_outlier_detector

from fastens.inspection.decision_plot import class_colours
from fastens.inspection.plotting import (
    BAND,
    COUNT,
    MARGIN,
    MISSING,
    axes,
    measured,
    name_ticks,
    number_text,
    number_ticks,
    plain,
    shortened,
)
from fastens.params.rules import NONE, one_of, whole
from fastens.params.types import ColumnPair

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
MAX_COLOURS = 9  # for the most frequent categories; others are grey
GREY = "0.6"
STRIP = 0.35  # half the width of a strip of dots, as a fraction of the space for a category


@dataclass(frozen=True)
class PlotColumn:
    """A column of the rows: numbers, or indices of categories; NaN if missing."""

    name: str
    values: Array
    categories: list[str] | None

    @classmethod
    def of(cls, name: str, data: Array, shown: NDArray[Any]) -> PlotColumn:
        """Build a column from numbers, NaN if missing, and the values to display, `shown`.

        If displayed values are not all floats, equal numbers are a category, whose name is the displayed value.
        """
        present = np.flatnonzero(~np.isnan(data))
        if all(isinstance(value, float) for value in shown[present]):
            return cls(name, data, None)
        texts = {code: str(value) for code, value in zip(data[present], shown[present], strict=True)}
        codes = np.full(len(data), np.nan)
        codes[present] = np.searchsorted(sorted(texts), data[present])
        return cls(name, codes, [texts[code] for code in sorted(texts)])

    def every(self, step: int) -> PlotColumn:
        """Return the column restricted to every `step`-th row."""
        return replace(self, values=self.values[::step])

    def text(self, row: int) -> str:
        """Return the value of the row at this index as text."""
        value = self.values[row]
        if np.isnan(value):
            return MISSING
        return number_text(value) if self.categories is None else self.categories[int(value)]


def draw_scatter(ax: Any, column: PlotColumn, parts: Array, by: PlotColumn | None) -> None:
    """Draw a dot per row at the value of `column` and the contribution in `parts`, coloured by the column `by`.

    If `by` is None, all dots have one colour. Missing values are placed at the end of the x axis.
    """
    ax.axhline(0, color="0.75", linewidth=0.8, zorder=0)
    positions = _dot_positions(ax, column, 1.0 if by is None else 0.75)
    options = {"s": 12, "linewidths": 0, "alpha": 0.8}
    if by is None:
        ax.scatter(positions, parts, color="C0", **options)
    elif by.categories is None:
        is_present = ~np.isnan(by.values)
        ax.scatter(positions[~is_present], parts[~is_present], color=GREY, label=MISSING, **options)
        drawn = ax.scatter(positions[is_present], parts[is_present], c=by.values[is_present], cmap="viridis", **options)
        ax.figure.colorbar(drawn, ax=ax, label=plain(shortened(by.name))).outline.set_visible(False)
        if not is_present.all():
            ax.legend(frameon=False, fontsize="small")
    else:
        _draw_categories(ax, positions, parts, by, options)
    ax.set_xlabel(plain(shortened(column.name, 60)))
    ax.spines[["top", "right"]].set_visible(False)


def _draw_categories(ax: Any, positions: Array, parts: Array, by: PlotColumn, options: dict[str, Any]) -> None:
    """Draw dots at x `positions` and y `parts`, coloured by the categories of another column, with a legend."""
    names = by.categories or []
    counts = np.bincount(by.values[~np.isnan(by.values)].astype(np.intp), minlength=len(names))
    chosen = np.sort(np.argsort(-counts, kind="stable")[:MAX_COLOURS])
    drawn, texts = [], []
    for code, colour in zip(chosen, class_colours(len(chosen)), strict=True):
        rows = by.values == code
        drawn.append(ax.scatter(positions[rows], parts[rows], color=colour, **options))
        texts.append(plain(shortened(names[code], 16)))
    rest = ~np.isin(by.values, chosen)
    if rest.any():
        drawn.append(ax.scatter(positions[rest], parts[rest], color=GREY, **options))
        texts.append(f"{MISSING} or rare")
    # With explicit handles, labels that begin with an underscore are not left out.
    ax.legend(
        drawn, texts, title=plain(shortened(by.name)), frameon=False, fontsize="small", title_fontsize="small",
        loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0,
    )  # fmt: skip


def _dot_positions(ax: Any, column: PlotColumn, room: float) -> Array:
    """Set the ticks of the x axis for a column, and return the x position of each row; `room` is as in `name_ticks`."""
    is_finite = np.isfinite(column.values)
    missing = np.isnan(column.values)
    # Multiples of an irrational number fill a strip evenly (Weyl).
    spread = (np.arange(len(is_finite)) * 0.6180339887 % 1 - 0.5) * 2 * STRIP
    if column.categories is not None:
        names = [*column.categories, *[MISSING] * bool(missing.any())]
        name_ticks(ax, "x", names, room=room)
        return np.where(missing, len(column.categories), column.values) + spread
    low, high = (column.values[is_finite].min(), column.values[is_finite].max()) if is_finite.any() else (0.0, 1.0)
    width = (high - low) or 1.0
    if not missing.any():
        return column.values
    end = high + (MARGIN + BAND) * width
    number_ticks(ax.xaxis, low, high, end, MISSING)
    ax.axvline(high + (MARGIN + BAND / 2) / 2 * width, color="0.85", linewidth=0.8)
    return np.where(missing, end + spread * BAND * width, column.values)


N_DOTS = 1000
N_HEIGHTS = 50
SMALL = 8  # points
UP, DOWN = "#c23b55", "#3b6fb6"
KIND = one_of("beeswarm", "bar") | NONE


@dataclass(frozen=True)
class Explained:
    """Values (n_rows, n_columns, n_outputs), base values (n_rows, n_outputs), columns and output names."""

    values: Array
    base: Array
    columns: list[PlotColumn]
    outputs: list[str]
    what: str | None  # name of the quantity that the values of a single output sum to

    @classmethod
    def of(cls, explanation: Any) -> Explained:
        """Build from the result of `explain` or of the library shap; raise ValueError for anything else."""
        if not all(hasattr(explanation, name) for name in ("values", "base_values", "data")):
            raise ValueError(f"explanation must be a result of explain; got {type(explanation).__name__}.")
        values, data = np.asarray(explanation.values), np.asarray(explanation.data, dtype=np.float64)
        base = np.asarray(explanation.base_values, dtype=np.float64)
        base = np.full(values.shape[:1], base) if base.ndim == 0 else base
        if data.ndim != 2 or values.shape[:2] != data.shape or base.shape != (len(data), *values.shape[2:]):
            raise ValueError(
                f"explanation must have rows and columns and no interactions; got values of shape {values.shape}."
            )
        base = base.reshape(len(data), -1)
        names = explanation.output_names
        is_one = values.ndim == 2
        outputs = [str(k) for k in range(base.shape[1])] if names is None or is_one else [*map(str, names)]
        what = (names if isinstance(names, str) else "prediction") if is_one else None
        return cls(values.reshape(*data.shape, -1), base, _columns(explanation, data), outputs, what)

    def output(self, wanted: Any, row: int | None) -> int:
        """Return the index of the output `wanted`, a label or an index; raise ValueError for others.

        If it is None, return the output with the largest prediction for the row, or 0 if `row` is None.
        """
        if wanted is None:
            return 0 if row is None else int((self.values[row].sum(axis=0) + self.base[row]).argmax())
        if str(wanted) in self.outputs:  # matches labels that `predict` returned, such as np.float64(2.0)
            return self.outputs.index(str(wanted))
        if not whole(0, len(self.outputs) - 1).holds(wanted):
            raise ValueError(f"output must be one of {self.outputs}, or its index; got {wanted!r}.")
        return int(wanted)

    def quantity(self, output: int) -> str:
        """Return the name of the quantity that the values of an output sum to."""
        return f"prediction of {self.outputs[output]}" if self.what is None else self.what

    def column(self, wanted: Any) -> int:
        """Return the index of the column `wanted`, a name or an index; raise ValueError for others."""
        names = [column.name for column in self.columns]
        if isinstance(wanted, str) and wanted in names:
            return names.index(wanted)
        if not whole(0, len(names) - 1).holds(wanted):
            raise ValueError(f"feature must be one of the columns, {names}, or its index; got {wanted!r}.")
        return int(wanted)


def _columns(explanation: Any, data: Array) -> list[PlotColumn]:
    """Return the columns of an explanation for plotting; `data` are their numbers, (n_rows, n_columns)."""
    shown = getattr(explanation, "display_data", None)
    names = explanation.feature_names
    names = [f"x{k}" for k in range(data.shape[1])] if names is None else [*map(str, names)]
    shown = data if shown is None else np.asarray(shown, dtype=object)
    return [PlotColumn.of(*parts) for parts in zip(names, data.T, shown.T, strict=True)]


def plot_explanation(
    explanation: Any,
    row: int | None = None,
    *,
    feature: ColumnPair = None,
    output: Any = None,
    kind: str | None = None,
    n_top: int = 12,
    ax: Axes | None = None,
) -> Axes:
    """Plot the result of `explain` for all rows, one row or one column, and return the axes.

    For all rows, the plot shows a dot for each row and column at its contribution, coloured by the column's value, or
    bars of mean absolute contributions (Lundberg et al. 2020). For one row, it shows how the columns lead from the
    expected prediction to the row's prediction; columns beyond `n_top` are added up. For one column, it shows
    contributions against values, with a strip for each category and for missing values.

    Parameters
    ----------
    explanation : Explanation or shap.Explanation
        Explanation of several rows, without interactions.
    row : int, optional
        Index of the row to plot. If None, all rows are plotted.
    feature : int, str, or pair of these, optional
        Column to plot, by index or name. With a pair of columns, the second one determines the colours.
    output : label or int, optional
        Which of several outputs to plot: a class label, for example one that `predict` returned, or an index. Labels
        take precedence over indices. If None, a plot of one row shows the largest output, and a plot of all rows shows
        bars of every output.
    kind : {"beeswarm", "bar"}, optional
        Kind of plot for all rows. If None, "beeswarm" is used, or "bar" with several outputs.
    n_top : int, default=12
        Maximum number of columns.
    ax : matplotlib Axes, optional
        Axes to draw on. If None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If the explanation has interactions or a single row, or an argument does not match it.
    ImportError
        If matplotlib is not installed.

    References
    ----------
    S. Lundberg et al. (2020). From local explanations to global understanding with explainable AI for trees. Nature
    Machine Intelligence 2.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import GradientBoostingRegressor, plot_explanation
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> explained = GradientBoostingRegressor(n_estimators=20).fit(X, y).explain(X)
    >>> plot_explanation(explained, feature="bmi").get_ylabel()
    'contribution to the prediction'
    """
    COUNT.check("n_top", n_top)
    KIND.check("kind", kind)
    explained = Explained.of(explanation)
    n_rows = len(explained.values)
    if row is not None and not whole(0, n_rows - 1).holds(row):
        raise ValueError(f"row must be a position from 0 to {n_rows - 1}; got {row!r}.")
    if sum(option is not None for option in (row, feature, kind)) > 1:
        raise ValueError("row, feature and kind must not be passed together, because each draws a different plot.")
    several = len(explained.outputs) > 1
    if several and output is None and (feature is not None or kind == "beeswarm"):
        raise ValueError(f"output must be one of {explained.outputs}, or its index, for this plot; got None.")
    index = explained.output(output, row)
    if row is not None:
        return _waterfall(explained, row, index, n_top, ax)
    if feature is not None:
        return _scatter(explained, feature, index, ax)
    if kind == "bar" or (several and output is None):
        return _sizes(explained, slice(None) if output is None else slice(index, index + 1), n_top, ax)
    return _dots(explained, index, n_top, ax)


def _top(size: Array, n_top: int) -> NDArray[np.intp]:
    """Return the indices of the `n_top` largest sizes, the largest first."""
    return np.argsort(-size, kind="stable")[:n_top]


def _scatter(explained: Explained, feature: Any, output: int, ax: Any) -> Any:
    """Draw the contributions of column `feature` against its values, coloured by the second column of a pair."""
    features = feature if isinstance(feature, tuple | list) else (feature,)
    if len(features) not in (1, 2):
        raise ValueError(f"feature must be a column or a pair of columns; got {feature!r}.")
    chosen = [explained.column(each) for each in features]
    every = -(-len(explained.values) // N_DOTS)
    columns = [explained.columns[index].every(every) for index in chosen]
    ax = axes(ax, figsize=(6, 4))
    draw_scatter(ax, columns[0], explained.values[::every, chosen[0], output], columns[1] if len(columns) > 1 else None)
    ax.set_ylabel(plain(f"contribution to the {explained.quantity(output)}"))
    return ax


def _sizes(explained: Explained, outputs: slice, n_top: int, ax: Any) -> Any:
    """Plot bars of the `n_top` largest mean absolute contributions, stacked over a slice of the outputs."""
    size = np.abs(explained.values[..., outputs]).mean(axis=0)
    top = _top(size.sum(axis=1), n_top)
    ax = axes(ax, figsize=(6.5, 1.2 + 0.3 * len(top)))
    start = np.zeros(len(top))
    drawn = []
    for sizes, colour in zip(size.T, class_colours(size.shape[1]), strict=True):
        drawn.append(ax.barh(range(len(top)), sizes[top], left=start, color=colour, height=0.7))
        start += sizes[top]
    _name_rows(ax, [explained.columns[column].name for column in top])
    of_what = f" to the {explained.quantity(outputs.start or 0)}" if size.shape[1] == 1 else ""
    ax.set_xlabel(plain(f"mean absolute contribution{of_what}"))
    if size.shape[1] > 1:
        names = [plain(shortened(name, 20)) for name in explained.outputs[outputs]]
        options = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0} if len(names) > 8 else {}
        ax.legend(drawn, names, frameon=False, fontsize="small", ncols=1 + (len(names) - 1) // 16, **options)
    return ax


def _dots(explained: Explained, output: int, n_top: int, ax: Any) -> Any:
    """Plot a swarm of dots, one per row, for each of the `n_top` columns that contribute most to an output."""
    values = explained.values[..., output]
    every = -(-len(values) // N_DOTS)
    top = _top(np.abs(values).mean(axis=0), n_top)
    ax = axes(ax, figsize=(6.5, max(2.8, 1.2 + 0.36 * len(top))))
    ax.axvline(0, color="0.75", linewidth=0.8, zorder=0)
    drawn = None
    for row, number in enumerate(top):
        column, parts = explained.columns[number].every(every), values[::every, number]
        # Categories and missing values have no order to colour by.
        ranked = ~np.isnan(column.values) & (column.categories is None)
        heights = row + swarm_heights(parts)
        ax.scatter(parts[~ranked], heights[~ranked], s=5, color="0.6", linewidths=0)
        drawn = ax.scatter(
            parts[ranked], heights[ranked], c=rank_shares(column.values[ranked]), cmap="coolwarm", vmin=0, vmax=1, s=5,
            linewidths=0,
        )  # fmt: skip
    _name_rows(ax, [explained.columns[column].name for column in top])
    ax.set_xlabel(plain(f"contribution to the {explained.quantity(output)}"))
    bar = ax.figure.colorbar(drawn, ax=ax, ticks=[0, 1], fraction=0.04, aspect=30)
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("value of a numerical column", labelpad=-8)
    bar.outline.set_visible(False)
    return ax


def swarm_heights(values: Array) -> Array:
    """Return vertical offsets of a swarm's dots, from -0.4 to 0.4, alternating up and down where dots are dense."""
    low, high = values.min(initial=0), values.max(initial=0)
    bins = ((values - low) / ((high - low) or 1) * N_HEIGHTS).astype(np.intp)
    order = np.argsort(bins, kind="stable")
    counts = np.bincount(bins)
    rank = np.empty(len(values), dtype=np.intp)
    rank[order] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = (rank + 1) // 2 * np.where(rank % 2, 1, -1)
    return 0.38 * step / max(1, int(counts.max(initial=1)) // 2)


def rank_shares(values: Array) -> Array:
    """Return the ranks of values, none of which is missing, scaled to the interval from 0 to 1; ties share a rank."""
    _, rank = np.unique(values, return_inverse=True)
    return rank / max(1, int(rank.max(initial=0)))


def _waterfall(explained: Explained, row: int, output: int, n_top: int, ax: Any) -> Any:
    """Plot bars of contributions that lead from the expected prediction of an output to the prediction of a row.

    If there are more than `n_top` columns, the smallest contributions are added up in the last bar.
    """
    parts, expected = explained.values[row, :, output], explained.base[row, output]
    top = _top(np.abs(parts), n_top if len(parts) <= n_top else n_top - 1)
    columns = [explained.columns[index] for index in top]
    texts = [f"{shortened(column.name, 22)} = {shortened(column.text(row), 14)}" for column in columns]
    steps = parts[top]
    if len(top) < len(parts):
        texts.append(f"{len(parts) - len(top)} other columns")
        steps = np.append(steps, parts.sum() - steps.sum())
    ends = expected + np.cumsum(steps)
    starts = ends - steps
    ax = axes(ax, figsize=(6.5, 1.3 + 0.32 * len(steps)))
    ax.barh(range(len(steps)), steps, left=starts, color=np.where(steps > 0, UP, DOWN), height=0.7)
    figures = ["+" * bool(step >= 0) + number_text(float(f"{step:.3g}")) for step in steps]
    for bar, (end, step, figure) in enumerate(zip(ends, steps, figures, strict=True)):
        ax.annotate(
            figure, (end, bar), xytext=(3 if step >= 0 else -3, 0), textcoords="offset points", va="center",
            ha="left" if step >= 0 else "right", fontsize=SMALL,
        )  # fmt: skip
    marks = [f"expected: {number_text(expected)}", f"this row: {number_text(ends[-1])}"]
    for end, text, height in zip((expected, ends[-1]), marks, (-0.8, len(steps) - 0.2), strict=True):
        ax.axvline(end, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        ax.annotate(text, (end, height), ha="center", va="center", fontsize=SMALL, color="0.3")
    ax.set_ylim(-1.2, len(steps) + 0.2)
    _name_rows(ax, texts, limit=48)
    low, high = min(starts.min(), ends.min()), max(starts.max(), ends.max())
    # Next to the outermost bars, space is left for their contributions as text, and for half of the end labels.
    needed = 0.06 + max(measured(ax, figures, SMALL, 0.0)[:, 0].max(), measured(ax, marks, SMALL, 0.0)[:, 0].max() / 2)
    room, subplot = ax.get_window_extent().width / ax.figure.dpi, ax.get_subplotspec()
    if subplot is not None and ax.figure.get_layout_engine() is not None:
        # The layout engine will shrink the axes to fit the names, and possibly the tick labels of other axes.
        n_columns = subplot.get_gridspec().ncols
        share = len(subplot.colspan) / n_columns * (1.0 if n_columns == 1 else 0.9)
        room = min(room, ax.figure.get_figwidth() * share - 0.2 - measured(ax, texts, 10, 0.0)[:, 0].max())
    padding = (high - low) * needed / max(room - 2 * needed, needed) or 1.0
    ax.set_xlim(low - padding, high + padding)
    ax.set_xlabel(plain(explained.quantity(output)))
    return ax


def _name_rows(ax: Any, names: list[str], limit: int = 28) -> None:
    """Label the bars at 0, 1, ... with names of at most `limit` characters, from top to bottom."""
    ax.set_yticks(range(len(names)), [plain(shortened(name, limit)) for name in names])
    ax.invert_yaxis()
    ax.locator_params(axis="x", nbins=6)
    ax.spines[["top", "right"]].set_visible(False)


# What the outputs of models are called --------------------------------------------------


def output_index(estimator: Any, explanation: Any, label: Any) -> int | None:
    """Return the index of the output in an explanation that a class or target label names; None for None.

    Raises ValueError if the label is unknown, or the first of two classes.
    """
    if label is None:
        return None
    shape = np.shape(explanation.values)
    n_outputs = shape[2] if len(shape) > 2 else 1
    labels = output_labels(estimator, n_outputs)
    if label not in labels:
        raise ValueError(f"label must be one of {labels}; got {label!r}.")
    # With two classes, only the second has contributions; those to the first are their negatives.
    if n_outputs == 1 and labels.index(label) == 0 and len(labels) == 2:
        raise ValueError(
            f"label must be {labels[1]!r} with two classes, because contributions to the other class are their "
            "negatives."
        )
    return 0 if n_outputs == 1 else labels.index(label)


def output_labels(estimator: Any, n_outputs: int) -> list[Any]:
    """Return the labels of raw predictions: classes, targets, or pairs of a target and a class."""
    if not is_classifier(estimator):
        return list(range(n_outputs))
    if not isinstance(estimator.classes_, list):
        return list(estimator.classes_.tolist())
    return [
        (target, label)
        for target, classes in enumerate(estimator.classes_)
        for label in (classes[1:] if len(classes) == 2 else classes).tolist()
    ]


# Name of the explained quantity for regression losses with a link function.
_OF_LINKS = dict.fromkeys(("poisson", "gamma", "tweedie"), "logarithm of the prediction")
_OF_LINKS["cross_entropy"] = "log odds of the prediction"


def explained_quantity(estimator: Any, output: int) -> str:
    """Return the name of the quantity that the contributions to an output sum to, such as "log odds of setosa"."""
    if is_outlier_detector(estimator):
        return "path length"
    if not is_classifier(estimator):
        return _OF_LINKS.get(getattr(getattr(estimator, "_loss", None), "name", ""), "prediction")
    labels = output_labels(estimator, output + 1)
    label = labels[output] if len(labels) > 2 or isinstance(estimator.classes_, list) else labels[-1]
    return f"{'probability' if getattr(estimator, '_has_class_shares', False) else 'log odds'} of {label}"
