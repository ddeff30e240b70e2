"""Output of commands: facts, scores, leaderboards and pictures."""

from __future__ import annotations

import errno
import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from sklearn import metrics
from sklearn.base import clone

from fastens.cli.models.model_files import probabilities
from fastens.cli.table.columns import CommandError, escape_control_characters, first_line, listed
from fastens.cli.table.task import LabelledRows, Task
from fastens.inspection.plotting import axes
from fastens.table.training_data import shuffled_folds

MAX_DIGITS = 6  # the standard error of equal scores may be a rounding error
NO_VALUE = "-"
N_IMPORTANT = 10
PIPED_WIDTH = 120
BAR_WIDTH = 30
NARROW_NAME = 16


class Report:
    """Printer of results to standard output and messages to standard error, as plain text without a terminal.

    If `out` is given, results are written there instead.
    """

    def __init__(self, out: IO[str] | None = None) -> None:
        self.out = _create_console(sys.stdout if out is None else out)
        self.err = _create_console(sys.stderr)

    def title(self, text: str, style: str = "bold") -> None:
        """Print a heading after an empty line; `style` is a style of rich."""
        self.out.print()
        self.out.print(text, style=style)

    def facts(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print names and values in two columns."""
        grid = _create_grid(2)
        for name, value in rows:
            grid.add_row(name, value)
        self.out.print(grid)

    def notes(self, notes: Sequence[str]) -> None:
        """Print notes, one per line."""
        if notes:
            self.title("Notes")
            self._print_marked("-", notes, "")

    def warnings(self, warnings: Sequence[str]) -> None:
        """Print prominent warnings of problems that may invalidate the results."""
        if warnings:
            self.title("Warnings", "bold red")
            self._print_marked("!", warnings, "red")

    def _print_marked(self, mark: str, texts: Sequence[str], style: str) -> None:
        """Print each text on its own line after `mark`, which has a style of rich."""
        grid = Table.grid(padding=(0, 1))
        for text in texts:
            grid.add_row(mark, text, style=style)
        self.out.print(grid)

    def scores(self, title: str, model: Scores, constant: Scores | None) -> None:
        """Print scores by name, next to the scores of a constant prediction unless `constant` is None."""
        self.title(title)
        table = Table(box=None, padding=(0, 2), pad_edge=True, show_edge=False)
        table.add_column("")
        table.add_column("model", justify="right", style="bold")
        if constant is not None:
            table.add_column("constant prediction", justify="right")
        for name, value in model.items():
            cells: list[RenderableType] = [name, score_text(name, value)]
            if constant is not None:
                cells.append(score_text(name, constant[name]) if name in constant else NO_VALUE)
            table.add_row(*cells)
        self.out.print(table)

    def scores_of_parts(self, title: str, parts: Sequence[tuple[str, int, Scores]]) -> None:
        """Print one line for each part of the rows: its name, number of rows and scores."""
        self.title(title)
        names = list(parts[0][2]) if parts else []
        table = numbers_table("", ["rows", *names], padding=2)
        for part, n_rows, scores in parts:
            cells = [score_text(name, scores[name]) if name in scores else NO_VALUE for name in names]
            table.add_row(one_line(part), f"{n_rows:,}", *cells)
        self.out.print(table)

    def leaderboard(self, title: str, entries: Sequence[Entry]) -> None:
        """Print models from best to worst, followed by failed models with the reasons.

        A narrow terminal shows fewer columns, and numbers are never cut.
        """
        self.title(title)
        done = [entry for entry in entries if entry.scores]
        names = list(done[0].scores[0])
        headers = [*(name.replace(" (one-vs-rest)", "") for name in names), "fit", "a row", "size"]
        rows = [
            [*(score_with_error(name, one.mean(name), one.error(name)) for name in names), *_costs(one)] for one in done
        ]
        n_shown = n_fitting_columns(headers, rows, self.out.width - NARROW_NAME)
        table = numbers_table("model", headers[:n_shown])
        for entry, row in zip(done, rows, strict=True):
            table.add_row(one_line(entry.name), *row[:n_shown], style="" if entry.fit_seconds else "dim")
        self.out.print(table)
        if left_out := headers[n_shown:]:
            self.out.print(f" a wider terminal also shows: {', '.join(left_out)}", style="dim")
        self.notes([f"{entry.name}: {entry.failure}" for entry in entries if entry.failure])

    def importances(self, shares: Iterable[tuple[str, float]]) -> None:
        """Print the columns with the largest shares of the gain, given as (column, share), each with a bar."""
        largest = sorted(shares, key=lambda pair: -pair[1])[:N_IMPORTANT]
        largest = [(name, share) for name, share in largest if share > 0]
        if not largest:
            return
        self.title("Most important columns (share of the total gain)")
        grid = _create_grid(3)
        for name, share in largest:
            bar = ProgressBar(
                total=largest[0][1], completed=share, width=BAR_WIDTH, complete_style="cyan", finished_style="cyan"
            )
            grid.add_row(one_line(name), f"{share:6.1%}", bar)
        self.out.print(grid)

    def informative_terms(self, words: Mapping[Any, Sequence[tuple[str, float]]]) -> None:
        """Print the most characteristic words of each class; `words` maps classes to (word, score) pairs."""
        self.title("Most informative words")
        grid = _create_grid(2)
        for label, best in words.items():
            grid.add_row(str(label), ", ".join(word for word, _ in best))
        self.out.print(grid)

    def line(self, text: str) -> None:
        """Print a line to standard error, because it does not belong to the results."""
        self.err.print(text)


def _costs(entry: Entry) -> tuple[str, str, str]:
    """Return fit time, prediction time per row and size of a model as texts for the leaderboard."""
    if not entry.fit_seconds:
        return NO_VALUE, NO_VALUE, NO_VALUE
    size = f"{entry.n_bytes / 1024:,.0f} KiB"
    microseconds = entry.microseconds_per_row
    a_row = f"{microseconds:,.0f}" if microseconds >= 10 else f"{microseconds:.2g}"
    return f"{entry.fit_time:.3g} s", f"{a_row} µs", size


class _PlainConsole(Console):
    """Console that escapes all control characters in texts except newlines."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, which the entry point handles; the console of rich would end the process."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render_str(self, text: str, **options: Any) -> Text:
        """Render text after escaping its control characters."""
        return super().render_str(escape_control_characters(text, kept="\n\t"), **options)


def _create_console(stream: IO[str]) -> Console:
    """Return a console that treats texts as data, without markup or highlighting of column names."""
    width = None if stream.isatty() else PIPED_WIDTH
    return _PlainConsole(file=stream, width=width, markup=False, highlight=False, emoji=False)


def score_text(name: str, value: float) -> str:
    """Format a score with the digits that suit its name, such as accuracy in percent; NaN becomes NO_VALUE."""
    if math.isnan(value):
        return NO_VALUE
    if name == "accuracy":
        return f"{value:.2%}"
    if name.startswith("AUC") or name.endswith("R²"):
        return f"{round(value, 4) + 0.0:.4f}"  # adding 0 turns -0 into 0
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:#.5g}"


def numbers_table(first: str, others: Iterable[str], padding: int = 1) -> Table:
    """Return an empty table with the headings `first`, aligned to the left, and `others`, to the right."""
    table = Table(box=None, padding=(0, padding), pad_edge=True, show_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def n_fitting_columns(headers: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> int:
    """Return how many of the columns from the left, at least 1, fit into a width in characters."""
    widths = [3 + max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    n_shown = len(headers)
    while n_shown > 1 and sum(widths[:n_shown]) > width:
        n_shown -= 1
    return n_shown


def one_line(text: str) -> Text:
    """Return a table cell on one line; if space is short, it is truncated before other columns shrink."""
    return Text(escape_control_characters(text), no_wrap=True, overflow="ellipsis")


def score_with_error(name: str, value: float, error: float) -> str:
    """Format "SCORE ± STANDARD ERROR" with the digits that the error justifies; a NaN score becomes NO_VALUE."""
    if math.isnan(value):
        return NO_VALUE
    if name == "accuracy":
        return f"{value:.1%} ± {error:.1%}"
    n_digits = min(max(0, 1 - math.floor(math.log10(error))), MAX_DIGITS) if error > 0 else 4
    shown = f"{round(value, n_digits) + 0.0:,.{n_digits}f}"  # turns -0 into 0
    return shown if math.isnan(error) else f"{shown} ± {error:,.{n_digits}f}"


def _create_grid(n_columns: int) -> Table:
    """Return a table without borders or headings, whose first column truncates long names."""
    grid = Table.grid(padding=(0, 2, 0, 2))
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=36)
    for _ in range(n_columns - 1):
        grid.add_column()
    return grid


Scores = dict[str, float]
DEVIANCES: dict[str, Callable[..., float]] = {
    "poisson": metrics.mean_poisson_deviance,
    "gamma": metrics.mean_gamma_deviance,
}
# Losses whose optimal prediction is a quantile, such as the median, rather than the mean.
MEDIAN_LOSSES = ("absolute_error", "quantile", "pinball")


@dataclass(frozen=True)
class Truth:
    """The true values of some rows, with all classes in order for classification or the loss for regression."""

    y: NDArray
    weight: NDArray | None
    classes: NDArray | None
    loss: str | None

    @property
    def codes(self) -> NDArray[np.intp]:
        """The positions of the true classes among all classes."""
        assert self.classes is not None
        return np.searchsorted(self.classes, self.y)

    @property
    def loss_name(self) -> str:
        """The name of the score by which a model with this loss is judged; lower is better."""
        if self.classes is not None:
            return "log loss"
        return "MAE" if self.loss in MEDIAN_LOSSES else "RMSE"

    def take(self, rows: NDArray) -> Truth:
        """Return the truth of the rows that a mask or row indices select."""
        return Truth(self.y[rows], None if self.weight is None else self.weight[rows], self.classes, self.loss)


def constant_prediction(y: NDArray, weight: NDArray | None, classes: NDArray | None) -> NDArray[np.float64]:
    """Return the weighted proportion of each class or, if `classes` is None, the weighted mean as one number."""
    if classes is None:
        return np.array([np.average(y, weights=weight)])
    return np.array([np.average(y == label, weights=weight) for label in classes])


def score(predicted: NDArray, truth: Truth) -> Scores:
    """Return scores by name of class probabilities (n_rows, n_classes) or, for regression, of predicted values."""
    if truth.classes is None:
        return _regression_scores(predicted, truth)
    return _classification_scores(predicted, truth.codes, truth.weight)


def row_losses(predicted: NDArray, truth: Truth) -> NDArray[np.float64]:
    """Return each row's term in the score `truth.loss_name`: log loss, absolute error or (RMSE) squared error."""
    if truth.classes is not None:
        return _log_losses(predicted, truth.codes)
    error = np.abs(predicted - truth.y)
    return error if truth.loss_name == "MAE" else error**2


def mean_loss(predicted: NDArray, truth: Truth) -> float:
    """Return the weighted score named `truth.loss_name`: the log loss, the MAE or the RMSE."""
    mean = float(np.average(row_losses(predicted, truth), weights=truth.weight))
    return mean**0.5 if truth.loss_name == "RMSE" else mean


def score_constant(constant: NDArray, truth: Truth) -> Scores:
    """Return the scores by name if each row is predicted by `constant`: a mean or class probabilities."""
    n_rows = len(truth.y)
    return score(np.full(n_rows, constant[0]) if truth.classes is None else np.tile(constant, (n_rows, 1)), truth)


def _classification_scores(probabilities: NDArray, codes: NDArray, weight: NDArray | None) -> Scores:
    """Return log loss, AUC and accuracy by name; `codes` are the positions of the true classes."""
    labels = np.arange(probabilities.shape[1])
    name = "AUC" if len(labels) == 2 else "AUC (one-vs-rest)"
    return {
        "log loss": float(np.average(_log_losses(probabilities, codes), weights=weight)),
        name: _area_under_curve(probabilities, codes, weight),
        "accuracy": float(np.average(probabilities.argmax(axis=1) == codes, weights=weight)),
    }


def _log_losses(probabilities: NDArray, codes: NDArray) -> NDArray[np.float64]:
    """Return the negative log probability of the true class in each row."""
    return -np.log(np.clip(probabilities[np.arange(len(codes)), codes], np.finfo(np.float64).eps, None))


def _area_under_curve(probabilities: NDArray, codes: NDArray, weight: NDArray | None) -> float:
    """Return the AUC of the second class, or the mean one-vs-rest AUC of the present classes; NaN for a single one."""
    n_classes = probabilities.shape[1]
    present = np.unique(codes)
    if len(present) < 2:
        return float("nan")
    compared = [1] if n_classes == 2 else present
    areas = [metrics.roc_auc_score(codes == k, probabilities[:, k], sample_weight=weight) for k in compared]
    return float(np.mean(areas))


def area_notes(truth: Truth) -> list[str]:
    """Return at most one note: the AUC is undefined for these true values, or leaves out classes without rows."""
    if truth.classes is None:
        return []
    present = np.unique(truth.codes)
    if len(present) < 2:
        only = listed([str(truth.classes[k]) for k in present])
        return [f"The AUC is undefined, because all scored rows have the class {only}."]
    absent = [str(label) for label in np.delete(truth.classes, present)]
    if not absent:
        return []
    return [(f"The AUC is the mean over the classes that occur in the scored rows; these do not: {listed(absent)}.")]


def _regression_scores(predicted: NDArray, truth: Truth) -> Scores:
    """Return RMSE, MAE, R² and, for Poisson and gamma losses, the deviance by name."""
    y, weight = truth.y, truth.weight
    scores = {
        "RMSE": float(np.sqrt(metrics.mean_squared_error(y, predicted, sample_weight=weight))),
        "MAE": float(metrics.mean_absolute_error(y, predicted, sample_weight=weight)),
        "R²": float(metrics.r2_score(y, predicted, sample_weight=weight)) if np.ptp(y) > 0 else float("nan"),
    }
    deviance = DEVIANCES.get(truth.loss or "")
    is_defined = np.all(predicted > 0) and np.all(y > 0 if truth.loss == "gamma" else y >= 0)
    if deviance is not None and is_defined:
        scores = {f"{truth.loss} deviance": float(deviance(y, predicted, sample_weight=weight)), **scores}
    return scores


CONSTANT = "constant prediction"
HIGHER_IS_BETTER = ("AUC", "accuracy", "R²")


@dataclass
class Entry:
    """A model of the leaderboard with its results in each fold."""

    name: str
    scores: list[Scores] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)
    n_predicted: int = 0
    n_bytes: int = 0
    failure: str | None = None

    def mean(self, name: str) -> float:
        """Return the mean of the score `name` over the folds in which it is defined."""
        return float(np.mean(values)) if len(values := self._finite_scores(name)) else math.nan

    def _finite_scores(self, name: str) -> NDArray[np.float64]:
        """Return the finite values of the score `name`, one for each fold; if there are none, all values."""
        values = np.array([scores[name] for scores in self.scores])
        return values[np.isfinite(values)] if np.isfinite(values).any() else values

    def error(self, name: str) -> float:
        """Return the standard error of the mean of the score `name`, or NaN with fewer than two folds."""
        values = self._finite_scores(name)
        return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan

    @property
    def fit_time(self) -> float:
        """The median time of a fit in seconds."""
        return float(np.median(self.fit_seconds)) if self.fit_seconds else math.nan

    @property
    def microseconds_per_row(self) -> float:
        """The mean time of a prediction in microseconds per row."""
        return 1e6 * sum(self.predict_seconds) / self.n_predicted if self.n_predicted else math.nan


def fold_rows(task: Task, n_folds: int, random_state: int) -> list[tuple[NDArray, NDArray]]:
    """Return (training, test) indices of folds: by the task's time or group, else random and stratified by class."""
    if task.order is not None:
        return task.order.folds(n_folds, random_state)
    # Classes with fewer rows than folds are absent from some folds; the scores handle this.
    return shuffled_folds(task.rows.y, n_folds, random_state, stratified=task.is_classification)


def cross_validate(
    name: str, model: Any, task: Task, folds: list[tuple[NDArray, NDArray]], on_fold: Callable[[], None]
) -> Entry:
    """Score clones of a model on each fold, calling `on_fold` after it; an exception gives an entry with `failure`."""
    entry = Entry(name)
    for train, test in folds:
        try:
            _score_fold(entry, clone(model), task.rows.take(train), task.rows.take(test), task)
        except Exception as error:
            # An error of one model must not hide the results of the others.
            return Entry(name, failure=first_line(error))
        on_fold()
    return entry


def constant_entry(task: Task, folds: list[tuple[NDArray, NDArray]]) -> Entry:
    """Return the leaderboard entry of the best constant prediction from the training rows of each fold."""
    entry = Entry(CONSTANT)
    classes = np.unique(task.rows.y) if task.is_classification else None
    for train, test in folds:
        rows, held_out = task.rows.take(train), task.rows.take(test)
        constant = constant_prediction(rows.y, rows.weight, classes)
        entry.scores.append(score_constant(constant, Truth(held_out.y, held_out.weight, classes, None)))
    return entry


def best_scores(entries: list[Entry]) -> Scores:
    """Return the best mean of each score over all entries, the maximum or minimum as suits the score."""
    done = [entry for entry in entries if entry.scores]
    best = {name: max if name.startswith(HIGHER_IS_BETTER) else min for name in (done[0].scores[0] if done else {})}
    return {name: choose(entry.mean(name) for entry in done) for name, choose in best.items()}


def rank_entries(entries: list[Entry]) -> list[Entry]:
    """Return entries sorted by their mean first score, best first, followed by entries that failed."""
    done = [entry for entry in entries if entry.scores]
    name = next(iter(done[0].scores[0])) if done else ""
    sign = -1 if name.startswith(HIGHER_IS_BETTER) else 1
    return sorted(done, key=lambda entry: sign * entry.mean(name)) + [entry for entry in entries if not entry.scores]


def _score_fold(entry: Entry, model: Any, rows: LabelledRows, held_out: LabelledRows, task: Task) -> None:
    """Fit `model` on `rows`, score it on `held_out`, and append scores, times and size to `entry`."""
    weight = {} if rows.weight is None else {"sample_weight": rows.weight}
    start = time.perf_counter()
    model.fit(rows.X, rows.y, **weight)
    entry.fit_seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    predicted = probabilities(model, held_out.X) if task.is_classification else model.predict(held_out.X)
    entry.predict_seconds.append(time.perf_counter() - start)
    entry.n_predicted += len(held_out.y)
    entry.n_bytes = len(pickle.dumps(model))
    classes = np.unique(task.rows.y) if task.is_classification else None
    if classes is not None:
        predicted = _expand_to_classes(predicted, model.classes_, classes)
    entry.scores.append(score(predicted, Truth(held_out.y, held_out.weight, classes, None)))


def _expand_to_classes(probabilities: NDArray, fold_classes: NDArray, classes: NDArray) -> NDArray:
    """Return probabilities with columns for all classes; classes that the training fold lacks have probability 0."""
    out = np.zeros((len(probabilities), len(classes)))
    out[:, np.searchsorted(classes, fold_classes)] = probabilities
    return out


FORMATS = (".png", ".svg", ".pdf")


def check_picture(path: str) -> None:
    """Raise CommandError if the suffix of the path is not supported or matplotlib is not installed."""
    if Path(path).suffix.lower() not in FORMATS:
        raise CommandError(f"--picture must end in {', '.join(FORMATS)}; got {path}")
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise CommandError("--picture needs matplotlib: pip install 'fastens[plot]'") from error
    mpl.use("Agg")


def draw_leaderboard(entries: list[Entry], title: str, path: str) -> None:
    """Draw the score with standard error and the fit time of each model, and save the picture to `path`."""
    done = [entry for entry in entries if entry.scores]
    score_name = next(iter(done[0].scores[0]))
    left = axes(figsize=(9, 1.2 + 0.4 * len(done)))
    figure: Any = left.figure
    left.remove()
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    limit = _axis_limit(done, score_name)
    for row, entry in enumerate(done):
        colour = "0.6" if entry.name == CONSTANT else "C0"
        mean = entry.mean(score_name)
        if mean > limit:
            left.annotate(f"{mean:.3g} →", (limit, row), ha="right", va="center", color=colour, fontsize=8)
        else:
            left.errorbar(mean, row, xerr=entry.error(score_name), fmt="o", color=colour, capsize=3)
        if entry.fit_seconds:
            right.barh(row, entry.fit_time, color=colour, height=0.5)
            right.annotate(f" {entry.fit_time:.2g} s", (entry.fit_time, row), va="center", fontsize=8)
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
    right.set_xlabel("fit time in seconds")
    figure.suptitle(title, fontsize=10, parse_math=False)
    figure.savefig(path, dpi=150)


def _axis_limit(done: list[Entry], score_name: str) -> float:
    """Return an upper limit of the axis that cuts off models far worse than the constant; inf if none is."""
    means = [entry.mean(score_name) for entry in done]
    constant = next((entry.mean(score_name) for entry in done if entry.name == CONSTANT), means[-1])
    limit = constant + max(constant - means[0], 0.0)
    return limit if means[-1] > limit > means[0] else np.inf
