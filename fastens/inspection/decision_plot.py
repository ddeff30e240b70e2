"""Decision boundaries in the plane of two columns: regions of classes, or a surface of predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector

from fastens.inspection.plotting import (
    BAND,
    MISSING,
    POSITION,
    Axis,
    Plane,
    as_labels,
    as_numbers,
    axes,
    check_same_kind,
    name_ticks,
    number_text,
    number_ticks,
    plain,
    shortened,
)
from fastens.params.rules import Rule
from fastens.params.types import ColumnPair
from fastens.table.sources import in_memory_only

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
N_PLACES = 160  # number of grid points along each axis
BLOCK_CELLS = 4_000_000  # maximum cells of a table that is predicted at once
FAINT, STRONG = 0.1, 0.5  # strength of a class's colour for the lowest and the highest probability
NAMED = 3  # maximum number of held columns listed in the title
PREDICTS = Rule("a fitted estimator that predicts", lambda value: hasattr(value, "predict") and hasattr(value, "fit"))


@dataclass(frozen=True)
class Predictions:
    """Predictions on the grid, (n_places, n_places), with the second axis in rows; NaN in the gaps."""

    values: Array  # class indices, or numbers
    shares: Array | None  # probability of the predicted class
    classes: list[Any] | None
    what: str


@in_memory_only
def plot_decision_boundary(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    features: ColumnPair = None,
    held: Mapping[Any, Any] | None = None,
    n_points: int = 1000,
    ax: Axes | None = None,
) -> Axes:
    """Plot a model's predictions in the plane of two columns, with the rows as points, and return the axes.

    A classifier's regions have the colour of the predicted class, paler for lower probabilities, with a line where the
    prediction changes. A regressor's predictions, or an outlier detector's scores, are shown as a coloured surface.
    Categorical columns have one strip for each category; missing values have a strip at the end.

    Parameters
    ----------
    estimator : fitted classifier, regressor or outlier detector
        Estimator from fastens or any library with scikit-learn's interface.
    X : array or frame of shape (n_samples, n_features)
        Rows like those in `fit`. They determine the ranges of the axes, the points, and the values of other columns.
    y : array of shape (n_samples,), optional
        Targets, which determine the colours of the points.
    features : pair of int or str, optional
        Columns of the two axes, by index or name. If None, X must have exactly two columns.
    held : dict, optional
        Values at which the other columns are held, by column index or name. By default, numeric columns are held at
        their median and other columns at their most frequent value.
    n_points : int, default=1000
        Maximum number of points, evenly spaced among the rows; 0 draws none. Infinite values are not drawn.
    ax : matplotlib Axes, optional
        Axes to draw on. If None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `features` are not two columns of X, a held value is invalid for its column, y does not match X or the
        model's classes, or the model predicts several targets.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fastens import RandomForestClassifier, plot_decision_boundary
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = RandomForestClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> ax = plot_decision_boundary(model, X, y, features=["petal length (cm)", "petal width (cm)"])
    >>> ax.get_xlabel()
    'petal length (cm)'
    """
    PREDICTS.check("estimator", estimator)
    POSITION.check("n_points", n_points)
    names = getattr(estimator, "feature_names_in_", None)
    encoder = getattr(estimator, "_encoder", None)
    plane = Plane(
        X,
        features,
        held,
        None if names is None else [str(name) for name in names],
        getattr(encoder, "is_categorical", None),
    )
    positions = [np.linspace(*axis.ends, N_PLACES) for axis in plane.axes]
    positions = [along + (along[1] - along[0]) / 2 for along in positions]
    predicted = _predictions(estimator, plane, positions[0][:-1], positions[1][:-1])
    targets = None if y is None else _checked_targets(y, len(plane), predicted.classes)
    ax = axes(ax, figsize=(6.4, 4.8))
    if predicted.classes is None:
        scale = _draw_surface(ax, plane, predicted, targets)
        _draw_points(ax, plane, n_points, targets, **scale)
    else:
        colours = class_colours(len(predicted.classes))
        _draw_regions(ax, plane, predicted, colours, [along[:-1] for along in positions])
        codes = None if targets is None else _codes_of(targets.tolist(), predicted.classes)
        _draw_points(ax, plane, n_points, None if codes is None else colours[codes])
        _draw_legend(ax, predicted.classes, colours)
    _label_axes(ax, plane)
    return ax


# Predictions --------------------------------------------------


def _predictions(estimator: Any, plane: Plane, x: Array, y: Array) -> Predictions:
    """Return predictions on the grid of positions x and y along both axes, computed in blocks to limit memory."""
    drawn = plane.axes[1].is_drawn(y)[:, None] & plane.axes[0].is_drawn(x)
    at_y, at_x = np.nonzero(drawn)
    size = max(1, BLOCK_CELLS // len(plane.names))
    classes = _classes_of(estimator)
    values, shares = np.full(drawn.shape, np.nan), np.full(drawn.shape, np.nan)
    for start in range(0, len(at_x), size):
        here = at_y[start : start + size], at_x[start : start + size]
        rows = plane.rows(x[here[1]], y[here[0]])
        values[here], shares[here] = _predicted(estimator, rows, classes)
    what = "score" if is_outlier_detector(estimator) else "prediction"
    return Predictions(values, None if np.isnan(shares[here]).any() else shares, classes, what)


def _classes_of(estimator: Any) -> list[Any] | None:
    """Return the classes of a classifier (empty before `fit`), or None for a regressor or outlier detector.

    Raises ValueError if the model predicts several targets.
    """
    classes = getattr(estimator, "classes_", None)
    if classes is None and not is_classifier(estimator):
        return None
    if isinstance(classes, list) and any(np.ndim(each) for each in classes):
        raise ValueError("the model must predict one target for a decision boundary; it predicts several.")
    # An unfitted classifier has no classes, and raises when it predicts.
    return [] if classes is None else list(np.asarray(classes).tolist())


def _predicted(estimator: Any, rows: Any, classes: list[Any] | None) -> tuple[Array, Array]:
    """Return two arrays for the rows: class indices and the probabilities of these classes, NaN if unsupported.

    If `classes` is None, they are the predicted numbers (scores of outlier detectors) and zeros. Raises ValueError for
    several targets.
    """
    method = estimator.decision_function if is_outlier_detector(estimator) else estimator.predict
    values = np.asarray(method(rows))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"the model must predict one target for a decision boundary; it predicts {values.shape[1]}.")
    if classes is None:
        return values.astype(np.float64), np.zeros(len(values))
    codes = _codes_of(values.tolist(), classes, "predictions")
    try:
        proba = np.asarray(estimator.predict_proba(rows), dtype=np.float64)
    except (AttributeError, NotImplementedError):
        return codes.astype(np.float64), np.full(len(codes), np.nan)
    return codes.astype(np.float64), proba[np.arange(len(codes)), codes]


def _codes_of(labels: list[Any], classes: list[Any], name: str = "y") -> NDArray[np.intp]:
    """Return the index of each label among the classes; a ValueError for other labels names the argument `name`."""
    index = {label: code for code, label in enumerate(classes)}
    unknown = [label for label in labels if label not in index]
    if unknown:
        raise ValueError(f"{name} must hold classes of the model, {classes}; got {unknown[0]!r}.")
    return np.array([index[label] for label in labels], dtype=np.intp)


def _checked_targets(y: Any, n_rows: int, classes: list[Any] | None) -> NDArray[Any]:
    """Return y as finite numbers or labels; raise ValueError unless it has `n_rows` values, all in `classes` if any."""
    targets = as_numbers("y", y) if classes is None else as_labels("y", y)
    if len(targets) != n_rows:
        raise ValueError(f"X and y must have the same number of rows; got {n_rows} and {len(targets)}.")
    if classes is not None:
        check_same_kind("y", targets, "classes_", np.array(classes))
        _codes_of(targets.tolist(), classes)
    return targets


# Drawing --------------------------------------------------


def class_colours(n: int) -> Array:
    """Return an RGBA colour for each of n classes, shape (n, 4)."""
    from matplotlib import colormaps

    return np.array(colormaps["tab10"](np.arange(n)) if n <= 10 else colormaps["gist_rainbow"](np.linspace(0, 1, n)))


def _draw_regions(ax: Any, plane: Plane, predicted: Predictions, colours: Array, positions: list[Array]) -> None:
    """Draw the regions of the predicted classes, with stronger colours for higher probabilities and lines between them.

    `positions` are the x and y coordinates of the grid of predictions.
    """
    is_drawn = ~np.isnan(predicted.values)
    codes = np.where(is_drawn, predicted.values, 0).astype(np.intp)
    strength = np.full(codes.shape, (FAINT + STRONG) / 2)
    if predicted.shares is not None:
        strength = FAINT + (STRONG - FAINT) * np.where(is_drawn, predicted.shares, 0)
    image = 1 - (1 - colours[codes]) * strength[..., None]
    image[..., 3] = is_drawn
    _show(ax, plane, image)
    for code in np.unique(codes[is_drawn]):
        inside = np.ma.masked_array(codes == code, ~is_drawn).astype(float)
        if inside.min() < inside.max():
            ax.contour(*positions, inside, levels=[0.5], colors="0.25", linewidths=0.7)


def _draw_surface(ax: Any, plane: Plane, predicted: Predictions, targets: Any) -> dict[str, Any]:
    """Draw predicted numbers as a coloured surface with a colour bar.

    Return the options of its colour scale, which includes the targets, for drawing the points.
    """
    drawn = [predicted.values[np.isfinite(predicted.values)], [] if targets is None else targets]
    together = np.concatenate(drawn)
    scale = {"cmap": "viridis", "vmin": together.min(initial=np.inf), "vmax": together.max(initial=-np.inf)}
    image = _show(ax, plane, np.ma.masked_invalid(predicted.values), **scale)
    ax.figure.colorbar(image, ax=ax, label=predicted.what)
    return scale


def _show(ax: Any, plane: Plane, image: Any, **options: Any) -> Any:
    """Draw an image over the whole plane, and return it; `options` are passed to ``imshow``."""
    ends = [end for axis in plane.axes for end in axis.ends]
    return ax.imshow(image, extent=ends, origin="lower", aspect="auto", interpolation="nearest", **options)


def _draw_points(ax: Any, plane: Plane, n_points: int, targets: Any, **scale: Any) -> None:
    """Draw at most `n_points` rows, coloured by `targets` unless None; `scale` are options from `_draw_surface`."""
    if n_points == 0:
        return
    every = -(-len(plane) // n_points)
    x, y = (axis.positions_of(plane.values(axis.column)[::every]) for axis in plane.axes)
    x, y = (values + _jitter(axis, values, step) for axis, values, step in zip(plane.axes, (x, y), (0, 1), strict=True))
    colours = "0.3" if targets is None else targets[::every]
    shown = np.isfinite(x) & np.isfinite(y)
    chosen = colours if isinstance(colours, str) else colours[shown]
    options = scale if targets is not None else {}
    ax.scatter(x[shown], y[shown], c=chosen, s=16, edgecolors="white", linewidths=0.5, zorder=3, **options)


def _jitter(axis: Axis, positions: Array, step: int) -> Array:
    """Return offsets that spread points within the strips of categories and missing values, and are 0 elsewhere.

    `step` is 0 for the x axis and 1 for the y axis, whose offsets differ.
    """
    is_strip = np.full(len(positions), axis.categories is not None)
    width = 0.7
    if axis.categories is None:
        if axis.missing is None:
            return np.zeros(len(positions))
        is_strip, width = positions == axis.missing, 0.7 * BAND * (axis.high - axis.low)
    # Multiples of irrational numbers fill a range evenly (Weyl).
    turns = np.arange(len(positions)) * (0.6180339887 if step == 0 else 0.7548776662) % 1
    return np.where(is_strip, (turns - 0.5) * width, 0.0)


def _draw_legend(ax: Any, classes: list[Any], colours: Array) -> None:
    """Draw the legend of the classes."""
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=plain(shortened(str(label), 20)))
        for label, colour in zip(classes, colours, strict=True)
    ]
    columns = 1 + (len(classes) - 1) // 16
    ax.legend(handles=marks, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, borderaxespad=0, ncols=columns)


def _label_axes(ax: Any, plane: Plane) -> None:
    """Label the axes, with ticks for categories and missing values, and list held values in the title."""
    for axis, letter in zip(plane.axes, "xy", strict=True):
        side = getattr(ax, f"{letter}axis")
        side.set_label_text(plain(shortened(axis.name, 60)))
        if axis.categories is not None:
            texts = [*map(str, axis.categories), *([] if axis.missing is None else [MISSING])]
            name_ticks(ax, letter, texts, room=0.6 if letter == "x" else 1.0)
        elif axis.missing is not None:
            number_ticks(side, axis.low, axis.high, axis.missing, MISSING)
    held = plane.held
    if held:
        lines = [f"{shortened(name, 20)} = {shortened(_text(value), 14)}" for name, value in held.items()]
        if len(lines) > NAMED:
            lines = [f"{len(lines)} other columns fixed at given or typical values"]
        ax.set_title("\n".join(_lines(lines)), fontsize="small", parse_math=False)


def _lines(texts: list[str], width: int = 70) -> list[str]:
    """Join texts with commas and wrap them; return lines of about `width` characters."""
    lines = [""]
    for text in texts:
        if lines[-1] and len(lines[-1]) + len(text) > width:
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + text
    return lines


def _text(value: Any) -> str:
    """Return a value as text; floats have four significant digits."""
    return number_text(value) if isinstance(value, float) else str(value)
