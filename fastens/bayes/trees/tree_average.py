"""Exact Bayesian average over all decision trees on a few selected binary features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseClassifier, Capabilities
from fastens.bayes.counts.counting import CountCube
from fastens.bayes.counts.cube import tree_evidence, tree_reach
from fastens.bayes.posterior import PosteriorMixin, generator
from fastens.engine.comm import LOCAL, Comm, chain_sum, max_floats
from fastens.engine.elementary import exp, gammaln, log, log1p, xlogy
from fastens.engine.parts import RowSource, map_parts, parts_of
from fastens.modelfile.saving import Saved, SavedEstimator, SavedParts
from fastens.params.docstrings import Docs
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, DECLINE, POSITIVE, PROBABILITY, parameter, whole
from fastens.params.types import ClassWeight, ColumnChoice, RandomState
from fastens.table.arrays import dense
from fastens.table.training_data import WEIGHT_TYPE, TrainingData
from fastens.tree_model.saving import SavedEnsemble

Floats = NDArray[np.float64]
# Number of sums that processes exchange at a time.
_COUNTED = 1 << 20
# Maximum number of questions about a categorical column.
MAX_QUESTIONS = 64


class BinaryFeatures(NamedTuple):
    """Binary features: a column is at most a threshold, equal to a category, or missing."""

    column: NDArray[np.int64]
    kind: NDArray[np.int64]  # AT_MOST, EQUAL or MISSING
    value: NDArray[np.float64]

    def answers(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return 0 or 1 for each row and feature, (n_rows, n_features); missing values satisfy only `MISSING`."""
        answers = np.empty((len(X), len(self.column)), dtype=np.int64)
        for i, (column, kind, value) in enumerate(zip(*self, strict=True)):
            x = X[:, column]
            answers[:, i] = np.isnan(x) if kind == MISSING else x <= value if kind == AT_MOST else x == value
        return answers

    def select(self, indices: list[int]) -> BinaryFeatures:
        """Return the features at these indices."""
        return BinaryFeatures(self.column[indices], self.kind[indices], self.value[indices])


AT_MOST, EQUAL, MISSING = 0, 1, 2


def candidate_features(
    X: Any, is_categorical: NDArray[np.bool_], weight: Floats, n_thresholds: int, comm: Comm = LOCAL
) -> BinaryFeatures:
    """Return all candidate features, with at most `n_thresholds` weighted quantiles for each numeric column.

    X is a row source with the rows of this process. All processes return the features of the whole table.
    """
    candidates: list[tuple[int, int, float]] = []
    columns = _distinct_values(X, comm)
    totals = np.split(_value_weights(X, columns, weight, comm), np.cumsum([len(values) for values in columns]))
    has_missing = np.zeros(X.shape[1], dtype=np.int64)
    for _, part in parts_of(X):
        has_missing |= np.isnan(part).any(axis=0)
    comm.allreduce_max(has_missing)
    for column, (values, of_values) in enumerate(zip(columns, totals, strict=False)):
        if is_categorical[column]:
            heaviest = (
                np.argsort(-of_values, kind="stable")[:MAX_QUESTIONS] if len(values) > 2 else range(len(values) - 1)
            )
            candidates += [(column, EQUAL, float(values[k])) for k in sorted(heaviest)]
        else:
            candidates += [(column, AT_MOST, value) for value in _choose_thresholds(values, of_values, n_thresholds)]
        if has_missing[column] and len(values):
            candidates.append((column, MISSING, 0.0))
    # If all columns are constant, a single constant feature remains.
    chosen, kinds, numbers = zip(*(candidates or [(0, MISSING, 0.0)]), strict=True)
    return BinaryFeatures(np.array(chosen, np.int64), np.array(kinds, np.int64), np.array(numbers, np.float64))


def _distinct_values(X: Any, comm: Comm) -> list[NDArray[np.floating]]:
    """Return the sorted distinct values of each column over all processes, without missing values."""
    by_column: list[NDArray[np.floating]] = [np.empty(0) for _ in range(X.shape[1])]
    for _, part in parts_of(X):
        for column, values in enumerate(part.T):
            new = np.unique(values[~np.isnan(values)])
            by_column[column] = np.union1d(by_column[column], new) if len(by_column[column]) else new
    return [np.unique(np.concatenate(of_ranks)) for of_ranks in zip(*comm.allgather(by_column), strict=True)]


def _value_weights(X: Any, columns: list[NDArray[np.floating]], weight: Floats, comm: Comm) -> Floats:
    """Return the total row weight of each distinct value over all processes, concatenated over the columns."""
    starts = np.cumsum([0, *map(len, columns)])

    def add(sums: Floats) -> None:
        for first, part in parts_of(X):
            for column, values in enumerate(part.T):
                known_rows = np.flatnonzero(~np.isnan(values))
                indices = starts[column] + np.searchsorted(columns[column], values[known_rows])
                np.add.at(sums, indices, weight[first + known_rows])

    return chain_sum(comm, np.zeros(starts[-1]), add)


def _choose_thresholds(values: NDArray[np.floating], totals: Floats, max_thresholds: int) -> list[float]:
    """Return midpoints between adjacent distinct values, at most `max_thresholds`.

    If there are more, the midpoints are at quantiles weighted by `totals`, the weight of each value.
    """
    gaps = np.arange(len(values) - 1)
    if len(gaps) > max_thresholds:
        shares = np.cumsum(totals) * (max_thresholds + 1) / totals.sum()
        gaps_at_quantiles = np.searchsorted(shares, np.arange(1, max_thresholds + 1))
        gaps = np.unique(np.minimum(gaps_at_quantiles, len(values) - 2))
    low, high = values[gaps].astype(np.float64), values[gaps + 1].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = low / 2 + high / 2
    # For infinite values or adjacent floats, the lower value serves as the threshold.
    return np.where((middle >= low) & (middle < high), middle, low).tolist()


def select_features(
    answers: NDArray[np.uint8], classes: NDArray[np.int64], weight: Floats, max_features: int, comm: Comm = LOCAL
) -> list[int]:
    """Return the indices of at most `max_features` features, in the order in which they are selected.

    Each step selects the feature that minimises the entropy of the class given all selected features.
    """
    chosen: list[int] = []
    n_classes = 1 + int(max_floats(comm, float(classes.max(initial=0)))[0])
    cell, n_cells = np.zeros(len(answers), dtype=np.int64), 1
    while len(chosen) < min(max_features, answers.shape[1]):
        scores = np.array(
            [
                _entropy(counts, n_classes)
                for counts in _feature_counts(
                    answers, cell * 2 * n_classes + classes, (2 * n_cells, n_classes), weight, comm
                )
            ]
        )
        scores[chosen] = np.inf
        best = int(scores.argmin())
        below = 2 * cell + answers[:, best]
        cells = np.unique(np.concatenate(comm.allgather(np.unique(below))))
        cell, n_cells = np.searchsorted(cells, below), len(cells)
        chosen.append(best)
    return chosen


def _feature_counts(
    answers: NDArray[np.uint8], cell: NDArray[np.int64], shape: tuple[int, int], weight: Floats, comm: Comm
) -> Iterator[Floats]:
    """Yield, for each feature, the total weight by cell and class, flat, after it has split each cell in two.

    `cell` is the flat index of each row for the answer 0, and `shape` the numbers of cells, after the split, and
    classes.
    """
    step = max(1, _COUNTED // math.prod(shape))
    for first in range(0, answers.shape[1], step):
        block = answers.T[first : first + step]

        def add(sums: Floats, block: NDArray[np.uint8] = block) -> None:
            for of_feature, answer in zip(sums, block, strict=True):
                np.add.at(of_feature, cell + answer.astype(np.int64) * shape[1], weight)

        yield from chain_sum(comm, np.zeros((len(block), math.prod(shape))), add)


def _entropy(counts: Floats, n_classes: int) -> float:
    """Return the conditional entropy of the class given the cell, times the total weight.

    `counts` are flat weights by cell and class.
    """
    n = -(-(int(np.flatnonzero(counts)[-1]) + 1) // n_classes) * n_classes
    of_cells = counts[:n].reshape(-1, n_classes)
    totals = of_cells.sum(axis=1)
    return float(xlogy(totals, totals).sum() - xlogy(of_cells, of_cells).sum())


LEAF = -1
MAX_TABLED = 1 << 16  # size of the log gamma table: about a megabyte
CLASSES_AT_ONCE = 64  # number of classes whose cell probabilities are in memory at a time


@dataclass(frozen=True)
class BinaryFeatureTree:
    """Decision tree over binary features as plain arrays; node 0 is the root.

    `question` is the feature that a node tests, or -1 for leaves. `children` are the nodes for "no" and "yes". `proba`
    holds the expected class probabilities of the node, and `names` describes the features.
    """

    question: NDArray[np.int64]
    children: NDArray[np.int64]
    proba: Floats
    names: list[str]

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.question == LEAF))

    def predict_proba(self, answers: ArrayLike) -> Floats:
        """Return class probabilities of rows of binary features, as returned by `answers(X)` of the model."""
        rows = np.asarray(answers)
        if rows.ndim != 2 or rows.shape[1] != len(self.names) or not np.isin(rows, (0, 1)).all():
            raise ValueError(
                "answers must come from the answers(X) of this model, with a 0 or 1 for each of its "
                f"{len(self.names)} questions; got {answers!r}."
            )
        answers, node = rows.astype(np.int64), np.zeros(len(rows), dtype=np.int64)
        for _ in range(len(self.names)):
            tested = self.question[node]
            below = self.children[node, answers[np.arange(len(answers)), np.maximum(tested, 0)]]
            node = np.where(tested == LEAF, node, below)
        return self.proba[node]

    def __str__(self) -> str:
        return "\n".join(self._format_lines(0, ""))

    def _format_lines(self, node: int, indent: str) -> list[str]:
        """Return the lines of text of the subtree at a node, each preceded by `indent`."""
        if self.question[node] == LEAF:
            return [f"{indent}probabilities {np.round(self.proba[node], 3).tolist()}"]
        no, yes = self.children[node].tolist()
        name = self.names[self.question[node]]
        return [
            f"{indent}{name}: yes",
            *self._format_lines(yes, indent + "    "),
            f"{indent}{name}: no",
            *self._format_lines(no, indent + "    "),
        ]


class TreeCube:
    """Posterior over all trees on binary features in which no path tests a feature twice.

    A node at depth d is a leaf with probability 1 - split[d]; otherwise it tests one of the remaining features, each
    with equal probability. Class probabilities of the leaves are Dirichlet(alpha). For each of the 3^p cells, one
    number sums over all trees on it:

        q(cell) = (1 - g) f(cell) + g / |free| * sum over free j of q(cell, no) q(cell, yes)
    """

    def __init__(
        self,
        answers: NDArray[np.int64],
        classes: NDArray[np.int64],
        weight: Floats,
        n_classes: int,
        split: Floats,
        alpha: float,
    ) -> None:
        n_questions = answers.shape[1]
        self.cube = CountCube(answers, classes, weight, [2] * n_questions, n_classes)
        self._layout = np.stack([self.cube.sizes, self.cube.strides])
        n_free = n_questions - np.arange(n_questions)
        log_split = log(split / n_free)
        self._log_prior = np.stack([np.append(log1p(-split), 0.0), np.append(log_split, -np.inf)])
        self._alpha = alpha
        self._log_f, self._log_q = self._cell_evidence(maximise=False)

    def _cell_evidence(self, *, maximise: bool) -> tuple[Floats, Floats]:
        """Return, for each cell, the log evidence of a leaf, and of all trees on it.

        If `maximise`, the second array is the log evidence of the best tree.
        """
        log_f, log_q = np.empty(len(self.cube)), np.empty(len(self.cube))
        n = np.arange(min(self.cube.counts[-1].sum(), MAX_TABLED) + 1)
        bases = np.array([[self._alpha], [self._alpha * self.cube.counts.shape[1]]])
        tables = gammaln(bases + n) - gammaln(bases)
        tree_evidence(self.cube.counts, self._layout, self._log_prior, self._alpha, tables, maximise, log_f, log_q)
        return log_f, log_q

    @property
    def log_evidence(self) -> float:
        """Return the log marginal probability of the labels over all trees and leaf values."""
        return float(self._log_q[-1])

    def leaf_proba(self, cells: Any, classes: slice = slice(None)) -> Floats:
        """Return class probabilities of leaves on cells, (n_cells, n_classes); `classes` restricts the columns."""
        counts = self.cube.counts[cells]
        totals = counts.sum(axis=-1, keepdims=True) + self._alpha * counts.shape[-1]
        return (counts[..., classes] + self._alpha) / totals

    def predictions(self) -> Floats:
        """Return averaged class probabilities for each of the 2^p answer combinations, (2^p, n_classes)."""
        return self._average(lambda classes: self.leaf_proba(slice(None), classes))

    def votes(self) -> Floats:
        """Return the probability of the trees that predict each class, by answer combination, (2^p, n_classes)."""
        best = self.cube.counts.argmax(axis=1)[:, None]
        return self._average(lambda classes: best == np.arange(self.cube.counts.shape[1])[classes])

    def _average(self, of_leaves: Callable[[slice], NDArray[Any]]) -> Floats:
        """Return leaf values averaged over all trees and normalised, (2^p, n_classes).

        `of_leaves` returns the values of all cells for a slice of classes. The probability that a row reaches a node on
        a cell depends only on the cell. Therefore, one downward pass and one sum over the cells that contain each
        answer combination give all predictions.
        """
        reach = np.zeros(len(self.cube))
        reach[-1] = 1.0
        tree_reach(self._log_q, self._layout, self._log_prior, reach)
        log_stop = self._log_prior[0][self.cube.n_fixed()]
        ends = reach * exp(log_stop + self._log_f - self._log_q)
        all_answers = np.indices([2] * len(self.cube.sizes)).reshape(len(self.cube.sizes), -1).T
        cells = self.cube.cells_of(all_answers)
        averages = np.empty((len(cells), self.cube.counts.shape[1]))
        for first in range(0, averages.shape[1], CLASSES_AT_ONCE):
            some = slice(first, first + CLASSES_AT_ONCE)
            averages[:, some] = self.cube.spread(ends[:, None] * of_leaves(some))[cells]
        return averages / averages.sum(axis=1, keepdims=True)

    # One tree --------------------------------------------------

    def map_tree(self, names: list[str]) -> tuple[BinaryFeatureTree, float]:
        """Return the most probable tree and its log joint probability with the labels; ties prefer smaller trees."""
        log_f, log_m = self._cell_evidence(maximise=True)

        def choose(cell: int) -> int:
            options, terms = self._node_options(cell, log_f, log_m)
            return options[int(terms.argmax())]

        return self._build_tree(choose, names), float(log_m[-1])

    def random_tree(self, names: list[str], random: np.random.Generator) -> BinaryFeatureTree:
        """Draw a tree from the posterior; `names` are the texts of the features, which it displays."""

        def choose(cell: int) -> int:
            options, terms = self._node_options(cell, self._log_f, self._log_q)
            cumulative = np.cumsum(exp(terms - terms.max()))
            return options[int(np.searchsorted(cumulative, random.random() * cumulative[-1], side="right"))]

        return self._build_tree(choose, names)

    def _node_options(self, cell: int, log_f: Floats, log_q: Floats) -> tuple[list[int], Floats]:
        """Return the options of a node on a cell, LEAF or the index of a free feature, and their log weights.

        `log_f` and `log_q` are from `_cell_evidence`.
        """
        free = np.flatnonzero(self.cube.digits_of(cell) < 0)
        depth = len(self.cube.sizes) - len(free)
        no, yes = (cell - by * self.cube.strides[free] for by in (2, 1))
        terms = self._log_prior[1, depth] + log_q[yes] + log_q[no]
        return [LEAF, *free.tolist()], np.append(self._log_prior[0, depth] + log_f[cell], terms)

    def random_leaves(self, answers: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """Draw a tree from the posterior for each row of answers; return the cell of the leaf of each row."""
        cells = np.full(len(answers), len(self.cube) - 1)
        is_free = np.ones(answers.shape, dtype=bool)
        moving = np.arange(len(answers))
        while len(moving):
            cell, free = cells[moving], is_free[moving]
            depth = np.count_nonzero(~free, axis=1)
            parts = [np.where(free, cell[:, None] - by * self.cube.strides, 0) for by in (1, 2)]
            terms = self._log_prior[1, depth][:, None] + self._log_q[parts[0]] + self._log_q[parts[1]]
            splits = exp(np.where(free, terms, -np.inf) - self._log_q[cell][:, None])
            stops = exp(self._log_prior[0, depth] + self._log_f[cell] - self._log_q[cell])
            cumulative = np.cumsum(np.column_stack([stops, splits]), axis=1)
            chosen = (random.random(len(moving))[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1) - 1
            moving, chosen = moving[chosen >= 0], chosen[chosen >= 0]
            is_free[moving, chosen] = False
            cells[moving] -= (2 - answers[moving, chosen]) * self.cube.strides[chosen]
        return cells

    def _build_tree(self, choose: Callable[[int], int], names: list[str]) -> BinaryFeatureTree:
        """Return the tree in which a node on a cell tests feature `choose(cell)`, or is a leaf if this is LEAF."""
        cells, question, children = [len(self.cube) - 1], list[int](), list[list[int]]()
        while len(question) < len(cells):
            cell = cells[len(question)]
            tested = choose(cell)
            question.append(tested)
            children.append([LEAF, LEAF])
            if tested != LEAF:
                stride = int(self.cube.strides[tested])
                children[-1] = [len(cells), len(cells) + 1]
                cells += [cell - 2 * stride, cell - stride]
        return BinaryFeatureTree(np.array(question), np.array(children), self.leaf_proba(np.array(cells)), names)


def n_trees(n_questions: int) -> int:
    """Return the number of trees in which no path tests a feature twice: t_p = 1 + p t_(p-1)^2.

    Examples
    --------
    >>> from fastens.bayes.trees.tree_average import n_trees
    >>> [n_trees(p) for p in range(5)]
    [1, 2, 9, 244, 238145]
    """
    n = 1
    for p in range(1, n_questions + 1):
        n = 1 + p * n**2
    return n


Array = NDArray[np.float64]
MAX_TREE_QUESTIONS = 15


@with_parameters
class ExactTreeAverageClassifier(PosteriorMixin, BaseClassifier, SavedEstimator):
    """Exact Bayesian average over all decision trees on up to about 14 binary features ("questions").

    There are 4.8e23 trees on 6 questions and about 10^6078 trees on 14 questions. Each of them votes with its
    posterior probability. A count cube has one cell for each of the 3^p conjunctions of answers, which holds the sum
    over all trees on this cell. One downward pass computes all predictions, so prediction is a table lookup.

    Columns are converted to questions such as "x <= threshold", "x = category" and "x is missing". If there are more
    than `max_questions` of them, they are selected greedily by the entropy of the class.

    Parameters
    ----------
    max_questions : int, default=10
        Maximum number of questions, at most 15. Each additional question triples time and memory: 3^10 cells select
        milliseconds, 3^14 (4.8 million) about two seconds.
    n_thresholds : int, default=16
        Maximum number of thresholds of a column.
    split_prior : float or pair, default=0.5
        Prior probability that a node splits. Larger values favour larger trees. A pair (a, b) means a (1 + depth)^-b.
    alpha : float, default=0.5
        Pseudo-count of each class in the Dirichlet prior of the class probabilities of a leaf. Larger values shrink
        leaf probabilities more.
    random_state : int, RandomState or None, default=None
        Seed of mode="gibbs" and `sample_posterior`. The average itself is deterministic.
    {parameters}

    Attributes
    ----------
    {attributes}
    n_trees_ : int
        Number of trees in the average.
    log_evidence_ : float
        Log marginal probability of the labels over all trees and leaf values.

    Raises
    ------
    ValueError
        If a parameter is invalid, or the cube would be larger than a gigabyte.

    References
    ----------
    Buntine (1992), "Learning classification trees", Statistics and Computing 2; Willems, Shtarkov & Tjalkens (1995),
    "The context-tree weighting method", IEEE Transactions on Information Theory 41; Sullivan, Tiwari & Thrun (2024),
    "MAPTree: beating optimal decision trees with Bayesian decision trees".

    Examples
    --------
    >>> import itertools
    >>> from fastens import ExactTreeAverageClassifier
    >>> X = list(itertools.product([0, 1], repeat=3)) * 5
    >>> model = ExactTreeAverageClassifier().fit(X, [a ^ b for a, b, _ in X])  # whether the first two columns differ
    >>> model.n_trees_, model.predict([[0, 1, 1], [1, 1, 0]]).tolist()
    (244, [1, 0])
    """

    _capabilities = Capabilities(supports_distributed_fit=True, supports_binned=False, predicts_row_sources=False)
    _holds = "codes"
    max_questions: int = parameter(whole(1, MAX_TREE_QUESTIONS), default=10, kw_only=False)
    n_thresholds: int = parameter(whole(1), default=16)
    split_prior: float | tuple[float, float] = parameter(PROBABILITY | DECLINE, default=0.5)
    alpha: float = parameter(POSITIVE, default=0.5)
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    class_weight: ClassWeight = parameter(ANYTHING, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: RandomState = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = SavedEnsemble._docs
    _compares_weights = True
    _modes = ("bayes", "map", "gibbs")
    n_trees_: int = field(init=False)
    log_evidence_: float = field(init=False)

    def __getstate__(self) -> dict[str, Any]:
        # The cube can be recomputed from the counts and may be as large as a gigabyte.
        return {name: value for name, value in super().__getstate__().items() if name != "_cached_cube"}

    # Learning --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ExactTreeAverageClassifier:
        """Select the questions and average over all trees.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Training rows. Missing values are allowed.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows. A weight of 2 is equivalent to repeating the row.
        """
        data = self._start_fit(X, y, sample_weight)
        rows = data.X if isinstance(data.X, RowSource) else dense(data.X)
        weight = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
        data = data._replace(X=rows, y=data.y.astype(np.int64))
        self._questions, answers = self._choose_questions(data, weight)
        self._set_counts(answers, data, weight)
        self._average()
        return self

    def _choose_questions(self, data: TrainingData, weight: Array) -> tuple[BinaryFeatures, NDArray[np.uint8]]:
        """Return the selected questions and the answers of the rows, (n_rows, n_questions)."""
        rows, comm = data.X, data.comm
        features = candidate_features(rows, self._encoder.is_categorical, weight, self.n_thresholds, comm)
        answers = map_parts(lambda part: features.answers(part).astype(np.uint8), rows)
        if answers.shape[1] <= self.max_questions:
            return features, answers
        chosen = sorted(select_features(answers, data.y, weight, self.max_questions, comm))
        return features.select(chosen), answers[:, chosen]

    def _set_counts(self, answers: NDArray[np.uint8], data: TrainingData, weight: Array) -> None:
        """Set the class weights of each distinct combination of answers in all processes, and drop the cached cube."""
        digits, n_classes = np.arange(answers.shape[1])[::-1], len(self.classes_)
        number = answers.astype(np.int64) @ (1 << digits)
        distinct = np.unique(np.concatenate(data.comm.allgather(np.unique(number))))
        cell = np.searchsorted(distinct, number) * n_classes + data.y
        counts = np.zeros(len(distinct) * n_classes)
        chain_sum(data.comm, counts, lambda sums: np.add.at(sums, cell, weight))
        self._answers, self._counts = distinct[:, None] >> digits & 1, counts.reshape(-1, n_classes)
        self.__dict__.pop("_cached_cube", None)

    def _average(self) -> None:
        """Set the evidence, the table of predictions and the number of trees from the cube."""
        cube = self._cube
        self.log_evidence_ = cube.log_evidence
        self._table = cube.predictions()
        self.n_trees_ = n_trees(len(self._questions.column))

    @property
    def _cube(self) -> TreeCube:
        """Count cube, which is recomputed after a model is loaded."""
        self._check_fitted()
        if "_cached_cube" not in self.__dict__:
            n_rows, n_classes = self._counts.shape
            answers = np.repeat(self._answers, n_classes, axis=0)
            classes = np.tile(np.arange(n_classes, dtype=np.int64), n_rows)
            fitted = self._as_fitted()
            split, alpha = fitted._split_probabilities(), float(fitted.alpha)
            self._cached_cube = TreeCube(answers, classes, self._counts.ravel(), n_classes, split, alpha)
        return self._cached_cube

    def _split_probabilities(self) -> Array:
        """Return the prior probability that a node splits, by depth from 0, shape (n_questions,)."""
        depth = np.arange(len(self._questions.column), dtype=np.float64)
        if isinstance(self.split_prior, tuple | list):
            factor, power = self.split_prior
            return np.asarray(factor * (1.0 + depth) ** -power)
        return np.full(len(depth), float(self.split_prior))

    # Predict --------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities averaged over all trees, shape (n_samples, n_classes)."""
        self._check_fitted()
        return self._table[self._answer_numbers(X)]

    def _answer_numbers(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the answers of each row as a binary number, first answer first: its row in `_table`."""
        answers = self.answers(X)
        return answers @ (1 << np.arange(answers.shape[1])[::-1])

    def answers(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the binary features, shape (n_samples, n_questions), which are the input of a `BinaryFeatureTree`."""
        rows = dense(self._check_table(X))
        return map_parts(self._questions.answers, rows)

    @property
    def questions_(self) -> list[str]:
        """Questions as text."""
        self._check_fitted()
        questions = list(zip(*self._questions, strict=True))
        texts = [self._format_question(*question) for question in questions]
        # Large thresholds may differ only in digits that the short format drops.
        if len(set(texts)) == len(texts):
            return texts
        return [self._format_question(*question, in_full=True) for question in questions]

    def _format_question(self, column: int, kind: int, value: float, in_full: bool = False) -> str:
        """Return a question as text, such as "age <= 3.5"; thresholds have all digits if `in_full`, else six."""
        name = self._encoder.texts[column]
        if kind == MISSING:
            return f"{name} is missing"
        if kind == AT_MOST:
            return f"{name} <= {float(value)!r}" if in_full else f"{name} <= {value:g}"
        categories = self._encoder.categories[column]
        return f"{name} = {categories[int(value)] if categories else value}"

    @property
    def map_estimator_(self) -> BinaryFeatureTree:
        """Most probable tree, as an exact search over all trees would find; it predicts from `answers(X)`."""
        return self._cube.map_tree(self.questions_)[0]

    @property
    def map_log_joint_(self) -> float:
        """Log joint probability of the MAP tree and the labels; subtract `log_evidence_` for its log posterior."""
        return self._cube.map_tree(self.questions_)[1]

    def sample_posterior(self, n: int = 1, random_state: RandomState = None) -> list[BinaryFeatureTree]:
        """Draw `n` independent trees from the exact posterior; they predict from `answers(X)`."""
        whole(0).check("n", n)
        random = generator(random_state, self.random_state)
        names = self.questions_
        return [self._cube.random_tree(names, random) for _ in range(n)]

    def _map_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities of the most probable tree, shape (n_samples, n_classes)."""
        answers = self.answers(X)
        return self.map_estimator_.predict_proba(answers)

    def _gibbs_proba(self, X: ArrayLike, random: np.random.Generator) -> Array:
        """Return the class probabilities of a tree drawn for each row, shape (n_samples, n_classes)."""
        answers = self.answers(X)
        cells = self._cube.random_leaves(answers, random)
        return self._cube.leaf_proba(cells)

    def _vote_share(self, X: ArrayLike) -> Array:
        """Return the posterior probability of the trees that vote for each class, shape (n_samples, n_classes)."""
        numbers = self._answer_numbers(X)
        return self._cube.votes()[numbers]

    # Saving --------------------------------------------------

    def _question_arrays(self) -> dict[str, np.ndarray]:
        """Return the questions, answers and counts for the model file."""
        questions = {f"question.{name}": array for name, array in self._questions._asdict().items()}
        return {"answers": self._answers, "counts": self._counts, **questions}

    def _restore_questions(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the questions and counts from a model file and average; raise ValueError if they are malformed."""
        column, kind, value = (arrays[f"question.{name}"] for name in BinaryFeatures._fields)
        questions = BinaryFeatures(column.astype(np.int64), kind.astype(np.int64), value.astype(np.float64))
        answers, counts = arrays["answers"].astype(np.int64), arrays["counts"].astype(np.float64)
        _check_arrays(questions, answers, counts)
        n_columns, n_classes = len(self._encoder.categories), len(self.classes_)
        if counts.shape[1] != n_classes or (questions.column >= n_columns).any() or (questions.column < 0).any():
            raise ValueError("the questions and the columns do not match")
        self._questions, self._answers, self._counts = questions, answers, counts
        self._average()

    _saved: ClassVar[SavedParts] = (Saved(_question_arrays, _restore_questions),)


def _check_arrays(questions: BinaryFeatures, answers: NDArray[np.int64], counts: Array) -> None:
    """Raise ValueError if the arrays of a model file have wrong shapes, or invalid answers or counts."""
    n_questions = len(questions.column)
    fits = answers.ndim == counts.ndim == 2 and len(answers) == len(counts) and answers.shape[1] == n_questions
    if not fits or n_questions > MAX_TREE_QUESTIONS or any(array.shape != (n_questions,) for array in questions):
        raise ValueError("the questions are malformed")
    if ((answers != 0) & (answers != 1)).any() or not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError("the counts are malformed")
