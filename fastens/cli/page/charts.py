"""SVG charts of the HTML report, and the markup around them."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens import __version__
from fastens.cli.explaining.subject import Dependence, date_text
from fastens.inspection.contribution_plots import rank_shares, swarm_heights
from fastens.inspection.plotting import shortened


class Html(str):
    """Text that already is HTML and must not be escaped."""

    __slots__ = ()


def element(name: str, *content: str | Iterable[str], **attributes: object) -> Html:
    """Return an HTML element with escaped content and the attributes that are not None.

    Trailing underscores of attribute names are dropped, as in `class_`, and other underscores become hyphens.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>{join_html(*content)}</{name}>")


def join_html(*content: str | Iterable[str]) -> Html:
    """Concatenate pieces of content, nested iterables too, and escape those that are not Html."""
    parts: list[str] = []
    for piece in content:
        if isinstance(piece, Html):
            parts.append(piece)
        elif isinstance(piece, str):
            parts.append(html.escape(piece))
        else:
            parts.extend(join_html(part) for part in piece)
    return Html("".join(parts))


def table(head: list[str], rows: Iterable[list[str]], class_: str | None = None) -> Html:
    """Return an HTML table with the headings `head`; the first cell of each row is its heading."""
    top = element("tr", (element("th", cell, scope="col") for cell in head))
    lines = (
        element("tr", element("th", row[0], scope="row"), (element("td", cell) for cell in row[1:])) for row in rows
    )
    return wide_table(top, lines, class_)


def wide_table(head: Html, rows: Iterable[Html], class_: str | None = None) -> Html:
    """Return an HTML table of the element `head` and row elements; it scrolls horizontally if it is too wide."""
    whole = element("table", element("thead", head), element("tbody", rows), class_=class_)
    return element("div", whole, class_="wide")


Array = NDArray[np.float64]
CHARACTER = 6.3  # mean width of a character of tick labels, in units of the drawing
MINUS = "\N{MINUS SIGN}"
N_COLOURS = 6
N_SHADES = 9


@dataclass(frozen=True)
class Range:
    """The range of an axis."""

    low: float
    high: float

    @classmethod
    def over(cls, *values: ArrayLike, margin: float = 0.04) -> Range:
        """Return the range of all finite numbers, extended on each side by `margin` times its width; (0, 1) if none."""
        numbers = np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in values])
        numbers = numbers[np.isfinite(numbers)]
        low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
        padding = margin * (high - low) if high > low else 0.5 * abs(high) or 0.5
        return cls(low - padding, high + padding)

    def ticks(self, n_ticks: int) -> list[float]:
        """Return about `n_ticks` round numbers within the range, in ascending order."""
        width = (self.high - self.low) / max(n_ticks, 1)
        power = 10.0 ** (math.floor(math.log10(width)) - 1)
        for step in (power * factor for factor in (5, 10, 20, 50, 100, 200)):
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first < n_ticks or step >= width * (1 - 1e-9):
                break
        return [index * step for index in range(first, last + 1)]


def short(value: float, digits: int = 4) -> str:
    """Format a number with few characters, such as 12k, 3.5M or 0.25; `digits` are significant digits."""
    value = float(f"{value:.{digits}g}")
    power, letter = _number_unit(value, min(1e4, 10.0**digits))
    return f"{value / power:.{digits}g}{letter}".replace("-", MINUS)


def steps_text(values: ArrayLike) -> list[str]:
    """Format signed numbers in a common unit, with decimals that suit the largest, such as +51.1k and −9.7k."""
    numbers = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(numbers).max(initial=0)) or 1.0
    power, letter = _number_unit(largest, 1e3)
    n_decimals = max(1, 2 - math.floor(math.log10(largest / power)))
    return [f"{number / power:+.{n_decimals}f}{letter}".replace("-", MINUS) for number in numbers]


def _number_unit(value: float, first: float) -> tuple[float, str]:
    """Return a unit (1e9, "G"), (1e6, "M"), (1e3, "k") or (1, ""); thousands are used from `first` on."""
    units = ((power, letter) for power, letter in ((1e9, "G"), (1e6, "M")) if abs(value) >= power)
    return next(units, (1e3, "k") if abs(value) >= first else (1.0, ""))


class Chart:
    """Axes of `size` (width, height) for drawing in data coordinates.

    `x_ticks` and `y_ticks` are pairs (position, text) for an axis that does not show numbers.
    """

    def __init__(
        self,
        x: Range,
        y: Range,
        size: tuple[float, float] = (360, 250),
        labels: tuple[str, str] = ("", ""),
        *,
        x_ticks: Sequence[tuple[float, str]] | None = None,
        y_ticks: Sequence[tuple[float, str]] | None = None,
    ) -> None:
        self.x, self.y = x, y
        self.width, self.height = size
        y_ticks = [(tick, short(tick)) for tick in y.ticks(5)] if y_ticks is None else list(y_ticks)
        widest = max((len(text) for _, text in y_ticks), default=0)
        self.left, self.right = 12 + CHARACTER * widest, self.width - 12
        self.top, self.bottom = (26 if labels[1] else 10), self.height - (40 if labels[0] else 24)
        if x_ticks is None:
            x_ticks = [(tick, short(tick)) for tick in x.ticks(max(2, int((self.right - self.left) / 50)))]
        self._parts: list[Html] = []
        self._title = " against ".join(text for text in reversed(labels) if text)
        for position, text in y_ticks:
            self._line(self.left, self._to_y(position), self.right, self._to_y(position), "grid")
            self._text(self.left - 7, self._to_y(position) + 4, text, "tick end")
        for position, text in x_ticks:
            self._line(self._to_x(position), self.bottom, self._to_x(position), self.bottom + 4, "axis")
            self._text(self._to_x(position), self.bottom + 17, text, "tick middle")
        self._line(self.left, self.bottom, self.right, self.bottom, "axis")
        # The label is below the axis, shifted if it is long so that it stays inside the drawing.
        half = min(CHARACTER * len(labels[0]) / 2, self.width / 2)
        centre = min(max((self.left + self.right) / 2, half), self.width - half)
        self._text(centre, self.height - 5, labels[0], "label middle")
        self._text(2, 13, labels[1], "label")

    def line(self, x: ArrayLike, y: ArrayLike, style: str) -> None:
        """Draw a line through points in data coordinates; `style` names a class of the style sheet, here and below."""
        self._path(x, y, f"line {style}", "L")

    def dots(self, x: ArrayLike, y: ArrayLike, style: str) -> None:
        """Draw dots at points in data coordinates, as one path of zero-length strokes, which is short."""
        self._path(x, y, f"dots {style}", "")

    def dot(self, x: float, y: float, style: str, title: str, radius: float = 4.0) -> None:
        """Draw a single dot in data coordinates, with `title` as its tooltip and its radius in drawing units."""
        circle = {"cx": _num(self._to_x(x)), "cy": _num(self._to_y(y)), "r": _num(radius), "class_": f"dot {style}"}
        self._parts.append(element("circle", element("title", title), **circle))

    def area(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, style: str) -> None:
        """Fill the area over `x` between the curves `low` and `high`, in data coordinates."""
        x = np.asarray(x, dtype=np.float64)
        self._path(np.append(x, x[::-1]), np.append(low, np.asarray(high)[::-1]), f"area {style}", "L")

    def bar(self, x: tuple[float, float], y: tuple[float, float], style: str, title: str) -> None:
        """Draw a rectangle over the intervals `x` and `y` in data coordinates, with `title` as its tooltip."""
        across, down = sorted(map(self._to_x, x)), sorted(map(self._to_y, y))
        corner = {"x": _num(across[0]), "y": _num(down[0]), "rx": "1.5"}
        size = {"width": _num(max(across[1] - across[0], 0.5)), "height": _num(max(down[1] - down[0], 0.5))}
        self._parts.append(element("rect", element("title", title), **corner, **size, class_=f"bar {style}"))

    def text(self, x: float, y: float, text: str, style: str = "note") -> None:
        """Draw text at a point in data coordinates."""
        self._text(self._to_x(x), self._to_y(y), text, style)

    def html(self) -> Html:
        """Return the chart as an SVG element."""
        box = f"0 0 {_num(self.width)} {_num(self.height)}"
        return element("svg", join_html(self._parts), viewBox=box, role="img", aria_label=self._title)

    def _to_x(self, x: float) -> float:
        """Convert a data coordinate to a horizontal coordinate of the drawing."""
        return self.left + (float(x) - self.x.low) / (self.x.high - self.x.low) * (self.right - self.left)

    def _to_y(self, y: float) -> float:
        """Convert a data coordinate to a vertical coordinate of the drawing, which grows downwards."""
        return self.bottom - (float(y) - self.y.low) / (self.y.high - self.y.low) * (self.bottom - self.top)

    def _path(self, x: ArrayLike, y: ArrayLike, style: str, between: str) -> None:
        """Draw a path through the finite points, connected by the SVG command `between`, or as dots if it is empty."""
        points = [
            (self._to_x(a), self._to_y(b))
            for a, b in zip(np.ravel(x), np.ravel(y), strict=True)
            if np.isfinite(a) and np.isfinite(b)
        ]
        if between:
            drawn = "M" + between.join(f"{_num(a)} {_num(b)}" for a, b in points) if points else ""
        else:
            drawn = "".join(f"M{_num(a)} {_num(b)}h0" for a, b in points)
        self._parts.append(element("path", d=drawn, class_=style))

    def _line(self, x0: float, y0: float, x1: float, y1: float, style: str) -> None:
        """Draw a straight line in coordinates of the drawing."""
        self._parts.append(element("path", d=f"M{_num(x0)} {_num(y0)}L{_num(x1)} {_num(y1)}", class_=style))

    def _text(self, x: float, y: float, text: str, style: str) -> None:
        """Draw text, unless it is empty, in coordinates of the drawing."""
        if text:
            self._parts.append(element("text", text, x=_num(x), y=_num(y), class_=style))


def _num(value: float) -> str:
    """Format a coordinate with one decimal."""
    return f"{value:.1f}".removesuffix(".0")


# Widths of charts: full page, one of two columns, and phone.
WIDE, NARROW, PHONE = 900.0, 380.0, 330.0
DEPENDENCE_HEIGHT = 260.0
STEP_ROOM = 52.0
N_BINS = 10
N_BARS = 24
N_DATES = 3  # approximate number of ticks
N_DOTS = 1500


def calibration(probability: Array, happened: NDArray[np.bool_]) -> Html:
    """Return a chart, by tenths of the rows, of predicted `probability` against how often the event `happened`."""
    chart = Chart(Range(0, 1), Range(0, 1), (NARROW, 300), ("predicted probability", "came true"))
    chart.line([0, 1], [0, 1], "reference")
    order = np.argsort(probability, kind="stable")
    parts = [part for part in np.array_split(order, min(N_BINS, len(order))) if len(part)]
    mean = np.array([probability[part].mean() for part in parts])
    share = np.array([happened[part].mean() for part in parts])
    count = np.array([len(part) for part in parts])
    low, high = _wilson_interval(share, count)
    chart.area(mean, low, high, "c0")
    chart.line(mean, share, "c0")
    for x, y, n in zip(mean, share, count, strict=True):
        chart.dot(x, y, "c0", f"{n:,} rows: mean prediction {x:.1%}, observed {y:.1%}")
    return chart.html()


def _wilson_interval(share: Array, count: NDArray) -> tuple[Array, Array]:
    """Return both ends of the 95 % confidence interval of proportions of `count` rows (Wilson 1927)."""
    z = 1.96
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return middle - half, middle + half


def probabilities(probability: Array, happened: NDArray[np.bool_], names: tuple[str, str]) -> Html:
    """Return a histogram of probabilities, stacked by whether the event happened; `names` are (no, yes)."""
    edges = np.linspace(0, 1, N_BINS * 2 + 1)
    others, true = (np.histogram(probability[rows], edges)[0] for rows in (~happened, happened))
    chart = Chart(
        Range(0, 1), Range(0, 1.05 * (others + true).max(initial=1)), (NARROW, 300), ("predicted probability", "rows")
    )
    for low, high, below, above in zip(edges[:-1], edges[1:], others, true, strict=True):
        gap = 0.1 * (high - low)
        if below:
            chart.bar((low + gap, high - gap), (0, below), "quiet", f"{names[0]}: {below:,} rows")
        if above:
            chart.bar((low + gap, high - gap), (below, below + above), "c0", f"{names[1]}: {above:,} rows")
    return chart.html()


def true_against_predicted(predicted: Array, y: Array) -> Html:
    """Return a scatter plot of true against predicted values, with the diagonal of perfect predictions."""
    at = _spaced_indices(len(y), N_DOTS)
    both = _central_range(np.concatenate([predicted, y]))
    chart = Chart(both, both, (NARROW, 300), ("predicted", "true value"))
    chart.dots(_clip_to_range(predicted[at], both), _clip_to_range(y[at], both), "c0")
    chart.line([both.low, both.high], [both.low, both.high], "reference")
    return chart.html()


def residuals(predicted: Array, y: Array) -> Html:
    """Return a scatter plot of residuals with their mean over twentieths of the rows."""
    at = _spaced_indices(len(y), N_DOTS)
    left = y - predicted
    x, y_range = _central_range(predicted), _central_range(left)
    chart = Chart(x, y_range, (NARROW, 300), ("predicted", "true minus predicted value"))
    chart.dots(_clip_to_range(predicted[at], x), _clip_to_range(left[at], y_range), "c0")
    chart.line([x.low, x.high], [0, 0], "reference")
    parts = [part for part in np.array_split(np.argsort(predicted, kind="stable"), 2 * N_BINS) if len(part)]
    means = np.array([[predicted[part].mean(), left[part].mean()] for part in parts])
    chart.line(_clip_to_range(means[:, 0], x), _clip_to_range(means[:, 1], y_range), "c1")
    return chart.html()


def histogram(values: Array, label: str) -> Html:
    """Return a histogram with a label below the axis; values far beyond the central 90 % are clipped."""
    x = _central_range(values, margin=0.0)
    return _histogram(_clip_to_range(values, x), x, label, short)


def _histogram(
    values: Array, x: Range, label: str, name: Callable[[float], str], ticks: Sequence[tuple[float, str]] | None = None
) -> Html:
    """Return a histogram of values over the range `x`; `name` formats the ends of a bar for its tooltip."""
    counts, edges = np.histogram(values, N_BARS, range=(x.low, x.high))
    chart = Chart(x, Range(0, 1.05 * counts.max(initial=1)), (NARROW, 220), (label, "rows"), x_ticks=ticks)
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        gap = 0.1 * (high - low)
        chart.bar((low + gap, high - gap), (0, count), "c0", f"{name(low)} to {name(high)}: {count:,} rows")
    return chart.html()


def dates(days: Array) -> Html:
    """Return a histogram of dates, which are given as fractional days since 1970."""
    x = Range.over(days, margin=0.0) if np.ptp(days) else Range(days[0] - N_DATES, days[0] + N_DATES)
    return _histogram(days, x, "", partial(date_text, has_time=not _spans_many_days(x)), _date_ticks(x))


def _spans_many_days(x: Range) -> bool:
    """Return True if an axis of days since 1970 is so long that its ticks are days without hours."""
    return x.high - x.low >= 2 * N_DATES


def _date_ticks(x: Range) -> list[tuple[float, str]]:
    """Return ticks (days since 1970, text) of an axis of dates, with hours if few days are shown."""
    width, is_long = x.high - x.low, _spans_many_days(x)
    inner = Range(x.low + 0.12 * width, x.high - 0.12 * width).ticks(N_DATES if is_long else N_DATES - 1)
    days = sorted({float(round(tick)) for tick in inner}) if is_long else inner
    return [(day, date_text(day, not is_long)) for day in days]


def frequencies(frequent: Sequence[tuple[str, int]], n_rows: int) -> Html:
    """Return a bar chart of (value, count) pairs, labelled with the percentage of the `n_rows` rows."""
    ticks = [(-float(row), f"{shortened(name, 18)} · {_percent(n, n_rows)}") for row, (name, n) in enumerate(frequent)]
    x = Range(0, 1.05 * max(n for _, n in frequent))
    size = (NARROW, 40 + 22 * len(frequent))
    chart = Chart(x, Range(-len(frequent) + 0.4, 0.6), size, ("rows", ""), y_ticks=ticks)
    for row, (name, n) in enumerate(frequent):
        chart.bar((0, n), (-row - 0.34, -row + 0.34), "c0", f"{name}: {n:,} rows")
    return chart.html()


def dependence_chart(dependence: Dependence, y: Range, label: str, names: Sequence[str]) -> Html:
    """Return a chart of mean predictions by value of a column; `y` is their axis, `names` name the outputs."""
    return _line_chart(dependence, y, label) if dependence.is_numeric else _dot_chart(dependence, y, label, names)


def _line_chart(dependence: Dependence, y: Range, label: str) -> Html:
    """Return lines of mean predictions (axis `y`) over numbers or dates, above a histogram of the rows."""
    values, padding = dependence.values, 0.22 * (y.high - y.low)
    x = Range.over(values)
    ticks = _date_ticks(x) if dependence.is_day else None
    size = (NARROW, DEPENDENCE_HEIGHT)
    chart = Chart(x, Range(y.low - padding, y.high), size, ("", label), x_ticks=ticks)
    name = partial(date_text, has_time=not _spans_many_days(x)) if dependence.is_day else short
    borders = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, values[-1:]])
    widths = np.maximum(np.diff(borders), 1e-3 * (chart.x.high - chart.x.low))
    density = dependence.counts / widths
    tops = y.low - padding + 0.8 * padding * density / density.max(initial=0)
    for left, width, top, count in zip(borders[:-1], widths, tops, dependence.counts, strict=True):
        chart.bar((left, left + width), (y.low - padding, top), "quiet", f"{count:,} rows")
    for output in range(dependence.means.shape[1]):
        chart.line(values, dependence.means[:, output], f"c{output}")
        for value, mean in zip(values, dependence.means[:, output], strict=True):
            chart.dot(value, mean, f"c{output}", f"{name(float(value))}: {short(mean)}", 2.2)
        if dependence.missing is not None:
            chart.line([chart.x.low, chart.x.high], [dependence.missing[output]] * 2, f"c{output} dashed")
    if dependence.missing is not None:
        text = f"- - missing ({_percent(dependence.n_missing, dependence.n_rows)}) "
        chart.text(chart.x.high, y.high - 0.05 * (y.high - y.low), text, "note end halo")
    return chart.html()


def _dot_chart(dependence: Dependence, y: Range, label: str, names: Sequence[str]) -> Html:
    """Return dots of mean predictions (axis `y`) for each category and each output, which `names` names."""
    means, counts = dependence.means, dependence.counts
    texts = [shortened(str(value), 18) for value in dependence.values]
    if dependence.missing is not None:
        means, counts = np.vstack([means, dependence.missing]), np.append(counts, dependence.n_missing)
        texts.append("(missing)")
    ticks = [
        (-float(i), f"{text} · {_percent(n, dependence.n_rows)}")
        for i, (text, n) in enumerate(zip(texts, counts, strict=True))
    ]
    chart = Chart(y, Range(-len(texts) + 0.4, 0.6), (NARROW, DEPENDENCE_HEIGHT), (label, ""), y_ticks=ticks)
    for position, (text, n) in enumerate(zip(texts, counts, strict=True)):
        for output, name in enumerate(names):
            mean = means[position, output]
            chart.dot(mean, -position, f"c{output}", f"{text} ({n:,} rows), {name}: {short(mean)}", 5.0)
    return chart.html()


def training(curves: Mapping[str, Array], best: int | None, width: float) -> Html:
    """Return a chart of loss curves by name, with a mark at round `best` (from 1) unless it is None."""
    longest = max(len(curve) for curve in curves.values())
    chart = Chart(Range.over([1, longest], margin=0.01), Range.over(*curves.values()), (width, 260), ("round", "loss"))
    for k, values in enumerate(curves.values()):
        chart.line(np.arange(1, len(values) + 1), values, f"c{k}")
    if best is not None:
        chart.line([best, best], [chart.y.low, chart.y.high], "reference")
        style = "note halo end" if best > longest / 2 else "note halo"
        chart.text(best, chart.y.high - 0.06 * (chart.y.high - chart.y.low), f" best: round {best} ", style)
    return chart.html()


def swarm(parts: Array, values: Sequence[Array], names: Sequence[str], label: str, width: float) -> Html:
    """Return a dot plot of contributions (n_rows, n_columns); dots are shaded by the rank of the column's value."""
    ticks = [(-float(column), shortened(name, _max_name_length(width))) for column, name in enumerate(names)]
    y = Range(-len(names) + 0.4, 0.6)
    chart = Chart(Range.over(parts, [0]), y, (width, 60 + 40 * len(names)), (label, ""), y_ticks=ticks)
    chart.line([0, 0], [y.low, y.high], "reference")
    for column, numbers in enumerate(values):
        heights = swarm_heights(parts[:, column]) - column
        is_finite = np.isfinite(numbers)
        shades = np.full(len(numbers), -1)
        shades[is_finite] = np.round(rank_shares(numbers[is_finite]) * (N_SHADES - 1))
        for shade in np.unique(shades):
            rows = shades == shade
            chart.dots(parts[rows, column], heights[rows], f"v{shade}" if shade >= 0 else "unknown")
    return chart.html()


def class_sizes(sizes: Array, names: Sequence[str], classes: Sequence[str], width: float) -> Html:
    """Return a bar for each column, stacked by class, of mean absolute contributions (n_classes, n_columns)."""
    ticks = [(-float(column), shortened(name, _max_name_length(width))) for column, name in enumerate(names)]
    x = Range(0, 1.04 * float(sizes.sum(axis=0).max(initial=0)) or 1.0)
    label = "mean absolute contribution, summed over the classes"
    chart = Chart(x, Range(-len(names) + 0.4, 0.6), (width, 60 + 26 * len(names)), (label, ""), y_ticks=ticks)
    for column, name in enumerate(names):
        ends = np.concatenate([[0], np.cumsum(sizes[:, column])])
        for k, of_class in enumerate(classes):
            colour = f"c{k}" if k < N_COLOURS else "quiet"
            title = f"{name}, {of_class}: {short(float(sizes[k, column]))}"
            chart.bar((ends[k], ends[k + 1]), (-column - 0.32, -column + 0.32), colour, title)
    return chart.html()


def _max_name_length(width: float) -> int:
    """Return the maximum number of characters of a column name in a chart of this width."""
    return 24 if width == WIDE else 14


def waterfall(start: float | None, steps: Array, names: Sequence[str], label: str) -> Html:
    """Return a waterfall chart of `steps` from `start` to their sum; if it is None, each bar begins at zero.

    `names` label the bars. In a long name of the form ``name = value``, the name is shortened first.
    """
    ends = np.cumsum(steps) + start if start is not None else steps
    starts = ends - steps
    low, high = min(starts.min(), ends.min()), max(starts.max(), ends.max())
    bottom, top = (-len(names) - 0.4, 1.2) if start is not None else (-len(names) + 0.4, 0.6)
    ticks = [(-float(row), _shorten_step(name)) for row, name in enumerate(names)]
    # The padding leaves space for the numbers next to the outermost bars.
    inner = NARROW - 24 - CHARACTER * max(len(name) for _, name in ticks)
    padding = (high - low or 1.0) * STEP_ROOM / (inner - 2 * STEP_ROOM)
    size = (NARROW, 40 + 24 * (top - bottom))
    chart = Chart(Range(low - padding, high + padding), Range(bottom, top), size, (label, ""), y_ticks=ticks)
    if start is not None:
        marks = ((start, "expected", 0.75), (ends[-1], "this row", -len(names) - 0.1))
        for x, _, _ in marks:
            chart.line([x, x], [bottom, top], "reference")
        for x, text, height in marks:
            style = "note halo end" if x > (low + high) / 2 else "note halo"
            chart.text(x, height, f" {text}: {short(float(x), 3)} ", style)
    shift = CHARACTER / (chart.right - chart.left) * (chart.x.high - chart.x.low)
    texts = steps_text(steps)
    for row, (first, last, step) in enumerate(zip(starts, ends, steps, strict=True)):
        style = "up" if step > 0 else "down"
        chart.bar((first, last), (-row - 0.34, -row + 0.34), style, f"{names[row]}: {short(step)}")
        side, anchor = (1, "note halo") if step > 0 else (-1, "note halo end")
        chart.text(last + side * shift, -row - 0.15, texts[row], anchor)
    return chart.html()


def _shorten_step(text: str, limit: int = 22) -> str:
    """Shorten a name, or a name with a value, to at most `limit` characters."""
    name, sign, value = text.rpartition(" = ")
    if not sign:
        return shortened(text, limit)
    value = shortened(value, limit - 11)
    return f"{shortened(name, limit - len(sign) - len(value))}{sign}{value}"


def _percent(n: int, total: int) -> str:
    """Format n / total as whole percent; below half a percent, return "<1%"."""
    return f"{n / total:.0%}" if 200 * n >= total else "<1%"


def _spaced_indices(n: int, max_indices: int) -> NDArray[np.intp]:
    """Return at most `max_indices` evenly spaced indices below n."""
    return np.arange(0, n, max(1, -(-n // max_indices)))


def _central_range(values: Array, margin: float = 0.04) -> Range:
    """Return the range of `values`, limited to twice the width of the central 90 % beyond its ends."""
    low, high = np.quantile(values, [0.05, 0.95])
    reach = 2.0 * (high - low) or np.inf
    return Range.over(np.clip(values, low - reach, high + reach), margin=margin)


def _clip_to_range(values: Array, shown: Range) -> Array:
    """Clip values to the ends of a range."""
    return np.clip(values, shown.low, shown.high)


def document(title: str, lead: str, notes: Sequence[str], sections: Sequence[Html], *, kicker: str) -> str:
    """Return a self-contained HTML page as text; `kicker` is the line above the title, `lead` the one below it."""
    head = element(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", Html((files("fastens.cli.page") / "style.css").read_text(encoding="utf-8"))),
    )
    header = element(
        "header",
        element("p", kicker, class_="kicker"),
        element("h1", title),
        element("p", lead, class_="lead"),
        (element("p", note, class_="note") for note in notes),
    )
    footer = element(
        "footer", f"Written by fastens {__version__}. This page is self-contained: it loads and sends nothing."
    )
    main = element("main", header, _section_links(sections), sections, footer)
    return "<!doctype html>\n" + element("html", head, element("body", main), lang="en") + "\n"


def _section_links(sections: Sequence[Html]) -> Html:
    """Return a navigation element with links to the sections, named by their headings."""
    headings = [re.match(r'<section id="(\w+)"><h2>(.*?)</h2>', part) for part in sections]
    return element("nav", (element("a", Html(match[2]), href=f"#{match[1]}") for match in headings if match))
