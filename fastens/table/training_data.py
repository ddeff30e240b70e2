"""Targets and sample weights of a fit, class labels, duplicate rows, and shuffled folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, chain_sum, first_row, gathered, is_any, max_floats, shared, sum_ints
from fastens.engine.losses.losses import exact_sum
from fastens.engine.parts import as_array, holds_dense_values
from fastens.engine.whole import MAX_COPIES, are_copies, are_whole
from fastens.params.rules import POSITIVE, one_of
from fastens.table.arrays import dense
from fastens.table.columns.copy_blocks import map_codes
from fastens.table.columns.factorize import factorize, is_missing, plain_value
from fastens.table.columns.numbers import numbers_in, unmasked
from fastens.warn import warn

WEIGHT_TYPES = AUTO, FREQUENCY, IMPORTANCE = "auto", "frequency", "importance"
WEIGHT_TYPE = one_of(*WEIGHT_TYPES)
# If more than half of the integer weights exceed this limit, they are not treated as copies: survey weights are in the
# hundreds or thousands, and tables in which most rows represent more than ten identical rows are rare.
MAX_MEDIAN_COPIES = 10.0
# The largest weight must lie between 2**-100 and 2**100; otherwise all weights are scaled by a power of two. Parameters
# in units of weight, such as penalties, are far from such magnitudes, so the scaling does not affect the model.
_MAX_BITS = 100
# Smaller fractions of the largest weight are raised to this fraction, which no sum can resolve. This avoids quotients
# of numbers near zero.
_MIN_SHARE = 2.0**-100
# Class factors are rounded to multiples of a unit only if the smallest factor is at least this many units.
_MIN_MULTIPLES = 16
# Smaller than the exponent of any positive float.
_MIN_EXPONENT = -5000


def check_weights(
    sample_weight: Any, n_rows: int, comm: Comm = LOCAL, name: str = "sample_weight"
) -> NDArray[np.float64] | None:
    """Return weights as a float64 vector after checking that they are finite, non-negative and not all zero.

    On several ranks, the weights of a single rank may all be zero.
    """
    if sample_weight is None:
        return None
    weight = numbers_in(sample_weight, name)
    if weight.ndim == 0:
        weight = np.full(n_rows, weight)
    if weight.shape != (n_rows,):
        raise ValueError(f"{name} must have one weight for each of the {n_rows} rows; got shape {weight.shape}.")
    if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0:
        bad = weight[~(np.isfinite(weight) & (weight >= 0))][0]
        raise ValueError(f"{name} must be finite and non-negative; got {bad}.")
    if not is_any(comm, bool(weight.any())):
        raise ValueError(f"{name} must have at least one positive weight; all of them are zero.")
    return _scaled_into_range(weight, comm=comm)


def weights_to_count(
    weight: NDArray[np.float64] | None,
    weight_type: str,
    comm: Comm = LOCAL,
    name: str = "sample_weight",
    *,
    has_unit_mean: bool = False,
    is_fit: bool = True,
) -> NDArray[np.float64] | None:
    """Return the weights that the engine counts: integer copies, or importance weights with a mean of about 1.

    This is the only place where the two are distinguished. The mean of importance weights is at most 1, so positive
    importance weights are integers only if all of them are 1. Hence the engine can treat all integer weights as copies.

    Parameters
    ----------
    weight : float64 array of shape (n_rows,) or None
        Checked weights, some of which may be zero.
    weight_type : {"auto", "frequency", "importance"}
        Parameter of the same name of the estimators.
    comm : Comm
        Ranks that the rows are distributed over.
    name : str
        Name of the weights in messages.
    has_unit_mean : bool
        If True, importance weights are scaled to a mean of exactly 1. Otherwise they are scaled by a power of two to a
        mean above 1/2, so that weights which the tree growers represent exactly stay exact.
    is_fit : bool
        If True, a warning is issued if large integer weights are not treated as copies.

    Raises
    ------
    ValueError
        If `weight_type` is "frequency" and the weights are not integers.

    Examples
    --------
    >>> import numpy as np
    >>> weights_to_count(np.array([1.0, 4.0]), "auto"), weights_to_count(np.array([1.0, 4.0]), "importance")
    (array([1., 4.]), array([0.25, 1.  ]))
    """
    if weight is None:
        return None
    present = weight[weight > 0]
    total = exact_sum(weight, comm)
    n_rows, n_large = sum_ints(comm, len(present), int(np.count_nonzero(present > MAX_MEDIAN_COPIES)))
    are_counts = not is_any(comm, not are_whole(weight)) and total <= MAX_COPIES
    if weight_type == FREQUENCY and not are_counts:
        broken = weight[weight != np.rint(weight)]
        got = broken[0] if broken.size else f"a sum of {total:.15g}"
        raise ValueError(
            f"{name} must hold integers with a sum of at most 2**53 with weight_type='frequency', because "
            f"these weights count as copies of rows; got {got}. Use weight_type='importance' for weights that scale "
            "the influence of rows."
        )
    if weight_type == FREQUENCY or (weight_type == AUTO and are_counts and 2 * n_large <= n_rows):
        return weight
    if weight_type == AUTO and are_counts and is_fit:
        warn(
            f"{name} has a median above {MAX_MEDIAN_COPIES:g}, which is too large for frequencies, so its values "
            "are used as importance weights relative to their mean. Set weight_type='importance' to confirm, or "
            "weight_type='frequency' to count weights as copies of rows."
        )
    highest, minus_lowest = max_floats(comm, present.max(initial=-np.inf), -present.min(initial=np.inf))
    if highest == -minus_lowest:  # equal weights become exactly 1, even if their mean is rounded
        return (weight > 0).astype(np.float64)
    if has_unit_mean:
        return weight / (total / n_rows)
    fraction, exponent = np.frexp(total / n_rows)
    return np.ldexp(weight, -int(exponent) + int(fraction == 0.5))


def rows_to_score(y: Any, predicted: NDArray[Any], sample_weight: Any) -> tuple[Any, NDArray[Any], Any]:
    """Return targets, predictions and checked weights of the scored rows; rows with weight 0 are left out.

    Raises ValueError if `y` does not hold one target for each row, or for invalid weights.
    """
    if y is None:
        raise ValueError("y must hold the targets of the rows to score; got None.")
    y = unmasked(dense(y), "y")
    if y.ndim == 0:
        raise ValueError(f"y must hold one target for each row to score; got {y.item()!r}.")
    weight = None if sample_weight is None else check_weights(sample_weight, y.shape[0])
    if weight is None or weight.all() or len(predicted) != len(weight):
        return y, predicted, weight
    rows = np.flatnonzero(weight)
    return y[rows], predicted[rows], weight[rows]


def _scaled_into_range(
    weight: NDArray[np.float64], exponents: NDArray[np.integer] | int = 0, comm: Comm = LOCAL
) -> NDArray[np.float64]:
    """Return ``weight * 2**exponents``, scaled by a power of two if the largest weight is out of range.

    Positive weights stay positive.
    """
    present = weight > 0
    value_exponents = (np.frexp(weight)[1] + exponents)[present]
    max_exponent = int(max_floats(comm, float(value_exponents.max(initial=_MIN_EXPONENT)))[0])
    shift = int(np.clip(max_exponent, -_MAX_BITS, _MAX_BITS)) - max_exponent
    if shift or np.ndim(exponents):
        weight = np.ldexp(weight, exponents + shift)
    (largest,) = max_floats(comm, float(weight.max(initial=0.0)))
    return np.where(present, np.maximum(weight, largest * _MIN_SHARE), 0.0)


def multiplied(
    weight: NDArray[np.float64] | None, factors: NDArray[np.float64] | None, comm: Comm = LOCAL
) -> NDArray[np.float64] | None:
    """Return the product of row weights and factors, scaled to avoid overflow; None stands for ones."""
    if factors is None:
        return weight
    if weight is None:
        return _scaled_into_range(factors, comm=comm)
    (fraction, exponents), (of_factor, more) = np.frexp(weight), np.frexp(factors)
    return _scaled_into_range(fraction * of_factor, exponents + more, comm)


def as_multiples(
    factors: NDArray[np.float64], weight: NDArray[np.float64] | None, n_bits: int, comm: Comm = LOCAL
) -> NDArray[np.float64]:
    """Return row factors rounded to multiples of a power of two, so that sums of weighted factors are exact.

    The unit is chosen so that the mean is about ``2**n_bits`` units. A row with an integer weight then equals copies of
    the row exactly. The factors are returned unchanged if the weights are not integers, or if the smallest factor is
    too small to be rounded.
    """
    if is_any(comm, not are_copies(weight)):
        return factors
    counted = np.ones(len(factors)) if weight is None else weight

    def add(sums: NDArray[np.float64]) -> None:
        sums += counted.sum(), counted @ factors

    total, product = chain_sum(comm, np.zeros(2), add)
    # The factor 1.001 keeps the mean away from powers of two, so that a different summation order cannot change the
    # unit through rounding.
    unit = np.ldexp(1.0, n_bits - int(np.frexp(product / total * 1.001)[1]))
    (minus_smallest,) = max_floats(comm, -float(factors.min(initial=np.inf)))
    return factors if -minus_smallest * unit < _MIN_MULTIPLES else np.rint(factors * unit) / unit


def unless_ones(weight: NDArray[np.float64] | None, comm: Comm = LOCAL) -> NDArray[np.float64] | None:
    """Return the weights, or None if all of them are 1 on all ranks, because fits without weights are faster."""
    return weight if weight is not None and is_any(comm, not (weight == 1).all()) else None


def _class_sum(index: NDArray[np.intp], n_classes: int, weight: NDArray[np.float64], comm: Comm) -> NDArray[np.float64]:
    """Return the total weight of each class over all ranks; `index` is the class index of each row.

    The weights are summed as integers, so that the result does not depend on the order of the rows.
    """
    if not is_any(comm, not are_copies(weight)):
        return chain_sum(comm, np.zeros(n_classes), lambda sums: np.add.at(sums, index, weight))
    largest = np.zeros(n_classes)
    np.maximum.at(largest, index, weight)
    n_bits = sum_ints(comm, len(index))[0].bit_length()
    shifts = 61 - n_bits - np.frexp(max_floats(comm, *largest))[1]
    sums = np.zeros(n_classes, np.int64)
    np.add.at(sums, index, np.rint(np.ldexp(weight, shifts[index])).astype(np.int64))
    return np.ldexp(np.array(sum_ints(comm, *sums.tolist()), dtype=np.float64), -shifts)


def class_factors(
    class_weight: Any,
    classes: NDArray[Any],
    y: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    comm: Comm = LOCAL,
) -> NDArray[np.float64]:
    """Return the factor of each class from `class_weight`: "balanced" equalises the total weights, a dict maps labels.

    `y` holds class indices, and labels that the dict lacks get the factor 1. Raises ValueError for other values, for
    factors that are not positive, and for unknown labels unless the dict names all classes.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = _class_sum(y.astype(np.intp), classes.size, np.ones(len(y)) if weight is None else weight, comm)
        return np.divide(totals.sum(), classes.size * totals, out=np.ones(classes.size), where=totals > 0)
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict of weights by class; got {class_weight!r}.")
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown and any(label not in class_weight for label in labels):
        raise ValueError(f"class_weight must name classes of y; got {unknown[0]!r}, and the classes are {labels}.")
    factors = [class_weight.get(label, 1.0) for label in labels]
    if not all(map(POSITIVE.holds, factors)):
        raise ValueError(f"class_weight must hold finite numbers greater than 0; got {dict(class_weight)!r}.")
    return _scaled_into_range(np.array(factors, dtype=np.float64))


class TrainingData(NamedTuple):
    """Training data of the engine: checked and encoded, without rows of zero weight."""

    X: Any  # a row source (see fastens.engine.parts); None before the table has been read
    y: NDArray[Any]  # class indices in classification; one column per target if there are several
    sample_weight: NDArray[np.float64] | None
    rows: NDArray[np.intp] | None = None  # indices of these rows among the rows passed by the user; None for all
    offset: NDArray[np.float64] | None = None  # initial raw predictions, (n_outputs, n_rows)
    comm: Comm = LOCAL  # the ranks that the table is distributed over; these rows belong to one rank
    n_given: int = 0  # number of rows passed by the user, including rows of zero weight
    is_cut: bool = False  # True if the rows of zero weight have already been removed from the table
    # Sample weights before class weights, if both are used; integers count as copies.
    weight_before_classes: NDArray[np.float64] | None = None

    @classmethod
    def of_target(cls, y: NDArray[Any], sample_weight: Any, comm: Comm = LOCAL) -> TrainingData:
        """Return training data without a table: targets and checked weights of the rows whose weight is not zero."""
        if not is_any(comm, len(y) > 0):
            raise ValueError(f"Found array with 0 sample(s) (shape={y.shape}) while a minimum of 1 is required.")
        weight = check_weights(sample_weight, len(y), comm)
        if weight is None or weight.all():
            return cls(None, y, weight, comm=comm, n_given=len(y))
        rows = np.flatnonzero(weight)
        return cls(None, y[rows], weight[rows], rows, comm=comm, n_given=len(y))

    def with_table(self, X: Any) -> TrainingData:
        """Return the data with the rows of X that belong to its targets; ValueError if X has another number of rows."""
        check_same_rows(X.shape[0], len(self.y) if self.is_cut else self.n_given)
        return self._replace(X=X if self.rows is None or self.is_cut else X[self.rows])

    def weighted(self, weight: NDArray[np.float64] | None) -> TrainingData:
        """Return the data with `weight`, which may include class weights, as sample weights.

        Different sample weights that it had before are stored as `weight_before_classes`.
        """
        if weight is self.sample_weight or self.sample_weight is None:
            return self._replace(sample_weight=unless_ones(weight, self.comm))
        return self._replace(sample_weight=weight, weight_before_classes=self.sample_weight)

    def of_all_ranks(self) -> AllRows:
        """Return the row counts and weights of all ranks; all ranks must call this together."""
        return AllRows(self)


class AllRows:
    """Row counts and weights of all ranks, available on every rank.

    Targets stay on their ranks. Each access to `y` gathers them, so all ranks must access it together.

    Attributes
    ----------
    n_rows, n_given : int
        Numbers of rows without and with the rows of zero weight.
    rows : array or None
        Indices of the rows with a positive weight; None for all rows.
    sample_weight : array or None
        Weights of these rows.
    """

    def __init__(self, data: TrainingData) -> None:
        self._data = data
        first, self.n_given = first_row(data.comm, data.n_given)
        self.n_rows, self.rows = len(data.y), data.rows
        if data.comm.size > 1:
            kept = is_any(data.comm, data.rows is not None)
            rows = np.arange(data.n_given) if data.rows is None else data.rows
            [self.rows] = gathered(data.comm, [rows + first if kept else None])
            _, self.n_rows = first_row(data.comm, len(data.y))
        [self.sample_weight] = gathered(data.comm, [data.sample_weight])

    @property
    def y(self) -> NDArray[Any]:
        """Targets of all rows, gathered from all ranks."""
        return gathered(self._data.comm, [self._data.y])[0]

    def with_targets(self) -> TrainingData:
        """Return the training data of all ranks, with their targets but without the table."""
        return TrainingData(None, self.y, self.sample_weight, self.rows, n_given=self.n_given)


# Maximum number of rows to compare. They are sampled by hash, so that equal rows are sampled together.
_ROWS_COMPARED = 20_000
# A smaller fraction of duplicates hardly affects scores on held-out rows.
_MIN_DUPLICATES = 0.05
# Maximum number of distinct rows whose values are examined.
_ROWS_LOOKED_AT = 1000


def warn_of_duplicates(hashes: NDArray[np.uint64], X: Any, y: NDArray[Any]) -> None:
    """Warn about exact duplicate rows, which would be in the training set and held out at the same time.

    Tables with few discrete columns naturally have equal rows. Equal rows therefore count as duplicates only if a
    column or target has distinct values in more than half of the distinct rows.

    Parameters
    ----------
    hashes : uint64 array of shape (n_rows,)
        Hashes of the rows and their targets; see `content_hashes`.
    X, y : row source or None, and array
        The rows, which are None if they are distributed over several ranks, and their targets.

    Warns
    -----
    UserWarning
        If at least 5 % of the rows are duplicates of other rows.
    """
    compared = np.flatnonzero(hashes % np.uint64(max(1, len(hashes) // _ROWS_COMPARED)) == 0)
    _, first = np.unique(hashes[compared], return_index=True)
    n_duplicates = len(compared) - len(first)
    if n_duplicates < max(1.0, _MIN_DUPLICATES * len(compared)):
        return
    rows = np.sort(compared[first[:_ROWS_LOOKED_AT]])
    columns = [*y[rows].reshape(len(rows), -1).T]
    if X is not None and holds_dense_values(X):
        columns += [*as_array(X[rows]).T]
    if any(2 * len(np.unique(column)) > len(rows) for column in columns):
        warn(
            f"X and y hold exact duplicates ({n_duplicates / len(compared):.0%} of the rows). A row may be in "
            "the training rows while its duplicate is held out, so scores are too optimistic and intervals "
            "too narrow. Pass each row once with its count as sample_weight, or keep duplicates together with "
            "groups and a splitter such as GroupKFold."
        )


def check_same_rows(n_rows: int, n_targets: int) -> None:
    """Raise ValueError if X and y have different numbers of rows."""
    if n_targets != n_rows:
        raise ValueError(f"X and y must have the same number of rows; got {n_rows} and {n_targets}.")


def split_of_rows(name: str, split: Any, n_rows: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the training and test indices of a split, which may hold masks; raise ValueError for invalid rows.

    Examples
    --------
    >>> from fastens.table.training_data import split_of_rows
    >>> split_of_rows("cv", ([0, 1], [False, False, True]), 3)
    (array([0, 1]), array([2]))
    """
    every = np.arange(n_rows)
    try:
        train, test = (every[_as_row_index(rows)] for rows in split)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must yield pairs of training and test rows, as indices or masks of the {n_rows} rows: {error}"
        ) from error
    return train, test


def _as_row_index(rows: Any) -> NDArray[Any]:
    """Return row indices or a mask as an index array, also if empty; raise ValueError unless it has one dimension."""
    positions = np.asarray(rows)
    if positions.ndim != 1:
        raise ValueError(f"got {rows!r}")
    return positions if len(positions) else np.zeros(0, dtype=np.intp)


def shuffled_folds(
    y: NDArray[Any], n_folds: int, seed: int, *, stratified: bool
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the training and test indices of the shuffled folds of scikit-learn's `KFold` or `StratifiedKFold`.

    If stratified, all folds have the same class proportions; a rare class may be absent from some folds.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.training_data import shuffled_folds
    >>> folds = shuffled_folds(np.array([0, 0, 0, 1, 1, 1]), 3, seed=0, stratified=True)
    >>> [test.tolist() for _, test in folds]
    [[2, 4], [1, 5], [0, 3]]
    """
    from sklearn.model_selection import KFold

    rows = np.arange(len(y))
    if not stratified:
        return list(KFold(n_folds, shuffle=True, random_state=seed).split(rows))
    return [(np.delete(rows, test), test) for test in _stratified_test_folds(y, n_folds, seed)]


def _stratified_test_folds(y: NDArray[Any], n_folds: int, seed: int) -> list[NDArray[np.intp]]:
    """Return the test indices of each fold that scikit-learn's `StratifiedKFold` draws for these labels and seed."""
    # StratifiedKFold itself would warn about rare classes. Warning filters are process-wide, so fits in several threads
    # that suppress the warning would interfere with each other.
    _, first, codes = np.unique(y, return_index=True, return_inverse=True)
    classes = first.argsort().argsort()[codes]  # numbered in order of appearance
    in_order = np.sort(classes)
    sizes = np.array([np.bincount(in_order[i::n_folds], minlength=len(first)) for i in range(n_folds)])
    random, folds = np.random.RandomState(seed), np.empty(len(y), dtype=np.intp)
    for k in range(len(first)):
        of_class = np.arange(n_folds).repeat(sizes[:, k])
        random.shuffle(of_class)
        folds[classes == k] = of_class
    return [np.flatnonzero(folds == i) for i in range(n_folds)]


# Labels --------------------------------------------------


def _check_labels(y: NDArray[Any]) -> None:
    """Raise ValueError if an array, not of dtype object, holds values that cannot be class labels."""
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError("Input y contains " + ("NaN." if np.isnan(y).any() else "infinity."))
        if not are_whole(y):
            raise ValueError(
                "Unknown label type: continuous. A classifier needs class labels; y holds non-integer numbers. "
                "Use a regressor."
            )
    elif y.dtype.kind not in "biuU":
        raise ValueError(f"Unknown label type: y holds {y.dtype}; labels must be strings, integers or booleans.")


def _labels_of_objects(values: list[Any]) -> NDArray[Any]:
    """Return objects that are all strings, or all numbers, as an array of strings or numbers.

    Raises ValueError for missing, mixed or inexact labels.
    """
    if any(is_missing(value) for value in values):
        raise ValueError("Input y contains NaN.")
    values = [plain_value(value) for value in values]
    if all(isinstance(value, str) for value in values):
        cut = next((value for value in values if value.endswith("\0")), None)
        if cut is not None:
            raise ValueError(
                f"y must hold labels that do not end in a NUL character, because NumPy strings drop it; got {cut!r}."
            )
        return np.array(values, dtype=np.str_)
    array = _without_longdouble(np.array(values))
    if array.dtype.kind == "O" and all(type(value) is int for value in values):
        wide = max(values, key=abs)
        raise ValueError(f"y must hold labels that fit into 64-bit integers; got {wide}. Pass the labels as strings.")
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        kinds = sorted({type(value).__name__ for value in values})
        raise _mixed_labels(kinds)
    if array.dtype.kind == "f" and all(type(value) is int and 0 <= value < 2**64 for value in values):
        return np.array(values, dtype=np.uint64)
    _check_labels(array)
    changed = next((value for value, kept in zip(values, array.tolist(), strict=True) if value != kept), None)
    if changed is not None:
        raise ValueError(
            f"y must hold labels that a single numeric type represents exactly; got {changed!r}. "
            "Pass the labels as strings."
        )
    return array


def _mixed_labels(type_names: list[str], name: str = "y") -> ValueError:
    """Return the ValueError that the parameter `name` holds labels of several types, whose names are `type_names`."""
    return ValueError(
        f"Unknown label type: {name} holds {', '.join(type_names)}; labels must be all strings or all numbers."
    )


def _without_longdouble(y: NDArray[Any]) -> NDArray[Any]:
    """Return the labels with long doubles converted to float64, which files can hold."""
    return y.astype(np.float64) if y.dtype.kind == "f" and y.dtype.itemsize > 8 else y


def labels_to_score(y: Any) -> Any:
    """Return labels as scikit-learn's metrics accept them: objects become an array of strings or numbers.

    Raises ValueError for missing or mixed objects.
    """
    array = unmasked(y, "y")
    if array.dtype.kind != "O" or array.ndim == 0 or array.size > len(array):
        return array
    return _labels_of_objects(array.ravel().tolist())


def share_right(y: Any, predicted: NDArray[Any], *, sample_weight: Any = None) -> float:
    """Return the accuracy, or with several targets, the share of rows whose predictions are correct for all targets.

    `sklearn.metrics.accuracy_score` supports several targets only if each of them is binary.
    """
    from sklearn.metrics import accuracy_score

    if predicted.ndim == 1:
        return float(accuracy_score(labels_to_score(y), predicted, sample_weight=sample_weight))
    y = unmasked(dense(y), "y")
    if y.shape != predicted.shape:
        raise ValueError(f"y must have the shape {predicted.shape} of the predictions; got {y.shape}.")
    if y.dtype.kind in "fO" and any(map(is_missing, y.ravel().tolist())):
        raise ValueError("Input y contains NaN.")
    if predicted.dtype.kind == "U" and y.dtype.kind != "U":
        y = np.array(y.tolist(), dtype=np.str_)
    return float(np.average((y == predicted).all(axis=1), weights=sample_weight))


def _distinct_labels(y: NDArray[Any]) -> tuple[NDArray[np.integer], list[Any], NDArray[Any]]:
    """Return the code of each row, the list of values that the codes index, and an array of the labels that occur.

    Raises ValueError for values that cannot be class labels.
    """
    if y.dtype.kind != "O":
        y = _without_longdouble(y)
        _check_labels(y)
        codes, values, _ = factorize(y)
        return codes, values, np.array([value for value in values if value is not None], dtype=y.dtype)
    try:
        codes, values, _ = factorize(y)
    except TypeError:  # the label is not hashable
        codes, values = np.arange(y.size), y.tolist()
    return codes, values, _labels_of_objects([None] if codes.size and codes.min() < 0 else values)


@shared
def learn_labels(
    y: NDArray[Any], comm: Comm = LOCAL, min_classes: int = 2, name: str = "y"
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the sorted classes of a target on all ranks, and the class index of each row as float64.

    Raises ValueError if there are fewer than `min_classes` classes; `name` is the parameter in messages.
    """
    classes, index = encode_labels(y)
    if comm.size > 1:
        of_ranks = [labels for labels in comm.allgather(classes) if labels.size]
        if len({labels.dtype.kind == "U" for labels in of_ranks}) > 1:
            kinds = sorted({type(value).__name__ for labels in of_ranks for value in labels.tolist()})
            raise _mixed_labels(kinds, name)
        rank_classes, classes = classes, np.unique(np.concatenate(of_ranks or [classes]))
        if classes.size > rank_classes.size:  # the classes of this rank are a subset
            index = np.searchsorted(classes, rank_classes).astype(np.float64)[index.astype(np.intp)]
    if classes.size < min_classes:
        raise ValueError(f"{name} must hold at least 2 classes; it holds 1 class, {classes.tolist()[0]!r}.")
    return classes, index


def index_of_labels(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the class index of each label as float64; raise ValueError for labels that are not in `classes`."""
    labels, index = encode_labels(y)
    position = {label: class_index for class_index, label in enumerate(classes.tolist())}
    unseen = [label for label in labels.tolist() if label not in position]
    if unseen:
        raise ValueError(f"y must hold the classes seen in fit; it holds {unseen[0]!r}.")
    table = np.array([position[label] for label in labels.tolist()], dtype=np.float64)
    return table[index.astype(np.intp)]


def columns_of_labels(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Return label columns as one array of shape (n_rows, n_columns); mixed strings and numbers give dtype object."""
    label_columns = list(columns)
    if len({column.dtype.kind == "U" for column in label_columns}) > 1:
        label_columns = [column.astype(object) for column in label_columns]
    return np.column_stack(label_columns)


def labels_of(index: NDArray[Any], classes: Any) -> NDArray[Any]:
    """Return the labels of class indices of shape (n_rows,), or (n_rows, n_targets) for several targets.

    `classes` is the array of labels, or a list of one array for each target.
    """
    index = index.astype(np.intp)
    if not isinstance(classes, list):
        return classes[index]
    return columns_of_labels(of_target[indices] for of_target, indices in zip(classes, index.T, strict=True))


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the sorted distinct labels of `y`, and the index of each row's label among them as float64.

    Raises ValueError for values that cannot be class labels.
    """
    codes, values, labels = _distinct_labels(y)
    label_list = labels.tolist()
    classes = sorted(set(label_list))
    position = {label: class_index for class_index, label in enumerate(classes)}
    table = np.zeros(len(values) + 1)
    table[[index for index, value in enumerate(values, 1) if value is not None]] = [
        position[label] for label in label_list
    ]
    index = np.empty(y.size)
    map_codes(codes, table, index)
    return np.array(classes, dtype=labels.dtype), index


def read_classes(classes: Any, min_classes: int = 1) -> NDArray[Any]:
    """Return the sorted labels that the user passes as `classes`; raise ValueError if they are invalid or too few."""
    try:
        values = unmasked(classes, "classes")
        labels = encode_labels(np.atleast_1d(values).ravel())[0]
    except (TypeError, ValueError) as error:
        raise ValueError(f"classes must be a list of labels; got {classes!r}. {error}") from error
    if values.ndim == 0:
        raise ValueError(f"classes must be a list of labels; got {classes!r}.")
    if labels.size < min_classes:
        n_classes = "1 class" if min_classes == 1 else f"{min_classes} classes"
        raise ValueError(f"classes must hold at least {n_classes}; got {labels.tolist()}.")
    return labels


def check_classes(classes: Any, first_classes: NDArray[Any]) -> None:
    """Raise ValueError if the `classes` passed in a further call differ from the labels of the first call."""
    labels = read_classes(classes)
    if not np.array_equal(labels, first_classes):
        raise ValueError(
            f"classes must be the same as in the first call, {first_classes.tolist()}; got {labels.tolist()}."
        )


# Gradients are float32, and sums of squares must not overflow.
LARGEST_TARGET = 1e30


def check_magnitude(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return finite targets unchanged; raise ValueError if one is too large to train on.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.training_data import check_magnitude
    >>> check_magnitude(np.array([1.0, -1e308]))
    Traceback (most recent call last):
    ValueError: y must lie between -1e+30 and 1e+30; it holds -1e+308. Divide it by a constant.
    """
    if y.size and max(y.max(), -y.min()) > LARGEST_TARGET:
        largest = y.flat[np.abs(y).argmax()]
        raise ValueError(
            f"y must lie between {-LARGEST_TARGET:g} and {LARGEST_TARGET:g}; it holds {largest:g}. "
            "Divide it by a constant."
        )
    return y
