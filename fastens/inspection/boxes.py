"""Boxes of text that keep clear of each other: measured in inches, and drawn as large as their axes have room for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MARGIN = 0.04  # inches, for the lines of boxes at the sides
LARGEST = 150.0  # inches of a new figure; matplotlib draws at most 65 536 pixels
MOST_GROWN = 1.25  # times the size of text, where axes have room to spare
ROUNDING = 0.05  # inches


def measured(ax: Any, texts: list[str], fontsize: float, pad: float, **style: Any) -> Array:
    """Widths and heights in inches of boxes round texts, (n, 2).

    `fontsize` is in points, `pad`, between a text and its box, in sizes of the font; `style` is as of
    `matplotlib.text.Text`.
    """
    from matplotlib.text import Text

    probe = Text(0, 0, "", fontsize=fontsize, parse_math=False, **style)
    probe.set_figure(ax.figure)
    known: dict[str, tuple[float, float]] = {}
    for text in set(texts):
        probe.set_text(text)
        extent = probe.get_window_extent()
        known[text] = extent.width / ax.figure.dpi, extent.height / ax.figure.dpi
    return np.array([known[text] for text in texts]) + 2 * pad * fontsize / 72


def set_inches(ax: Any, width: float, height: float, is_new: bool) -> None:
    """Make one unit of the axes an inch, or less where they have less room: from 0 to `width`, down from 0 to `height`.

    A new figure takes the size of what is drawn; the frame of the axes is removed.
    """
    if is_new:
        ax.figure.set_size_inches(min(width, LARGEST) + 4 * MARGIN, min(height, LARGEST) + 4 * MARGIN)
        spare_x = spare_y = MARGIN
    else:
        room = ax.get_window_extent().size / ax.figure.dpi / MOST_GROWN
        spare_x, spare_y = (max(MARGIN, (has - needs) / 2) for has, needs in zip(room, (width, height), strict=True))
    ax.set_axis_off()
    ax.set_xlim(-spare_x, width + spare_x)
    ax.set_ylim(-height - spare_y, spare_y)
    ax.set_aspect("equal", adjustable="box")


def draw_box(
    ax: Any, middle: tuple[float, float], size: Any, text: str, fontsize: float, *, zorder: float = 2.0, **style: Any
) -> Any:
    """Draw a text in a box, in axes from `set_inches`, and return the box; `measured` gives its size.

    Of the style, ``facecolor`` and ``edgecolor`` are of the box, the rest is of the text.
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
