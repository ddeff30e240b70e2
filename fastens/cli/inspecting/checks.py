"""Checks of tables that are shared by inspect, train, compare and tune: leakage, identifiers, time, duplicates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import stats

from fastens.cli.inspecting.columns import (
    code_remark,
    is_usual_code,
    missing_codes,
    n_repeated,
    remark_lines,
    row_groups,
    rows_to_compare,
    share_text,
)
from fastens.cli.report.report import Report, Scores, score_text
from fastens.cli.table.columns import (
    BOOLEAN,
    DATE,
    NUMBER,
    TIMESTAMP,
    WORDS,
    column_codes,
    counted_rows,
    kind_of,
    listed,
    make_features,
    n_distinct,
)
from fastens.cli.table.notes import is_group, to_words
from fastens.cli.table.target import CLASSIFICATION
from fastens.cli.table.task import Task
from fastens.files.read import USUAL_CODES
from fastens.table.training_data import shuffled_folds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# The maximum number of rows, which are sampled; the number of folds; the maximum number of bins of a column; the
# minimum number of training rows per bin; and a small number of bins for noisy columns.
MAX_ROWS, N_FOLDS, N_BINS, BIN_ROWS, FEW_BINS = 10_000, 3, 256, 5, 16
# The weight of the prior in the mean of each bin, in rows. It must be small so that small pure bins remain visible.
PRIOR_ROWS = 0.01
# The number of classes; the least frequent classes beyond it are merged.
MAX_CLASSES = 20
# Scores that indicate leakage by a column and by a formula. The second is higher because two legitimate columns
# together may reach 0.99.
GIVES_AWAY, FORMULA_GIVES_AWAY = 0.99, 0.999
# Limits of the search for formulas: rows, columns of linear formulas, columns that are paired, and terms of a formula.
FORMULA_ROWS, MAX_LINEAR, MAX_PAIRED, MAX_TERMS = 1000, 60, 6, 6
MIN_ROWS, PRESENT = 30, 0.8
NUMERIC = (NUMBER, BOOLEAN, DATE, TIMESTAMP)
# The factors of a linear combination, the columns, and its R².
Linear = tuple[Array, list[str], float]


@dataclass(frozen=True)
class Formula:
    """A formula of several columns that predicts the target, with its score."""

    text: str
    names: list[str]
    score: float


def sample_rows(n_rows: int, max_rows: int = MAX_ROWS) -> NDArray[np.intp]:
    """Return at most `max_rows` sorted row indices, drawn at random with a fixed seed."""
    rows = np.random.default_rng(0).permutation(n_rows)[:max_rows]
    return np.sort(rows)


# Individual columns --------------------------------------------------


class Scorer:
    """Cross-validated scores of individual columns: an AUC, or the R² of the target's ranks.

    Ranks are used because a few rows in a long tail would otherwise dominate the score. The AUC is the mean of the
    one-vs-rest AUCs, weighted by the number of rows, so that rare classes do not dominate it. Scores that cannot be
    computed are NaN.
    """

    def __init__(self, y: NDArray, task: str) -> None:
        self.is_classification = task == CLASSIFICATION
        self.y: NDArray[Any] = _class_codes(y) if self.is_classification else stats.rankdata(y)
        self._folds = _scoring_folds(self.y, self.is_classification)
        n_training = min((len(train) for train, _ in self._folds), default=0)
        self.n_bins = int(np.clip(n_training // BIN_ROWS, 2, N_BINS))

    def score_table(self, X: pa.Table) -> float:
        """Return the best score of the features in X, or NaN if none can be scored; X is made from one column."""
        scores = [self._score_column(X.column(index)) for index in range(X.num_columns)]
        return float(np.nanmax(scores)) if scores and np.isfinite(scores).any() else float("nan")

    def _score_column(self, column: pa.ChunkedArray) -> float:
        """Return the cross-validated score of predicting the target by bins of numbers or by categories, or NaN."""
        if kind_of(column.type) not in (NUMBER, BOOLEAN) or pa.types.is_dictionary(column.type):
            return self.score_codes(category_codes(column))
        type_ = pa.int8() if pa.types.is_boolean(column.type) else column.type
        return self.score_numbers(np.asarray(column.cast(type_).cast(pa.float64(), safe=False).to_numpy()))

    def score_numbers(self, values: Array) -> float:
        """Return the better of the scores with many and with few quantile bins of `values`, or NaN."""
        many, few = (self.score_codes(bin_by_quantiles(values, n)) for n in (self.n_bins, FEW_BINS))
        return float(np.fmax(many, few))

    def score_codes(self, codes: Codes) -> float:
        """Return the mean score over the folds of predicting the target by codes (n_rows,); NaN if undefined."""
        by_fold = [self._score_fold(codes, train, test) for train, test in self._folds]
        finite = [value for value in by_fold if np.isfinite(value)]
        return float(np.mean(finite)) if finite else float("nan")

    def _score_fold(self, codes: Codes, train: Codes, test: Codes) -> float:
        """Return the score of bin codes for one fold: fit on the `train` row indices, score on the `test` ones."""
        n_bins, y = int(codes.max(initial=0)) + 1, self.y
        if self.is_classification:
            n_classes = int(y.max()) + 1
            counts = [
                np.bincount(codes[rows] * n_classes + y[rows], minlength=n_bins * n_classes).reshape(n_bins, n_classes)
                for rows in (train, test)
            ]
            return _mean_auc(*counts)
        sums = np.bincount(codes[train], y[train], n_bins)
        mean = y[train].mean()
        means = (sums + PRIOR_ROWS * mean) / (np.bincount(codes[train], minlength=n_bins) + PRIOR_ROWS)
        return _r_squared(means[codes[test]], y[test])


def _class_codes(y: NDArray) -> Codes:
    """Return class codes (n_rows,); beyond the MAX_CLASSES - 1 most frequent classes, all share the last code."""
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(counts) <= MAX_CLASSES:
        return codes
    rank = np.empty(len(counts), dtype=np.intp)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank[codes], MAX_CLASSES - 1)


def _scoring_folds(y: NDArray, is_classification: bool) -> list[tuple[Codes, Codes]]:
    """Return (training, test) row indices of at most N_FOLDS folds, or an empty list if there are too few rows."""
    max_folds = int(np.bincount(y).max()) if is_classification and len(y) else len(y)
    # At least one class must have a row in each fold.
    n_folds = min(N_FOLDS, max_folds)
    if n_folds < 2:
        return []
    return shuffled_folds(y, n_folds, 0, stratified=is_classification)


def category_codes(column: pa.ChunkedArray) -> Codes:
    """Return codes (n_rows,) of categories from 0 on, with a separate code for missing values."""
    return np.unique(column_codes(column), return_inverse=True)[1]


def bin_by_quantiles(values: Array, n_bins: int) -> Codes:
    """Return bin codes (n_rows,) by quantiles; frequent numbers have their own bins, and code 0 is missing."""
    is_known = np.isfinite(values)
    ordered = np.sort(values[is_known])
    if not len(ordered):
        return np.zeros(len(values), dtype=np.intp)
    positions = (np.arange(1, n_bins) * len(ordered)) // n_bins
    borders = np.concatenate([ordered[:1], ordered[positions]])
    edges, n_times = np.unique(borders, return_counts=True)
    edges = np.union1d(edges, np.nextafter(edges[(n_times > 1)], np.inf))
    if ordered[0] < ordered[len(ordered) // n_bins // 2]:
        edges = edges[1:]  # the first bin holds all low numbers rather than a single one
    codes = 1 + np.searchsorted(edges, values, side="right")
    codes[~is_known] = 0
    return codes.astype(np.intp)


def _mean_auc(training: NDArray, test: NDArray) -> float:
    """Return the AUC on test rows if they are ranked by the training proportion of the class in their bin.

    `training` and `test` are row counts (n_bins, n_classes). For two classes, the second one is ranked; for more, the
    result is the mean one-vs-rest AUC. It is NaN if it is undefined.
    """
    n_training, prior = training.sum(axis=1, keepdims=True), training.sum(axis=0) / max(training.sum(), 1)
    chances = (training + PRIOR_ROWS * prior) / (n_training + PRIOR_ROWS)
    areas, weights = [], []
    for k in [1] if test.shape[1] == 2 else range(test.shape[1]):
        true, other = test[:, k], test.sum(axis=1) - test[:, k]
        if not true.sum() or not other.sum():
            continue
        _, ranks = np.unique(chances[:, k], return_inverse=True)
        true, other = np.bincount(ranks, true), np.bincount(ranks, other)
        below = np.cumsum(other) - other
        areas.append((true * (below + other / 2)).sum() / (true.sum() * other.sum()))
        weights.append(true.sum())
    return float(np.average(areas, weights=weights)) if areas else float("nan")


def _r_squared(predicted: Array, y: Array) -> float:
    """Return the R² of predictions, or NaN if y is constant."""
    spread = ((y - y.mean()) ** 2).sum()
    return float(1 - ((y - predicted) ** 2).sum() / spread) if spread > 0 else float("nan")


def individual_scores(table: pa.Table, kinds: Mapping[str, str], y: NDArray, task: str) -> dict[str, float]:
    """Return the score by which each column alone predicts the target: an AUC, or the R² of ranks."""
    scorer = Scorer(y, task)
    return {name: scorer.score_table(make_features(table.select([name]), {name: kind})) for name, kind in kinds.items()}


# Formulas --------------------------------------------------


def find_formulas(
    table: pa.Table, kinds: Mapping[str, str], y: NDArray, task: str, alone: Mapping[str, float]
) -> list[Formula]:
    """Return formulas of several columns that predict y nearly perfectly; skip columns with such scores in `alone`."""
    rows = sample_rows(len(table), FORMULA_ROWS)
    numbers = {
        name: values
        for name, kind in kinds.items()
        if kind in NUMERIC and not alone.get(name, 0) >= GIVES_AWAY
        if (values := _varying_numbers(table[name].take(rows), kind)) is not None
    }
    y = y[rows]
    if len(numbers) < 2 or len(y) < MIN_ROWS:
        return []
    best = sorted(numbers, key=lambda name: -np.nan_to_num(alone.get(name, 0), nan=-1.0))
    if task == CLASSIFICATION:
        codes = _class_codes(y)
        wanted = (codes == np.argmax(np.bincount(codes))).astype(np.float64)
    else:
        wanted = y.astype(np.float64)
    linear = _fit_linear(numbers, best[:MAX_LINEAR], wanted)
    if task != CLASSIFICATION:
        simple = _linear_to_formula(linear, by_power=False) or _find_power_product(numbers, best[:MAX_LINEAR], wanted)
        return simple or _find_pair(numbers, best[:MAX_PAIRED], y, task)
    heaviest = [] if linear is None else linear[1]
    tried = list(dict.fromkeys([*heaviest[: MAX_PAIRED // 2], *best]))[:MAX_PAIRED]
    return _find_pair(numbers, tried, y, task)


def _varying_numbers(column: pa.ChunkedArray, kind: str) -> Array | None:
    """Return numbers, booleans or dates as floats; None for other types, many missing values or a constant."""
    if kind in (DATE, TIMESTAMP):
        made = make_features(pa.table({"": column}), {"": kind})
        values = np.asarray(made.column(0).to_numpy()).astype(np.float64)
    else:
        type_ = pa.int8() if pa.types.is_boolean(column.type) else column.type
        if kind_of(type_) != NUMBER:
            return None
        values = np.asarray(column.cast(type_).cast(pa.float64(), safe=False).to_numpy())
    finite = values[np.isfinite(values)]
    return values if len(finite) >= PRESENT * len(values) and len(finite) and np.ptp(finite) > 0 else None


def _fit_linear(numbers: Mapping[str, Array], names: list[str], y: Array) -> Linear | None:
    """Fit y by the columns `names` of `numbers`; drop columns while the held-out R² stays nearly perfect.

    Return (coefficients, names, R²) with the largest terms first, or None for too few complete rows or a constant y.
    """
    X = np.column_stack([numbers[name] for name in names])
    rows = np.isfinite(X).all(axis=1) & np.isfinite(y)
    X, y = X[rows], y[rows]
    spread = X.std(axis=0) if len(X) else np.zeros(len(names))
    if len(y) < max(MIN_ROWS, 4 * len(names)) or np.ptp(y) == 0 or not np.isfinite(spread).all():
        return None
    keep = np.flatnonzero(spread > 0)
    half = np.random.default_rng(0).permutation(len(y)) < len(y) // 2

    def fitted(columns: NDArray[np.intp]) -> tuple[Array, float]:
        Z = np.column_stack([(X[:, columns] - X[:, columns].mean(axis=0)) / spread[columns], np.ones(len(X))])
        factors = np.linalg.lstsq(Z[half], y[half], rcond=None)[0]
        return factors[:-1], _r_squared(Z[~half] @ factors, y[~half])

    factors, score = fitted(keep)
    least = max(FORMULA_GIVES_AWAY, 1 - 2 * (1 - score) - 1e-9)  # not noticeably worse than the score with all columns
    while len(keep) > 1 and score >= FORMULA_GIVES_AWAY:
        fewer = np.delete(keep, np.abs(factors).argmin())
        of_fewer = fitted(fewer)
        if of_fewer[1] < least:
            break
        keep, factors, score = fewer, *of_fewer
    order = np.argsort(-np.abs(factors), kind="stable")
    return (factors / spread[keep])[order], [names[k] for k in keep[order]], score


def _find_power_product(numbers: Mapping[str, Array], names: list[str], y: Array) -> list[Formula]:
    """Return [formula] if y is nearly a product of powers of these columns, such as price * number; otherwise []."""
    logs = {name: np.where(numbers[name] > 0, np.log(np.maximum(numbers[name], 1e-300)), np.nan) for name in names}
    logs = {
        name: values
        for name, values in logs.items()
        if np.isfinite(values).sum() >= PRESENT * len(y) and np.nanstd(values) > 0
    }
    if len(logs) < 2 or (y > 0).sum() < PRESENT * len(y):
        return []
    linear = _fit_linear(logs, list(logs), np.where(y > 0, np.log(np.maximum(y, 1e-300)), np.nan))
    return _linear_to_formula(linear, by_power=True)


def _linear_to_formula(linear: Linear | None, by_power: bool) -> list[Formula]:
    """Return [formula] for a fit to values, or logarithms if `by_power`; [] unless few columns determine the target."""
    if linear is None or linear[2] < FORMULA_GIVES_AWAY or not 2 <= len(linear[1]) <= MAX_TERMS:
        return []
    factors, names, score = linear
    return [Formula(_formula_text(factors, names, by_power), names, score)]


def _find_pair(numbers: Mapping[str, Array], names: list[str], y: NDArray, task: str) -> list[Formula]:
    """Return [formula] with the best sum, difference, product or ratio of two columns if it leaks y, otherwise []."""
    scorer = Scorer(y, task)
    best: Formula | None = None
    for one, other in combinations(names, 2):
        for text, values in _pair_operations(one, other, numbers):
            score = scorer.score_numbers(values)
            if score >= FORMULA_GIVES_AWAY and (best is None or score > best.score):
                best = Formula(text, [one, other], score)
    return [] if best is None else [best]


def _pair_operations(one: str, other: str, numbers: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yield (formula, values) for the sum, difference, product and ratio of the columns `one` and `other`."""
    a, b = numbers[one], numbers[other]
    with np.errstate(all="ignore"):
        yield f"{one!r} + {other!r}", a + b
        yield f"{one!r} - {other!r}", a - b
        yield f"{one!r} * {other!r}", a * b
        yield f"{one!r} / {other!r}", a / b


def _formula_text(factors: Array, names: list[str], by_power: bool) -> str:
    """Return the text of a sum of columns times `factors` or, if `by_power`, of a product of powers, up to a scale."""
    sizes = np.abs(factors)
    unit = 1.0 if by_power else sizes.max()
    is_plain = bool(np.all(np.abs(sizes / unit - np.round(sizes / unit)) < 0.02) and np.all(sizes > 0.5 * unit))
    if not is_plain:
        return ("A product of powers of " if by_power else "A sum of multiples of ") + ", ".join(map(repr, names))
    order = np.argsort(factors < 0, kind="stable")  # subtracted terms and divisors come last
    text = ""
    for k in order:
        power = round(float(sizes[k] / unit))
        term = repr(names[k]) + (f"^{power}" if by_power and power != 1 else "")
        sign = ((" * ", " / ") if by_power else (" + ", " - "))[int(factors[k] < 0)]
        text += sign + term if text else ("1" + sign if by_power and factors[k] < 0 else sign.strip(" +*")) + term
    return text


def perfect_score_name(scores: Mapping[str, float]) -> str | None:
    """Return the name of the first AUC, R² or accuracy that is (nearly) perfect, or None if there is none."""
    least = {name: FORMULA_GIVES_AWAY for name in scores if name.startswith(("AUC", "R²"))} | {"accuracy": 1.0}
    return next((name for name, limit in least.items() if scores.get(name, 0.0) >= limit), None)


LEAK, IDENTIFIER, TEXTS, TIME, GROUP = "likely leak", "likely identifier", "free text", "time", "groups"
DUPLICATES, BALANCE, CELLS, WRITING = "duplicates", "target", "odd cells", "writing"
# The numbers of rows that are checked before training; `inspect` checks more.
TRAINING_ROWS, COMPARED_ROWS = 5000, 20_000
# A column with at least this share of the gain is reported.
ALL_GAIN = 0.99
# Class labels below this number are seldom missing-value codes.
SMALLEST_CODE = 77
# Words in names of numeric columns that mark times if the column never decreases.
TIME_WORD = re.compile("date|datum|time|timestamp|zeit|year|jahr|annee|ano|day|tag|week|epoch")
MIN_REPEATS = 3


@dataclass(frozen=True)
class TargetColumn:
    """The target column, restricted to rows that have a value."""

    name: str
    task: str
    y: NDArray


@dataclass(frozen=True)
class Finding:
    """A finding with its kind and a sentence; it is a warning if it would invalidate the scores."""

    kind: str
    text: str
    is_warning: bool = False


def score_name(target: TargetColumn | None) -> str:
    """Return the score of single columns: "AUC" for classification, "rank R²" for regression or without a target."""
    return "AUC" if target is not None and target.task == CLASSIFICATION else "rank R²"


# Before training --------------------------------------------------


def show_task(report: Report, task: Task, *, has_folds: bool = False) -> None:
    """Print facts, notes and fast checks of a task; `has_folds` means that rows are held out by cross-validation."""
    findings = training_findings(task, holds_out=has_folds or bool(task.held_out.any()))
    report.facts(task.facts())
    report.warnings([finding.text for finding in findings if finding.is_warning])
    report.notes([*task.notes, *(finding.text for finding in findings if not finding.is_warning)])


def training_findings(task: Task, *, holds_out: bool) -> list[Finding]:
    """Return findings of fast checks of a task; `holds_out` adds checks of times, groups and duplicate rows."""
    card, table = task.card, task.columns
    name = str(card.target)
    target = TargetColumn(name, card.task, task.rows.y[: len(table)])
    others = table.drop_columns([name])
    kinds = {column: kind for column, kind in card.kinds.items() if kind != WORDS}
    rows = sample_rows(len(table), TRAINING_ROWS)
    return [
        *code_findings(table[name], target),
        *leak_findings(others, kinds, target, TRAINING_ROWS)[1],
        *(time_findings(others, kinds) if holds_out and task.order is None else []),
        *(group_findings(others, kinds) if holds_out and task.order is None else []),
        *(_duplicate_findings(table) if holds_out else []),
        *_missing_code_findings(others, kinds, rows),
    ]


def leak_findings(
    table: pa.Table, kinds: Mapping[str, str], target: TargetColumn, most_rows: int
) -> tuple[dict[str, float], list[Finding]]:
    """Return the score of each column by name, and findings on columns and formulas that leak the target.

    The scores are cross-validated on a random sample of at most `most_rows` rows.
    """
    rows = sample_rows(len(table), most_rows)
    some, y = table.take(rows), target.y[rows]
    alone = individual_scores(some, kinds, y, target.task)
    near = {name: value for name, value in alone.items() if value >= GIVES_AWAY}
    texts = [
        f"{name!r} alone predicts the target: {score_name(target)} {_leak_score_text(value)}. This may be target "
        f"leakage. If the column is not known at prediction time, use --drop {shlex.quote(name)}"
        for name, value in sorted(near.items(), key=lambda pair: -pair[1])
    ]
    for formula in find_formulas(some, kinds, y, target.task, alone):
        score = "R²" if target.task != CLASSIFICATION else "AUC"
        option = "--drop " + shlex.quote(",".join(formula.names))
        texts.append(
            f"{formula.text} predicts the target: {score} {_leak_score_text(formula.score)}. This may be target "
            f"leakage. If these columns are not known at prediction time, use {option}"
        )
    return alone, [Finding(LEAK, text, is_warning=True) for text in texts]


def _leak_score_text(value: float) -> str:
    """Format a score near 1 with four decimals."""
    return f"{value:.4f}" if value < 0.99995 else "1"


def code_findings(column: pa.ChunkedArray, target: TargetColumn) -> list[Finding]:
    """Return a warning for each value of the target column that looks like a missing-value code."""
    n_rows = len(column)
    if kind_of(column.type) == NUMBER:
        values = _finite_numbers(column)
        counts = {f"{code:.15g}": int(np.count_nonzero(values == code)) for code in missing_codes(values)}
    elif target.task == CLASSIFICATION:
        labels, numbers = np.unique(target.y.astype(str), return_counts=True)
        counts = {str(label): int(n) for label, n in zip(labels, numbers, strict=True) if _is_missing_code(str(label))}
    else:
        counts = {}
    return [
        Finding(
            BALANCE,
            f"The target {target.name!r} is {code} in {n:,} of {n_rows:,} rows ({share_text(n, n_rows)}): is "
            "this a missing-value code? If so, the model learns it and every score is wrong. Use "
            f"--missing={shlex.quote(code)} to leave these rows out.",
            is_warning=True,
        )
        for code, n in counts.items()
    ]


def _is_missing_code(label: str) -> bool:
    """Return True if a class label is a common missing-value code: a number of at least 77, or a text such as NA."""
    text = label.strip().lower()
    try:
        return is_usual_code(float(text)) and abs(float(text)) >= SMALLEST_CODE
    except ValueError:
        return text in USUAL_CODES and not (len(text) == 1 and text.isalnum())  # "x" may be a legitimate class


def time_findings(table: pa.Table, kinds: Mapping[str, str]) -> list[Finding]:
    """Return at most one finding, on columns of dates or sorted times, with advice on held-out rows."""
    names = [name for name, kind in kinds.items() if kind in (DATE, TIMESTAMP)]
    rising = [name for name in names if _is_sorted(table[name])]
    numbers = [name for name, kind in kinds.items() if kind == NUMBER and any(map(TIME_WORD.fullmatch, to_words(name)))]
    numbers = [name for name in numbers if _is_sorted(table[name]) and n_distinct(table[name]) >= MIN_REPEATS]
    names, rising = [*names, *numbers], [*rising, *numbers]
    if not names:
        return []
    order = f"; the rows are sorted by {listed(rising)}" if rising else ""
    option = "--time-column " + shlex.quote((rising or names)[0])
    advice = f"Rows are held out at random. If the model will predict later rows from earlier rows, use {option}"
    return [Finding(TIME, f"Time columns: {listed(names)}{order}. {advice}")]


def _is_sorted(column: pa.ChunkedArray) -> bool:
    """Return True if the values of a column never decrease, ignoring missing values."""
    present = column.drop_null().combine_chunks()
    return len(present) > 1 and bool(pc.all(pc.less_equal(present[:-1], present[1:])).as_py())


def group_findings(table: pa.Table, kinds: Mapping[str, str]) -> list[Finding]:
    """Return at most one finding, on identifiers of people or things that have several rows each."""
    names = [name for name, kind in kinds.items() if is_group(table[name], kind, name)]
    if not names:
        return []
    return [
        Finding(
            GROUP,
            f"{listed(names)}: each value has several rows, and some of them may be held out while others are "
            f"trained on. If the model will predict new values, use --group {shlex.quote(names[0])}",
        )
    ]


def _duplicate_findings(table: pa.Table) -> list[Finding]:
    """Return at most one finding, on rows that are equal to earlier rows in all columns."""
    rows = rows_to_compare(table.columns, COMPARED_ROWS)
    some = table if len(rows) == len(table) else table.take(rows)
    if not len(rows) or not (n := n_repeated(row_groups([column_codes(column) for column in some.columns]))):
        return []
    share = share_text(n, len(rows))
    many = f"{counted_rows(n)} ({share}) {'is a duplicate' if n == 1 else 'are duplicates'}"
    many = many if len(rows) == len(table) else f"About {share} of the rows are duplicates"
    text = f"{many} of earlier rows in all columns used, so that the same row may be both held out and trained on."
    return [Finding(DUPLICATES, text)]


def _missing_code_findings(table: pa.Table, kinds: Mapping[str, str], rows: NDArray[np.intp]) -> list[Finding]:
    """Return findings on missing-value codes in numeric columns: detected in rows `rows`, counted in all rows."""
    remarks = [
        (name, code_remark(code, int(np.count_nonzero(_finite_numbers(table[name]) == code))))
        for name, kind in kinds.items()
        if kind == NUMBER and kind_of(table[name].type) == NUMBER
        for code in missing_codes(_finite_numbers(table[name].take(rows)))
    ]
    return [Finding(CELLS, line) for line in remark_lines(remarks)]


def _finite_numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return the finite numbers of a column as floats, without missing values."""
    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    return values[np.isfinite(values)]


# After training --------------------------------------------------


def score_warnings(scores: Scores, shares: Sequence[tuple[str, float]] = (), what: str = "The") -> list[str]:
    """Return warnings of nearly perfect `scores` and of a column with nearly all of the gain.

    `shares` are (column, gain) pairs. `what` begins the sentence about the score, such as "The best" for a leaderboard.
    """
    warnings = []
    total = sum(share for _, share in shares)
    largest = max(shares, key=lambda pair: pair[1], default=("", 0.0))
    one = len(shares) > 1 and total > 0 and largest[1] >= ALL_GAIN * total
    if (name := perfect_score_name(scores)) is not None:
        first = f" Check the column {largest[0]!r} first." if one else ""
        warnings.append(
            f"{what} {name} of {score_text(name, scores[name])} is rarely realistic. Check with fastens inspect for "
            f"columns that are derived from the target or known only after it, and for duplicate rows.{first}"
        )
    if one:
        share = share_text(largest[1], total)
        warnings.append(
            f"{largest[0]!r} has {share} of the total gain: the model depends almost only on this column. If "
            f"it is not known at prediction time, use --drop {shlex.quote(largest[0])}"
        )
    return warnings
