"""The leaderboard as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fastens.cli.report.leaderboard import CONSTANT, Entry
from fastens.cli.table.errors import CommandError
from fastens.inspection.plotting import axes

FORMATS = (".png", ".svg", ".pdf")


def check_picture(path: str) -> None:
    """Fail early where the picture could not be drawn later."""
    if Path(path).suffix.lower() not in FORMATS:
        raise CommandError(f"--picture must end in {', '.join(FORMATS)}; got {path}")
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise CommandError("--picture needs matplotlib: pip install 'fastens[plot]'") from error
    mpl.use("Agg")


def draw_leaderboard(entries: list[Entry], title: str, path: str) -> None:
    """Draw each model's score with its standard error, and beside it what a fit costs."""
    done = [entry for entry in entries if entry.scores]
    score_name = next(iter(done[0].scores[0]))
    left = axes(figsize=(9, 1.2 + 0.4 * len(done)))
    figure = left.figure
    left.remove()
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    limit = _limit(done, score_name)
    for place, entry in enumerate(done):
        colour = "0.6" if entry.name == CONSTANT else "C0"
        mean = entry.mean(score_name)
        if mean > limit:
            left.annotate(f"{mean:.3g} →", (limit, place), ha="right", va="center", color=colour, fontsize=8)
        else:
            left.errorbar(mean, place, xerr=entry.error(score_name), fmt="o", color=colour, capsize=3)
        if entry.fit_seconds:
            right.barh(place, entry.fit_time, color=colour, height=0.5)
            right.annotate(f" {entry.fit_time:.2g} s", (entry.fit_time, place), va="center", fontsize=8)
    left.set_yticks(range(len(done)), [entry.name for entry in done])
    left.invert_yaxis()
    for part in (left, right):
        part.spines[["top", "right", "left"]].set_visible(False)
        part.tick_params(axis="y", length=0)
    left.set_xlim(right=limit if np.isfinite(limit) else None)
    left.set_xlabel(f"{score_name}, mean ± standard error")
    left.grid(axis="x", color="0.9")
    right.set_xscale("log")
    right.margins(x=0.25)
    right.set_xlabel("seconds of a fit")
    figure.suptitle(title, fontsize=10, parse_math=False)
    figure.savefig(path, dpi=150)


def _limit(done: list[Entry], score_name: str) -> float:
    """Where to cut the axis off, so that one much worse than the constant does not press the others together."""
    means = [entry.mean(score_name) for entry in done]
    constant = next((entry.mean(score_name) for entry in done if entry.name == CONSTANT), means[-1])
    limit = constant + max(constant - means[0], 0.0)
    return limit if means[-1] > limit > means[0] else np.inf
