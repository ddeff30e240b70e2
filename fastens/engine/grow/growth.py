"""Growth of one tree: growth parameters, constraints, the call into the kernels, and cost-complexity pruning."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, is_any, max_floats, sum_ints
from fastens.engine.grow.grow import Grower
from fastens.engine.grow.leaves import clip_to_bounds, leaf_means, pruned_indices, weakest_links
from fastens.engine.limits import Limits
from fastens.engine.losses.losses import exact_sum, weighted_mean
from fastens.engine.names import are_positions, have_numbers, plain_name
from fastens.engine.trees.trees import NODE_ARRAYS, Tree
from fastens.engine.whole import are_whole
from fastens.warn import warn

if TYPE_CHECKING:
    from fastens.engine.bins.binning import AnyMatrix
    from fastens.engine.losses.losses import Loss


# Maximum of an L2 penalty proportional to the noise, as a share of the sum of all hessians: a few huge targets must not
# prevent all splits.
MAX_L2_SHARE_OF_HESSIANS = 0.2
# Maximum of a minimum leaf size that depends on the level of a quantile, as a share of a tree's rows.
MAX_L2_SHARE_OF_ROWS = 0.2
# The splits that a tree makes first, and the words of their sets of categories.
ForcedNodes = tuple[NDArray[np.int32], NDArray[np.uint32]]


def weight_unit(
    weights: NDArray[np.float64] | None, copies: NDArray[np.float64] | None = None, comm: Comm = LOCAL
) -> float:
    """Return the mean of `weights` (None: 1) over copies of rows on all ranks, but at most 1; it scales penalties."""
    return 1.0 if weights is None else min(1.0, weighted_mean(weights, copies, comm))


@dataclass(frozen=True, kw_only=True)
class GrowthParameters(Limits):
    """Limits of a tree grown by Newton boosting and of its leaf values, in addition to the limits of any tree.

    Attributes
    ----------
    min_samples_tail : float
        Minimum expected number of rows of a leaf on the smaller side of a quantile. It raises the minimum leaf size to
        at most a fifth of the rows that the tree is grown on.
    min_child_weight : float
        Minimum sum of hessians in a leaf. If the mean weight is below 1, this is multiplied by the mean weight.
    min_gain_to_split : float
        The gain of a split must exceed this; the gain is the sum of G^2/(H + l2) over the children minus the parent's.
    split_penalty : float
        Pruning penalty: the tree is pruned to the subtree with the largest gain minus this penalty for each split. It
        is in units of the dispersion of the gradients, that is, their variance within leaves divided by the mean
        hessian. A value of 2 corresponds to Akaike's criterion with an estimated dispersion.
    l2_regularization : float
        Added to the sum of hessians of a leaf: lambda in eq. 5-7 of Chen & Guestrin (2016). If the mean weight is below
        1, this is multiplied by the mean weight.
    noise_l2 : float
        Factor of an additional L2: this times a power of the noise before the tree, which is the sum of the squared
        gradients of its rows divided by the sum of their hessians. It is scaled like `l2_regularization`.
    noise_power : float
        Exponent of the noise, 0.5 or 1; with 1, the additional L2 is at most a fifth of the sum of all hessians. The
        noise of log odds is dimensionless, as is the noise of numeric targets relative to the noise of a constant; the
        noise of logarithms of means has the unit of the hessians.
    features_per_tree : int or None
        Number of features, drawn at random, that a tree may split on. If None, a tree may split on all features.
    rows_per_threshold : int or None
        A node evaluates one threshold of a numeric feature for each `rows_per_threshold` of its rows, but at least two.
        The thresholds that leave enough rows on both sides are divided into equal parts, and one threshold is drawn at
        random from each part. If None, all thresholds are evaluated.
    path_smooth : float
        Shrinks the value of a node toward its parent's value, as `l2_regularization` shrinks it toward 0.
    max_delta_step : float or None
        Maximum absolute value of a leaf. If None, it is unlimited.
    category_l2 : float
        Added to `l2_regularization` in the gain of splits on sets of categories, which have more freedom than
        thresholds. The unit is one row of average hessian.
    category_smoothing : float
        Added to a category's sum of hessians before categories are sorted by gradient over hessian, which reduces the
        influence of rare categories. The unit is one row of average hessian.
    min_samples_category : int
        Categories with fewer rows in a node are pooled in this node and go to the same side.
    max_categories_per_split : int or None
        Maximum number of categories on the smaller side of a split. If None, it is unlimited.
    one_hot_max_size : int
        Features with at most this many categories use one-vs-rest splits, without `category_l2`.
    forced_splits : pair of arrays or None
        Splits that every tree makes first, as returned by `forced_nodes`.
    """

    max_leaf_nodes: int | None = 31
    min_samples_leaf: int = 20
    min_samples_tail: float = 0.0
    min_child_weight: float = 1e-3
    min_gain_to_split: float = 0.0
    split_penalty: float = 0.0
    l2_regularization: float = 0.0
    noise_l2: float = 0.0
    noise_power: float = 0.5
    features_per_tree: int | None = None
    rows_per_threshold: int | None = None
    path_smooth: float = 0.0
    max_delta_step: float | None = None
    category_l2: float = 10.0
    category_smoothing: float = 5.0
    min_samples_category: int = 1
    max_categories_per_split: int | None = None
    one_hot_max_size: int = 0
    forced_splits: ForcedNodes | None = None

    def in_units(self, unit: float) -> GrowthParameters:
        """Return the parameters with the minimum hessian and L2 penalties multiplied by `unit`, the mean weight."""
        if unit == 1:
            return self
        scaled = ("min_child_weight", "l2_regularization", "noise_l2")
        return replace(self, **{name: getattr(self, name) * unit for name in scaled})

    def l2_of_noise(self, root: float, hessian: float) -> float:
        """Return the L2 of an output's leaves, given the square root of the noise and the sum of all hessians."""
        of_noise = self.noise_l2 * root
        if self.noise_power == 1:
            of_noise = min(of_noise * root, MAX_L2_SHARE_OF_HESSIANS * hessian)
        return self.l2_regularization + of_noise

    def of_output(self, output: int) -> GrowthParameters:
        """Return the parameters of the trees of an output: with its row of `monotone`, if this has two axes."""
        if self.monotone is None or self.monotone.ndim == 1:
            return self
        return replace(self, monotone=self.monotone[output])

    def fewest_rows(self, tail: float, n_rows: float) -> int:
        """Return the minimum leaf size, given the share of rows on a quantile's smaller side and a tree's row count."""
        of_tail = min(self.min_samples_tail / tail, MAX_L2_SHARE_OF_ROWS * n_rows)
        return max(self.min_samples_leaf, math.ceil(of_tail * (1 - 1e-12)))

    @property
    def clip_to_bounds(self) -> bool:
        """True if leaf values depend on more than the Newton steps of their rows."""
        return self.monotone is not None or self.path_smooth > 0 or self.max_delta_step is not None


@dataclass(frozen=True)
class RowWeights:
    """Weights of a rank's rows, decomposed into numbers of copies and other factors, with totals over all ranks.

    Attributes
    ----------
    of_rows : float64 array of shape (n_rows,) or None
        The weights. If None, all weights are 1 on all ranks.
    copies : float64 array of shape (n_rows,) or None
        Numbers of copies, integers with a sum that kernels can represent. If None, each row counts once on all ranks.
    factors : float64 array of shape (n_rows,) or None
        Weights divided by the numbers of copies. If None, all factors are 1 on all ranks.
    comm : Comm
        Communicator of the ranks.
    n_copies, total : float
        Sums of the copies and of the weights over all ranks.
    most_copies : float
        Largest number of copies.
    """

    of_rows: NDArray[np.float64] | None
    copies: NDArray[np.float64] | None
    factors: NDArray[np.float64] | None
    comm: Comm
    n_copies: float
    total: float
    most_copies: float

    @classmethod
    def of(
        cls,
        weights: NDArray[np.float64] | None,
        n_rows: int,
        comm: Comm = LOCAL,
        weight_before_classes: NDArray[np.float64] | None = None,
    ) -> RowWeights:
        """Return the decomposition of this rank's positive weights (None: all 1), and warn if integers sum to 2**31.

        If class weights are included, `weight_before_classes` holds the weights without them.
        """
        (n_rows,) = sum_ints(comm, n_rows)
        if weights is None:
            return cls(None, None, None, comm, n_rows, n_rows, 1.0)
        total, choices = exact_sum(weights, comm), list[tuple[NDArray[np.float64], NDArray[np.float64] | None]]()
        of_classes = np.ones(0) if weight_before_classes is None else weights / weight_before_classes
        if not is_any(comm, not are_whole(of_classes)):  # if there is room, integer class weights also count as copies
            choices.append((weights, None))
        if weight_before_classes is not None:
            choices.append((weight_before_classes, of_classes))
        for copies, factors in choices:
            n_copies, (most,) = exact_sum(copies, comm), max_floats(comm, float(copies.max(initial=0.0)))
            if n_copies < MAX_SUM_OF_COPIES and not is_any(comm, not are_whole(copies)):
                return cls(weights, copies if most > 1 else None, factors, comm, n_copies, total, most)
        if total >= MAX_SUM_OF_COPIES and not is_any(comm, not are_whole(weights)):
            warn(
                "sample_weight must sum to less than 2**31 with integer weights, because these count as "
                f"copies of rows; got {total:,.0f}. Divide the weights, and limits such as min_samples_leaf, by a "
                "common factor."
            )
        return cls(weights, None, weights, comm, n_rows, total, 1.0)

    @property
    def are_ones(self) -> bool:
        """True if all weights are known to be 1."""
        return self.copies is None and self.factors is None

    def n_copies_of(self, rows: NDArray[np.uint32] | None) -> float:
        """Return the number of copies of this rank's rows at these indices (None: all), summed over all ranks."""
        if rows is None:
            return self.n_copies
        return sum_ints(self.comm, len(rows) if self.copies is None else int(self.copies[rows].sum()))[0]

    @property
    def unit(self) -> float:
        """Weight of one row in penalties."""
        return weight_unit(self.factors, self.copies, self.comm)


class TreeGrower(Grower):
    """Grows trees sequentially on the same rows and reuses the allocated memory.

    If the matrix has payloads for several outputs, every leaf has one value per output, and the gain of a split is the
    sum of its gains for all outputs. `min_child_weight` then applies to the mean hessian of the outputs. Limits of
    values (`path_smooth`, `max_delta_step`) are enforced for leaf values but ignored when splits are chosen. Monotone
    constraints apply to every output: a split that violates a constraint for an output has zero gain for this output.

    Parameters
    ----------
    matrix : BinnedMatrix or SparseMatrix
        The rows. Their records store the quantized gradients, so a matrix can have only one grower at a time. With
        several ranks, these are the rows of one rank, and all ranks grow the same trees.
    rules : GrowthParameters
        Limits of every tree.
    sample_weight : float64 array of shape (n_rows,), RowWeights or None
        Positive weights. Integer weights are bit-identical to copies of the rows.
    constant_hessian : bool
        True if all hessians are 1 before weighting.
    renews_leaves : bool
        True if every tree is passed to `renew_leaves`. The original values then only serve to choose splits and may
        have another scale.
    n_threads : int
        Number of threads. The trees do not depend on it.
    """

    def __init__(
        self,
        matrix: AnyMatrix,
        rules: GrowthParameters,
        sample_weight: NDArray[np.float64] | RowWeights | None = None,
        *,
        constant_hessian: bool = False,
        renews_leaves: bool = False,
        n_threads: int = 1,
    ) -> None:
        self.of_outputs, weights = rules, sample_weight
        if not isinstance(weights, RowWeights):
            weights = RowWeights.of(weights, matrix.n_rows, matrix.comm)
        self.row_weights, self.unit = weights, weights.unit
        rules = rules.of_output(0).in_units(self.unit)
        super().__init__(matrix, rules, weights, constant_hessian, renews_leaves, n_threads)

    def start_output(self, output: int) -> None:
        """Set the monotone constraints of the following trees, which fit `output`, if each output has its own."""
        rules = self.of_outputs.of_output(output)
        if rules is not self.of_outputs:
            self.set_monotone(rules.monotone)

    def renew_leaves(
        self,
        tree: Tree,
        loss: Loss,
        residuals: NDArray[np.float64],
        n_threads: int = 1,
        factors: NDArray[np.float32] | None = None,
        column: int = 0,
    ) -> Tree:
        """Return the tree that was just grown with leaf values that `loss` computes from the residuals of its rows.

        If not None, `factors`, one for each row that the tree was grown on, multiply the rows' weights. `column` is the
        index of the output whose values are replaced.
        """
        nodes, rows, starts = self.leaves()
        weights = None if self.row_weights.of_rows is None else self.row_weights.of_rows[rows]
        if factors is not None:
            of_row = np.zeros(len(residuals))
            of_row[np.sort(rows)] = factors
            weights = of_row[rows] if weights is None else weights * of_row[rows]
        values = np.zeros(tree.n_nodes)
        values[nodes] = loss.leaf_values(residuals[rows], starts, weights, n_threads)
        if self.rules.clip_to_bounds:
            leaf_means(values, tree.weight, tree.left_child)
            clip_to_bounds(values, tree.weight, tree, self.rules)
        value = tree.value.copy()
        value[:, column] = values
        return replace(tree, value=value)


def leaves_within_limits(
    tree: Tree, value: NDArray[np.float64], rules: GrowthParameters, factor: float
) -> NDArray[np.float64]:
    """Return leaf values clipped to the limits of growth: monotone constraints, and `factor` * `max_delta_step`.

    Parameters
    ----------
    tree : Tree
        A tree grown with `rules`.
    value : array of shape (n_nodes,)
        New values of the nodes.
    rules : GrowthParameters
        The limits.
    factor : float
        Factor of the leaf values in `value` relative to Newton steps.
    """
    if rules.monotone is None and rules.max_delta_step is None:
        return value
    value, weight = value.copy(), np.asarray(tree.weight, dtype=np.float64)
    leaf_means(value, weight, tree.left_child)
    most = None if rules.max_delta_step is None else factor * rules.max_delta_step
    clip_to_bounds(value, weight, tree, replace(rules, path_smooth=0.0, max_delta_step=most))
    return value


# Histograms count copies in 31 bits.
MAX_SUM_OF_COPIES = 2.0**31
# Maximum number of distinct features on a path, by scikit-learn's names.
PATH_WORDS = {"no_interactions": 1, "pairwise": 2}


class ColumnLookup:
    """Resolves the columns that constraints refer to.

    Parameters
    ----------
    n_features : int
        Number of columns.
    names : sequence of names or None
        Column names as returned by `plain_name`. If any of them is a number, integers refer to names, not positions.
    """

    def __init__(self, n_features: int, names: Sequence[Any] | None = None) -> None:
        self.n_features = n_features
        self.names = None if names is None else list(names)
        self._positions = {name: position for position, name in enumerate(self.names or ())}
        self._takes_positions = not have_numbers(self.names) or are_positions(self.names)

    def is_name(self, item: Any) -> bool:
        """Return True if a value is a column name."""
        return isinstance(item, Hashable) and plain_name(item) in self._positions

    def position(self, parameter: str, item: Any) -> int:
        """Return the index of a column given by name or index; raise ValueError, naming the parameter, if unknown."""
        if self.is_name(item):
            return self._positions[plain_name(item)]
        is_whole = isinstance(item, numbers.Integral) and not isinstance(item, bool | np.bool_)
        if isinstance(item, str) or not self._takes_positions:
            hint = f"the columns are {self.names}" if self.names else "X has no column names"
            raise ValueError(f"{parameter} must name columns of X; got {item!r}, and {hint}.")
        if not is_whole or not 0 <= item < self.n_features:
            raise ValueError(f"{parameter} must hold column indices from 0 to {self.n_features - 1}; got {item!r}.")
        return int(item)

    def values(self, parameter: str, column_values: Any, default: float) -> NDArray[np.float64]:
        """Return one number per column, from an array of all columns or a dict of some (others get `default`).

        Raise ValueError, naming the parameter, for unknown columns, numbers that are not finite or a wrong length.
        """
        out = np.full(self.n_features, default)
        if isinstance(column_values, Mapping):
            for item, value in column_values.items():
                out[self.position(parameter, item)] = _number(parameter, value)
            return out
        listed = (
            [column_values]
            if isinstance(column_values, str)
            else np.asarray(column_values, dtype=object).ravel().tolist()
        )
        if len(listed) != self.n_features:
            raise ValueError(
                f"{parameter} must have one value for each of the {self.n_features} columns, or be a dict with "
                f"values for some of them; got {column_values!r}."
            )
        return np.array([_number(parameter, value) for value in listed])


def _number(parameter: str, value: Any) -> float:
    """Return a finite number as a float; raise ValueError that names the parameter for anything else."""
    if isinstance(value, str | bytes) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{parameter} must hold finite numbers; got {value!r}.")
    return float(value)


def count_of(wanted: float | str | None, n_features: int, *, up: bool = False) -> int:
    """Return the number of features given by a count, a fraction, "sqrt", "log2" or None (all).

    Fractions are rounded up if `up`, otherwise down to at least 1.
    """
    if wanted is None:
        return n_features
    if isinstance(wanted, str):
        return max(1, int(math.sqrt(n_features) if wanted == "sqrt" else math.log2(n_features)))
    if isinstance(wanted, numbers.Integral):
        return min(int(wanted), n_features)
    return math.ceil(wanted * n_features) if up else max(1, int(wanted * n_features))


def is_by_class(monotonic_cst: Any) -> bool:
    """Return True if `monotonic_cst` differs by class: a dict of dicts or arrays, or an array of two axes."""
    if isinstance(monotonic_cst, Mapping):
        return any(isinstance(value, Mapping) or np.ndim(value) > 0 for value in monotonic_cst.values())
    return monotonic_cst is not None and not isinstance(monotonic_cst, str) and np.ndim(monotonic_cst) == 2


def constrained_columns(monotonic_cst: Any, columns: ColumnLookup) -> NDArray[np.bool_]:
    """Return a mask of the columns that `monotonic_cst` constrains, for any class."""
    if not is_by_class(monotonic_cst):
        return columns.values("monotonic_cst", monotonic_cst, 0) != 0
    parts = monotonic_cst.values() if isinstance(monotonic_cst, Mapping) else monotonic_cst
    is_constrained: NDArray[np.bool_] = np.any(
        [columns.values("monotonic_cst", part, 0) != 0 for part in parts], axis=0
    )
    return is_constrained


def monotone_signs(
    monotonic_cst: Any, columns: ColumnLookup, is_categorical: NDArray[np.bool_], classes: Sequence[Any] | None = None
) -> NDArray[np.int8] | None:
    """Return `monotonic_cst` as 1, -1 or 0 for each column, or None if there are no constraints.

    Constraints by class have a row for each of the `classes`. Raise ValueError for other signs, unknown columns or
    classes, and constraints on categorical columns.
    """
    if monotonic_cst is None:
        return None
    if is_by_class(monotonic_cst):
        return _signs_of_classes(monotonic_cst, columns, is_categorical, classes)
    signs = columns.values("monotonic_cst", monotonic_cst, 0)
    for sign in signs:
        if sign not in (-1, 0, 1):
            raise ValueError(f"monotonic_cst must hold 1, -1 or 0 for each column; got {sign:g}.")
    bound = np.flatnonzero((signs != 0) & is_categorical)
    if bound.size:
        name = repr(columns.names[bound[0]]) if columns.names else str(bound[0])
        raise ValueError(
            "monotonic_cst must be 0 for categorical columns, because they have no order; "
            f"column {name} is categorical. Declare their order with pandas.Categorical(..., ordered=True), "
            "a polars Enum or an ordered Arrow dictionary."
        )
    return signs.astype(np.int8) if signs.any() else None


def _signs_of_classes(
    monotonic_cst: Any, columns: ColumnLookup, is_categorical: NDArray[np.bool_], classes: Sequence[Any] | None
) -> NDArray[np.int8] | None:
    """Return constraints by class as signs of shape (n_classes, n_features), or None if there are none.

    Raise ValueError for fewer than three classes, unknown classes or a wrong number of rows.
    """
    labels = [] if classes is None else [each.item() if isinstance(each, np.generic) else each for each in classes]
    if len(labels) < 3:
        raise ValueError(
            f"monotonic_cst must have one axis unless there are three or more classes; got {monotonic_cst!r}."
        )
    parts = monotonic_cst if isinstance(monotonic_cst, Mapping) else dict(zip(labels, monotonic_cst, strict=False))
    if not isinstance(monotonic_cst, Mapping) and len(monotonic_cst) != len(labels):
        raise ValueError(
            f"monotonic_cst must have a row for each of the {len(labels)} classes; got {len(monotonic_cst)} rows."
        )
    signs = np.zeros((len(labels), columns.n_features), dtype=np.int8)
    for label, part in parts.items():
        if label not in labels:
            raise ValueError(f"monotonic_cst must have keys among the classes {labels}; got {label!r}.")
        of_class = monotone_signs(part, columns, is_categorical)
        signs[labels.index(label)] = 0 if of_class is None else of_class
    return signs if signs.any() else None


def feature_chances(feature_weights: Any, columns: ColumnLookup) -> NDArray[np.float64] | None:
    """Return `feature_weights` as sampling weights with maximum 1, or None; columns missing from a dict get 1.

    Raise ValueError if a weight is negative or all are 0.
    """
    if feature_weights is None:
        return None
    weights = columns.values("feature_weights", feature_weights, 1.0)
    if weights.min() < 0 or not weights.any():
        bad = weights.min() if weights.min() < 0 else 0.0
        raise ValueError(f"feature_weights must be non-negative and not all 0; got {bad:g}.")
    return weights / weights.max()


def interaction_groups(interaction_cst: Any, columns: ColumnLookup) -> tuple[int | None, NDArray[np.uint8] | None]:
    """Return the pair of the maximum number of features on a path and the groups that `interaction_cst` defines.

    One or both are None; groups are a uint8 mask (n_groups, n_features). As in scikit-learn, the columns that do not
    belong to any group form an additional group. Raise ValueError for anything else.
    """
    if interaction_cst is None:
        return None, None
    if isinstance(interaction_cst, str):
        if interaction_cst not in PATH_WORDS:
            raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {interaction_cst!r}.")
        return PATH_WORDS[interaction_cst], None
    if not isinstance(interaction_cst, Sequence) or any(isinstance(group, str | Mapping) for group in interaction_cst):
        raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {interaction_cst!r}.")
    groups = np.zeros((len(interaction_cst) + 1, columns.n_features), dtype=np.uint8)
    for row, group in zip(groups, interaction_cst, strict=False):
        if not isinstance(group, Sequence | set | frozenset | np.ndarray):
            raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {interaction_cst!r}.")
        row[[columns.position("interaction_cst", item) for item in group]] = 1
    groups[-1] = ~groups.any(axis=0)
    return None, groups


_INTERACTION_TEXT = "'no_interactions', 'pairwise', None or a list of groups of columns"


def pruning_path(tree: Tree, impurity: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the alphas at which the optimal subtree changes, and the impurities of these subtrees.

    Parameters
    ----------
    tree : Tree
        A tree whose gains are decreases of weight times impurity.
    impurity : float
        Impurity of the leaves of the unpruned tree, weighted by their shares of the total weight; 0 if the leaves are
        pure.

    Returns
    -------
    ccp_alphas : float64 array
        Ascending alphas. The first is 0, for the unpruned tree; at the last alpha, only the root remains.
    impurities : float64 array
        Impurities of the leaves of the pruned trees.
    """
    alpha, gain, nodes = _links(tree)
    order = np.lexsort((-nodes, alpha[nodes]))
    nodes = nodes[order]
    alphas = np.concatenate([[0.0], alpha[nodes]])
    return alphas, impurity + np.concatenate([[0.0], np.cumsum(gain[nodes])])


def prune(tree: Tree, ccp_alpha: float) -> Tree:
    """Return the smallest subtree that minimizes the impurity plus `ccp_alpha` times the number of leaves.

    Parameters
    ----------
    tree : Tree
        A tree whose gains are decreases of weight times impurity.
    ccp_alpha : float
        Complexity parameter. If 0, the tree is not pruned.
    """
    if ccp_alpha <= 0:
        return tree
    alpha, _, _ = _links(tree)
    return cut(tree, alpha <= ccp_alpha)


def cut(tree: Tree, is_leaf: NDArray[np.bool_]) -> Tree:
    """Return the tree pruned at some nodes.

    Parameters
    ----------
    tree : Tree
        The tree.
    is_leaf : bool array of shape (n_nodes,)
        True for nodes that become leaves. The leaves of the tree remain leaves in any case.
    """
    is_inner = tree.left_child > 0
    number, kept = pruned_indices(np.ascontiguousarray(tree.left_child), (is_leaf | ~is_inner).view(np.uint8))
    ends = (is_leaf & is_inner)[kept].nonzero()[0]
    arrays = {name: array.take(kept, axis=0) for name, array in vars(tree).items() if name != "category_words"}
    arrays["left_child"] = number.take(arrays["left_child"])
    for name, array in NODE_ARRAYS.items():
        if array.leaf is not None:
            arrays[name][ends] = array.leaf
    return type(tree)(category_words=tree.category_words, **arrays)


def _links(tree: Tree) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
    """Return `weakest_links` of the tree: alpha and gain of each branch per unit of weight, and separate branches."""
    gain = np.ascontiguousarray(tree.gain, dtype=np.float64) / np.float64(tree.weight[0])
    return weakest_links(np.ascontiguousarray(tree.left_child), gain)
