"""`fastens train`: train a model on a table and score it on held-out rows."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.inspecting.checks import score_warnings, show_task
from fastens.cli.models.model_files import predict_values
from fastens.cli.models.models import FAMILIES, add_parameters, add_quality, chosen_family, fit, make_model, reads_words
from fastens.cli.report.progress import cluster_progress, training_progress, waiting
from fastens.cli.report.report import (
    Report,
    Scores,
    Truth,
    area_notes,
    constant_prediction,
    score,
    score_constant,
    score_text,
)
from fastens.cli.table.columns import CommandError, first_line, listed
from fastens.cli.table.large import connect_cluster, delayed_partitions, large_task
from fastens.cli.table.tables import add_overwrite, check_distinct_outputs, check_output
from fastens.cli.table.task import LabelledRows, Task, add_task_options, add_test_fraction, add_text_option, read_task
from fastens.distributed import DaskTable, FitProgress
from fastens.monitoring.callbacks import Checkpoint
from fastens.table.opening import in_parts
from fastens.table.source import TableSource
from fastens.table.sources import Batches

DEFAULT_OUTPUT = "model.fastens"
DESCRIPTION = """Train a model on a table, and report its scores on held-out rows.
Without a table, the command uses an example table of scikit-learn."""


@dataclass(frozen=True)
class Trained:
    """A trained model with its training time and its scores on held-out rows."""

    model: Any
    constant: NDArray[np.float64]
    seconds: float
    scores: Scores
    constant_scores: Scores
    notes: list[str]


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens train` with its options to `commands`."""
    usage = "fastens train [TABLE ...] [--target COL] [options]"
    parser = commands.add_parser("train", description=DESCRIPTION, usage=usage)
    add_task_options(parser, takes_several=True)
    add_text_option(parser)
    add_test_fraction(parser)
    where = f"file to save the model to (default: {DEFAULT_OUTPUT}; without a TABLE, the model is not saved)"
    parser.add_argument("-o", "--output", metavar="FILE", help=where)
    add_overwrite(parser)
    text = "file to save a boosting model to every 10 rounds; if it exists, training resumes from it"
    parser.add_argument("--checkpoint", metavar="FILE", help=text)
    text = "memory limit for training, such as 8GB; data beyond it is stored in files"
    parser.add_argument("--max-memory", metavar="SIZE", help=text)
    text = "folder for these files (default: the temporary folder)"
    parser.add_argument("--spill-dir", metavar="FOLDER", help=text)
    text = "train on a Dask cluster: the address of its scheduler (tcp://HOST:PORT), or local:N for N local processes"
    parser.add_argument("--dask", metavar="CLUSTER", help=text)
    add_quality(parser)
    add_parameters(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the table, train, evaluate and save the model, and print the results."""
    report = Report()
    family = chosen_family(options)
    output = options.output or (DEFAULT_OUTPUT if options.table else None)
    if options.spill_dir is not None and options.max_memory is None:
        raise CommandError("--spill-dir requires --max-memory, because it is used only if memory is limited")
    check_distinct_outputs({"--output": output, "--checkpoint": options.checkpoint})
    inputs = options.table if isinstance(options.table, list) else [options.table]
    for path in filter(None, (output, options.checkpoint)):
        check_output(path, "a model", inputs, options.overwrite)
    options.reads_words = reads_words(family)
    task = large_task(options) or read_task(options)
    show_task(report, task)
    model = make_model(task.card.task, options, task.card.texts)
    if options.dask is None:
        trained = _train_locally(task, model, report, options)
    else:
        trained = _train_on_cluster(task, model, report, options)
    if output is not None:
        save_trained(trained, output, task)
    if options.checkpoint is not None and os.path.exists(options.checkpoint):
        os.remove(options.checkpoint)
    if trained.scores:
        report.scores(f"Scores on {task.held_out.sum():,} held-out rows", trained.scores, trained.constant_scores)
    report.notes(trained.notes)
    report.warnings(score_warnings(trained.scores, gain_shares(trained.model, task)))
    _print_model(trained.model, task, report)
    report.facts(_outcome_facts(trained, output, FAMILIES[family].unit))


def _train_locally(task: Task, model: Any, report: Report, options: argparse.Namespace) -> Trained:
    """Fit on the training rows in this process; return the model with scores on the held-out rows."""
    rows = task.rows.take(~task.held_out)
    rows, validation = _split_validation_set(rows, task, model, options.random_state)
    rows = replace(rows, X=_limit_memory(rows.X, model, options))
    start = time.perf_counter()
    with _save_checkpoints(model, options.checkpoint) as checkpoints:
        _fit_with_progress(model, rows, report, checkpoints | validation)
    seconds = time.perf_counter() - start
    return score_on_held_out(model, task, seconds)


def _split_validation_set(
    rows: LabelledRows, task: Task, model: Any, random_state: int
) -> tuple[LabelledRows, dict[str, Any]]:
    """Split a validation set for early stopping from the training rows, by time or group like the held-out rows.

    All rows are used for training, without a validation set, if the model does not use one, or if the validation set
    would contain classes that are absent from the training rows.
    """
    stops = getattr(model, "early_stopping", False) not in (False, "auto") and hasattr(model, "_stopping")
    if task.order is None or not stops or model._stopping.folds is not None or model._stopping.refit:
        return rows, {}
    is_watched = task.order.take(~task.held_out).mark_held_out(model.validation_fraction, random_state)
    first, watched = rows.take(~is_watched), rows.take(is_watched)
    if task.is_classification and not np.isin(rows.y, first.y).all():
        return rows, {}
    return first, {"X_val": watched.X, "y_val": watched.y, "sample_weight_val": watched.weight}


def _limit_memory(X: Any, model: Any, options: argparse.Namespace) -> Any:
    """Return X limited by --max-memory; load it first if it is batches but the model must have all rows."""
    if isinstance(X, Batches) and not model._capabilities.supports_out_of_core:
        X = pa.concat_tables(X.parts())
    if options.max_memory is None:
        return X
    try:
        source = TableSource(X, max_memory=options.max_memory, spill_dir=options.spill_dir)
        return in_parts(source) if isinstance(X, Batches) else source
    except ValueError as error:
        raise CommandError(first_line(error)) from error


def _train_on_cluster(task: Task, model: Any, report: Report, options: argparse.Namespace) -> Trained:
    """Fit on a Dask cluster, whose workers must be able to read the files, and score on held-out rows here."""
    heard: list[FitProgress] = []
    with connect_cluster(options.dask) as client, _save_checkpoints(model, options.checkpoint) as checkpoints:
        assert task.files is not None
        rows = task.rows.take(~task.held_out)
        tables, y, weight = delayed_partitions(task.files, ~task.held_out, rows.y, rows.weight)
        start = time.perf_counter()
        with cluster_progress(report.err) as show:

            def hear(now: FitProgress) -> None:
                heard[:] = [now]
                show(now)

            table = DaskTable(tables, client=client, on_progress=hear)
            fit(model, table, y, sample_weight=weight, **checkpoints)
        seconds = time.perf_counter() - start
        sent = [f", and the first worker sent {now.n_bytes / 1e6:,.1f} MB" for now in heard]
        report.facts([("cluster", f"{len(client.nthreads())} workers" + "".join(sent))])
    return score_on_held_out(model, task, seconds)


def score_on_held_out(model: Any, task: Task, seconds: float) -> Trained:
    """Return the model with `seconds`, its training time, and scores on held-out rows; {} if there are none."""
    classes = model.classes_ if task.is_classification else None
    rows = task.rows.take(~task.held_out)
    constant = constant_prediction(rows.y, rows.weight, classes)
    if not task.held_out.any():
        return Trained(model, constant, seconds, {}, {}, [])
    rows = task.rows.take(task.held_out)
    notes = []
    if classes is not None and not (is_known := np.isin(rows.y, classes)).all():
        names = sorted({str(label) for label in rows.y[~is_known]})
        n_unknown = np.count_nonzero(~is_known)
        notes.append(
            f"Not scored: {n_unknown:,} held-out rows, because their classes have no training rows: {listed(names)}."
        )
        rows = rows.take(is_known)
    truth = Truth(rows.y, rows.weight, classes, getattr(model, "loss", None))
    scores, of_constant = score(predict_values(model, rows.X), truth), score_constant(constant, truth)
    return Trained(model, constant, seconds, scores, of_constant, [*notes, *area_notes(truth)])


@contextmanager
def _save_checkpoints(model: Any, path: str | None) -> Iterator[dict[str, Any]]:
    """Save checkpoints to `path` in the context; yield `fit` arguments to resume. Do nothing if it is None."""
    if path is None:
        yield {}
        return
    if not hasattr(model, "callbacks"):
        raise CommandError(f"--checkpoint requires --model boosting; {type(model).__name__} has no checkpoints")
    if model._stopping.folds is not None:
        raise CommandError("--checkpoint requires a single model; --quality best trains an average of several")
    model.callbacks = [Checkpoint(path)]
    yield {"resume": path} if os.path.exists(path) else {}
    model.callbacks = None


def _fit_with_progress(model: Any, rows: LabelledRows, report: Report, arguments: Mapping[str, Any]) -> None:
    """Fit with a progress bar if the model reports its rounds, otherwise with the elapsed time."""
    if not hasattr(model, "_on_round"):
        with waiting(report.err, "training"):
            fit(model, rows.X, rows.y, sample_weight=rows.weight, **arguments)
        return
    with training_progress(report.err, rows.X if isinstance(rows.X, Batches) else None) as model._on_round:
        fit(model, rows.X, rows.y, sample_weight=rows.weight, **arguments)
    del model._on_round


def _print_model(model: Any, task: Task, report: Report) -> None:
    """Print the members of an ensemble, the out-of-bag score, and the most important columns or words."""
    if hasattr(model, "losses_"):
        name = "log loss" if task.is_classification else "squared error"
        members = sorted(zip(model.losses_, model.weights_, model.named_estimators_, strict=True))
        report.title(f"Leaderboard (out-of-fold {name}, weight in the ensemble)")
        report.facts([(member, f"{loss:.5g}, {share:.0%}") for loss, share, member in members])
    if hasattr(model, "oob_score_"):
        name = "accuracy" if task.is_classification else "R²"
        report.facts([("", ""), ("out-of-bag", f"{name} {score_text(name, model.oob_score_)}")])
    report.importances(gain_shares(model, task))
    if hasattr(model, "most_informative_terms"):
        report.informative_terms(model.most_informative_terms())


def gain_shares(model: Any, task: Task) -> list[tuple[str, float]]:
    """Return (feature, share of the total gain of splits) pairs, or an empty list for models without splits."""
    shares = getattr(model, "feature_importances_", None)
    return [] if shares is None else list(zip(task.rows.names, map(float, shares), strict=True))


def save_trained(trained: Trained, output: str, task: Task) -> None:
    """Save the model with its model card; raise CommandError if this fails."""
    metadata = replace(task.card, constant=trained.constant.tolist()).to_metadata()
    try:
        trained.model.save(output, metadata=metadata)
    except ValueError as error:
        raise CommandError(f"cannot save the model: {first_line(error)}") from error
    except OSError as error:
        raise CommandError(f"cannot write {output}: {error.strerror or error}") from error


def _outcome_facts(trained: Trained, output: str | None, unit: str) -> list[tuple[str, str]]:
    """Return the training time, the model file and the next command as (name, text) pairs to print."""
    n_rounds = getattr(trained.model, "n_estimators_", getattr(trained.model, "n_estimators", None))
    rounds = "" if n_rounds is None else f"{n_rounds:,} {unit} "
    facts = [("", ""), ("trained", f"{rounds}in {trained.seconds:.2f} s")]
    if output is None:
        return [*facts, ("your table", "fastens train TABLE --target COL  (CSV or Parquet)")]
    size = f"{os.path.getsize(output) / 1024:,.0f} KiB"
    return [
        *facts,
        ("saved", f"{output} ({size})"),
        ("predict", f"fastens predict {shlex.quote(output)} TABLE -o predictions.csv"),
    ]
