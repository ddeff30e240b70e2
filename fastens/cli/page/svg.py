"""Charts as SVG: axes with round ticks, lines, bars, dots and text; colours are in the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.cli.page.markup import Html, element, joined

Array = NDArray[np.float64]
CHARACTER = 6.3  # mean width of a character of tick labels, in units of the drawing
MINUS = "\N{MINUS SIGN}"
N_COLOURS = 6
N_SHADES = 9


@dataclass(frozen=True)
class Range:
    """The part of a number line that an axis shows."""

    low: float
    high: float

    @classmethod
    def of(cls, *values: ArrayLike, margin: float = 0.04) -> Range:
        """All of these finite numbers, and some room beside them."""
        numbers = np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in values])
        numbers = numbers[np.isfinite(numbers)]
        low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
        padding = margin * (high - low) if high > low else 0.5 * abs(high) or 0.5
        return cls(low - padding, high + padding)

    def ticks(self, most: int) -> list[float]:
        """Round numbers inside, about so many."""
        width = (self.high - self.low) / max(most, 1)
        power = 10.0 ** (math.floor(math.log10(width)) - 1)
        for step in (power * factor for factor in (5, 10, 20, 50, 100, 200)):
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first < most or step >= width * (1 - 1e-9):
                break
        return [index * step for index in range(first, last + 1)]


def short(value: float, digits: int = 4) -> str:
    """A number of few characters: 12k, 3.5M, 0.25."""
    value = float(f"{value:.{digits}g}")
    power, letter = _unit(value, min(1e4, 10.0**digits))
    return f"{value / power:.{digits}g}{letter}".replace("-", MINUS)


def steps_text(values: ArrayLike) -> list[str]:
    """Signed numbers in one unit, with the decimals that the largest of them is worth: +51.1k, −9.7k."""
    numbers = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(numbers).max(initial=0)) or 1.0
    power, letter = _unit(largest, 1e3)
    n_decimals = max(1, 2 - math.floor(math.log10(largest / power)))
    return [f"{number / power:+.{n_decimals}f}{letter}".replace("-", MINUS) for number in numbers]


def _unit(value: float, first: float) -> tuple[float, str]:
    """What a number is divided by, and the letter that says so; thousands from the first on."""
    found = ((power, letter) for power, letter in ((1e9, "G"), (1e6, "M")) if abs(value) >= power)
    return next(found, (1e3, "k") if abs(value) >= first else (1.0, ""))


class Chart:
    """Axes to draw in, of `size` (width, height); coordinates are those of the data.

    `x_ticks` and `y_ticks` are pairs (position, text) of an axis that does not show numbers.
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
        for place, text in y_ticks:
            self._line(self.left, self._down(place), self.right, self._down(place), "grid")
            self._text(self.left - 7, self._down(place) + 4, text, "tick end")
        for place, text in x_ticks:
            self._line(self._across(place), self.bottom, self._across(place), self.bottom + 4, "axis")
            self._text(self._across(place), self.bottom + 17, text, "tick middle")
        self._line(self.left, self.bottom, self.right, self.bottom, "axis")
        # Below the axis, moved as far as a long label needs to stay inside.
        half = min(CHARACTER * len(labels[0]) / 2, self.width / 2)
        centre = min(max((self.left + self.right) / 2, half), self.width - half)
        self._text(centre, self.height - 5, labels[0], "label middle")
        self._text(2, 13, labels[1], "label")

    def line(self, x: ArrayLike, y: ArrayLike, style: str) -> None:
        """A line through points."""
        self._path(x, y, f"line {style}", "L")

    def dots(self, x: ArrayLike, y: ArrayLike, style: str) -> None:
        """Dots, as one path of strokes without length whose round caps are seen: a few bytes each."""
        self._path(x, y, f"dots {style}", "")

    def dot(self, x: float, y: float, style: str, title: str, radius: float = 4.0) -> None:
        """A single dot with a tooltip."""
        circle = {"cx": _n(self._across(x)), "cy": _n(self._down(y)), "r": _n(radius), "class_": f"dot {style}"}
        self._parts.append(element("circle", element("title", title), **circle))

    def area(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, style: str) -> None:
        """What lies between two lines."""
        x = np.asarray(x, dtype=np.float64)
        self._path(np.append(x, x[::-1]), np.append(low, np.asarray(high)[::-1]), f"area {style}", "L")

    def bar(self, x: tuple[float, float], y: tuple[float, float], style: str, title: str) -> None:
        """A rectangle between two corners."""
        across, down = sorted(map(self._across, x)), sorted(map(self._down, y))
        corner = {"x": _n(across[0]), "y": _n(down[0]), "rx": "1.5"}
        size = {"width": _n(max(across[1] - across[0], 0.5)), "height": _n(max(down[1] - down[0], 0.5))}
        self._parts.append(element("rect", element("title", title), **corner, **size, class_=f"bar {style}"))

    def text(self, x: float, y: float, text: str, style: str = "note") -> None:
        """A text at a point."""
        self._text(self._across(x), self._down(y), text, style)

    def html(self) -> Html:
        """The drawing."""
        box = f"0 0 {_n(self.width)} {_n(self.height)}"
        return element("svg", joined(self._parts), viewBox=box, role="img", aria_label=self._title)

    def _across(self, x: float) -> float:
        return self.left + (float(x) - self.x.low) / (self.x.high - self.x.low) * (self.right - self.left)

    def _down(self, y: float) -> float:
        return self.bottom - (float(y) - self.y.low) / (self.y.high - self.y.low) * (self.bottom - self.top)

    def _path(self, x: ArrayLike, y: ArrayLike, style: str, between: str) -> None:
        places = [
            (self._across(a), self._down(b))
            for a, b in zip(np.ravel(x), np.ravel(y), strict=True)
            if np.isfinite(a) and np.isfinite(b)
        ]
        if between:
            drawn = "M" + between.join(f"{_n(a)} {_n(b)}" for a, b in places) if places else ""
        else:
            drawn = "".join(f"M{_n(a)} {_n(b)}h0" for a, b in places)
        self._parts.append(element("path", d=drawn, class_=style))

    def _line(self, x0: float, y0: float, x1: float, y1: float, style: str) -> None:
        self._parts.append(element("path", d=f"M{_n(x0)} {_n(y0)}L{_n(x1)} {_n(y1)}", class_=style))

    def _text(self, x: float, y: float, text: str, style: str) -> None:
        if text:
            self._parts.append(element("text", text, x=_n(x), y=_n(y), class_=style))


def _n(value: float) -> str:
    """A coordinate with a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")
