"""Utilities shared by all plots: axes, ticks, argument checks, text boxes and grids of predictions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.engine.grow.growth import ColumnLookup
from fastens.engine.names import have_numbers, plain_names
from fastens.params.rules import NONE, Rule, whole
from fastens.table.arrays import dense, with_rows_to_take
from fastens.table.columns.factorize import is_missing
from fastens.table.columns.numbers import numbers_in, unmasked
from fastens.table.tables import is_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Width of a letter and height of a line, relative to the font size; smallest font size in points.
CHARACTER, LINE, SMALLEST = 0.6, 1.1, 6.0


def axes(ax: Any = None, **size: Any) -> Axes:
    """Return `ax`, or if it is None the axes of a new figure; `size` is passed to `matplotlib.pyplot.subplots`.

    Raises ImportError, which names the extra, if matplotlib is not installed, and ValueError if `ax` is not
    two-dimensional Axes.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.axes import Axes
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'fastens[plot]'") from error
    if ax is not None and not isinstance(ax, Axes):
        raise ValueError(f"ax must be matplotlib Axes or None; got {type(ax).__name__}.")
    if ax is not None and ax.name != "rectilinear":
        raise ValueError(f"ax must be two-dimensional matplotlib Axes; got {type(ax).__name__}.")
    return pyplot.subplots(layout="constrained", **size)[1] if ax is None else ax


def plain(text: str) -> str:
    """Escape dollar signs, which matplotlib would interpret as delimiters of mathematics."""
    return text.replace("$", r"\$")


def shortened(text: str, limit: int = 28) -> str:
    """Return a text shortened to at most `limit` characters by omitting its middle."""
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-(limit // 2 - 1) :]}"


def number_text(value: float) -> str:
    """Return a number with four significant digits, or all integer digits: 0.1235, 20150 (not 2.015e+04)."""
    if 1e7 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.7g}"


def name_ticks(ax: Any, letter: str, names: Sequence[str], *, limit: int = 16, room: float = 1.0) -> None:
    """Label integer positions of the axis "x" or "y" with names of at most `limit` letters that do not overlap.

    Along x, labels are rotated if they would overlap. Along both axes, they are reduced in size, and some are omitted
    if there are too many. `room` is the fraction of the axes that remains next to a legend.
    """
    extent, size = ax.get_window_extent(), 10.0
    step = room * (extent.width if letter == "x" else extent.height) / ax.figure.dpi * 72 / max(1, len(names))
    texts = [shortened(name, limit) for name in names]
    needed = max((len(one) + len(other) + 2 for one, other in pairwise(texts)), default=0) / 2
    options: dict[str, Any] = {"rotation": 0, "ha": "center"} if letter == "x" else {}
    if letter == "y" or needed * CHARACTER * size > step:
        size = min(size, max(SMALLEST, step / LINE))
        options = {"fontsize": size} | ({"rotation": 45, "ha": "right"} if letter == "x" else {})
        every = max(1, math.ceil(round(SMALLEST * LINE / step, 6))) if step > 0 else len(texts)
        texts = [text if index % every == 0 else "" for index, text in enumerate(texts)]
    side = getattr(ax, f"{letter}axis")
    side.set_ticks(range(len(texts)), [plain(text) for text in texts], **options)


def number_ticks(side: Any, low: float, high: float, missing: float, text: str) -> None:
    """Set ticks of the matplotlib axis `side` at round numbers from low to high, without overlapping labels.

    A further tick at the position `missing` has the label `text`.
    """
    from matplotlib.ticker import MaxNLocator

    is_x = side.axis_name == "x"
    # In points; labels of the other axis may use a fifth of the width.
    room = 0.8 * side.axes.get_window_extent().width / side.axes.figure.dpi * 72
    for n_steps in range(9, 0, -1):
        candidates = MaxNLocator(n_steps, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        ticks = [tick for tick in candidates if low <= tick <= high]
        names = [f"{tick:.12g}" for tick in ticks]
        needed = (max(map(len, names), default=0) + 1) * CHARACTER * 10.0
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
        if not is_x or step * room >= needed * (missing - low):
            break
    near = (needed / 2 + (len(text) + 1) * CHARACTER * 5.0) / room * (missing - low) if is_x else 0.0
    side.set_ticks(
        [*ticks, missing], [*(n if missing - t > near else "" for t, n in zip(ticks, names, strict=True)), text]
    )


def whole_ticks(ax: Any) -> None:
    """Restrict the ticks of the x axis to integers."""
    ax.xaxis.get_major_locator().set_params(integer=True)


def date_ticks(ax: Any, letter: str) -> None:
    """Label an axis of days since 1970 with dates, and with times if it spans less than five days."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = getattr(ax, f"get_{letter}lim")()
    shown = slice(5, 16) if abs(high - low) < 5 else slice(10)

    def text(day: float, _: Any) -> str:
        return str(np.datetime64(round(day * 86400), "s"))[shown].replace("T", " ")

    side = getattr(ax, f"{letter}axis")
    side.set_major_locator(MaxNLocator(3 if letter == "x" else 6))
    side.set_major_formatter(FuncFormatter(text))


POSITION = whole(0)
COUNT = whole(1)
DEPTH = whole(0) | NONE
DECIMALS = whole(0, 17)


def as_numbers(name: str, values: Any, ndim: int = 1) -> NDArray[np.float64]:
    """Return finite numbers in a nonempty array of `ndim` axes; raise ValueError that names the argument."""
    numbers = numbers_in(values, name)
    _check_shape(name, numbers, ndim)
    if not np.isfinite(numbers).all():
        wrong = numbers[~np.isfinite(numbers)][0]
        raise ValueError(f"{name} must hold finite numbers; it holds {wrong}.")
    return numbers


def as_labels(name: str, values: Any) -> NDArray[Any]:
    """Return nonempty labels; raise ValueError that names the argument `name`, for example if a value is missing."""
    labels = _as_array(name, values)
    _check_shape(name, labels, 1)
    missing = [row for row, value in enumerate(labels.tolist()) if is_missing(value)]
    if missing:
        raise ValueError(
            f"{name} must hold labels without missing values; row {missing[0]} holds {labels[missing[0]]}."
        )
    return labels


def as_truths(name: str, values: Any) -> NDArray[np.bool_]:
    """Return nonempty booleans from booleans or from 0 and 1; raise ValueError that names the argument `name`."""
    truths = _as_array(name, values)
    _check_shape(name, truths, 1)
    wrong = [value for value in truths.tolist() if isinstance(value, str | bytes) or value not in (0, 1)]
    if wrong:
        raise ValueError(f"{name} must hold True and False, or 1 and 0; got {wrong[0]!r}.")
    return truths.astype(bool)


def _as_array(name: str, values: Any) -> NDArray[Any]:
    """Return values as an array; raise ValueError that names the argument `name` if rows differ in length."""
    if isinstance(values, list | tuple):
        try:
            return np.asarray(values)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"{name} must have one value for each row; {error}.") from error
    return unmasked(values, name)


def _check_shape(name: str, array: NDArray[Any], ndim: int) -> None:
    """Raise ValueError, which names the argument `name`, unless the array has `ndim` axes and is not empty."""
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must have {ndim} {'axis' if ndim == 1 else 'axes'} and a value; got {array.shape}.")


def check_same_rows(**arrays: NDArray[Any]) -> None:
    """Raise ValueError unless all arrays, passed by argument name, have equal numbers of rows."""
    (first, values), *others = arrays.items()
    for name, other in others:
        if len(other) != len(values):
            raise ValueError(
                f"{first} and {name} must have the same number of rows; got {len(values)} and {len(other)}."
            )


def check_same_kind(name: str, values: NDArray[Any], other_name: str, other: NDArray[Any]) -> None:
    """Raise ValueError, which names both arguments, if one array holds strings and the other numbers."""
    kinds = [{isinstance(value, str | bytes) for value in np.unique(labels).tolist()} for labels in (values, other)]
    if len(kinds[0]) == len(kinds[1]) == 1 and kinds[0] != kinds[1]:
        raise ValueError(
            f"{name} and {other_name} must hold labels of one type; got {values.tolist()[0]!r} and "
            f"{other.tolist()[0]!r}."
        )


def check_position(name: str, value: Any, length: int) -> int:
    """Return `value` if it is an index into `length` items; raise ValueError that names the argument `name`."""
    whole(0, length - 1).check(name, value)
    return int(value)


def each(rule: Rule) -> Rule:
    """Return a rule for a nonempty sequence whose values each satisfy a rule."""

    def holds(values: Any) -> bool:
        return np.ndim(values) == 1 and len(values) > 0 and all(map(rule.holds, values))

    return Rule(f"a sequence of at least one, each {rule.text}", holds)


Array = NDArray[np.float64]
BOX_MARGIN = 0.04  # inches, for the outlines of boxes at the sides
MAX_FIGURE_INCHES = 150.0  # maximum size of a new figure; matplotlib draws at most 65 536 pixels
MAX_GROWN = 1.25  # maximum enlargement of text if axes have spare space
ROUNDING = 0.05  # inches


def measured(ax: Any, texts: list[str], fontsize: float, pad: float, **style: Any) -> Array:
    """Return the widths and heights in inches of boxes around texts, (n, 2).

    `fontsize` is in points, and `pad`, between a text and its box, is relative to the font size. `style` is passed to
    `matplotlib.text.Text`.
    """
    from matplotlib.text import Text

    probe = Text(0, 0, "", fontsize=fontsize, parse_math=False, **style)
    probe.set_figure(ax.figure)
    sizes: dict[str, tuple[float, float]] = {}
    for text in set(texts):
        probe.set_text(text)
        extent = probe.get_window_extent()
        sizes[text] = extent.width / ax.figure.dpi, extent.height / ax.figure.dpi
    return np.array([sizes[text] for text in texts]) + 2 * pad * fontsize / 72


def set_inches(ax: Any, width: float, height: float, is_new: bool) -> None:
    """Scale the axes to one unit per inch, or less if needed: right to `width`, and down from 0 to -`height`.

    The frame of the axes is removed. If `is_new`, the figure is resized to its contents.
    """
    if is_new:
        ax.figure.set_size_inches(
            min(width, MAX_FIGURE_INCHES) + 4 * BOX_MARGIN, min(height, MAX_FIGURE_INCHES) + 4 * BOX_MARGIN
        )
        spare_x = spare_y = BOX_MARGIN
    else:
        room = ax.get_window_extent().size / ax.figure.dpi / MAX_GROWN
        spare_x, spare_y = (
            max(BOX_MARGIN, (has - needs) / 2) for has, needs in zip(room, (width, height), strict=True)
        )
    ax.set_axis_off()
    ax.set_xlim(-spare_x, width + spare_x)
    ax.set_ylim(-height - spare_y, spare_y)
    ax.set_aspect("equal", adjustable="box")


def draw_box(
    ax: Any, middle: tuple[float, float], size: Any, text: str, fontsize: float, *, zorder: float = 2.0, **style: Any
) -> Any:
    """Draw text in a box, on axes prepared by `set_inches`, and return the box; `measured` returns its size.

    In `style`, ``facecolor`` and ``edgecolor`` apply to the box, all other options to the text.
    """
    from matplotlib.patches import FancyBboxPatch

    from fastens.inspection.fitting_text import FittingText

    colours = {"facecolor": style.pop("facecolor", "white"), "edgecolor": style.pop("edgecolor", "0.35")}
    (x, y), (width, height) = middle, size
    box = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle=f"round,pad=0,rounding_size={ROUNDING}",
        linewidth=0.8,
        zorder=zorder,
        **colours,
    )
    ax.add_patch(box)
    alignment = {"ha": "center", "va": "center", "parse_math": False, "zorder": zorder}
    ax.add_artist(FittingText(x, y, text, fontsize, **alignment | style))
    return box


MAX_CATEGORIES = 30  # maximum number of categories along an axis; the most frequent ones
MARGIN = 0.06  # fraction of an axis beyond the lowest and the highest number
BAND = 0.08  # fraction of an axis for missing values
LARGEST = 1e300  # keeps differences finite
MISSING = "missing"
DRAWN = str | bool | int | float


@dataclass(frozen=True)
class Axis:
    """Positions along an axis: numbers from `low` to `high`, or categories at 0, 1, ..., then missing values."""

    name: str  # name of the column
    column: int  # index of the column
    low: float  # categories extend half a unit to each side
    high: float
    categories: list[Any] | None  # None for a numeric column
    examples: NDArray[np.intp]  # index of a row with each category
    missing: float | None  # position of missing values, or None
    missing_row: int = -1  # index of a row in which the column is missing

    @property
    def ends(self) -> tuple[float, float]:
        """The limits of the axis, including missing values."""
        if self.missing is None:
            return self.low, self.high
        half = 0.5 if self.categories is not None else BAND / 2 * (self.high - self.low)
        return self.low, self.missing + half

    def is_drawn(self, positions: Array) -> NDArray[np.bool_]:
        """Return a mask of the positions that are outside the gap between numbers and missing values."""
        if self.missing is None or self.categories is not None:
            return np.ones(len(positions), dtype=bool)
        return (positions <= self.high) | (positions >= 2 * self.missing - self.ends[1])

    def positions_of(self, values: list[Any]) -> Array:
        """Return the positions of column values along the axis; NaN for values that it does not show."""
        if self.categories is None:
            positions = [np.nan if is_missing(value) else float(value) for value in values]
        else:
            index = {category: float(k) for k, category in enumerate(self.categories)}
            positions = [np.nan if is_missing(value) else index.get(value, np.inf) for value in values]
        out = np.array(positions)
        out[np.isnan(out)] = np.nan if self.missing is None else self.missing
        out[np.isinf(out)] = np.nan
        return out


class Plane:
    """A table, two columns that are its axes, and the values at which the other columns are held.

    Columns are given by index or name. A column that is not in `held` is held at its median or its most frequent
    category. `names` and `categorical` describe the columns of an array.
    """

    def __init__(
        self, X: Any, features: Any, held: Mapping[Any, Any] | None, names: list[str] | None, categorical: Any
    ) -> None:
        self._table = as_table(X)
        self._is_array = isinstance(self._table, np.ndarray)
        n_columns = self._table.shape[1]
        column_names = (
            [f"x{column}" for column in range(n_columns)] if self._is_array else [*map(str, self._table.columns)]
        )
        self.names = names if self._is_array and names is not None and len(names) == n_columns else column_names
        self._columns = ColumnLookup(n_columns, None if self._is_array else plain_names(self._table.columns))
        # pandas allows names that are not strings, which narwhals does not support.
        self._other_names = None
        if not self._is_array and not all(isinstance(name, str) for name in self._table.columns):
            frame = nw.to_native(self._table)
            self._other_names = frame.columns
            self._table = nw.from_native(frame.set_axis([*map(str, range(n_columns))], axis=1), eager_only=True)
        flags = np.zeros(n_columns, dtype=bool) if categorical is None else np.asarray(categorical)
        self._flags = flags if len(flags) == n_columns else np.zeros(n_columns, dtype=bool)
        first, second = self._pair(features, n_columns)
        self.axes = self._axis(first), self._axis(second)
        if held is not None and not isinstance(held, Mapping):
            raise ValueError(f"held must be a dict that maps columns to values; got {held!r}.")
        fixed = {self._position("held", key): value for key, value in (held or {}).items()}
        if {first, second} & set(fixed):
            raise ValueError(f"held must name columns other than the two of the axes; got {list(held or {})}.")
        others = [column for column in range(n_columns) if column not in (first, second)]
        self._held = {column: self._source(column, fixed) for column in others}

    def __len__(self) -> int:
        return int(self._table.shape[0])

    def _pair(self, features: Any, n_columns: int) -> tuple[int, int]:
        """Return the indices of the two columns in `features`, or 0 and 1 if it is None and there are two columns.

        Raises ValueError unless they are two different columns.
        """
        if features is None:
            if n_columns != 2:
                raise ValueError(f"features must name two of the {n_columns} columns of X to draw; got None.")
            return 0, 1
        # Names may be tuples, so the number of dimensions of the pair is not informative.
        if isinstance(features, str) or not hasattr(features, "__len__") or len(features) != 2:
            raise ValueError(f"features must be a pair of columns; got {features!r}.")
        first, second = (self._position("features", feature) for feature in features)
        if first == second:
            raise ValueError(f"features must be two different columns; got {features!r}.")
        return first, second

    def _position(self, argument: str, column: Any) -> int:
        """Return the index of a column, a name or index; a ValueError for other values names `argument`."""
        if not isinstance(column, str) and (have_numbers(self._columns.names) or self._columns.is_name(column)):
            return self._columns.position(argument, column)
        if not isinstance(column, str):
            return check_position(f"a column in {argument}", column, len(self.names))
        if column not in self.names:
            raise ValueError(f"{argument} must name columns of X, {self.names}; got {column!r}.")
        return self.names.index(column)

    # Columns --------------------------------------------------

    def values(self, column: int) -> list[Any]:
        """Return the values of a column as Python objects; None if missing."""
        if self._is_array:
            cells = self._table[:, column].tolist()
        else:
            cells = self._table[self._table.columns[column]].to_list()
        return [None if is_missing(value) else value for value in cells]

    def _holds_numbers(self, column: int, present: list[Any]) -> bool:
        """Return True if a column is not categorical and its values, `present` without missing ones, are numbers."""
        return not self._flags[column] and all(kind in (int, float) for kind in set(map(type, present)))

    def _axis(self, column: int) -> Axis:
        """Return the axis of a column: its range or its most frequent categories, and a position for missing values.

        Raises ValueError if the column has no values that can be drawn.
        """
        values = self.values(column)
        present = [value for value in values if not is_missing(value)]
        missing_row = next((row for row, value in enumerate(values) if is_missing(value)), -1)
        if not present:
            raise ValueError(
                f"Column {self.names[column]!r} must hold at least one value to be drawn; all of "
                "its values are missing."
            )
        odd = sorted(kind.__name__ for kind in set(map(type, present)) if not issubclass(kind, DRAWN))
        if odd:
            name = self.names[column]
            raise ValueError(f"Column {name!r} must hold numbers, strings or booleans to be drawn; it holds {odd[0]}.")
        if not self._holds_numbers(column, present):
            return self._category_axis(column, values, present, missing_row)
        numbers = np.array(present, dtype=np.float64)
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers) == 0 or np.abs(numbers).max() > LARGEST:
            raise ValueError(
                f"Column {self.names[column]!r} must hold numbers with an absolute value of at "
                f"most {LARGEST:g} to be drawn."
            )
        low, high = numbers.min(), numbers.max()
        padding = (high - low) * MARGIN or max(abs(low), 1.0) / 2
        low, high = float(low - padding), float(high + padding)
        missing = None if missing_row < 0 else high + BAND * (high - low)
        return Axis(self.names[column], column, low, high, None, np.empty(0, np.intp), missing, missing_row)

    def _category_axis(self, column: int, values: list[Any], present: list[Any], missing_row: int) -> Axis:
        """Return the axis of a categorical column, which shows its most frequent values.

        `present` are the values that are not missing, and `missing_row` is the index of a row without a value, or -1.
        """
        counts = Counter(present)
        kept = sorted(counts, key=lambda value: (-counts[value], _order(value)))[:MAX_CATEGORIES]
        categories = sorted(kept, key=_order)
        name = self.names[column]
        if len(counts) > len(kept):
            name += f" ({len(kept)} most frequent of {len(counts)})"
        examples = np.array([values.index(category) for category in categories], dtype=np.intp)
        missing = None if missing_row < 0 else float(len(categories))
        return Axis(name, column, -0.5, len(categories) - 0.5, categories, examples, missing, missing_row)

    def _source(self, column: int, fixed: Mapping[int, Any]) -> tuple[Any, int | float]:
        """Return the value at which a column is held, and its source: a row that holds it (int) or a number (float).

        The value is `fixed[column]`, or else the median or the most frequent value.
        """
        values = self.values(column)
        present = [value for value in values if not is_missing(value)]
        if column in fixed:
            return self._fixed_source(column, values, present, fixed[column])
        if not present:
            return MISSING, 0
        if self._holds_numbers(column, present):
            typical = sorted(present)[(len(present) - 1) // 2]
        else:
            counts = Counter(present)
            typical = min(counts, key=lambda value: (-counts[value], _order(value)))
        return typical, values.index(typical)

    def _fixed_source(self, column: int, values: list[Any], present: list[Any], value: Any) -> tuple[Any, int | float]:
        """Return the value at which the user holds a column, and its source, as in `_source`.

        `present` are the values that are not missing. Raises ValueError if the column cannot have the value.
        """
        if value in present:
            return value, values.index(value)
        if is_missing(value):
            row = next((row for row, other in enumerate(values) if is_missing(other)), None)
            return MISSING, float("nan") if row is None else row
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not self._holds_numbers(column, present) or not is_number or not np.isfinite(value):
            allowed = sorted(set(present), key=_order)[:MAX_CATEGORIES]
            raise ValueError(
                f"held must map column {self.names[column]!r} to one of its possible values; got {value!r}"
                + (f", and its values are {allowed}." if not self._holds_numbers(column, present) else ".")
            )
        return value, float(value)

    @property
    def held(self) -> dict[str, Any]:
        """The values of the other columns, by name."""
        return {self.names[column]: value for column, (value, _) in self._held.items()}

    # Rows --------------------------------------------------

    def rows(self, x: Array, y: Array) -> Any:
        """Return rows at positions x and y along the two axes, as a table of the type of X; other columns are held."""
        sources: dict[int, Any] = {column: np.full(len(x), source) for column, (_, source) in self._held.items()}
        for axis, positions in zip(self.axes, (x, y), strict=True):
            sources[axis.column] = _sources_along(axis, positions)
        return self._array_of(sources, len(x)) if self._is_array else self._frame_of(sources)

    def _array_of(self, sources: dict[int, Any], n: int) -> NDArray[Any]:
        """Return n rows of an array; `sources` maps each column to its values in these rows.

        An integer source holds indices of rows of the table that have the values, and a float source the values.
        """
        dtype = self._table.dtype
        if dtype.kind in "iub" and any(source.dtype.kind == "f" for source in sources.values()):
            dtype = np.dtype(np.float64)
        out = np.empty((n, len(sources)), dtype=dtype)
        for column, source in sources.items():
            out[:, column] = source if source.dtype.kind == "f" else self._table[source, column]
        return out

    def _frame_of(self, sources: dict[int, Any]) -> Any:
        """Return rows of a frame; `sources` is as in `_array_of`."""
        columns = {}
        for number, name in enumerate(self._table.columns):
            source = sources[number]
            if source.dtype.kind == "f":
                columns[name] = nw.new_series(name, source, backend=self._table.implementation)
            else:
                columns[name] = self._table[name][source.tolist()]
        blank = self._table[[0] * len(source)]
        frame = nw.to_native(blank.with_columns(**columns))
        return frame if self._other_names is None else frame.set_axis(self._other_names, axis=1)


def _sources_along(axis: Axis, positions: Array) -> NDArray[Any]:
    """Return the sources of an axis column at these positions: numbers, or indices of rows with its categories."""
    if axis.categories is None:
        is_number = np.ones(len(positions), dtype=bool) if axis.missing is None else positions <= axis.high
        return np.where(is_number, positions, np.nan)
    examples = np.append(axis.examples, axis.missing_row)
    return examples[np.clip(np.rint(positions).astype(np.intp), 0, len(examples) - 1 - (axis.missing is None))]


def _order(value: Any) -> tuple[str, Any]:
    """Return a sort key for a number or string, in which all numbers precede all strings."""
    return ("number", float(value)) if isinstance(value, bool | int | float) else ("string", str(value))


def as_table(X: Any) -> Any:
    """Return X as a two-dimensional array or a narwhals frame; raise ValueError if it is empty or not a table."""
    if is_frame(X):
        table = nw.from_native(with_rows_to_take(X), eager_only=True)
    else:
        X = dense(X)
        table = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
        if table.dtype.kind == "O" and all(type(value) in (int, float) for value in table.ravel().tolist()):
            table = table.astype(np.float64)
    if table.shape == ():
        raise ValueError(f"X must be a table with rows and columns in memory; got a {type(X).__name__}.")
    if len(table.shape) != 2 or 0 in table.shape:
        raise ValueError(f"X must be a table with rows and columns; got shape {tuple(table.shape)}.")
    return table
