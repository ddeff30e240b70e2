"""Contents of the HTML reports on models and tables."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.cli.explaining.subject import (
    Subject,
    affordable_rows,
    as_numbers,
    choose_rows,
    contributions,
    explain_row,
    has_contributions,
    is_ordered,
    partial_dependence,
    shuffled_importance,
)
from fastens.cli.inspecting.checks import score_name
from fastens.cli.inspecting.columns import ColumnFacts
from fastens.cli.inspecting.inspection import KINDS, Inspection, describe_contents, missing_share, table_facts
from fastens.cli.page import charts, sections
from fastens.cli.page.charts import N_COLOURS, Html, document, element, join_html, wide_table
from fastens.cli.page.sections import about, card, grid, section
from fastens.cli.report.report import score, score_constant, score_text
from fastens.cli.table.columns import WORDS
from fastens.inspection.contribution_plots import explained_quantity
from fastens.inspection.model_plots import training_curves

Array = NDArray[np.float64]
# The maximum number of rows for everything except the scores.
MAX_ROWS = 20_000
N_SWARM_ROWS, MIN_SWARM_ROWS, SWARM_SECONDS = 800, 20, 3.0
N_CONTRIBUTING = 12
N_DEPENDENCES = 6
# Longer parameter values are left out.
LONGEST_VALUE = 100


def report_page(full_subject: Subject, model_file: str, table_file: str) -> str:
    """Return the HTML report on a model and a table; training rows are left out if there are other rows."""
    subject, trained_on, notes = full_subject, full_subject.trained_on, []
    n_rows = f"{len(full_subject.predicted):,}"
    rows = f"all {n_rows} rows"
    if trained_on is not None and trained_on.all():
        notes.append("The model was trained on all rows of this table, so scores and importances are too optimistic.")
    elif trained_on is not None:
        subject = full_subject.take(np.flatnonzero(~trained_on))
        rows = f"the {len(subject.predicted):,} of {n_rows} rows that training held out"
    if subject.truth is None:
        notes.append(
            "The table does not have the target, so there are no scores, and importances are changes "
            "of the predictions."
        )
    model, card = subject.model, subject.card
    title = f"What predicts {card.target}" if card.target else "What predicts"
    model_name, table_name = os.path.basename(model_file), os.path.basename(table_file)
    lead = f"{type(model).__name__} in {model_name}, explained on {rows} of {table_name}"
    sample = subject.take(subject.sample_rows(MAX_ROWS))
    parts = [*_score_sections(subject, rows), *_feature_sections(sample), *_training_sections(model)]
    return document(title, lead, notes, [*parts, _model_section(subject)], kicker="fastens · model report")


def _score_sections(subject: Subject, rows: str) -> list[Html]:
    """Return the sections on scores and errors, or [] without true values; `rows` describes the rows in words."""
    truth = subject.truth
    if truth is None:
        return []
    constant = None if subject.card.constant is None else score_constant(np.array(subject.card.constant), truth)
    seen = sections.scores(score(subject.predicted, truth), constant, f"On {rows}.")
    return [seen, sections.errors(subject) if truth.classes is None else sections.probabilities(subject)]


def _feature_sections(subject: Subject) -> list[Html]:
    """Return the sections on importance, contributions, dependence, words of texts, and single rows."""
    model, X = subject.model, subject.X
    page_sections = []
    if hasattr(model, "most_informative_terms"):
        page_sections.append(sections.informative_terms(model.most_informative_terms()))
    chosen = choose_rows(subject)
    parts = _sample_contributions(subject, list(chosen))
    if X.num_columns > 1:
        importance = shuffled_importance(subject)
        order = np.argsort(-importance.mean, kind="stable").tolist()
        page_sections += [sections.importances(X.column_names, _split_shares(model), importance)]
        if parts is not None:
            page_sections.append(_contribution_section(subject, parts))
        tried = [column for column in order if subject.card.kinds.get(X.column_names[column]) != WORDS][:N_DEPENDENCES]
        page_sections.append(_dependence_section(subject, tried))
    rows = [
        explain_row(subject, row, choice, None if parts is None else parts.of[k])
        for k, (row, choice) in enumerate(chosen.items())
    ]
    return [*page_sections, sections.single_rows(subject, rows)]


def _split_shares(model: Any) -> dict[str, Array]:
    """Return {"gain": ..., "splits": ...}, each a column's share (n_columns,) of the total; {} without splits."""
    if hasattr(model, "importances"):
        return {"gain": model.importances("gain"), "splits": model.importances("split")}
    gain = getattr(model, "feature_importances_", None)
    return {} if gain is None else {"gain": np.asarray(gain)}


@dataclass(frozen=True)
class Parts:
    """Contributions (n_rows, n_outputs, n_columns + 1) of some rows, starting with those shown individually."""

    rows: NDArray[np.intp]
    of: Array


def _sample_contributions(subject: Subject, first: list[int]) -> Parts | None:
    """Return contributions of the rows `first`, then of others that take a few seconds; None if unavailable."""
    if not has_contributions(subject.model):
        return None
    n_rows = min(N_SWARM_ROWS, max(MIN_SWARM_ROWS, affordable_rows(subject.model, subject.X, SWARM_SECONDS)))
    others = subject.sample_rows(n_rows)
    rows = np.append(np.array(first, dtype=np.intp), others[~np.isin(others, first)])
    return Parts(rows, contributions(subject.model, subject.X.take(rows)))


def _contribution_section(subject: Subject, explained: Parts) -> Html:
    """Return the section on contributions: a swarm plot, or mean sizes if there are several classes."""
    subject, parts = subject.take(explained.rows), explained.of
    sizes = np.abs(parts[..., :-1]).mean(axis=0)
    top = np.argsort(-sizes.sum(axis=0), kind="stable")[:N_CONTRIBUTING]
    names = [subject.X.column_names[column] for column in top]
    if len(sizes) > 1:
        return sections.class_contributions(sizes[:, top], names, subject.output_names, len(parts))
    values = [_shading_values(subject.X.column(column)) for column in top.tolist()]
    label = explained_quantity(subject.model, 0)
    return sections.contributions(parts[:, 0, top], list(zip(names, values, strict=True)), label)


def _shading_values(column: pa.ChunkedArray) -> Array:
    """Return the values of a column as numbers for shading; categories and missing values are NaN."""
    return as_numbers(column) if is_ordered(column) else np.full(len(column), np.nan)


def _dependence_section(subject: Subject, columns: list[int]) -> Html:
    """Return the section on dependence on columns, by index, for the most frequent classes if there are many."""
    features = [subject.X.column_names[column] for column in columns]
    named = [
        (name, replace(partial_dependence(subject, column), is_day=subject.is_day(name)))
        for name, column in zip(features, columns, strict=True)
    ]
    names = subject.output_names
    if len(names) > N_COLOURS:
        frequent = np.sort(np.argsort(-subject.predicted.mean(axis=0), kind="stable")[:N_COLOURS])
        names = [names[k] for k in frequent]
        named = [(name, one.select_outputs(frequent)) for name, one in named]
    if not is_classifier(subject.model):
        label = "prediction"
    else:
        label = f"probability of {names[0]}" if len(names) == 1 else "probability"
    return sections.dependences(named, names, label)


def _training_sections(model: Any) -> list[Html]:
    """Return a list with the section on the training curve, empty if the model has none."""
    curves = {name: values for name, values in training_curves(model).items() if len(values) > 1}
    stops = "validation rows" in curves and model.early_stopping is not False
    best = int(model.n_estimators_) if stops else None
    return [sections.training(curves, best)] if curves else []


def _model_section(subject: Subject) -> Html:
    """Return the section on the model's class and the parameters that differ from their defaults."""
    model = subject.model
    defaults = {name: parameter.default for name, parameter in inspect.signature(type(model)).parameters.items()}
    changed = []
    for name, value in model.get_params(deep=False).items():
        text = repr(tuple(value) if isinstance(value, list) else value)
        if name in defaults and text != repr(defaults[name]):
            changed.append((name, text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"))
    facts = [("model", type(model).__name__), ("columns", f"{subject.X.num_columns:,}"), *changed]
    n_rounds = getattr(model, "n_estimators_", None)
    if n_rounds is not None:
        facts.append(("n_estimators_", f"{n_rounds:,}"))
    return sections.section(
        "model", "The model", "The model and the parameters that differ from the defaults.", sections.about(facts)
    )


MAX_PICTURES = 200


def table_page(inspection: Inspection, table_file: str) -> str:
    """Return the HTML report of `fastens inspect` on a table."""
    name = os.path.basename(table_file)
    lead = f"{inspection.n_rows:,} rows and {len(inspection.columns):,} columns of {name}"
    parts = [
        section("table", "The table", "The table as it was read.", about(table_facts(inspection, name))),
        _findings_section(inspection),
        *([_individual_score_section(inspection)] if inspection.alone else []),
        _distribution_section(inspection),
    ]
    return document("What the table holds", lead, [], parts, kicker="fastens · table report")


def _findings_section(inspection: Inspection) -> Html:
    """Return the section with the findings of the inspection."""
    hint = "Problems that would harm a model or make its scores too optimistic."
    if not inspection.findings:
        return section("findings", "What to check", "Nothing stands out.")
    rows = (element("tr", element("th", one.kind, scope="row"), element("td", one.text)) for one in inspection.findings)
    return section("findings", "What to check", hint, card(element("table", element("tbody", rows), class_="prose")))


def _individual_score_section(inspection: Inspection) -> Html:
    """Return the section with a bar for the individual score of each column."""
    measure = score_name(inspection.target)
    nothing = 0.5 if measure == "AUC" else 0.0
    lines = []
    for name, value in sorted(inspection.alone.items(), key=lambda pair: -np.nan_to_num(pair[1], nan=-np.inf)):
        share = max(0.0, (value - nothing) / (1 - nothing)) if np.isfinite(value) else 0.0
        meter = element("td", element("i", style=f"--share:{share:.3f}"), class_="meter")
        lines.append(element("tr", element("th", name, scope="row"), meter, element("td", score_text(measure, value))))
    head = element("tr", (element("th", title, scope="col") for title in ("column", "", measure)))
    hint = (
        f"The {measure} of a model on this column alone, on held-out rows. A value near 1 suggests target "
        f"leakage; at {nothing:g} or below, the column alone is not informative."
    )
    return section("alone", "How informative is each column alone?", hint, card(wide_table(head, lines)))


def _distribution_section(inspection: Inspection) -> Html:
    """Return the section with a card for each column."""
    cards = [_column_card(facts) for facts in inspection.columns[:MAX_PICTURES]]
    n_more = len(inspection.columns) - MAX_PICTURES
    more = [element("p", f"and {n_more:,} more columns", class_="caption")] if n_more > 0 else []
    return section("columns", "The columns", "The distribution of each column.", grid(cards), *more)


def _column_card(facts: ColumnFacts) -> Html:
    """Return a card with the kind, a chart or the contents, and the remarks of one column."""
    about_it = f"{KINDS.get(facts.kind, facts.kind)}, {facts.n_distinct:,} different, missing {missing_share(facts)}"
    parts: list[Html] = [element("p", about_it, class_="outcome")]
    if facts.values is not None and len(finite := facts.values[np.isfinite(facts.values)]):
        parts.append(charts.histogram(finite, "value"))
    elif facts.days is not None:
        parts += [element("p", describe_contents(facts), class_="caption"), charts.dates(facts.days)]
    elif facts.frequent and facts.frequent[0][1] > 1:
        parts.append(charts.frequencies(facts.frequent, facts.n_rows))
    else:
        parts.append(element("p", describe_contents(facts), class_="caption"))
    remarks = (element("p", f"It {remark.one}.", class_="note") for remark in facts.remarks)
    return card(join_html(parts, remarks), title=facts.name)
