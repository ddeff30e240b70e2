"""Plots of a fitted model: importances, training curves and partial dependence."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier

from fastens.engine.grow.growth import ColumnLookup
from fastens.engine.names import are_texts, texts_of
from fastens.inspection.plotting import COUNT, axes, date_ticks, name_ticks, plain, shortened, whole_ticks
from fastens.params.rules import one_of, whole
from fastens.table.arrays import dense
from fastens.table.columns.dates import instants_of
from fastens.table.columns.factorize import is_missing
from fastens.table.tables import is_frame, table_from_frame

Array = NDArray[np.float64]
KINDS = {
    "gain": "share of the total gain",
    "split": "share of the splits",
    "cover": "share of the rows in the splits",
    "permutation": "decrease of the score when shuffled",
}
GRID = 50
FLAT = 1e-13  # relative difference below which predictions are treated as constant in a column


def column_names(estimator: Any) -> list[str]:
    """Return the column names of a fitted estimator as strings, or ``x0``, ``x1``, ... if it has no names."""
    if (encoder := getattr(estimator, "_encoder", None)) is not None:
        return encoder.texts
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{i}" for i in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def plot_importance(
    estimator: Any,
    kind: str = "gain",
    *,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    n_top: int = 20,
    ax: Any = None,
) -> Any:
    """Plot the most important columns as bars, at most `n_top`; see `TreeModel.plot_importance`.

    "permutation" shows the standard deviation over the repeats. Raises ValueError for an unknown `kind`, and for
    "permutation" without rows.
    """
    COUNT.check("n_top", n_top)
    values, spread = _importances(estimator, kind, X, y)
    top = np.argsort(-values, kind="stable")[:n_top]
    names = column_names(estimator)
    ax = axes(ax, figsize=(6, 1 + 0.28 * len(top)))
    error = None if spread is None else spread[top]
    ax.barh(range(len(top)), values[top], xerr=error, color="C0", height=0.7, error_kw={"ecolor": "0.4"})
    ax.set_yticks(range(len(top)), [plain(shortened(names[column])) for column in top])
    ax.invert_yaxis()
    ax.set_xlabel(KINDS[kind])
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _importances(estimator: Any, kind: str, X: Any, y: Any) -> tuple[Array, Array | None]:
    """Return the importances of this kind by column and, for "permutation", their standard deviations, otherwise None.

    Raises ValueError if the estimator lacks this kind, or X or y is None for "permutation".
    """
    one_of(*KINDS).check("kind", kind)
    needed = {"gain": "feature_importances_", "permutation": "permutation_importance"}.get(kind, "importances")
    if not hasattr(estimator, needed):
        raise ValueError(f"kind={kind!r} needs an estimator with {needed}; got {type(estimator).__name__}.")
    if kind == "gain":
        return np.asarray(estimator.feature_importances_), None
    if kind != "permutation":
        return estimator.importances(kind), None
    if X is None or y is None:
        raise ValueError(
            "X and y must be passed with kind='permutation', because permutation importances score predictions on them."
        )
    result = estimator.permutation_importance(X, y, random_state=0)
    return result.importances_mean, result.importances_std


def training_curves(estimator: Any) -> dict[str, NDArray[Any]]:
    """Return the first metric on each set of rows, and the out-of-bag error, by name, if the model recorded them."""
    sets = getattr(estimator, "evals_result_", {})
    curves = {f"{name} rows": next(iter(metrics.values())) for name, metrics in sets.items() if metrics}
    curves["out of bag"] = getattr(estimator, "oob_error_curve_", ())
    return {name: np.asarray(values) for name, values in curves.items() if np.size(values)}


def plot_training(estimator: Any, ax: Any = None) -> Any:
    """Plot the loss after each round, or the out-of-bag error after each tree; see `TreeModel.plot_training`."""
    curves = training_curves(estimator)
    if not curves:
        raise ValueError(
            "estimator must be a boosting model or a forest fitted with oob_score=True for a training curve; "
            f"got {type(estimator).__name__}."
        )
    ax = axes(ax, figsize=(6, 3.6))
    for name, values in curves.items():
        ax.plot(np.arange(1, len(values) + 1), values, label=name)
    if "validation rows" in curves and estimator.early_stopping is not False:
        best = estimator.n_estimators_
        ax.axvline(best, color="0.6", linewidth=0.8, linestyle="--")
        ax.annotate(f" best: {best}", (best, 1), xycoords=("data", "axes fraction"), va="top", fontsize="small")
    of_trees = "out of bag" in curves
    ax.set(xlabel="trees" if of_trees else "rounds", ylabel="error" if of_trees else "loss")
    whole_ticks(ax)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_dependence(
    estimator: Any, X: ArrayLike, features: Any, *, label: Any = None, n_rows: int = 500, ax: Any = None
) -> NDArray[Any]:
    """Plot the partial dependence of predictions on columns; see `TreeModel.plot_dependence` (Friedman 2001, 8.2).

    scikit-learn's `PartialDependenceDisplay` draws the plot. The mean is over at most `n_rows` evenly spaced rows,
    without rows in which a plotted column is missing or infinite.
    """
    COUNT.check("n_rows", n_rows)
    is_one = isinstance(features, str | tuple) or not np.iterable(features)
    features = [features] if is_one else list(features)
    fitted = estimator
    estimator, table, features, dates = _plain(estimator, _as_scikit_learn_reads(X), features)
    columns = _flat_columns(features)
    _check_columns(columns, table)
    n_outputs = 1 if is_classifier(estimator) else int(np.prod(np.shape(estimator.predict(table[:1]))[1:]))
    _check_label(estimator, label, n_outputs)
    kept, categorical = _rows_to_average(table, columns, n_rows), _categorical(fitted, table, columns)
    pairs = [part for part in features if isinstance(part, tuple | list)]
    names = list(getattr(table, "columns", ()))
    if any(len({names.index(end) if isinstance(end, str) else end for end in pair}) < 2 for pair in pairs):
        raise ValueError(f"features must be one or more columns or pairs of different columns; got {features!r}.")
    if mixed := [pair for pair in pairs if (pair[0] in categorical) != (pair[1] in categorical)]:
        raise ValueError(f"features must not have a pair of a numerical and a categorical column; got {mixed[0]!r}.")
    numeric = [column for column in columns if column not in categorical]
    rows = _with_float_columns(table[kept] if isinstance(table, np.ndarray) else table.iloc[kept], numeric)
    n_pictures = len(features)
    display = _display_class().from_estimator(
        estimator if is_classifier(estimator) else _OutputAdapter(estimator, label or 0),
        rows,
        features,
        categorical_features=categorical or None,
        target=label if is_classifier(estimator) else None,
        grid_resolution=GRID,
        n_cols=min(3, n_pictures),
        ax=axes(ax, figsize=(3.2 * min(3, n_pictures) + 0.8, 2.8 * -(-n_pictures // 3))),
    )
    from matplotlib.ticker import ScalarFormatter

    pictures = [drawn for drawn in display.axes_.ravel() if drawn is not None]
    for index, (drawn, part) in enumerate(zip(pictures, features, strict=True)):
        shown = part if isinstance(part, tuple | list) else (part,)
        _tidy(drawn, [column in categorical for column in shown])
        for letter, column in zip("xy", shown, strict=False):
            if (names.index(column) if isinstance(column, str) else column) in dates:
                date_ticks(drawn, letter)
        if isinstance(features[index - index % 3], tuple | list) and not isinstance(part, tuple | list):
            # scikit-learn labels only the first plot of each row, which here shows a pair of columns.
            drawn.yaxis.set_major_formatter(ScalarFormatter())
            drawn.set_ylabel("Partial dependence")
    return np.array(pictures, dtype=object)


def _display_class() -> Any:
    """Return a subclass of scikit-learn's partial dependence display that sets the limits of the mean predictions.

    By default, scikit-learn's display omits pairs that change no prediction.
    """
    from sklearn.inspection import PartialDependenceDisplay

    class Display(PartialDependenceDisplay):
        def plot(self, **options: Any) -> Any:
            return super().plot(pdp_lim=_limits(self.pd_results, self.target_idx), **options)

    return Display


def _limits(results: list[Any], target: int) -> dict[int, tuple[float, float]]:
    """Return the padded minimum and maximum of the mean predictions of output `target`.

    The key 1 holds the limits of single columns and the key 2 those for pairs.
    """
    limits: dict[int, tuple[float, float]] = {}
    for result in results:
        means, n_columns = result.average[target], len(result.grid_values)
        low, high = limits.get(n_columns, (np.inf, -np.inf))
        limits[n_columns] = min(low, means.min()), max(high, means.max())
    for n_columns, (low, high) in limits.items():
        is_flat = high - low <= FLAT * max(abs(low), abs(high))
        room = 0.05 * (max(abs(low), abs(high), 1.0) if is_flat else high - low)
        limits[n_columns] = low - room, high + room
    return limits


def _rows_to_average(table: Any, columns: list[Any], n_rows: int) -> NDArray[np.intp]:
    """Return the indices of at most `n_rows` evenly spaced rows without missing values in these columns.

    Raises ValueError if every row has one.
    """
    missing = np.zeros(len(table), dtype=bool)
    for column in columns:
        missing |= _is_missing(table, column)
    kept = np.flatnonzero(~missing)
    if len(kept) == 0:
        raise ValueError(f"X must have at least one row without missing values in the columns {columns}; got none.")
    return kept[:: -(-len(kept) // n_rows)]


def _tidy(ax: Any, are_categorical: list[bool]) -> None:
    """Fit column and category names into the available space, and mark predictions of single values.

    `are_categorical` has a flag for each column on the axes, x before y.
    """
    ax.set(xlabel=plain(shortened(ax.get_xlabel(), 36)), ylabel=plain(shortened(ax.get_ylabel(), 36)))
    for letter, is_categorical in zip("xy", are_categorical, strict=False):
        if is_categorical:
            name_ticks(ax, letter, [text.get_text() for text in getattr(ax, f"get_{letter}ticklabels")()])
    if are_categorical == [True, True]:
        ax.set_aspect("auto")
        if max(np.diff(ax.get_xlim())[0] / 8, abs(np.diff(ax.get_ylim())[0]) / 12) > 1:
            for text in list(ax.texts):  # numbers that do not fit into their cells
                text.remove()
    for line in ax.lines:
        if len(line.get_xdata()) == 1:
            line.set_marker("o")


class _OutputAdapter(RegressorMixin, BaseEstimator):
    """Single-target regressor for scikit-learn, wrapping a multi-target model, a ranker or a survival model."""

    def __init__(self, estimator: Any, output: int = 0) -> None:
        self.estimator, self.output = estimator, output

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> _OutputAdapter:
        """Return the adapter; the estimator is fitted already."""
        return self

    def predict(self, X: Any) -> Array:
        """Return one output of the estimator's predictions."""
        predicted = np.asarray(self.estimator.predict(X))
        return predicted.reshape(len(predicted), -1)[:, self.output]


def _check_label(estimator: Any, label: Any, n_outputs: int) -> None:
    """Raise ValueError unless `label` selects an output: an index below `n_outputs` if there are several, or a class.

    With two classes it may be the second or None, and without classes it must be None.
    """
    if n_outputs > 1:
        if not (isinstance(label, int | np.integer) and 0 <= label < n_outputs):
            raise ValueError(
                f"label must be the index of a target or quantile, from 0 to {n_outputs - 1}; got {label!r}."
            )
        return
    classes = getattr(estimator, "classes_", None) if is_classifier(estimator) else None
    if isinstance(classes, list):
        raise ValueError(f"the classifier must have one target for plot_dependence; it has {len(classes)}.")
    labels = [] if classes is None else classes.tolist()
    if len(labels) < 3 and label is not None and label not in labels[1:]:
        words = f"{labels[1]!r} or None with two classes" if len(labels) == 2 else "None without classes"
        raise ValueError(f"label must be {words}; got {label!r}.")
    if len(labels) > 2 and label not in labels:
        raise ValueError(f"label must be one of {labels}; got {label!r}.")


class _DisplayFrameAdapter(BaseEstimator):
    """Wrapper for scikit-learn's displays, which need string column names and dates as days since 1970."""

    def __init__(self, estimator: Any, labels: Any, dates: list[int]) -> None:
        self.estimator, self.labels, self.dates = estimator, labels, dates

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()

    def fit(self, X: Any, y: Any = None) -> _DisplayFrameAdapter:
        """Return the adapter; the estimator is fitted already."""
        return self

    @property
    def classes_(self) -> Any:
        return self.estimator.classes_

    def predict(self, X: Any) -> Any:
        """Predict for a frame of the display, converted back to the columns of `fit`."""
        return self.estimator.predict(self._with_original_columns(X))

    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities for a frame of the display, converted back to the columns of `fit`."""
        return self.estimator.predict_proba(self._with_original_columns(X))

    def _with_original_columns(self, X: Any) -> Any:
        """Return a frame of the display with the column labels and the dates of the table that the user passed."""
        frame = X.copy(deep=False)
        for column in self.dates:
            frame.isetitem(column, instants_of(frame.iloc[:, column].to_numpy()))
        return frame.set_axis(self.labels, axis=1)


def _plain(estimator: Any, table: Any, features: list[Any]) -> tuple[Any, Any, list[Any], list[int]]:
    """Return estimator, table and features that scikit-learn's displays accept, and the indices of date columns.

    Dates become days since 1970, and column labels strings; the estimator converts them back.
    """
    encoder = getattr(estimator, "_encoder", None)
    if encoder is None or not hasattr(table, "iloc"):
        return estimator, table, features, []
    converted, of_dates = table_from_frame(table), {(encoder.names or [])[column] for column in encoder.dates}
    names = converted.names or []
    dates = [column for column, name in enumerate(names) if name in of_dates]
    if not dates and are_texts(names):
        return estimator, table, features, []
    plain = table.copy(deep=False)
    for column in dates:
        plain.isetitem(column, converted.days(column))
    if not are_texts(names):
        columns = ColumnLookup(len(names), names)
        pairs = [
            list(part) if isinstance(part, tuple | list) and not columns.is_name(part) else part for part in features
        ]
        features = [
            tuple(columns.position("features", end) for end in part)
            if isinstance(part, list)
            else columns.position("features", part)
            for part in pairs
        ]
        plain = plain.set_axis(texts_of(names) or [f"x{column}" for column in range(len(names))], axis=1)
    return _DisplayFrameAdapter(estimator, table.columns, dates), plain, features, dates


def _as_scikit_learn_reads(X: Any) -> Any:
    """Return X as an array or a pandas frame, the types that scikit-learn's partial dependence accepts.

    Raises ValueError if X is not a table.
    """
    if hasattr(X, "iloc"):
        return X
    if is_frame(X):
        return nw.from_native(X, eager_only=True).to_pandas()
    array = np.asarray(dense(X))
    if array.shape == ():
        raise ValueError(f"X must be a table with rows and columns in memory; got a {type(X).__name__}.")
    return array


def _with_float_columns(rows: Any, columns: list[Any]) -> Any:
    """Return the rows with integer columns converted to float, so that grid points can lie between integers."""
    if isinstance(rows, np.ndarray):
        return rows.astype(np.float64) if rows.dtype.kind in "iu" else rows
    positions = [rows.columns.get_loc(column) if isinstance(column, str) else column for column in columns]
    whole = [
        rows.columns[position] for position in positions if getattr(rows.dtypes.iloc[position], "kind", "O") in "iu"
    ]
    return rows.astype(dict.fromkeys(whole, np.float64))


def _check_columns(columns: list[Any], table: Any) -> None:
    """Raise ValueError unless all `columns` are names or indices of columns of a two-dimensional table."""
    names = list(getattr(table, "columns", ()))
    if table.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns; got shape {table.shape}.")
    for column in columns:
        if isinstance(column, str) and column not in names:
            raise ValueError(f"features must name columns of X; got {column!r}, and the columns are {names}.")
        if not isinstance(column, str) and not whole(0, table.shape[1] - 1).holds(column):
            raise ValueError(f"features must hold column indices from 0 to {table.shape[1] - 1}; got {column!r}.")


def _flat_columns(features: list[Any]) -> list[Any]:
    """Return the columns in `features`, a list of columns and pairs of columns, as one flat list.

    Raises ValueError if it is empty or a pair is not two different columns.
    """
    pairs = [part for part in features if isinstance(part, tuple | list)]
    wrong = [pair for pair in pairs if len(pair) != 2 or pair[0] == pair[1]]
    if wrong or not features:
        raise ValueError(f"features must be one or more columns or pairs of different columns; got {features!r}.")
    return [column for part in features for column in (part if isinstance(part, tuple | list) else (part,))]


def _is_missing(table: Any, column: Any) -> NDArray[np.bool_]:
    """Return a mask of the rows in which a column is missing or infinite, which have no position on an axis."""
    if isinstance(table, np.ndarray):
        values = table[:, column]
        if values.dtype.kind == "O":
            return np.array([is_missing(value) or value in (np.inf, -np.inf) for value in values.tolist()], dtype=bool)
        return ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    series = table[column] if isinstance(column, str) else table.iloc[:, column]
    is_float = getattr(series.dtype, "kind", "O") == "f"
    return (series.replace([np.inf, -np.inf], np.nan) if is_float else series).isna().to_numpy()


def _categorical(estimator: Any, table: Any, columns: list[Any]) -> list[Any]:
    """Return the categorical ones among `columns`, names or indices of columns of a fitted estimator."""
    encoder = getattr(estimator, "_encoder", None)
    if encoder is None:
        return []
    names = column_names(estimator)
    flags = encoder.is_categorical
    return [column for column in columns if flags[names.index(column) if isinstance(column, str) else column]]
