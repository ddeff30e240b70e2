"""What the commands print: tables of facts and scores, and bars."""

from __future__ import annotations

import errno
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fastens.cli.table.errors import visible

if TYPE_CHECKING:
    from fastens.cli.report.leaderboard import Entry
    from fastens.cli.report.scores import Scores

MOST_DIGITS = 6  # equal scores of all folds may have an error of rounding
NO_VALUE = "-"
N_IMPORTANT = 10
PIPED_WIDTH = 120
BAR_WIDTH = 30
NARROW_NAME = 16


class Report:
    """Results on standard output, messages on standard error; plain text where the output is not a terminal.

    With `out`, results are written there.
    """

    def __init__(self, out: IO[str] | None = None) -> None:
        self.out = _console(sys.stdout if out is None else out)
        self.err = _console(sys.stderr)

    def title(self, text: str) -> None:
        """A heading, after an empty line."""
        self.out.print()
        self.out.print(text, style="bold")

    def facts(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names and values in two columns."""
        grid = _grid(2)
        for name, value in rows:
            grid.add_row(name, value)
        self.out.print(grid)

    def notes(self, notes: Sequence[str]) -> None:
        """Remarks, one below the other."""
        if not notes:
            return
        self.title("Notes")
        grid = Table.grid(padding=(0, 1))
        for note in notes:
            grid.add_row("-", note)
        self.out.print(grid)

    def warnings(self, warnings: Sequence[str]) -> None:
        """What may make the results worthless, one below the other, not to be overlooked."""
        if not warnings:
            return
        self.out.print()
        self.out.print("Warnings", style="bold red")
        grid = Table.grid(padding=(0, 1))
        for warning in warnings:
            grid.add_row("!", warning, style="red")
        self.out.print(grid)

    def scores(self, title: str, model: Scores, constant: Scores | None) -> None:
        """The scores of the model beside those of a constant prediction."""
        self.title(title)
        table = Table(box=None, padding=(0, 2), pad_edge=True, show_edge=False)
        table.add_column("")
        table.add_column("model", justify="right", style="bold")
        if constant is not None:
            table.add_column("constant prediction", justify="right")
        for name, value in model.items():
            cells: list[RenderableType] = [name, shown(name, value)]
            if constant is not None:
                cells.append(shown(name, constant[name]) if name in constant else NO_VALUE)
            table.add_row(*cells)
        self.out.print(table)

    def scores_of_parts(self, title: str, parts: Sequence[tuple[str, int, Scores]]) -> None:
        """The scores of several parts of the rows, one below the other."""
        self.title(title)
        table = Table(box=None, padding=(0, 2), pad_edge=True, show_edge=False)
        table.add_column("")
        names = list(parts[0][2]) if parts else []
        for name in ("rows", *names):
            table.add_column(name, justify="right", no_wrap=True)
        for part, n_rows, scores in parts:
            cells = [shown(name, scores[name]) if name in scores else NO_VALUE for name in names]
            table.add_row(one_line(part), f"{n_rows:,}", *cells)
        self.out.print(table)

    def leaderboard(self, title: str, entries: Sequence[Entry]) -> None:
        """Models from best to worst; below them those that failed, and why.

        A terminal that is too narrow shows fewer columns, and none of their numbers in part.
        """
        self.title(title)
        done = [entry for entry in entries if entry.scores]
        names = list(done[0].scores[0])
        headers = [*(name.replace(" (one against the rest)", "") for name in names), "fit", "a row", "size"]
        rows = [[*(with_error(name, one.mean(name), one.error(name)) for name in names), *_costs(one)] for one in done]
        n_shown = n_columns_shown(headers, rows, self.out.width - NARROW_NAME)
        table = Table(box=None, padding=(0, 1), pad_edge=True, show_edge=False)
        table.add_column("model")
        for name in headers[:n_shown]:
            table.add_column(name, justify="right", no_wrap=True)
        for entry, row in zip(done, rows, strict=True):
            table.add_row(one_line(entry.name), *row[:n_shown], style="" if entry.fit_seconds else "dim")
        self.out.print(table)
        if left_out := headers[n_shown:]:
            self.out.print(f" a wider terminal also shows: {', '.join(left_out)}", style="dim")
        self.notes([f"{entry.name}: {entry.failure}" for entry in entries if entry.failure])

    def importances(self, shares: Iterable[tuple[str, float]]) -> None:
        """The columns that gained most, each with a bar."""
        largest = sorted(shares, key=lambda pair: -pair[1])[:N_IMPORTANT]
        largest = [(name, share) for name, share in largest if share > 0]
        if not largest:
            return
        self.title("Most important columns (share of what the splits gain)")
        grid = _grid(3)
        for name, share in largest:
            bar = ProgressBar(
                total=largest[0][1], completed=share, width=BAR_WIDTH, complete_style="cyan", finished_style="cyan"
            )
            grid.add_row(one_line(name), f"{share:6.1%}", bar)
        self.out.print(grid)

    def informative_terms(self, words: Mapping[Any, Sequence[tuple[str, float]]]) -> None:
        """The most characteristic words of each class."""
        self.title("Most informative words")
        grid = _grid(2)
        for label, best in words.items():
            grid.add_row(str(label), ", ".join(word for word, _ in best))
        self.out.print(grid)

    def line(self, text: str) -> None:
        """A line that is not part of the results."""
        self.err.print(text)


def _costs(entry: Entry) -> tuple[str, str, str]:
    if not entry.fit_seconds:
        return NO_VALUE, NO_VALUE, NO_VALUE
    size = f"{entry.n_bytes / 1024:,.0f} KiB"
    microseconds = entry.microseconds_per_row
    a_row = f"{microseconds:,.0f}" if microseconds >= 10 else f"{microseconds:.2g}"
    return f"{entry.fit_time:.3g} s", f"{a_row} µs", size


class _PlainConsole(Console):
    """A console whose texts may break lines, and send no other control character."""

    def on_broken_pipe(self) -> None:
        # rich would end the process here; the entry of the command line knows whether the command goes on.
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text, but="\n\t"), **options)


def _console(stream: IO[str]) -> Console:
    """A console for which names of columns are data: never markup, never coloured by what they look like."""
    width = None if stream.isatty() else PIPED_WIDTH
    return _PlainConsole(file=stream, width=width, markup=False, highlight=False, emoji=False)


def shown(name: str, value: float) -> str:
    """A score with as many digits as it is worth."""
    if math.isnan(value):
        return NO_VALUE
    if name == "accuracy":
        return f"{value:.2%}"
    if name.startswith("AUC") or name.endswith("R²"):
        return f"{round(value, 4) + 0.0:.4f}"  # adding 0 takes the sign off -0
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:#.5g}"


def n_columns_shown(headers: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> int:
    """How many columns fit into a width, the first at least."""
    widths = [3 + max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    n_shown = len(headers)
    while n_shown > 1 and sum(widths[:n_shown]) > width:
        n_shown -= 1
    return n_shown


def one_line(text: str) -> Text:
    """A cell that is cut where its column is narrow; its column gives way before those that may not wrap."""
    return Text(visible(text), no_wrap=True, overflow="ellipsis")


def with_error(name: str, value: float, error: float) -> str:
    """A score and its standard error, with as many digits as the error allows."""
    if math.isnan(value):
        return NO_VALUE
    if name == "accuracy":
        return f"{value:.1%} ± {error:.1%}"
    n_digits = min(max(0, 1 - math.floor(math.log10(error))), MOST_DIGITS) if error > 0 else 4
    shown = f"{round(value, n_digits) + 0.0:,.{n_digits}f}"  # -0 is 0
    return shown if math.isnan(error) else f"{shown} ± {error:,.{n_digits}f}"


def _grid(n_columns: int) -> Table:
    """Columns without a frame; the first holds names, cut where they are long."""
    grid = Table.grid(padding=(0, 2, 0, 2))
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=36)
    for _ in range(n_columns - 1):
        grid.add_column()
    return grid
