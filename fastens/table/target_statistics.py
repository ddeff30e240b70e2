"""Target encoding of categorical columns: each category becomes its mean target (Micci-Barreca 2001).

The encoding of a training row must not depend on its own target, because of target leakage. A training row therefore
gets the category mean over other rows: the rows of the other folds, or the rows before it in a random order
(Prokhorenkova et al. 2018, "CatBoost: unbiased boosting with categorical features"). At prediction time, rows get the
category mean over all training rows.

A text gets the sum of the mean targets of its terms, minus the overall mean, as an additional column. Trees would need
one split for each term to learn this sum, as naive Bayes does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm, chain_sum, first_row, is_any, max_floats, of_whole
from fastens.engine.losses.losses import exact_sum
from fastens.engine.parts import MappedRows, RowSource, own_parts
from fastens.engine.rows.sampling import canonical, random_stream
from fastens.engine.whole import are_copies, are_whole
from fastens.table.arrays import dense
from fastens.table.category_means import category_sums, means_of_other_folds, ordered_means

Array = NDArray[np.float64]

METHODS = ("target", "ordered")
# Each training row is encoded from 90 % of its category, which is close to the 100 % at prediction time.
N_FOLDS = 10
_STANDARD_ERRORS = 2.0
# Pseudo-rows with the overall mean that are added to each term. Values from 1 to 4 were about equally good.
_TERM_PRIOR = 1.0
# If the targets are farther from zero than this multiple of half their range, they are centred. Otherwise their
# squares, and tables in float32, would lose too many digits.
_FAR = 64.0


@dataclass(frozen=True)
class _Smoothing:
    """Overall mean that category means shrink towards, and its weight in rows; infinite for a constant encoding."""

    mean: float
    prior: float


def _fit_prior(sums: Array) -> _Smoothing:
    """Return the smoothing of category means by empirical Bayes (Efron & Morris 1975) from sums by category.

    The weight of the prior follows from the variances between and within categories, which are estimated by a one-way
    analysis of variance with unequal groups; `sums` come from `category_sums`. Categories with a single row do not
    contribute to the variance within. The prior is infinite, and the column constant, unless the ratio of the two mean
    squares exceeds 1 by more than `_STANDARD_ERRORS`. Otherwise, a column with nearly as many categories as rows would
    encode noise.
    """
    total, square, weight = sums[sums[:, 2] > 0].T
    all_rows = weight.sum()
    mean = total.sum() / all_rows
    n_groups = len(weight)
    if all_rows <= n_groups or n_groups < 2:
        return _Smoothing(mean, np.inf)
    within = max((square - total * total / weight).sum(), 0.0) / (all_rows - n_groups)
    between = (weight * (total / weight - mean) ** 2).sum() / (n_groups - 1)
    group_size = (all_rows - (weight * weight).sum() / all_rows) / (n_groups - 1)
    error = np.sqrt(2.0 / (n_groups - 1) + 2.0 / (all_rows - n_groups))  # standard error of the ratio under the null
    # If one category has nearly all of the weight, the variance between categories cannot be estimated.
    if group_size <= 0 or between <= within * (1.0 + _STANDARD_ERRORS * error):
        return _Smoothing(mean, np.inf)
    return _Smoothing(mean, within * group_size / (between - within))


@dataclass(frozen=True)
class Terms:
    """The columns of a text: its length, which is missing for a missing text, and the counts of its terms."""

    length: int
    first: int
    n: int

    def counts(self, part: Any) -> Any:
        """Return the counts of the terms in a part of the encoded rows as a CSR matrix of shape (n_rows, n_terms)."""
        return sparse.csr_matrix(part[:, self.first : self.first + self.n])

    def sum_scores(self, part: Any, scores: Array, fold: NDArray[np.integer]) -> Array:
        """Return the sum of the term scores of each text, of shape (n_targets, n_rows), NaN for missing texts.

        `part` holds encoded rows, `scores` has shape (n_terms, n_folds, n_targets), and `fold` is the index along its
        second axis for each row.
        """
        counts, n_rows = self.counts(part), part.shape[0]
        rows = np.repeat(np.arange(n_rows), np.diff(counts.indptr))
        term_scores = counts.data[:, None] * scores[counts.indices, fold[rows]]
        length = part[:, [self.length]]
        missing = np.isnan(dense(length)).ravel()
        return np.array(
            [np.where(missing, np.nan, np.bincount(rows, target_scores, n_rows)) for target_scores in term_scores.T]
        )


@dataclass(frozen=True)
class Targets:
    """Targets of the rows of one rank, from which category means are computed.

    Sums are accumulated in the order of the rows of the whole table, or in a fixed random order, whatever the number of
    ranks.

    Attributes
    ----------
    values : float64 array of shape (n_targets, n_rows)
        Targets.
    weights : float64 array of shape (n_rows,) or None
        Positive weights. In the means over all rows, integer weights count as copies. The folds and the random order
        for training rows are drawn per row, not per copy.
    comm : Comm
        Ranks that the table is distributed over.
    weights_before_classes : float64 array of shape (n_rows,) or None
        Sample weights before class weights, if both are used.
    """

    values: Array
    weights: Array | None = None
    comm: Comm = LOCAL
    weights_before_classes: Array | None = None

    def scaled(self) -> Targets:
        """Return the targets with weights divided by their mean, unless all weights are integers.

        If class weights made integer sample weights fractional, the total weight becomes the number of copies.
        """
        weights, before_classes, comm = self.weights, self.weights_before_classes, self.comm
        if weights is None:
            return self
        if (
            before_classes is None
            or is_any(comm, not are_whole(before_classes))
            or not is_any(comm, not are_whole(weights))
        ):
            is_scaled = is_any(comm, not are_copies(weights))
            return (
                replace(self, weights=of_whole(comm, lambda each: each / each.mean(), weights)) if is_scaled else self
            )
        return replace(self, weights=weights * (exact_sum(before_classes, comm) / exact_sum(weights, comm)))

    def centred(self) -> Targets:
        """Return the targets minus the middle of their range if it is far from zero; the subtraction is exact."""
        highest, minus_lowest = self.values.max(axis=1, initial=-np.inf), -self.values.min(axis=1, initial=np.inf)
        high, minus_low = np.split(np.array(max_floats(self.comm, *highest, *minus_lowest)) / 2, 2)
        middle, half_range = high - minus_low, high + minus_low
        centre = np.where(np.abs(middle) / _FAR > half_range, middle, 0.0)
        return replace(self, values=self.values - centre[:, None]) if centre.any() else self

    def sums(self, column: Array) -> Array:
        """Return the sums of (weight * target, weight * target**2, weight) by category over the rows of all ranks.

        `column` holds category positions, with NaN for missing values. The shape is (n_targets, n_categories, 3).
        """
        n_categories = np.array([int(np.fmax.reduce(column, initial=-1)) + 1], dtype=np.int64)
        self.comm.allreduce_max(n_categories)

        def add(sums: Array) -> None:
            for target, target_sums in zip(self.values, sums, strict=True):
                category_sums(column, target, self.weights, target_sums)

        return chain_sum(self.comm, np.zeros((len(self.values), n_categories[0], 3)), add)

    def folds(self, seed: int) -> NDArray[np.uint8]:
        """Return the fold of each row of this rank, drawn at random from `seed`."""
        n_own = self.values.shape[1]
        first, n_rows = first_row(self.comm, n_own)
        return random_stream(seed, 0).integers(0, N_FOLDS, n_rows, dtype=np.uint8)[first : first + n_own]

    def _add_terms(self, X: Any, terms: Sequence[Terms], fold: NDArray[np.uint8], weights: Array, sums: Array) -> None:
        """Add each weighted term count in X, multiplied by each target and lastly by 1, to sums[term, fold].

        `sums` has shape (n_terms of all texts, N_FOLDS, n_targets + 1); `fold` and `weights` have a value for each row.
        """
        for start, part in own_parts(X):
            of_part = slice(start, start + part.shape[0])
            for text_terms, first in zip(terms, np.cumsum([0, *(each.n for each in terms)]), strict=False):
                counts = text_terms.counts(part)
                rows = np.repeat(np.arange(part.shape[0]), np.diff(counts.indptr))
                term_and_fold = first + counts.indices, fold[of_part][rows]
                copies = counts.data * weights[of_part][rows]
                np.add.at(sums[..., -1], term_and_fold, copies)
                for target, values in enumerate(self.values):
                    np.add.at(sums[..., target], term_and_fold, copies * values[of_part][rows])

    def term_scores(self, X: Any, terms: Sequence[Terms], fold: NDArray[np.uint8]) -> list[Array]:
        """Return the smoothed mean target of each term minus the overall mean, as an array for each text column.

        The shape is (n_terms, N_FOLDS + 1, n_targets): means over the rows outside each fold, and last over all rows.
        """
        n_targets, weights = len(self.values), np.ones(len(fold)) if self.weights is None else self.weights
        sums = np.zeros((sum(each.n for each in terms), N_FOLDS, n_targets + 1))
        chain_sum(self.comm, sums, partial(self._add_terms, X, terms, fold, weights))
        total = sums.sum(axis=1, keepdims=True)
        sums = np.concatenate([total - sums, total], axis=1)
        mean = [exact_sum(weights * target, self.comm) / exact_sum(weights, self.comm) for target in self.values]
        n_copies = sums[..., n_targets:]
        scores = (sums[..., :n_targets] - np.array(mean) * n_copies) / (n_copies + _TERM_PRIOR)
        return np.split(scores, np.cumsum([each.n for each in terms])[:-1])

    def of_other_folds(self, column: Array, sums: Array, smoothing: Sequence[_Smoothing], seed: int) -> Array:
        """Return, for each row, the smoothed mean target of its category over the rows of the other folds.

        `column` holds category positions, `sums` the result of `self.sums`, and `smoothing` the prior of each target.
        The folds are drawn from `seed`. The shape of the result is (n_targets, n_rows).
        """
        fold = self.folds(seed)
        fold_of_category = column * N_FOLDS + fold

        def add(sums: Array) -> None:
            for target, target_sums in zip(self.values, sums, strict=True):
                category_sums(fold_of_category, target, self.weights, target_sums.reshape(-1, 3))

        of_folds = chain_sum(self.comm, np.zeros((*sums.shape[:2], N_FOLDS, 3)), add)
        out = np.empty(self.values.shape)
        for fold_sums, prior, of_rows in zip(of_folds, smoothing, out, strict=True):
            means_of_other_folds(column, fold, fold_sums, prior.mean, prior.prior, of_rows)
        return out

    def ordered(self, column: Array, sums: Array, smoothing: Sequence[_Smoothing], seed: int) -> Array:
        """Return, for each row, the smoothed mean target of its category over the rows before it in a random order.

        The order is drawn from `seed`; the other parameters and the shape are as in `of_other_folds`.
        """

        def of_all(column: Array, targets: Array, weights: Array | None) -> Array:
            order = random_stream(seed, 0).permutation(len(column))
            out = np.empty(targets.shape)
            for target, prior, of_rows in zip(targets, smoothing, out, strict=True):
                workspace = np.zeros((sums.shape[1], 2))
                ordered_means(column, target, weights, order, prior.mean, prior.prior, workspace, of_rows)
            return out

        return of_whole(self.comm, of_all, column, self.values, self.weights)


class TargetStatistics:
    """Target encoder with smoothed category means, for some columns of a table and one or several targets.

    The means of the first target replace the column. The means of further targets become columns at the end, followed
    by the scores of texts. Targets that are far from zero are centred first; see `Targets.centred`.

    Parameters
    ----------
    columns : sequence of int
        Indices of the encoded columns.
    means : sequence of float64 arrays of shape (n_categories, n_targets)
        Means of each encoded column by category position; NaN for categories without rows.
    fill : float64 array of shape (n_columns, n_targets)
        Encoding of missing and unseen categories: NaN if the column had missing values in training, otherwise the
        mean over all rows.
    terms : sequence of Terms
        The text columns.
    scores : sequence of float64 arrays of shape (n_terms, n_targets)
        Scores of the terms of each text column.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.target_statistics import Targets, TargetStatistics
    >>> X, y = np.repeat([[0.0], [1.0]], 50, axis=0), np.repeat([0.0, 1.0], 50)
    >>> statistics, encoded = TargetStatistics.learn(X, Targets(y[None]), [0], "target", seed=0)
    >>> bool(np.array_equal(encoded[:, 0], y)), statistics.transform(np.array([[1.0], [np.nan]])).ravel()
    (True, array([1. , 0.5]))
    """

    def __init__(
        self,
        columns: Sequence[int],
        means: Sequence[Array],
        fill: Array,
        terms: Sequence[Terms] = (),
        scores: Sequence[Array] = (),
    ) -> None:
        self.columns = [int(column) for column in columns]
        self.means = list(means)
        self.fill = np.asarray(fill, dtype=np.float64)
        self.terms, self.scores = list(terms), list(scores)

    @property
    def n_targets(self) -> int:
        """Number of columns that each encoded column becomes."""
        return self.fill.shape[1]

    def column_of(self, n_features: int) -> NDArray[np.intp]:
        """Return, for each output column, the index of the input column that it comes from.

        The `n_features` input columns come first, then further targets of the encoded columns, then scores of texts.
        """
        of_texts = np.repeat([each.length for each in self.terms], self.n_targets)
        indices = [np.arange(n_features), np.repeat(self.columns, self.n_targets - 1), of_texts]
        return np.concatenate(indices).astype(np.intp)

    @classmethod
    def learn(
        cls,
        X: Any,
        targets: Targets,
        columns: Sequence[int],
        method: str,
        seed: int,
        terms: Sequence[Terms] = (),
    ) -> tuple[TargetStatistics, Any]:
        """Learn the encoder from the training rows, and encode each row from other rows.

        Parameters
        ----------
        X : row source of shape (n_rows, n_features)
            Training rows. The columns to encode hold category positions, with NaN for missing values.
        targets : Targets
            Targets of these rows. The statistics cover the rows of all ranks.
        columns : sequence of int
            Indices of the columns to encode.
        method : "target" or "ordered"
            "target" encodes a training row from the rows of the other folds, "ordered" from the rows before it in a
            random order.
        seed : int
            Seed of the folds or of the order.
        terms : sequence of Terms
            Text columns, whose scores are always learned from the rows of the other folds.

        Returns
        -------
        TargetStatistics, row source of shape (n_rows, n_features + (n_targets - 1) * n_columns + n_targets * n_texts)
            The encoder, and the encoded training rows.
        """
        targets, n_targets = targets.centred().scaled(), len(targets.values)
        encoded = np.empty((n_targets, len(columns), X.shape[0]))
        for start, part in own_parts(X) if columns else ():
            encoded[0, :, start : start + part.shape[0]] = dense(part[:, columns]).T
        means, fill = [], np.empty((len(columns), n_targets))
        for index in range(len(columns)):
            column = encoded[0, index].copy()
            sums = targets.sums(column)
            smoothing = [_fit_prior(target_sums) if len(target_sums) else _Smoothing(0.0, 1.0) for target_sums in sums]
            means.append(np.column_stack(list(map(_category_means, sums, smoothing))))
            has_missing = is_any(targets.comm, bool(np.isnan(column).any()))
            fill[index] = np.nan if has_missing else [each.mean for each in smoothing]
            of_others = targets.ordered if method == "ordered" else targets.of_other_folds
            encoded[:, index] = of_others(column, sums, smoothing, seed)
        fold = targets.folds(seed)
        scores = targets.term_scores(X, terms, fold) if terms else []
        statistics = cls(columns, means, fill, terms, [text_scores[:, N_FOLDS] for text_scores in scores])
        of_texts = np.empty((n_targets * len(terms), X.shape[0]))
        for start, part in own_parts(X) if terms else ():
            rows = slice(start, start + part.shape[0])
            for text_terms, text_scores, out in zip(
                terms, scores, of_texts.reshape(-1, n_targets, X.shape[0]), strict=True
            ):
                out[:, rows] = text_terms.sum_scores(part, text_scores, fold[rows])
        return statistics, statistics._insert_encodings(X, encoded, of_texts)

    def transform(self, X: Any) -> Any:
        """Return rows with their encodings, for prediction; row sources are encoded when they are read.

        The encoded columns of X hold category positions, with NaN for missing values.
        """
        if isinstance(X, RowSource):
            return MappedRows(X, lambda _, part: self.transform(part), len(self.column_of(X.shape[1])))
        n_rows = X.shape[0]
        encoded = np.empty((self.n_targets, len(self.columns), n_rows))
        for index, (column, means, fill) in enumerate(zip(self.columns, self.means, self.fill, strict=True)):
            values = dense(X[:, [column]])[:, 0]
            known_rows = np.flatnonzero(values < len(means))  # excludes NaN
            row_means = np.repeat(fill[:, None], n_rows, axis=1)
            of_known = means[values[known_rows].astype(np.intp)].T
            row_means[:, known_rows] = np.where(np.isnan(of_known), fill[:, None], of_known)
            encoded[:, index] = row_means
        all_rows = np.zeros(n_rows, dtype=np.intp)
        pairs = zip(self.terms, self.scores, strict=True)
        of_texts = [text_terms.sum_scores(X, scores[:, None], all_rows) for text_terms, scores in pairs]
        return self._insert_encodings(X, encoded, np.concatenate(of_texts) if of_texts else np.empty((0, n_rows)))

    def _insert_encodings(self, X: Any, encoded: Array, text_scores: Array) -> Any:
        """Return X with columns replaced by encodings for the first target; append other targets and text scores.

        `encoded` has shape (n_targets, n_columns, n_rows), and `text_scores` (n_targets * n_texts, n_rows).
        """
        n_rows, n_features = X.shape
        if isinstance(X, RowSource):

            def put(start: int, part: Any) -> Any:
                rows = slice(start, start + part.shape[0])
                return self._insert_encodings(part, encoded[:, :, rows], text_scores[:, rows])

            return MappedRows(X, put, len(self.column_of(n_features)))
        # The columns of further targets are grouped by encoded column, in the order of `column_of`.
        n_more = len(self.columns) * (self.n_targets - 1)
        more = np.hstack([encoded[1:].transpose(2, 1, 0).reshape(n_rows, n_more), text_scores.T])
        if sparse.issparse(X):
            n_first = max(self.columns, default=-1) + 1
            first = X[:, :n_first].toarray()
            first[:, self.columns] = encoded[0].T
            parts = [sparse.csr_matrix(first), X[:, n_first:], sparse.csr_matrix(more.astype(X.dtype))]
            return canonical(sparse.csr_matrix(sparse.hstack(parts, format="csr")))
        out = np.empty((n_rows, n_features + more.shape[1]), dtype=X.dtype, order="F")
        out[:, :n_features], out[:, n_features:] = X, more
        out[:, self.columns] = encoded[0].T
        return out

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the encoder as named arrays for saving."""
        texts = {
            "terms": np.array([(each.length, each.first, each.n) for each in self.terms], dtype=np.int64),
            "term_scores": np.concatenate([np.empty((0, self.n_targets)), *self.scores]),
        }
        return {
            "columns": np.array(self.columns, dtype=np.int64),
            "means": np.concatenate([np.empty(0), *(means.ravel() for means in self.means)]),
            "n_categories": np.array([len(means) for means in self.means], dtype=np.int64),
            "fill": self.fill,
        } | (texts if self.terms else {})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> TargetStatistics:
        """Return the encoder from the arrays of `to_arrays`; raise ValueError if they are malformed."""
        columns, n_categories, fill = arrays["columns"], arrays["n_categories"], arrays["fill"]
        fits = fill.ndim == 2 and len(columns) == len(n_categories) == len(fill) and (n_categories >= 0).all()
        if not fits or arrays["means"].size != n_categories.sum() * fill.shape[1] or columns.dtype.kind != "i":
            raise ValueError("the statistics of the categories are malformed")
        parts = np.split(arrays["means"], np.cumsum(n_categories * fill.shape[1]))[:-1]
        terms, scores = arrays.get("terms", np.empty((0, 3), np.int64)), arrays.get("term_scores", np.empty((0, 0)))
        if terms.ndim != 2 or terms.shape[1] != 3 or terms.dtype.kind != "i" or (terms < 0).any():
            raise ValueError("the statistics of the texts are malformed")
        if scores.shape != (terms[:, 2].sum(), fill.shape[1] if len(terms) else 0):
            raise ValueError("the statistics of the texts are malformed")
        by_text = np.split(scores, np.cumsum(terms[:, 2]))[:-1]
        means = [part.reshape(-1, fill.shape[1]) for part in parts]
        return cls(columns.tolist(), means, fill, [Terms(*row) for row in terms.tolist()], by_text)


def _category_means(sums: Array, smoothing: _Smoothing) -> Array:
    """Return the smoothed mean by category from the `Targets.sums` of one target; NaN for categories without rows."""
    total, weight = sums[:, 0], sums[:, 2]
    if np.isinf(smoothing.prior):
        return np.where(weight > 0, smoothing.mean, np.nan)
    with np.errstate(invalid="ignore"):
        means = (total + smoothing.prior * smoothing.mean) / (weight + smoothing.prior)
    return np.where(weight > 0, means, np.nan)
