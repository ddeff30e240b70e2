"""Sections of reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.cli.explaining.subject import Dependence, Importance, Reasons, Subject
from fastens.cli.page import charts
from fastens.cli.page.charts import N_COLOURS, Html, Range, element, join_html, short, table, wide_table
from fastens.cli.report.report import Scores, score_text, score_with_error

Array = NDArray[np.float64]
# With more classes than this, the most frequent mistakes are listed instead of the whole confusion matrix.
MAX_CLASSES = 12
N_MISTAKES = 12
N_IMPORTANT = 20


def section(name: str, title: str, hint: str, *content: Html) -> Html:
    """Return a section with id `name`, the heading `title` and `hint`, a sentence on how to read it."""
    return element("section", element("h2", title), element("p", hint, class_="hint"), *content, id=name)


def card(*content: str, title: str | None = None) -> Html:
    """Return content in a box, with a heading if `title` is not None."""
    heading = () if title is None else (element("h3", title),)
    return element("div", *heading, *content, class_="card")


def grid(cards: Sequence[Html]) -> Html:
    """Return cards side by side as far as the page is wide enough."""
    return element("div", cards, class_="grid")


def both_widths(draw: Callable[[float], Html]) -> Html:
    """Return draw(width) for the page and for a phone; the style sheet shows the one that suits the screen."""
    widths = (("on-desk", charts.WIDE), ("on-phone", charts.PHONE))
    return join_html(element("div", draw(width), class_=where) for where, width in widths)


def legend(names: Sequence[str]) -> Html:
    """Return a legend with a colour for each name."""
    return element("ul", (element("li", name, class_=f"c{k}") for k, name in enumerate(names)), class_="legend")


def scores(values: Scores, constant: Scores | None, hint: str) -> Html:
    """Return the section on scores, each next to the score of a constant prediction unless `constant` is None."""
    tiles = []
    for name, value in values.items():
        other = (constant or {}).get(name)
        reference = "" if other is None else f"constant prediction {score_text(name, other)}"
        lines = (("name", name), ("value", score_text(name, value)), ("beside", reference))
        tiles.append(element("div", (element("div", text, class_=of) for of, text in lines), class_="card tile"))
    return section("scores", "Scores", hint, element("div", tiles, class_="tiles"))


def probabilities(subject: Subject) -> Html:
    """Return the section on calibration, the distribution of probabilities and the confusion matrix."""
    truth, classes = subject.truth, subject.classes
    assert truth is not None
    assert classes is not None
    if len(classes) == 2:
        probability, happened = subject.outputs[:, 0], truth.codes == 1
        names = (str(classes[0]), str(classes[1]))
        of = f"of {names[1]}"
    else:
        probability = subject.predicted.max(axis=1)
        happened = subject.predicted.argmax(axis=1) == truth.codes
        names, of = ("wrong", "right"), "of the predicted class"
    hint = (
        f"The predicted probability {of} against the observed frequency; each dot is a tenth of the rows. Dots on the "
        "dashed line are calibrated; below it, probabilities are too high. The band is a 95 % confidence interval."
    )
    drawn = [
        card(charts.calibration(probability, happened), title="Calibration"),
        card(charts.probabilities(probability, happened, names), title="Probabilities predicted"),
    ]
    return section("calibration", "Can the probabilities be trusted?", hint, grid(drawn), _confusion_card(subject))


def _confusion_card(subject: Subject) -> Html:
    """Return a card with the confusion matrix or, for many classes, with the most frequent confusions."""
    truth, classes = subject.truth, subject.classes
    assert truth is not None
    assert classes is not None
    names = [str(label) for label in classes]
    counts = np.zeros((len(names), len(names)), dtype=np.intp)
    np.add.at(counts, (truth.codes, subject.predicted.argmax(axis=1)), 1)
    if len(names) > MAX_CLASSES:
        np.fill_diagonal(counts, 0)
        top = np.argsort(-counts, axis=None, kind="stable")[:N_MISTAKES]
        pairs = [np.unravel_index(cell, counts.shape) for cell in top if counts.flat[cell]]
        rows = [[names[i], names[j], f"{counts[i, j]:,}"] for i, j in pairs]
        return card(table(["truth", "predicted", "rows"], rows), title="Most frequent confusions")
    lines = []
    for true, name in enumerate(names):
        share = counts[true] / max(counts[true].sum(), 1)
        cells = (
            element("td", f"{n:,}", class_="right" if k == true else None, style=f"--share:{share[k]:.3f}",
                    title=f"{share[k]:.1%} of the rows of {name}")
            for k, n in enumerate(counts[true])
        )  # fmt: skip
        lines.append(element("tr", element("th", name, scope="row"), cells))
    head = element("tr", element("th", "true ↓  predicted →"), (element("th", name, scope="col") for name in names))
    return card(wide_table(head, lines, "confusion"), title="Confusion matrix")


def errors(subject: Subject) -> Html:
    """Return the section on the errors of a regression: scatter plots, a histogram and quantiles."""
    truth, predicted = subject.truth, subject.predicted
    assert truth is not None
    y = truth.y.astype(np.float64)
    hint = (
        "Each dot is a row. The solid line is the mean residual: where it is above the dashed line, "
        "predictions are too low; where it is below, they are too high."
    )
    drawn = [
        card(charts.true_against_predicted(predicted, y), title="True value against prediction"),
        card(charts.residuals(predicted, y), title="Residuals"),
    ]
    spread = card(charts.histogram(y - predicted, "true minus predicted value"), title="Distribution of errors")
    quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
    limits = zip(quantiles, np.quantile(y - predicted, quantiles), strict=True)
    listed = table(["share of rows", "error at most"], [[f"{share:.0%}", short(limit)] for share, limit in limits])
    return section(
        "residuals",
        "How large are the errors, and where?",
        hint,
        grid([*drawn, spread, card(listed, title="Quantiles")]),
    )


def importances(names: Sequence[str], shares: Mapping[str, Array], shuffled: Importance | None) -> Html:
    """Return a table of the columns by permutation importance or, if `shuffled` is None, by the first of `shares`."""
    if shuffled is not None:
        order, main = np.argsort(-shuffled.mean, kind="stable"), shuffled.mean
        hint = (
            f"Permutation importance: {shuffled.measure}, mean "
            f"and standard error of five shuffles over {shuffled.n_rows:,} rows."
        )
    else:
        main = next(iter(shares.values()))
        order, hint = np.argsort(-main, kind="stable"), "The gain of the splits on each column."
    if shares:
        hint += " The other bars show the column's share of the total gain and of the number of splits."
    largest = float(main.max(initial=0)) or 1.0
    lines = []
    for column in order[:N_IMPORTANT]:
        meter = element("i", style=f"--share:{max(main[column], 0) / largest:.3f}")
        cells = [element("th", names[column], scope="row", title=names[column]), element("td", meter, class_="meter")]
        if shuffled is not None:
            cells.append(element("td", score_with_error("", shuffled.mean[column], shuffled.error[column])))
        cells += [element("td", f"{share[column]:.1%}") for share in shares.values()]
        lines.append(element("tr", cells))
    titles = ["column", "", *([] if shuffled is None else ["shuffled"]), *shares]
    head = element("tr", (element("th", title, scope="col") for title in titles))
    n_more = len(order) - N_IMPORTANT
    more = (element("p", f"and {n_more:,} more columns", class_="caption"),) if n_more > 0 else ()
    return section("importances", "Which columns matter?", hint, card(wide_table(head, lines, "importances"), *more))


def contributions(parts: Array, columns: Sequence[tuple[str, Array]], label: str) -> Html:
    """Return a swarm plot section of contributions (n_rows, n_columns); `columns` are (name, values) pairs."""
    hint = (
        f"Each dot is the contribution of a column to the {label} of a row. Grey dots are categories and "
        f"missing values. The plot shows {len(parts):,} rows."
    )
    scale = element("p", "value of the column: low", element("span", class_="scale"), "high", class_="caption")
    names, values = zip(*columns, strict=True)
    drawn = both_widths(lambda width: charts.swarm(parts, values, names, f"contribution to the {label}", width))
    return section("contributions", "How do their values affect predictions?", hint, card(scale, drawn))


def class_contributions(sizes: Array, names: Sequence[str], classes: Sequence[str], n_rows: int) -> Html:
    """Return a section of stacked bars of `sizes` (n_classes, n_columns), mean absolute contributions."""
    hint = f"The mean absolute contribution of each column to the predictions for each class, over {n_rows:,} rows."
    shown_classes = [*classes[:N_COLOURS], *(["other classes"] if len(classes) > N_COLOURS else [])]
    drawn = both_widths(lambda width: charts.class_sizes(sizes, names, classes, width))
    return section("contributions", "How do their values affect predictions?", hint, card(legend(shown_classes), drawn))


def dependences(named: Sequence[tuple[str, Dependence]], outputs: Sequence[str], label: str) -> Html:
    """Return the section on partial dependence, one chart for each (column, dependence), all on one scale."""
    absent = [one.missing for _, one in named if one.missing is not None]
    y = Range.over(*(one.means for _, one in named), *absent, margin=0.08)
    hint = (
        f"Partial dependence: the mean {label} if a column has this value in all rows and the other columns "
        "are unchanged. Grey bars show how many rows have such values. The mean includes combinations of "
        "values that may not occur in reality."
    )
    cards = [card(charts.dependence_chart(one, y, label, outputs), title=name) for name, one in named]
    names = legend(outputs) if len(outputs) > 1 else Html()
    return section("dependence", "How do predictions depend on them?", hint, names, grid(cards))


def training(curves: Mapping[str, Array], best: int | None) -> Html:
    """Return the section on the loss after each round, with curves by name and the best round or None."""
    hint = "The loss after each round. The training loss keeps falling; the validation loss shows when to stop."
    drawn = both_widths(lambda width: charts.training(curves, best, width))
    return section("training", "How did training go?", hint, card(legend(list(curves)), drawn))


def informative_terms(words: Mapping[Any, Sequence[tuple[str, float]]]) -> Html:
    """Return the section on the most characteristic (word, score) pairs of each class."""
    cards = []
    for label, best in words.items():
        largest = max((score for _, score in best), default=1.0) or 1.0
        rows = (
            element("tr", element("th", word, scope="row"),
                    element("td", element("i", style=f"--share:{max(score, 0) / largest:.3f}"), class_="meter"),
                    element("td", f"{score:.2f}"))
            for word, score in best
        )  # fmt: skip
        cards.append(card(element("table", element("tbody", rows)), title=str(label)))
    hint = (
        "The most characteristic words of each class: the log ratio of their frequencies in the class and "
        "in the other classes."
    )
    return section("words", "Which words matter?", hint, grid(cards))


def single_rows(subject: Subject, explained: Sequence[Reasons]) -> Html:
    """Return the section that shows, for each explained row, its prediction, true value and largest effects."""
    cards = []
    for one in explained:
        names = [f"{name} = {value}" if value else name for name, value, _ in one.steps]
        steps = [step for _, _, step in one.steps]
        if one.rest is not None:
            names, steps = [*names, "all other columns"], [*steps, one.rest]
        title = join_html(f"Row {subject.numbers[one.row] + 1:,}", element("span", one.choice, class_="pill"))
        drawn = charts.waterfall(one.start, np.array(steps), names, one.label)
        quote = () if one.text is None else (element("blockquote", one.text),)
        cards.append(element("div", element("h3", title), *quote, _outcome(subject, one.row), drawn, class_="card"))
    hint = f"Rows are counted from 1, below the header. {explained[0].way}"
    return section("rows", "Why this prediction?", hint, grid(cards))


def _outcome(subject: Subject, row: int) -> Html:
    """Return a paragraph with the prediction of a row and, if known, its true value."""
    predicted, truth = subject.predicted[row], subject.truth
    if subject.classes is None:
        text = short(predicted, 5)
        true = None if truth is None else short(truth.y[row], 5)
        wrong = False
    else:
        best = int(predicted.argmax())
        text = f"{subject.classes[best]} ({predicted[best]:.1%})"
        true = None if truth is None else str(truth.y[row])
        wrong = truth is not None and bool(truth.codes[row] != best)
    parts: list[Html] = [element("b", text)]
    if true is not None:
        parts.append(join_html(", truth ", element("b", true, class_="wrong" if wrong else None)))
    return element("p", "predicted ", parts, class_="outcome")


def about(facts: Sequence[tuple[str, str]]) -> Html:
    """Return a card with a table of (name, value) facts."""
    rows = (element("tr", element("th", name, scope="row"), element("td", value)) for name, value in facts)
    return card(element("table", element("tbody", rows), class_="facts"))
