"""What a picture's boxes and the texts in them cover, as it is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import FancyBboxPatch


def extents(ax: Any) -> list[np.ndarray]:
    """Of each box its left, low, right and high end in pixels, once laid out; each holds its text."""
    ax.get_figure(root=True).draw_without_rendering()
    boxes = [patch.get_window_extent().extents for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    assert len(boxes) == len(ax.texts)
    for box, text in zip(boxes, ax.texts, strict=True):
        inside = text.get_window_extent().extents
        assert (inside[:2] >= box[:2] - 1).all(), text.get_text()
        assert (inside[2:] <= box[2:] + 1).all(), text.get_text()
    return boxes


def overlaps(ax: Any) -> list[tuple[str, str]]:
    """Pairs of boxes that cover a common place, by their texts."""
    left, low, right, high = np.array(extents(ax)).T[:, :, None]
    across = np.maximum(left, left.T) < np.minimum(right, right.T)
    covers = np.triu(across & (np.maximum(low, low.T) < np.minimum(high, high.T)), 1)
    texts = [text.get_text() for text in ax.texts]
    return [(texts[first], texts[second]) for first, second in np.argwhere(covers)]
