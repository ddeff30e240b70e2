"""The contents of a report: the sections that the model and the table allow."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.cli.explaining.contributions import affordable_rows, contributions, explains
from fastens.cli.explaining.single_rows import chosen_rows, reasons
from fastens.cli.explaining.subject import Subject, as_numbers, dependence, is_ordered, shuffled_importance
from fastens.cli.page import sections
from fastens.cli.page.document import document
from fastens.cli.page.markup import Html
from fastens.cli.page.svg import N_COLOURS
from fastens.cli.report.scores import score, score_constant
from fastens.cli.table.columns import WORDS
from fastens.inspection.contribution_plots import explained_quantity

Array = NDArray[np.float64]
# Rows for everything but the scores.
MOST_ROWS = 20_000
N_SWARM_ROWS, FEWEST_SWARM_ROWS, SWARM_SECONDS = 800, 20, 3.0
N_CONTRIBUTING = 12
N_DEPENDENCES = 6
# Longer values of parameters are left out.
LONGEST_VALUE = 100


def report_page(everything: Subject, model_file: str, table_file: str) -> str:
    """The page about a model and a whole table; rows that the model was trained on are left out if there are others."""
    trained_on = everything.trained_on
    subject, notes = everything, []
    n_rows = f"{len(everything.predicted):,}"
    rows = f"all {n_rows} rows"
    if trained_on is not None and trained_on.all():
        notes.append("The model was trained on all rows of this table: scores and importances flatter it.")
    elif trained_on is not None:
        subject = everything.take(np.flatnonzero(~trained_on))
        rows = f"the {len(subject.predicted):,} of {n_rows} rows that training held out"
    if subject.truth is None:
        notes.append("The table does not hold the true values: no scores, and importances are changes of predictions.")
    model, card = subject.model, subject.card
    title = f"What predicts {card.target}" if card.target else "What predicts"
    model_name, table_name = os.path.basename(model_file), os.path.basename(table_file)
    lead = f"{type(model).__name__} in {model_name}, seen through {rows} of {table_name}"
    parts = [*_quality(subject, rows), *_columns(subject.take(subject.sample(MOST_ROWS))), *_training(model)]
    return document(title, lead, notes, [*parts, _about(subject)], kicker="fastens · model report")


def _quality(subject: Subject, rows: str) -> list[Html]:
    """Scores, and calibration or errors."""
    truth = subject.truth
    if truth is None:
        return []
    constant = None if subject.card.constant is None else score_constant(np.array(subject.card.constant), truth)
    seen = sections.scores(score(subject.predicted, truth), constant, f"On {rows}.")
    return [seen, sections.errors(subject) if truth.classes is None else sections.probabilities(subject)]


def _columns(subject: Subject) -> list[Html]:
    """Importances, contributions and dependence of the columns; for a text its words."""
    model, X = subject.model, subject.X
    found = []
    if hasattr(model, "most_informative_terms"):
        found.append(sections.informative_terms(model.most_informative_terms()))
    chosen = chosen_rows(subject)
    parts = _contributions(subject, list(chosen))
    if X.num_columns > 1:
        importance = shuffled_importance(subject)
        order = np.argsort(-importance.mean, kind="stable").tolist()
        found += [sections.importances(X.column_names, _shares(model), importance)]
        if parts is not None:
            found.append(_swarm(subject, parts))
        tried = [column for column in order if subject.card.kinds.get(X.column_names[column]) != WORDS][:N_DEPENDENCES]
        found.append(_dependences(subject, tried))
    rows = [
        reasons(subject, row, choice, None if parts is None else parts.of[place])
        for place, (row, choice) in enumerate(chosen.items())
    ]
    return [*found, sections.single_rows(subject, rows)]


def _shares(model: Any) -> dict[str, Array]:
    """Each column's share in what splits gain, and in their number, where the model has splits."""
    if hasattr(model, "importances"):
        return {"gain": model.importances("gain"), "splits": model.importances("split")}
    gain = getattr(model, "feature_importances_", None)
    return {} if gain is None else {"gain": np.asarray(gain)}


@dataclass(frozen=True)
class Parts:
    """Contributions of some rows, (n_rows, n_outputs, n_columns + 1); the first rows are those to be shown singly."""

    rows: NDArray[np.intp]
    of: Array


def _contributions(subject: Subject, first: list[int]) -> Parts | None:
    """Contributions of rows to be shown singly, and of as many others as can be had in a few seconds."""
    if not explains(subject.model):
        return None
    n_rows = min(N_SWARM_ROWS, max(FEWEST_SWARM_ROWS, affordable_rows(subject.model, subject.X, SWARM_SECONDS)))
    others = subject.sample(n_rows)
    rows = np.append(np.array(first, dtype=np.intp), others[~np.isin(others, first)])
    return Parts(rows, contributions(subject.model, subject.X.take(rows)))


def _swarm(subject: Subject, explained: Parts) -> Html:
    """Contributions over many rows: a swarm, or with several classes their sizes."""
    subject, parts = subject.take(explained.rows), explained.of
    sizes = np.abs(parts[..., :-1]).mean(axis=0)
    top = np.argsort(-sizes.sum(axis=0), kind="stable")[:N_CONTRIBUTING]
    names = [subject.X.column_names[column] for column in top]
    if len(sizes) > 1:
        return sections.class_contributions(sizes[:, top], names, subject.output_names, len(parts))
    values = [_heights(subject.X.column(column)) for column in top.tolist()]
    label = explained_quantity(subject.model, 0)
    return sections.contributions(parts[:, 0, top], list(zip(names, values, strict=True)), label)


def _heights(column: pa.ChunkedArray) -> Array:
    """How high the values of a column are: neither categories nor missing values are high or low."""
    return as_numbers(column) if is_ordered(column) else np.full(len(column), np.nan)


def _dependences(subject: Subject, columns: list[int]) -> Html:
    """Dependence on the top columns; of many classes on the most frequent ones."""
    features = [subject.X.column_names[column] for column in columns]
    found = [
        (name, replace(dependence(subject, column), is_day=subject.is_day(name)))
        for name, column in zip(features, columns, strict=True)
    ]
    names = subject.output_names
    if len(names) > N_COLOURS:
        frequent = np.sort(np.argsort(-subject.predicted.mean(axis=0), kind="stable")[:N_COLOURS])
        names = [names[k] for k in frequent]
        found = [(name, one.of_outputs(frequent)) for name, one in found]
    if not is_classifier(subject.model):
        label = "prediction"
    else:
        label = f"probability of {names[0]}" if len(names) == 1 else "probability"
    return sections.dependences(found, names, label)


def _training(model: Any) -> list[Html]:
    """The training curve, if the model has kept one."""
    kept = {
        "training rows": getattr(model, "train_score_", None),
        "validation rows": getattr(model, "validation_score_", None),
        "out of bag": getattr(model, "oob_error_curve_", None),
    }
    curves = {name: np.asarray(values) for name, values in kept.items() if values is not None and len(values) > 1}
    best = int(model.n_estimators_) if "validation rows" in curves else None
    return [sections.training(curves, best)] if curves else []


def _about(subject: Subject) -> Html:
    """The parameters that were given, and what the model is."""
    model = subject.model
    defaults = {name: parameter.default for name, parameter in inspect.signature(type(model)).parameters.items()}
    given = []
    for name, value in model.get_params(deep=False).items():
        text = repr(tuple(value) if isinstance(value, list) else value)
        if name in defaults and text != repr(defaults[name]):
            given.append((name, text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"))
    facts = [("model", type(model).__name__), ("columns", f"{subject.X.num_columns:,}"), *given]
    n_rounds = getattr(model, "n_estimators_", None)
    if n_rounds is not None:
        facts.append(("n_estimators_", f"{n_rounds:,}"))
    return sections.section(
        "model", "The model", "What it is, and the parameters that differ from the defaults.", sections.about(facts)
    )
