"""The charts of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fastens.cli.explaining.single_rows import moment
from fastens.cli.explaining.subject import Dependence
from fastens.cli.page.markup import Html
from fastens.cli.page.svg import CHARACTER, N_COLOURS, N_SHADES, Chart, Range, short, steps_text
from fastens.inspection.contribution_plots import rank_shares, swarm_heights
from fastens.inspection.plotting import shortened

Array = NDArray[np.float64]
# Widths of drawings: across the page, one of two columns, and across a phone.
WIDE, NARROW, PHONE = 900.0, 380.0, 330.0
DEPENDENCE_HEIGHT = 260.0
STEP_ROOM = 52.0
N_BINS = 10
N_BARS = 24
N_DATES = 3  # ticks of a chart, about
N_DOTS = 1500


def calibration(probability: Array, happened: NDArray[np.bool_]) -> Html:
    """How often that came true which was predicted with a probability, by tenths of the rows, with its error."""
    chart = Chart(Range(0, 1), Range(0, 1), (NARROW, 300), ("predicted probability", "came true"))
    chart.line([0, 1], [0, 1], "reference")
    order = np.argsort(probability, kind="stable")
    parts = [part for part in np.array_split(order, min(N_BINS, len(order))) if len(part)]
    mean = np.array([probability[part].mean() for part in parts])
    share = np.array([happened[part].mean() for part in parts])
    count = np.array([len(part) for part in parts])
    low, high = _wilson(share, count)
    chart.area(mean, low, high, "c0")
    chart.line(mean, share, "c0")
    for x, y, n in zip(mean, share, count, strict=True):
        chart.dot(x, y, "c0", f"{n:,} rows predicted {x:.1%} on average; it came true for {y:.1%}")
    return chart.html()


def _wilson(share: Array, count: NDArray) -> tuple[Array, Array]:
    """The interval of a share that covers the true one 19 times in 20 (Wilson 1927)."""
    z = 1.96
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return middle - half, middle + half


def probabilities(probability: Array, happened: NDArray[np.bool_], names: tuple[str, str]) -> Html:
    """How many rows are predicted with each probability, those for which it came true on top of the others."""
    edges = np.linspace(0, 1, N_BINS * 2 + 1)
    others, true = (np.histogram(probability[rows], edges)[0] for rows in (~happened, happened))
    chart = Chart(
        Range(0, 1),
        Range(0, 1.05 * (others + true).max(initial=1)),
        (NARROW, 300),
        ("predicted probability", "rows"),
    )
    for low, high, below, above in zip(edges[:-1], edges[1:], others, true, strict=True):
        gap = 0.1 * (high - low)
        if below:
            chart.bar((low + gap, high - gap), (0, below), "quiet", f"{names[0]}: {below:,} rows")
        if above:
            chart.bar((low + gap, high - gap), (below, below + above), "c0", f"{names[1]}: {above:,} rows")
    return chart.html()


def true_against_predicted(predicted: Array, y: Array) -> Html:
    """A dot for each row; on the line were all predictions right."""
    at = _spaced(len(y), N_DOTS)
    both = _central(np.concatenate([predicted, y]))
    chart = Chart(both, both, (NARROW, 300), ("predicted", "true value"))
    chart.dots(_clipped(predicted[at], both), _clipped(y[at], both), "c0")
    chart.line([both.low, both.high], [both.low, both.high], "reference")
    return chart.html()


def residuals(predicted: Array, y: Array) -> Html:
    """The residual of each row, with the mean over twentieths of the rows."""
    at = _spaced(len(y), N_DOTS)
    left = y - predicted
    x, y_range = _central(predicted), _central(left)
    chart = Chart(x, y_range, (NARROW, 300), ("predicted", "true value less predicted"))
    chart.dots(_clipped(predicted[at], x), _clipped(left[at], y_range), "c0")
    chart.line([x.low, x.high], [0, 0], "reference")
    parts = [part for part in np.array_split(np.argsort(predicted, kind="stable"), 2 * N_BINS) if len(part)]
    means = np.array([[predicted[part].mean(), left[part].mean()] for part in parts])
    chart.line(_clipped(means[:, 0], x), _clipped(means[:, 1], y_range), "c1")
    return chart.html()


def histogram(values: Array, label: str) -> Html:
    """How many rows have each value."""
    x = _central(values, margin=0.0)
    counts, edges = np.histogram(_clipped(values, x), N_BARS, range=(x.low, x.high))
    chart = Chart(x, Range(0, 1.05 * counts.max(initial=1)), (NARROW, 220), (label, "rows"))
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        gap = 0.1 * (high - low)
        chart.bar((low + gap, high - gap), (0, count), "c0", f"{short(low)} to {short(high)}: {count:,} rows")
    return chart.html()


def dates(days: Array) -> Html:
    """How many rows have each date, of days since 1970 with their fraction."""
    x = Range.of(days, margin=0.0) if np.ptp(days) else Range(days[0] - N_DATES, days[0] + N_DATES)
    counts, edges = np.histogram(days, N_BARS, range=(x.low, x.high))
    has_time = not _is_long(x)
    chart = Chart(x, Range(0, 1.05 * counts.max(initial=1)), (NARROW, 220), ("", "rows"), x_ticks=_date_ticks(x))
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        gap, title = 0.1 * (high - low), f"{moment(low, has_time)} to {moment(high, has_time)}: {count:,} rows"
        chart.bar((low + gap, high - gap), (0, count), "c0", title)
    return chart.html()


def _is_long(x: Range) -> bool:
    """Whether an axis of days shows so many that their hours do not matter."""
    return x.high - x.low >= 2 * N_DATES


def _date_ticks(x: Range) -> list[tuple[float, str]]:
    """Round days of an axis, with hours where few days are shown."""
    width, is_long = x.high - x.low, _is_long(x)
    inner = Range(x.low + 0.12 * width, x.high - 0.12 * width).ticks(N_DATES if is_long else N_DATES - 1)
    places = sorted({float(round(tick)) for tick in inner}) if is_long else inner
    return [(place, moment(place, not is_long)) for place in places]


def frequencies(frequent: Sequence[tuple[str, int]], n_rows: int) -> Html:
    """A bar for each of the frequent values."""
    ticks = [
        (-float(place), f"{shortened(name, 18)} · {_share(n, n_rows)}") for place, (name, n) in enumerate(frequent)
    ]
    x = Range(0, 1.05 * max(n for _, n in frequent))
    size = (NARROW, 40 + 22 * len(frequent))
    chart = Chart(x, Range(-len(frequent) + 0.4, 0.6), size, ("rows", ""), y_ticks=ticks)
    for place, (name, n) in enumerate(frequent):
        chart.bar((0, n), (-place - 0.34, -place + 0.34), "c0", f"{name}: {n:,} rows")
    return chart.html()


def dependence_chart(found: Dependence, y: Range, label: str, names: Sequence[str]) -> Html:
    """The mean prediction for each value of a column, above how many rows have it."""
    return _of_numbers(found, y, label) if found.is_numeric else _of_categories(found, y, label, names)


def _of_numbers(found: Dependence, y: Range, label: str) -> Html:
    values, padding = found.values, 0.22 * (y.high - y.low)
    x = Range.of(values)
    ticks = _date_ticks(x) if found.is_day else None
    size = (NARROW, DEPENDENCE_HEIGHT)
    chart = Chart(x, Range(y.low - padding, y.high), size, ("", label), x_ticks=ticks)
    name = partial(moment, has_time=not _is_long(x)) if found.is_day else short
    borders = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, values[-1:]])
    widths = np.maximum(np.diff(borders), 1e-3 * (chart.x.high - chart.x.low))
    density = found.counts / widths
    tops = y.low - padding + 0.8 * padding * density / density.max(initial=0)
    for left, width, top, count in zip(borders[:-1], widths, tops, found.counts, strict=True):
        chart.bar((left, left + width), (y.low - padding, top), "quiet", f"{count:,} rows")
    for output in range(found.means.shape[1]):
        chart.line(values, found.means[:, output], f"c{output}")
        for value, mean in zip(values, found.means[:, output], strict=True):
            chart.dot(value, mean, f"c{output}", f"{name(float(value))}: {short(mean)}", 2.2)
        if found.missing is not None:
            chart.line([chart.x.low, chart.x.high], [found.missing[output]] * 2, f"c{output} dashed")
    if found.missing is not None:
        text = f"- - missing ({_share(found.n_missing, found.n_rows)}) "
        chart.text(chart.x.high, y.high - 0.05 * (y.high - y.low), text, "note end halo")
    return chart.html()


def _of_categories(found: Dependence, y: Range, label: str, names: Sequence[str]) -> Html:
    means, counts, texts = found.means, found.counts, [shortened(str(value), 18) for value in found.values]
    if found.missing is not None:
        means, counts = np.vstack([means, found.missing]), np.append(counts, found.n_missing)
        texts.append("(missing)")
    places = [
        (-float(i), f"{text} · {_share(n, found.n_rows)}")
        for i, (text, n) in enumerate(zip(texts, counts, strict=True))
    ]
    chart = Chart(y, Range(-len(texts) + 0.4, 0.6), (NARROW, DEPENDENCE_HEIGHT), (label, ""), y_ticks=places)
    for place, (text, n) in enumerate(zip(texts, counts, strict=True)):
        for output, name in enumerate(names):
            mean = means[place, output]
            chart.dot(mean, -place, f"c{output}", f"{text} ({n:,} rows), {name}: {short(mean)}", 5.0)
    return chart.html()


def training(curves: Mapping[str, Array], best: int | None, width: float) -> Html:
    """The loss after each round; styles are in the order of the curves."""
    longest = max(len(curve) for curve in curves.values())
    chart = Chart(Range.of([1, longest], margin=0.01), Range.of(*curves.values()), (width, 260), ("round", "loss"))
    for place, values in enumerate(curves.values()):
        chart.line(np.arange(1, len(values) + 1), values, f"c{place}")
    if best is not None:
        chart.line([best, best], [chart.y.low, chart.y.high], "reference")
        style = "note halo end" if best > longest / 2 else "note halo"
        chart.text(best, chart.y.high - 0.06 * (chart.y.high - chart.y.low), f" best: round {best} ", style)
    return chart.html()


def swarm(parts: Array, values: Sequence[Array], names: Sequence[str], label: str, width: float) -> Html:
    """A dot for each row and column at its contribution; shades are the ranks of the column's values."""
    ticks = [(-float(place), shortened(name, _name_length(width))) for place, name in enumerate(names)]
    y = Range(-len(names) + 0.4, 0.6)
    chart = Chart(Range.of(parts, [0]), y, (width, 60 + 40 * len(names)), (label, ""), y_ticks=ticks)
    chart.line([0, 0], [y.low, y.high], "reference")
    for place, numbers in enumerate(values):
        heights = swarm_heights(parts[:, place]) - place
        known = np.isfinite(numbers)
        shades = np.full(len(numbers), -1)
        shades[known] = np.round(rank_shares(numbers[known]) * (N_SHADES - 1))
        for shade in np.unique(shades):
            rows = shades == shade
            chart.dots(parts[rows, place], heights[rows], f"v{shade}" if shade >= 0 else "unknown")
    return chart.html()


def class_sizes(sizes: Array, names: Sequence[str], classes: Sequence[str], width: float) -> Html:
    """Mean absolute contributions (n_classes, n_columns), the classes one beside the other."""
    ticks = [(-float(place), shortened(name, _name_length(width))) for place, name in enumerate(names)]
    x = Range(0, 1.04 * float(sizes.sum(axis=0).max(initial=0)) or 1.0)
    label = "mean absolute contribution, the classes added up"
    chart = Chart(x, Range(-len(names) + 0.4, 0.6), (width, 60 + 26 * len(names)), (label, ""), y_ticks=ticks)
    for place, name in enumerate(names):
        ends = np.concatenate([[0], np.cumsum(sizes[:, place])])
        for k, of_class in enumerate(classes):
            colour = f"c{k}" if k < N_COLOURS else "quiet"
            title = f"{name}, {of_class}: {short(float(sizes[k, place]))}"
            chart.bar((ends[k], ends[k + 1]), (-place - 0.32, -place + 0.32), colour, title)
    return chart.html()


def _name_length(width: float) -> int:
    """How many letters of a name there is room for."""
    return 24 if width == WIDE else 14


def waterfall(start: float | None, steps: Array, names: Sequence[str], label: str) -> Html:
    """Bars one after the other from a start to the sum; each from zero where there is no start.

    Of a name with a value, as ``name = value``, the name is shortened first.
    """
    ends = np.cumsum(steps) + start if start is not None else steps
    starts = ends - steps
    low, high = min(starts.min(), ends.min()), max(starts.max(), ends.max())
    bottom, top = (-len(names) - 0.4, 1.2) if start is not None else (-len(names) + 0.4, 0.6)
    ticks = [(-float(place), _short_step(name)) for place, name in enumerate(names)]
    # Beside the outermost bars there is room for what they add, in figures.
    inner = NARROW - 24 - CHARACTER * max(len(name) for _, name in ticks)
    padding = (high - low or 1.0) * STEP_ROOM / (inner - 2 * STEP_ROOM)
    size = (NARROW, 40 + 24 * (top - bottom))
    chart = Chart(Range(low - padding, high + padding), Range(bottom, top), size, (label, ""), y_ticks=ticks)
    if start is not None:
        marks = ((start, "expected", 0.75), (ends[-1], "this row", -len(names) - 0.1))
        for place, _, _ in marks:
            chart.line([place, place], [bottom, top], "reference")
        for place, text, height in marks:
            style = "note halo end" if place > (low + high) / 2 else "note halo"
            chart.text(place, height, f" {text}: {short(float(place), 3)} ", style)
    shift = CHARACTER / (chart.right - chart.left) * (chart.x.high - chart.x.low)
    texts = steps_text(steps)
    for place, (first, last, step) in enumerate(zip(starts, ends, steps, strict=True)):
        style = "up" if step > 0 else "down"
        chart.bar((first, last), (-place - 0.34, -place + 0.34), style, f"{names[place]}: {short(step)}")
        side, anchor = (1, "note halo") if step > 0 else (-1, "note halo end")
        chart.text(last + side * shift, -place - 0.15, texts[place], anchor)
    return chart.html()


def _short_step(text: str, limit: int = 22) -> str:
    """A name, or one with its value, of at most so many characters."""
    name, sign, value = text.rpartition(" = ")
    if not sign:
        return shortened(text, limit)
    value = shortened(value, limit - 11)
    return f"{shortened(name, limit - len(sign) - len(value))}{sign}{value}"


def _share(n: int, of: int) -> str:
    return f"{n / of:.0%}" if 200 * n >= of else "<1%"


def _spaced(n: int, most: int) -> NDArray[np.intp]:
    return np.arange(0, n, max(1, -(-n // most)))


def _central(values: Array, margin: float = 0.04) -> Range:
    """The middle of a distribution with long tails: beyond five times its central nine tenths nothing is shown."""
    low, high = np.quantile(values, [0.05, 0.95])
    reach = 2.0 * (high - low) or np.inf
    return Range.of(np.clip(values, low - reach, high + reach), margin=margin)


def _clipped(values: Array, shown: Range) -> Array:
    return np.clip(values, shown.low, shown.high)
