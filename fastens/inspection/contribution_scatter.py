"""Contributions of one column over its values, as dots coloured by another column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.inspection.decision_plot import class_colours
from fastens.inspection.planes import BAND, MARGIN, MISSING
from fastens.inspection.plotting import name_ticks, number_text, number_ticks, plain, shortened

Array = NDArray[np.float64]
MOST_COLOURS = 9  # of categories, the most frequent; others are grey
GREY = "0.6"
STRIP = 0.35  # half of a strip of dots, of the room for a category


@dataclass(frozen=True)
class Column:
    """A column of the rows: numbers, or positions among categories; NaN where missing."""

    name: str
    values: Array
    categories: list[str] | None

    @classmethod
    def of(cls, name: str, data: Array, shown: NDArray[Any]) -> Column:
        """Of numbers, and what is shown of them: categories are whatever is no float."""
        known = np.flatnonzero(~np.isnan(data))
        if all(isinstance(value, float) for value in shown[known]):
            return cls(name, data, None)
        texts = {place: str(value) for place, value in zip(data[known], shown[known], strict=True)}
        places = np.full(len(data), np.nan)
        places[known] = np.searchsorted(sorted(texts), data[known])
        return cls(name, places, [texts[place] for place in sorted(texts)])

    def every(self, step: int) -> Column:
        """Of every so many rows."""
        return replace(self, values=self.values[::step])

    def text(self, row: int) -> str:
        """The value of a row in words."""
        value = self.values[row]
        if np.isnan(value):
            return MISSING
        return number_text(value) if self.categories is None else self.categories[int(value)]


def draw_scatter(ax: Any, column: Column, parts: Array, by: Column | None) -> None:
    """Draw dots for contributions `parts` over the values of a column; missing values have a place at the end."""
    ax.axhline(0, color="0.75", linewidth=0.8, zorder=0)
    places = _places(ax, column, 1.0 if by is None else 0.75)
    options = {"s": 12, "linewidths": 0, "alpha": 0.8}
    if by is None:
        ax.scatter(places, parts, color="C0", **options)
    elif by.categories is None:
        known = ~np.isnan(by.values)
        ax.scatter(places[~known], parts[~known], color=GREY, label=MISSING, **options)
        drawn = ax.scatter(places[known], parts[known], c=by.values[known], cmap="viridis", **options)
        ax.figure.colorbar(drawn, ax=ax, label=plain(shortened(by.name))).outline.set_visible(False)
        if not known.all():
            ax.legend(frameon=False, fontsize="small")
    else:
        _draw_categories(ax, places, parts, by, options)
    ax.set_xlabel(plain(shortened(column.name, 60)))
    ax.spines[["top", "right"]].set_visible(False)


def _draw_categories(ax: Any, places: Array, parts: Array, by: Column, options: dict[str, Any]) -> None:
    names = by.categories or []
    counts = np.bincount(by.values[~np.isnan(by.values)].astype(np.intp), minlength=len(names))
    chosen = np.sort(np.argsort(-counts, kind="stable")[:MOST_COLOURS])
    drawn, texts = [], []
    for code, colour in zip(chosen, class_colours(len(chosen)), strict=True):
        rows = by.values == code
        drawn.append(ax.scatter(places[rows], parts[rows], color=colour, **options))
        texts.append(plain(shortened(names[code], 16)))
    rest = ~np.isin(by.values, chosen)
    if rest.any():
        drawn.append(ax.scatter(places[rest], parts[rest], color=GREY, **options))
        texts.append(f"{MISSING} or rare")
    # Given so, names that begin with an underscore are not left out.
    ax.legend(
        drawn, texts, title=plain(shortened(by.name)), frameon=False, fontsize="small", title_fontsize="small",
        loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0,
    )  # fmt: skip


def _places(ax: Any, column: Column, room: float) -> Array:
    """Where dots stand along the axis, and its ticks; `room` as of `name_ticks`."""
    known = np.isfinite(column.values)
    missing = np.isnan(column.values)
    # Multiples of an irrational number fill a strip evenly (Weyl).
    spread = (np.arange(len(known)) * 0.6180339887 % 1 - 0.5) * 2 * STRIP
    if column.categories is not None:
        names = [*column.categories, *[MISSING] * bool(missing.any())]
        name_ticks(ax, "x", names, room=room)
        return np.where(missing, len(column.categories), column.values) + spread
    low, high = (column.values[known].min(), column.values[known].max()) if known.any() else (0.0, 1.0)
    width = (high - low) or 1.0
    if not missing.any():
        return column.values
    end = high + (MARGIN + BAND) * width
    number_ticks(ax.xaxis, low, high, end, MISSING)
    ax.axvline(high + (MARGIN + BAND / 2) / 2 * width, color="0.85", linewidth=0.8)
    return np.where(missing, end + spread * BAND * width, column.values)
