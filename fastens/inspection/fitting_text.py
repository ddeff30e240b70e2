"""Text that keeps its size in the units of its axes. The module is imported when text is drawn: it needs matplotlib."""

from __future__ import annotations

from typing import Any

from matplotlib.text import Text
from matplotlib.transforms import Bbox

LEAST = 1.0  # points; the smallest size that matplotlib supports


class FittingText(Text):
    """Text that scales with axes whose unit is an inch.

    `full_size` is the font size when one unit is an inch; `style` is passed to `matplotlib.text.Text`.
    """

    def __init__(self, x: float, y: float, text: str, full_size: float, **style: Any) -> None:
        super().__init__(x, y, text, fontsize=full_size, **style)
        self._full_size = full_size

    def _fits(self) -> bool:
        """Set the font size to the current scale of the axes; return False if it is too small to draw."""
        axes: Any = self.axes
        (left, low), (right, high) = axes.transData.transform([(0, 0), (1, 1)])
        size = self._full_size * min(right - left, high - low) / axes.figure.dpi
        self.set_fontsize(size)
        return bool(size >= LEAST)

    def draw(self, renderer: Any) -> None:
        """Draw the text at the current scale of the axes, unless it is too small."""
        if self._fits():
            super().draw(renderer)

    def get_window_extent(self, renderer: Any = None, dpi: float | None = None) -> Any:
        """Return the extent of the text at the current scale of the axes."""
        if self._fits():
            return super().get_window_extent(renderer, dpi)
        x, y = self.get_transform().transform(self.get_position())
        return Bbox.from_bounds(x, y, 0, 0)
