"""The page of `fastens inspect`: what stands out in a table, and a picture of every column."""

from __future__ import annotations

import os

import numpy as np

from fastens.cli.inspecting.checks import score_name
from fastens.cli.inspecting.columns import ColumnFacts
from fastens.cli.inspecting.inspection import Inspection
from fastens.cli.inspecting.text import KINDS, contents, missing_share, table_facts
from fastens.cli.page import charts
from fastens.cli.page.document import document
from fastens.cli.page.markup import Html, element, joined, wide_table
from fastens.cli.page.sections import about, card, grid, section
from fastens.cli.report.report import shown

MOST_PICTURES = 200


def table_page(found: Inspection, table_file: str) -> str:
    """The whole page."""
    name = os.path.basename(table_file)
    lead = f"{found.n_rows:,} rows and {len(found.columns):,} columns of {name}"
    parts = [
        section("table", "The table", "What was read.", about(table_facts(found, name))),
        _findings(found),
        *([_alone(found)] if found.alone else []),
        _columns(found),
    ]
    return document("What the table holds", lead, [], parts, kicker="fastens · table report")


def _findings(found: Inspection) -> Html:
    hint = "What a model would stumble over, or what would make its scores too good to be true."
    if not found.findings:
        return section("findings", "What to look at", "Nothing stands out.")
    rows = (element("tr", element("th", one.kind, scope="row"), element("td", one.text)) for one in found.findings)
    return section("findings", "What to look at", hint, card(element("table", element("tbody", rows), class_="prose")))


def _alone(found: Inspection) -> Html:
    """A bar for each column's score alone."""
    measure = score_name(found.target)
    nothing = 0.5 if measure == "AUC" else 0.0
    lines = []
    for name, value in sorted(found.alone.items(), key=lambda pair: -np.nan_to_num(pair[1], nan=-np.inf)):
        share = max(0.0, (value - nothing) / (1 - nothing)) if np.isfinite(value) else 0.0
        meter = element("td", element("i", style=f"--share:{share:.3f}"), class_="meter")
        lines.append(element("tr", element("th", name, scope="row"), meter, element("td", shown(measure, value))))
    head = element("tr", (element("th", title, scope="col") for title in ("column", "", measure)))
    hint = (
        f"The {measure} of this column alone, on rows that it was not fitted on. Near 1 it gives the target "
        f"away; at {nothing:g} or below it says nothing alone."
    )
    return section("alone", "What does each column say alone?", hint, card(wide_table(head, lines)))


def _columns(found: Inspection) -> Html:
    cards = [_picture(facts) for facts in found.columns[:MOST_PICTURES]]
    n_more = len(found.columns) - MOST_PICTURES
    more = [element("p", f"and {n_more:,} more columns", class_="caption")] if n_more > 0 else []
    return section("columns", "The columns", "How the values of each column are spread.", grid(cards), *more)


def _picture(facts: ColumnFacts) -> Html:
    about_it = f"{KINDS.get(facts.kind, facts.kind)}, {facts.n_distinct:,} different, missing {missing_share(facts)}"
    parts: list[Html] = [element("p", about_it, class_="outcome")]
    if facts.values is not None and len(finite := facts.values[np.isfinite(facts.values)]):
        parts.append(charts.histogram(finite, "value"))
    elif facts.days is not None:
        parts += [element("p", contents(facts), class_="caption"), charts.dates(facts.days)]
    elif facts.frequent and facts.frequent[0][1] > 1:
        parts.append(charts.frequencies(facts.frequent, facts.n_rows))
    else:
        parts.append(element("p", contents(facts), class_="caption"))
    remarks = (element("p", f"It {remark.one}.", class_="note") for remark in facts.remarks)
    return card(joined(parts, remarks), title=facts.name)
