"""Text that keeps its size in the units of its axes; imported when it is drawn, since it needs matplotlib."""

from __future__ import annotations

from typing import Any

from matplotlib.text import Text
from matplotlib.transforms import Bbox

LEAST = 1.0  # points; matplotlib knows no smaller ones


class FittingText(Text):
    """Text of a size in points in axes whose unit is an inch; it shrinks and grows with the unit.

    `full_size` is that of the font where the unit is an inch; `style` is what `matplotlib.text.Text` takes.
    """

    def __init__(self, x: float, y: float, text: str, full_size: float, **style: Any) -> None:
        super().__init__(x, y, text, fontsize=full_size, **style)
        self._full_size = full_size

    def _fits(self) -> bool:
        """Take the size that the axes have room for now; whether there is one."""
        axes: Any = self.axes
        (left, low), (right, high) = axes.transData.transform([(0, 0), (1, 1)])
        size = self._full_size * min(right - left, high - low) / axes.figure.dpi
        self.set_fontsize(size)
        return bool(size >= LEAST)

    def draw(self, renderer: Any) -> None:
        """Draw it, as large as the axes are now; not at all where it would be a dot."""
        if self._fits():
            super().draw(renderer)

    def get_window_extent(self, renderer: Any = None, dpi: float | None = None) -> Any:
        """Return the text's extent, as large as the axes are now."""
        if self._fits():
            return super().get_window_extent(renderer, dpi)
        x, y = self.get_transform().transform(self.get_position())
        return Bbox.from_bounds(x, y, 0, 0)
