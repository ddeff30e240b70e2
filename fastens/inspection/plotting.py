"""Shared by all plots: matplotlib, imported when needed, the axes to draw on, and their ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

CHARACTER, LINE, SMALLEST = 0.6, 1.1, 6.0  # sizes of a font that a letter is wide and a line is high; points


def axes(ax: Any = None, **size: Any) -> Any:
    """The axes given, or those of a new figure of a size that `matplotlib.pyplot.subplots` takes.

    ImportError names the extra where matplotlib is not installed; ValueError where `ax` is no Axes.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.axes import Axes
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'fastens[plot]'") from error
    if ax is not None and not isinstance(ax, Axes):
        raise ValueError(f"ax must be matplotlib Axes or None; got {type(ax).__name__}.")
    if ax is not None and ax.name != "rectilinear":
        raise ValueError(f"ax must be matplotlib Axes of two straight axes; got {type(ax).__name__}.")
    return pyplot.subplots(layout="constrained", **size)[1] if ax is None else ax


def plain(text: str) -> str:
    """A text that matplotlib draws as it is, also with dollar signs, which otherwise enclose mathematics."""
    return text.replace("$", r"\$")


def shortened(text: str, limit: int = 28) -> str:
    """A text of at most `limit` characters, its middle left out where it is long."""
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-(limit // 2 - 1) :]}"


def number_text(value: float) -> str:
    """A number with four digits, or all of those before the point: 0.1235, 20150 (and not 2.015e+04)."""
    if 1e7 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.7g}"


def name_ticks(ax: Any, letter: str, names: Sequence[str], *, limit: int = 16, room: float = 1.0) -> None:
    """Write names, shortened to `limit` letters, at the whole numbers of the axis "x" or "y", clear of each other.

    Along x they are turned where they would touch, along both smaller and some left out where there are too many.
    `room` is the share of the axes that a legend beside them leaves.
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
        texts = [text if place % every == 0 else "" for place, text in enumerate(texts)]
    side = getattr(ax, f"{letter}axis")
    side.set_ticks(range(len(texts)), [plain(text) for text in texts], **options)


def number_ticks(side: Any, low: float, high: float, missing: float, text: str) -> None:
    """Ticks of an axis at its numbers from low to high, and one for missing values, all clear of each other."""
    from matplotlib.ticker import MaxNLocator

    is_x = side.axis_name == "x"
    # Points; labels of the other axis may take a fifth of the room.
    room = 0.8 * side.axes.get_window_extent().width / side.axes.figure.dpi * 72
    for n_steps in range(9, 0, -1):
        found = MaxNLocator(n_steps, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        ticks = [tick for tick in found if low <= tick <= high]
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
    """Ticks of the x axis, which counts, at whole numbers alone."""
    ax.xaxis.get_major_locator().set_params(integer=True)


def date_ticks(ax: Any, letter: str) -> None:
    """Write dates at an axis of days since 1970, and times of day too where it is of few days."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = getattr(ax, f"get_{letter}lim")()
    shown = slice(5, 16) if abs(high - low) < 5 else slice(10)

    def text(day: float, _: Any) -> str:
        return str(np.datetime64(round(day * 86400), "s"))[shown].replace("T", " ")

    side = getattr(ax, f"{letter}axis")
    side.set_major_locator(MaxNLocator(3 if letter == "x" else 6))
    side.set_major_formatter(FuncFormatter(text))
