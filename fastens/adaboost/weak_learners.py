"""Weak learners of AdaBoost, row weights, the rounds of voting, and the memory that a fit needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from fastens.adaboost.reweight import advance, class_sums, make_whole
from fastens.base import BaseFastens, TrainingData
from fastens.boosting.rounds import OnRound
from fastens.combining.responses import check_kind, label_indices, seeded, tags_of, with_weight_type
from fastens.engine.bins.binning import AnyCodes, AnyMatrix, Binning
from fastens.engine.comm import LOCAL, Comm, first_row, gathered, is_any, max_floats, sum_ints, sum_over
from fastens.engine.elementary import exp, log
from fastens.engine.forest.forests import ForestGrower, ForestParameters, Totals, TreeSample, TreeTarget
from fastens.engine.grow.growth import GrowthParameters, leaves_within_limits
from fastens.engine.grow.stumps import StumpLearner, stump_ensemble
from fastens.engine.rows.sampling import Bootstrap, hash_order, mixed, repeated, stream_seeds
from fastens.engine.threads import threads_for
from fastens.engine.trees.leaf_values import add_tree_to_raw
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.engine.whole import are_whole
from fastens.forests.bags import rows_drawn
from fastens.forests.parameters import gain_shares
from fastens.modelfile.saving import nested_arrays, numbered_arrays, restored_model
from fastens.monitoring.metrics import History
from fastens.warn import warn

# Algorithms whose rounds are votes rather than Newton steps.
VOTING = ("discrete", "m1", "real")
# Minimum number of rows per thread: a few tens of microseconds of work.
_GRAIN = 1 << 14
# Integer weights stay below 2**50, and their sum below 2**62.
_WEIGHT_BITS = 50
_SUM_BITS = 62
# Maximum excess of the shift over the largest logarithm. It costs at most 4 of at least 40 bits.
_SLACK = 3.0
_MAX_CLASSES = 1 << 16


def encode_classes(y: NDArray[np.float64], n_classes: int) -> NDArray[np.uint16]:
    """Return class indices as the 16-bit integers that kernels read; raise ValueError for more than 65 536 classes."""
    if n_classes > _MAX_CLASSES:
        raise ValueError(f"y must hold at most {_MAX_CLASSES} classes; it holds {n_classes}.")
    return y.astype(np.uint16)


class RoundWeights:
    """Weights of the rows, which are updated in each round of boosting.

    Weights are stored as logarithms, so they can underflow and recover after any number of rounds. For sums, they are
    rounded to integer multiples of at most 2**-40 of the largest weight. Integer sums are exact and do not depend on
    the order or the number of threads. Integer sample weights are bit-identical to copies of the row.
    """

    def __init__(
        self,
        classes: NDArray[np.uint16],
        sample_weight: NDArray[np.float64] | None = None,
        n_threads: int = 1,
        comm: Comm = LOCAL,
    ) -> None:
        self.classes, self._comm = classes, comm
        self.n_rows = len(classes)
        self.logs = np.zeros(self.n_rows)
        self.copies: NDArray[np.int64] | None = None
        if sample_weight is not None:
            self._start_weights(sample_weight)
        (self.n_copies,) = sum_ints(comm, self.n_rows if self.copies is None else int(self.copies.sum()))
        self._scale = math.ldexp(1.0, min(_WEIGHT_BITS, _SUM_BITS - self.n_copies.bit_length()))
        self._n_threads = threads_for(self.n_rows, n_threads, _GRAIN)
        # The weights, rounded to integers and multiplied by `copies` for integer sample weights; `total` is their sum.
        self.whole = np.empty(self.n_rows, dtype=np.int64)
        self._start_logs = self.logs.copy() if self.logs.any() else 0.0
        self._find_largest()
        self._make_whole()
        self._log_start = self._log_sum

    def _start_weights(self, sample_weight: NDArray[np.float64]) -> None:
        """Set `copies` if all sample weights are integers with a sum below 2**40, otherwise the initial log weights."""
        is_whole = not is_any(self._comm, not are_whole(sample_weight))
        if is_whole and sum(self._comm.allgather(float(sample_weight.sum()))) < 2.0**40:
            self.copies = sample_weight.astype(np.int64)
        else:
            self.logs[:] = log(sample_weight)

    def _find_largest(self) -> None:
        """Set `_largest` to the largest log weight of the rows of all ranks."""
        (self._largest,) = max_floats(self._comm, float(self.logs.max(initial=-np.inf)))

    def _make_whole(self) -> None:
        """Set the integer weights and their total from the log weights, relative to the largest log weight."""
        self._shift = self._largest
        total = make_whole(self.logs, self.classes, self.copies, self.whole, self._shift, self._scale, self._n_threads)
        (self.total,) = sum_ints(self._comm, total)

    def advance(self, codes: NDArray[np.unsignedinteger], steps: NDArray[np.float64]) -> None:
        """Add ``steps[code, class]`` to each row's log weight, and update the integer weights and their total.

        `codes` holds the code of each row, and `steps` has shape (n_codes, n_classes).
        """
        self._shift = self._largest + float(steps.max())
        total, largest = advance(
            self.logs, self.classes, self.copies, self.whole, self._shift, self._scale, codes, steps, self._n_threads
        )
        (self.total,), (self._largest,) = sum_ints(self._comm, total), max_floats(self._comm, largest)
        if self._shift - self._largest > _SLACK:
            self._make_whole()

    def add(self, steps: NDArray[np.float64]) -> None:
        """Add each row's entry of `steps`, (n_rows,), to its log weight, and update the integer weights."""
        self.logs += steps
        self._find_largest()
        self._make_whole()

    def copy(self) -> RoundWeights:
        """Return an independent copy of the weights."""
        other = copy(self)
        other.logs, other.whole = self.logs.copy(), self.whole.copy()
        return other

    def restart(self) -> None:
        """Reset the weights to their initial values."""
        self.logs[:] = self._start_logs
        self._find_largest()
        self._make_whole()

    @property
    def _log_sum(self) -> float:
        return float(log(self.total) - log(self._scale)) + self._shift

    @property
    def log_loss_ratio(self) -> float:
        """Logarithm of the sum of the weights divided by its initial value, which is the mean exponential loss."""
        return self._log_sum - self._log_start

    @property
    def shares(self) -> NDArray[np.float64]:
        """Weights normalised to sum to 1."""
        return self.whole / self.total

    def mean(self, losses: NDArray[np.float64]) -> float:
        """Return the weighted mean over all ranks of `losses`, which hold a loss from 0 to 1 for each row.

        Products are rounded per copy, so that the sum is exact.
        """
        copies = 1 if self.copies is None else self.copies
        lost = np.rint(self.whole // copies * losses).astype(np.int64) * copies
        (total,) = sum_ints(self._comm, int(lost.sum()))
        return total / self.total

    def rounded(self, n_bits: int) -> NDArray[np.int64]:
        """Return the integer weights divided by a power of two, with a sum of at most about 2**n_bits.

        Copies of a row stay identical.
        """
        surplus = max(0, self.total.bit_length() - n_bits)
        if self.copies is None:
            return (self.whole + ((1 << surplus) >> 1)) >> surplus
        return ((self.whole // self.copies + ((1 << surplus) >> 1)) >> surplus) * self.copies

    def sums(self, cells: NDArray[np.unsignedinteger], n_cells: int, n_classes: int) -> NDArray[np.int64]:
        """Return the sum of the integer weights by cell and class, (n_cells, n_classes).

        `cells` holds the cell of each row.
        """
        sums = np.zeros((n_cells, n_classes), dtype=np.int64)
        class_sums(cells, self.classes, self.whole, sums)
        return sum_over(self._comm, sums)

    def draw(self, order: NDArray[np.uint32], seed: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Draw rows of all ranks with replacement, by weight, and return how often each row of this rank was drawn.

        The number of draws is the number of rows, counting copies. `order` is the result of `content_order`, so that
        draws depend on the contents of the rows and not on their positions. `seed` is an array of length 1.
        """
        (whole,) = gathered(self._comm, [self.whole])
        first, n_rows = first_row(self._comm, self.n_rows)
        ends = np.cumsum(whole.take(order)).astype(np.float64)
        offsets, draws = np.array([[0, n_rows], [0, self.n_copies]], dtype=np.int64)
        counts = Bootstrap(order, ends, offsets, draws).counts(seed)[0]
        return counts[first : first + self.n_rows].astype(np.int64)


def content_order(columns: Any, classes: NDArray[np.uint16], comm: Comm = LOCAL) -> NDArray[np.uint32]:
    """Return the indices of all ranks' rows, sorted by a hash of their columns and class.

    `columns` yields arrays with a value for each row of this rank, and `classes` holds class indices.
    """
    step = np.uint64(0x9E3779B97F4A7C15)
    hashes = mixed(classes.astype(np.uint64) + np.uint64(1) + step)
    for column in columns:
        bits = (column + 0.0).view(np.uint64) if column.dtype.kind == "f" else column.astype(np.uint64)
        hashes = mixed((hashes ^ bits) + step)
    (hashes,) = gathered(comm, [hashes])
    return hash_order(hashes).astype(np.uint32)


Array = NDArray[np.float64]
Codes = NDArray[np.unsignedinteger]

# Maximum number of restarts in a row before boosting ends.
MAX_RESTARTS = 10
# Larger fits do not record which rows their rounds drew, because the record would outgrow the model.
_MAX_RECORDED_ROWS = 1 << 18
# Tolerance of the error, because rounding the weights can make an error of one half slightly smaller.
_ROUNDING = 1e-9


class Weak(NamedTuple):
    """Fitted weak classifier."""

    model: Any
    codes: Codes  # codes of the training rows
    validation_codes: Codes | None  # codes of the validation rows
    cells: NDArray[np.integer] | None  # the cell of each code; if None, codes are cells
    cell_class: NDArray[np.intp]  # the class that each cell votes for
    sums: NDArray[np.int64] | None  # weights by cell and class at the fit; if None, they have to be summed


@dataclass(frozen=True)
class VotingRules:
    """Settings of the rounds."""

    n_classes: int  # K
    n_rounds: int  # maximum number of rounds
    is_real: bool  # if True, vote with log probabilities instead of classes
    learning_rate: float  # factor of every vote
    # AdaBoost.M1: a classifier must be right on more than half of the weight, regardless of the number of classes.
    is_m1: bool
    resample: bool  # if True, fit each round to rows drawn in proportion to their weights
    # If True, discard classifiers that do not beat chance and continue from the initial weights.
    restarts: bool
    # Patience of early stopping: stop after this many consecutive rounds that have not lowered the validation loss by
    # more than `tol`, or by more than that fraction of the initial loss if it is below 1.
    n_iter_no_change: int
    tol: float
    seed: int  # seed of the rows drawn
    n_threads: int


class Vote(NamedTuple):
    """Weak classifier with its votes and weight in the ensemble."""

    weak: Weak
    values: Array  # votes by cell and class
    weight: float
    error: float
    restarted: bool  # True if the round started from the initial weights
    drawn: NDArray[np.unsignedinteger] | None = None  # how often each row was drawn


class DrawnRows(NamedTuple):
    """Rows drawn in each round.

    They are stored, because the draws follow the weights after all earlier rounds, so that drawing them again would
    need the training set. A round takes one byte for each row unless a row is drawn more than 255 times.
    """

    counts: Sequence[NDArray[np.unsignedinteger]]  # how often each row of the fit was drawn
    rows: NDArray[np.intp] | None  # indices of the rows of the fit among the rows passed by the user; None for all
    order: int  # checksum of the order of the rows, which shows if a warm start uses other rows

    @classmethod
    def of(cls, counts: Sequence[Any], rows: NDArray[np.intp] | None, order: Any) -> DrawnRows | None:
        """Return the record of the rows drawn in all rounds, or None if a round has None in `counts`.

        `rows` holds the indices of the rows of the fit among the passed rows, and `order` is a result of
        `content_order`.
        """
        return None if any(drawn is None for drawn in counts) else cls(counts, rows, crc32(order))

    @staticmethod
    def samples_of(model: Any) -> list[NDArray[np.int32]]:
        """Return the row indices that each round of a model was fitted to, repeated as often as drawn.

        Raise AttributeError if rounds do not draw rows, or the draws were not recorded.
        """
        if not draws_rows(model._as_fitted()):
            raise AttributeError("estimators_samples_ needs rounds that are fitted to drawn rows. Use resample=True.")
        if (drawn := model._drawn) is None:
            raise AttributeError(
                "estimators_samples_ requires draws that fit has recorded. They are recorded for up to "
                f"{_MAX_RECORDED_ROWS} rows, but not in distributed fits, warm starts on other rows and saved files."
            )
        rows = np.arange(len(drawn.counts[0])) if drawn.rows is None else drawn.rows
        return rows_drawn(drawn.counts, rows)


class VotingRun:
    """State of a fit of AdaBoost by voting rounds."""

    def __init__(
        self,
        learner: Estimators | Stumps | Trees,
        classes: NDArray[np.uint16],
        sample_weight: Array | None,
        rules: VotingRules,
        comm: Comm = LOCAL,
    ) -> None:
        self.learner, self.rules, self._comm = learner, rules, comm
        self.weights = RoundWeights(classes, sample_weight, rules.n_threads, comm)
        self.validation: RoundWeights | None = None
        self._without_restarts: RoundWeights | None = None
        self.votes: list[Vote] = []
        self.history = History()
        self.n_rounds = 0
        self.order = content_order(learner.columns, classes, comm) if rules.resample else None
        self._one_hot = np.eye(rules.n_classes)
        self._is_over = False

    def validate_on(self, classes: NDArray[np.uint16], sample_weight: Array | None) -> None:
        """Set the classes and weights of the learner's validation rows, whose loss is recorded after each round."""
        self.validation = RoundWeights(classes, sample_weight, self.rules.n_threads, self._comm)

    def run(self, on_round: OnRound | None = None) -> None:
        """Run rounds until `n_rounds`, early stopping, or a classifier that is perfect or does not beat chance.

        `on_round` is called after each round with the losses.
        """
        while self.n_rounds < self.rules.n_rounds and not self._is_over:
            vote = self._next_vote()
            if vote is None:
                return
            self.add(vote)
            if on_round is not None:
                on_round(self.n_rounds - 1, self.rules.n_rounds, self.history.train[-1], self.history.last_validation)
            least = self.history.least_improvement(self.rules.tol)
            if self.history.rounds_since_best(least) >= self.rules.n_iter_no_change:
                return

    def add(self, vote: Vote) -> None:
        """Append the vote of a round, restarting first if it was fitted after a restart; update weights and losses."""
        if vote.restarted:
            self.restart()
        steps = steps_of(vote.values, vote.weight, self.rules.is_real)
        if vote.weak.cells is not None:
            steps = steps.take(vote.weak.cells, axis=0)
        self.weights.advance(vote.weak.codes, steps)
        if self._without_restarts is not None:
            self._without_restarts.advance(vote.weak.codes, steps)
        self.history.train.append(_exp((self._without_restarts or self.weights).log_loss_ratio))
        if self.validation is not None and vote.weak.validation_codes is not None:
            self.validation.advance(vote.weak.validation_codes, steps)
            self.history.validation.append(_exp(self.validation.log_loss_ratio))
        self.votes.append(vote)
        self.n_rounds += 1

    def restart(self) -> None:
        """Reset the rows to their initial weights; the recorded loss still counts the votes of all rounds."""
        if self._without_restarts is None:
            self._without_restarts = self.weights.copy()
        self.weights.restart()

    def _next_vote(self) -> Vote | None:
        """Return the next round's vote, after restarts if needed; None if no classifier beats chance, to end boosting.

        A first classifier is returned even then, with a warning.
        """
        for attempt in range(MAX_RESTARTS + 1):
            index = self.n_rounds * (MAX_RESTARTS + 1) + attempt
            vote = self._fit_vote(index, restarted=attempt > 0)
            if vote.weight > 0:
                return vote
            if not self.rules.restarts:
                break
            self.restart()
        if self.n_rounds:
            return None
        self._is_over = True
        warn(
            f"the first weak classifier is not better than chance (weighted error {vote.error:.3g}), so the "
            "ensemble consists of this classifier only"
        )
        return vote._replace(weight=1.0, values=self._one_hot[vote.weak.cell_class])

    def _fit_vote(self, index: int, restarted: bool) -> Vote:
        """Return the vote of a classifier fitted to the current weights; `index` selects the random numbers.

        `restarted` is True if the weights are the initial ones after a restart.
        """
        weights = self.weights
        drawn = None
        if self.order is not None:
            drawn = weights.draw(self.order, stream_seeds(self.rules.seed, index, index + 1))
        weak = self.learner.fit(weights, drawn, index)
        sums = self._sums_by_cell(weak) if drawn is not None or weak.sums is None else weak.sums
        if self.rules.is_real:
            values = self._within_limits(weak, self._log_odds(sums))
            if not self.learner.has_own_classes:
                weak = weak._replace(cell_class=values.argmax(axis=1))
        right = sum(of_cell[k] for of_cell, k in zip(sums.tolist(), weak.cell_class.tolist(), strict=True))
        error = (weights.total - right) / weights.total
        if right == weights.total:
            self._is_over = True
        if self.rules.is_real:
            weight = 1.0 if np.ptp(values, axis=1).max() > 1e-10 else 0.0
        else:
            weight = self._vote_weight(error)
            values = weight * self._one_hot[weak.cell_class]
        return Vote(weak, values, weight, error, restarted, compact_counts(drawn, self._comm))

    def _sums_by_cell(self, weak: Weak) -> NDArray[np.int64]:
        """Return the sums of the current weights by cell of a weak classifier and class, (n_cells, n_classes)."""
        n_codes = len(weak.cell_class) if weak.cells is None else len(weak.cells)
        by_code = self.weights.sums(weak.codes, n_codes, self.rules.n_classes)
        if weak.cells is None:
            return by_code
        sums = np.zeros((len(weak.cell_class), self.rules.n_classes), dtype=np.int64)
        np.add.at(sums, weak.cells, by_code)
        return sums

    def _vote_weight(self, error: float) -> float:
        """Return a classifier's weight by SAMME or AdaBoost.M1 from its weighted error.

        The weight is 1 without errors, and 0 for a classifier that does not beat chance.
        """
        odds_of_chance = 1 if self.rules.is_m1 else self.rules.n_classes - 1
        if error == 0:
            return 1.0
        if error >= odds_of_chance / (1 + odds_of_chance) - _ROUNDING:
            return 0.0
        return self.rules.learning_rate * float(log((1 - error) / error) + log(odds_of_chance))

    def _log_odds(self, sums: NDArray[np.int64]) -> Array:
        """Return the votes of SAMME.R, (n_cells, n_classes): log probabilities, centred over the classes.

        `sums` holds the sum of weights by cell and class. Probabilities are smoothed by the weight of about one row, as
        recommended by Schapire & Singer (1999), section 4.2.
        """
        n_classes = self.rules.n_classes
        logs = log(sums / self.weights.total + 1 / (n_classes * self.weights.n_copies))
        if n_classes == 2:
            half = 0.5 * self.rules.learning_rate * (logs[:, 1] - logs[:, 0])
            return np.stack([-half, half], axis=1)
        return self.rules.learning_rate * (logs - logs.mean(axis=1, keepdims=True))

    def _within_limits(self, weak: Weak, values: Array) -> Array:
        """Return the votes `values` clipped to monotonic constraints, which smoothing can violate in small leaves."""
        if self.learner.monotone is None:
            return values
        rules = GrowthParameters(monotone=self.learner.monotone)
        half = leaves_within_limits(weak.model, np.ascontiguousarray(values[:, 1]), rules, 1.0)
        return np.stack([-half, half], axis=1)

    @property
    def best_round(self) -> int:
        """Number of rounds up to the lowest validation loss, or of all rounds if there is no validation set."""
        measured = self.history.validation[: self.n_rounds]  # Ctrl-C may arrive before a vote is counted
        return int(np.argmin(measured)) + 1 if measured and self.history.decides else self.n_rounds


def steps_of(values: Array, weight: float, is_real: bool) -> Array:
    """Return the steps of the log weights that a vote causes, (n_cells, n_classes).

    `values` holds votes by cell and class. For discrete votes, the step is weight / K if the class is not the cell's
    class, and weight / K - weight if it is, so that the mean row weight is the exponential loss of SAMME. For two
    classes, the steps are plus and minus half of the weight.
    """
    return -values if is_real else weight / values.shape[1] - values


def _exp(x: float) -> float:
    """Return the exponential of a number, with the project's portable function."""
    return float(exp(x))


MODELS = "estimators."
MAX_LEAVES = 1 << 15

# The forest engine sums integer weights exactly if their total stays below 2**40.
_TREE_BITS = 39


class BinnedRows:
    """Binned training rows and optional validation rows; columns have shape (n_features, n_rows)."""

    def __init__(self, binning: Binning, columns: AnyCodes, validation: AnyCodes | None, n_threads: int) -> None:
        self.binning, self.columns, self.validation = binning, columns, validation
        self._n_threads = n_threads

    def nodes(self, tree: Tree) -> tuple[NDArray[np.uint16], NDArray[np.uint16] | None]:
        """Return the node index of each training row's leaf, and of each validation row's (None without such rows)."""
        validation = None if self.validation is None else self._nodes_of(tree, self.validation)
        return self._nodes_of(tree, self.columns), validation

    def _nodes_of(self, tree: Tree, columns: AnyCodes) -> NDArray[np.uint16]:
        """Return the node index of the leaf that each row falls into, (n_rows,); `columns` holds bin codes."""
        numbers = np.zeros(columns.shape[1])
        numbered = replace(tree, value=np.arange(tree.n_nodes, dtype=np.float64)[:, None])
        add_tree_to_raw(columns, numbered, numbers, self._n_threads)
        return numbers.astype(np.uint16)


class Stumps:
    """Learner that fits stumps."""

    monotone: NDArray[np.int8] | None = None  # monotonic constraints of the columns; only for trees
    has_own_classes = False  # True if the class of a cell is the model's prediction and does not follow from its votes

    def __init__(self, rows: BinnedRows, finder: StumpLearner, comm: Comm = LOCAL) -> None:
        self.rows, self._finder, self._comm = rows, finder, comm
        self.columns = rows.columns

    def fit(self, weights: RoundWeights, drawn: NDArray[np.int64] | None, index: int) -> Weak:
        """Return a stump as a weak classifier; ties go to the first feature, then the lowest threshold.

        It is fitted to `weights`, or to rows repeated as often as drawn if `drawn` is not None; `index` is not used.
        """
        stump = self._finder.fit(weights.whole if drawn is None else drawn, self._comm)
        column, validation = max(stump.feature, 0), self.rows.validation  # the feature is -1 if there is no split
        codes, validation_codes = self.columns[column], None if validation is None else validation[column]
        return Weak(stump, codes, validation_codes, stump.goes_left, stump.sums.argmax(axis=1), stump.sums)

    def ensemble(self, votes: Sequence[Vote]) -> TreeEnsemble:
        """Return the stumps of the votes as an ensemble of trees, whose node values are the votes."""
        values = np.array([tree_values(vote.values) for vote in votes])
        context = self.columns, self.rows.binning, self._comm
        return stump_ensemble([vote.weak.model for vote in votes], values, *context)


class Trees:
    """Learner that fits classification or regression trees on the forest engine."""

    has_own_classes = False

    def __init__(
        self, rows: BinnedRows, matrix: AnyMatrix, target: TreeTarget, rules: ForestParameters, n_threads: int
    ) -> None:
        self.rows, self.target = rows, target
        self.columns = rows.columns
        self.monotone = rules.monotone
        self._comm = matrix.comm
        (n_rows,) = sum_ints(self._comm, matrix.n_rows)
        self._grower = ForestGrower(matrix, target, _limit_leaves(rules, n_rows), n_threads)

    def fit(self, weights: RoundWeights, drawn: NDArray[np.int64] | None, index: int) -> Weak:
        """Return the tree of round `index` as a weak classifier, whose cells are its nodes; see `grow`."""
        tree = self.grow(weights, drawn, index)
        share = tree.value
        cell_class = (share[:, 0] > 0.5).astype(np.intp) if share.shape[1] == 1 else share.argmax(axis=1)
        codes, validation = self.rows.nodes(tree)
        return Weak(tree, codes, validation, None, cell_class, None)

    def grow(self, weights: RoundWeights, drawn: NDArray[np.int64] | None, index: int) -> Tree:
        """Return a tree grown with the seed `index` on the weighted rows, or on drawn rows if `drawn` is not None."""
        sample = weights.rounded(_TREE_BITS) if drawn is None else drawn
        totals = None
        if self._comm.size > 1:
            n_drawn, total = sum_ints(self._comm, int(np.count_nonzero(sample)), int(sample.sum()))
            totals = Totals(n_drawn, float(total), unit=1.0)
        [tree] = self._grower.grow([TreeSample(sample.astype(np.float64), None, index, totals)])
        return tree

    def ensemble(self, votes: Sequence[Vote]) -> TreeEnsemble:
        """Return the trees of the votes as an ensemble, whose node values are the votes."""
        return self.with_values([vote.weak.model for vote in votes], [tree_values(vote.values) for vote in votes])

    def with_values(self, trees: Sequence[Tree], values: Sequence[NDArray[np.float64]]) -> TreeEnsemble:
        """Return an ensemble of the trees with other node values, an array (n_nodes, n_outputs) for each tree."""
        renewed = [replace(tree, value=value) for tree, value in zip(trees, values, strict=True)]
        return TreeEnsemble.from_trees(
            renewed, np.zeros(len(renewed)), np.zeros(renewed[0].value.shape[1]), self.rows.binning
        )


def _limit_leaves(rules: ForestParameters, n_rows: int) -> ForestParameters:
    """Return the rules, limited to `MAX_LEAVES` leaves if trees on `n_rows` rows could exceed 16-bit node indices."""
    depth = rules.max_depth or n_rows
    if min(n_rows, 2 ** min(depth, 40), rules.max_leaf_nodes or n_rows) <= MAX_LEAVES:
        return rules
    return replace(rules, max_leaf_nodes=MAX_LEAVES)


def tree_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return votes (n_cells, n_classes) as node values: their difference for two classes, unchanged for more."""
    return values[:, 1:] - values[:, :1] if values.shape[1] == 2 else values


def class_values(values: NDArray[np.float64], is_real: bool) -> NDArray[np.float64]:
    """Return node values as votes by cell and class, the inverse of `tree_values`; `is_real` marks SAMME.R."""
    if values.shape[1] > 1:
        return values
    if is_real:
        return np.hstack([-0.5 * values, 0.5 * values])
    return np.hstack([np.maximum(-values, 0), np.maximum(values, 0)])


class Estimators:
    """Learner that fits clones of any classifier, with sample weights if supported and on repeated rows otherwise."""

    monotone: NDArray[np.int8] | None = None
    has_own_classes = True

    def __init__(self, estimator: Any, labels: NDArray[Any], X: Any, classes: NDArray[np.uint16], X_val: Any) -> None:
        self._estimator, self._labels = estimator, labels
        self._X, self._classes, self._X_val = X, classes, X_val
        dense = X.toarray() if hasattr(X, "toarray") else X
        self.columns = np.asarray(dense, dtype=np.float64).T

    def fit(self, weights: RoundWeights, drawn: NDArray[np.int64] | None, index: int) -> Weak:
        """Return a clone fitted in round `index` as a weak classifier, whose cells are the classes it predicts.

        It is fitted to `weights`, or to rows repeated as often as drawn if `drawn` is not None.
        """
        y = self._labels[self._classes]
        counts = weights.whole if drawn is None else drawn
        return self.wrap_fitted(fitted_copy(self._estimator, self._X, y, (counts, weights.n_copies), index))

    def wrap_fitted(self, model: Any) -> Weak:
        """Return a fitted clone as a weak classifier, with its predictions for training and validation rows."""
        validation = None if self._X_val is None else class_indices(model, self._labels, self._X_val)
        predicted = class_indices(model, self._labels, self._X)
        return Weak(model, predicted, validation, None, np.arange(len(self._labels)), None)


def match_sparse_format(data: TrainingData, X: Any) -> TrainingData:
    """Return the data with the table as CSC if X is CSC, which some estimators read faster than CSR."""
    return data._replace(X=data.X.tocsc()) if getattr(X, "format", None) == "csc" else data


def fitted_copy(estimator: Any, X: Any, y: NDArray[Any], copies: tuple[NDArray[np.int64], int], index: int) -> Any:
    """Return a clone fitted with integer weights, or on repeated rows if it does not support weights.

    `copies` is a pair of the integer weights and the number of rows including copies, to which the weights are
    normalised. `index` is the seed. Raise ValueError if the estimator requires data frames.
    """
    weights, n_copies = copies
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False) and model.random_state is None:
        model.set_params(random_state=index)
    model = seeded(model, np.random.RandomState(index))
    fit_arguments = (
        {"sample_weight": weights / (int(weights.sum()) / n_copies)}
        if has_fit_parameter(model, "sample_weight")
        else {}
    )
    model = with_weight_type(model, fit_arguments["sample_weight"]) if fit_arguments else model
    if not fit_arguments:
        rows = repeated(np.arange(len(y)), weights, f"fit of {type(model).__name__} takes no sample_weight")
        X, y = X[rows], y[rows]
    try:
        model.fit(X, y, **fit_arguments)
    except ValueError as error:
        if "dataframe" not in str(error).lower():
            raise
        raise ValueError(
            "estimator must accept numeric arrays, because AdaBoost converts data frames to arrays; "
            f"{type(model).__name__} does not: {error} Select columns by position, or preprocess them in a "
            "pipeline whose last step is AdaBoost."
        ) from error
    return model


def check_weak(estimator: Any, wants_classifier: bool) -> None:
    """Raise ValueError unless the estimator is a classifier, or else a regressor, and reads numeric tables."""
    check_kind("estimator", estimator, wants_classifier)
    tags = tags_of(estimator)
    if tags is not None and not tags.input_tags.two_d_array:
        raise ValueError(
            "estimator must accept numeric tables, because AdaBoost encodes text columns as "
            f"numbers; got {estimator!r}."
        )


def with_categorical_columns(estimator: Any, is_categorical: NDArray[np.bool_]) -> Any:
    """Return the estimator with the mask of categorical columns set, if it would infer them from column types."""
    parameters = estimator.get_params(deep=False) if isinstance(estimator, BaseFastens) else {}
    categorical_columns = np.flatnonzero(is_categorical).tolist()
    if (
        categorical_columns
        and isinstance(parameters.get("categorical_features"), str)
        and parameters["categorical_features"] == "from_dtype"
    ):
        return clone(estimator).set_params(categorical_features=categorical_columns)
    if categorical_columns and isinstance(parameters.get("kinds"), str):  # MixedNB
        return clone(estimator).set_params(kinds=dict.fromkeys(categorical_columns, "categorical"))
    return estimator


def class_indices(model: Any, labels: NDArray[Any], X: Any) -> NDArray[np.uint16]:
    """Return the index in the sorted `labels` of the class that an estimator predicts for each row, (n_rows,).

    `model` is the fitted estimator.
    """
    return label_indices("estimator", model.predict(X), labels, X.shape[0]).astype(np.uint16)


def models_to_arrays(owner: Any) -> dict[str, NDArray[Any]]:
    """Return the fitted estimators in `owner._models` as arrays to save; empty if it has trees instead.

    Estimators of other libraries are pickled if the user allows it.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for number, model in enumerate(vars(owner).get("_models", ())):
        arrays |= nested_arrays(f"{MODELS}{number}.", model, f"Estimator {number}")
    return arrays


def restore_models(owner: Any, arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Set `owner._models` from the arrays of `models_to_arrays`; return False if `owner` has trees instead.

    Raise ValueError if it has neither.
    """
    model_arrays = numbered_arrays(MODELS, arrays)
    if model_arrays:
        owner._models = [
            restored_model(model_arrays.get(f"{number}", {}), f"Estimator {number}")
            for number in range(len(model_arrays))
        ]
    elif "_ensemble" not in vars(owner):
        raise ValueError("it has neither trees nor other estimators")
    return bool(model_arrays)


def check_single_rank(estimator: Any, comm: Comm) -> None:
    """Raise ValueError if rows are on several ranks, on which arbitrary estimators cannot be fitted."""
    if comm.size > 1:
        raise ValueError(
            "estimator must be None (or a fastens.DecisionTreeClassifier for classification) in distributed "
            f"fits; got {estimator!r}."
        )


def draws_rows(model: Any) -> bool:
    """Return True if rounds are fitted to drawn rows: if `resample` is set, or `estimator` takes no weights."""
    is_voting = getattr(model, "algorithm", VOTING[0]) in VOTING
    return is_voting and (
        model.resample or not (model.estimator is None or has_fit_parameter(model.estimator, "sample_weight"))
    )


def compact_counts(drawn: NDArray[np.int64] | None, comm: Comm) -> NDArray[np.unsignedinteger] | None:
    """Return numbers of draws as the smallest unsigned integers; None if they are not recorded.

    `drawn` is None without draws. Draws are not recorded on several ranks and for many rows.
    """
    if drawn is None or comm.size > 1 or len(drawn) > _MAX_RECORDED_ROWS:
        return None
    return drawn.astype(np.min_scalar_type(int(drawn.max(initial=0))))


def weighted_importances(model: Any, *, parts: bool = False) -> NDArray[np.float64]:
    """Return the importances of an AdaBoost's weak learners averaged by their weights, (n_features,), with sum 1.

    If `parts` is True, the result has an entry for each of `feature_parts_`.
    """
    if getattr(model, "_models", None) is not None:
        importances = np.array([each.feature_importances_ for each in model._models])
    else:
        # Splits without gain count as well, because they may lead to better splits or may be the only splits.
        n_features = len(model._column_of)
        importances = gain_shares(model._ensemble, np.arange(n_features), n_features, np.finfo(float).tiny)
    total = model.estimator_weights_ @ importances
    total = total if parts else model._by_columns(total)
    return total / total.sum() if total.sum() > 0 else total
