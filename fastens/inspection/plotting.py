"""Shared by all plots: matplotlib, imported when needed, and the axes to draw on."""

from __future__ import annotations

from typing import Any


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
    return pyplot.subplots(layout="constrained", **size)[1] if ax is None else ax


def plain(text: str) -> str:
    """A text that matplotlib draws as it is, also with dollar signs, which otherwise enclose mathematics."""
    return text.replace("$", r"\$")
