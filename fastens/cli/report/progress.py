"""Progress bars for training and other long operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from fastens.distributed import FitProgress
    from fastens.table.sources import Batches

OnRows = Callable[[int], None]
OnRound = Callable[[int, int, float | None, float | None], None]


@contextmanager
def training_progress(console: Console, batches: Batches | None = None) -> Iterator[OnRound]:
    """Show training progress on a terminal; yield a function to call with round, n_rounds and both losses.

    If the table is read in batches, another bar shows the rows that were read in the current pass.
    """
    with _create_bar(console, "loss") as progress:
        if batches is not None:
            rows = progress.add_task("reading rows", total=len(batches), loss="")
            batches.on_rows = lambda n: progress.reset(rows) if n is None else progress.advance(rows, n)
        bar = progress.add_task("training", total=None, loss="")

        def on_round(index: int, n_rounds: int, train_loss: float | None, validation_loss: float | None) -> None:
            progress.update(bar, completed=index + 1, total=n_rounds, loss=_losses_text(train_loss, validation_loss))

        try:
            yield on_round
        finally:
            if batches is not None:
                batches.on_rows = None


@contextmanager
def cluster_progress(console: Console) -> Iterator[Callable[[FitProgress], None]]:
    """Show rounds, workers and bytes of a fit on a cluster; yield a function to call after each round."""
    with _create_bar(console, "loss") as progress:
        bar = progress.add_task("training", total=None, loss="")

        def show(now: FitProgress) -> None:
            losses = _losses_text(now.train_loss, now.validation_loss)
            sent = f"{now.n_workers} workers  {now.n_bytes / 1e6:,.1f} MB sent"
            progress.update(bar, completed=now.n_done, total=now.n_rounds, loss=f"{losses}  {sent}")

        yield show


def waiting(console: Console, text: str) -> AbstractContextManager[Progress]:
    """Return a context that shows a spinner with the text and the elapsed time if there is a terminal."""
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    progress = Progress(*columns, console=_only_terminal(console), disable=not console.is_terminal, transient=True)
    progress.add_task(text, total=None)
    return progress


@contextmanager
def comparison_progress(console: Console, n_fits: int) -> Iterator[Callable[[str], None]]:
    """Show how many of `n_fits` fits are done; yield a function to call with the model's name after each fit."""
    with _create_bar(console, "model") as progress:
        bar = progress.add_task("comparing", total=n_fits, model="")
        yield lambda model: progress.update(bar, advance=1, model=model)


@contextmanager
def rows_progress(console: Console, text: str, n_rows: int) -> Iterator[OnRows]:
    """Show how many of `n_rows` rows are done; yield a function to call with the number of additional rows."""
    with _create_bar(console, "what") as progress:
        bar = progress.add_task(text, total=n_rows, what="rows")
        yield lambda n_more: progress.update(bar, advance=n_more)


def _losses_text(train_loss: float | None, validation_loss: float | None) -> str:
    """Return the training and validation losses that are not None as text."""
    losses = [("loss", train_loss), ("validation", validation_loss)]
    return "  ".join(f"{name} {loss:#.5g}" for name, loss in losses if loss is not None)


def _only_terminal(console: Console) -> Console:
    """Return the console if it is a terminal, else a silent one, because old rich prints a newline for hidden bars."""
    return console if console.is_terminal else Console(quiet=True)


def _create_bar(console: Console, field: str) -> Progress:
    """Return a progress bar that shows a count, the text field named `field` and the remaining time."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{{task.fields[{field}]}}", markup=False),
        TimeRemainingColumn(compact=True),
        TextColumn("left", markup=False),
        console=_only_terminal(console),
        disable=not console.is_terminal,
        transient=True,
    )
