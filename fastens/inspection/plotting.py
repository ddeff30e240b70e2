"""What every plot shares: matplotlib, imported when a plot is asked for, and the axes to draw on."""

from __future__ import annotations

from typing import Any


def axes(ax: Any = None, **size: Any) -> Any:
    """The axes given, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib Axes, optional
        Where to draw; default: a new figure.
    **size
        What `matplotlib.pyplot.subplots` takes, such as ``figsize``.

    Raises
    ------
    ImportError
        If matplotlib is not installed; the message names the extra.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'fastens[plot]'") from error
    return pyplot.subplots(layout="constrained", **size)[1] if ax is None else ax
