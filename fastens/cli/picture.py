"""The leaderboard as a picture."""

from __future__ import annotations

from pathlib import Path

from fastens.cli.errors import CommandError
from fastens.cli.leaderboard import CONSTANT, Entry
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
    for place, entry in enumerate(done):
        colour = "0.6" if entry.name == CONSTANT else "C0"
        left.errorbar(entry.mean(score_name), place, xerr=entry.error(score_name), fmt="o", color=colour, capsize=3)
        if entry.fit_seconds:
            right.barh(place, entry.fit_time, color=colour, height=0.5)
            right.annotate(f" {entry.fit_time:.2g} s", (entry.fit_time, place), va="center", fontsize=8)
    left.set_yticks(range(len(done)), [entry.name for entry in done])
    left.invert_yaxis()
    left.set_xlabel(f"{score_name}, mean ± standard error")
    left.grid(axis="x", color="0.9")
    right.set_xscale("log")
    right.margins(x=0.25)
    right.set_xlabel("seconds of a fit")
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=150)
