"""Bags of forests: the rows, features and seed of each tree, which depend only on the forest's seed and its index."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fastens.engine.comm import Comm, first_row
from fastens.engine.forest.data import totals_of
from fastens.engine.forest.forests import Totals, TreeSample
from fastens.engine.limits import check_count
from fastens.engine.rows.sampling import Bootstrap, Subsample, random_stream, repeated, stream_seeds
from fastens.engine.whole import MAX_COPIES, are_copies
from fastens.params.rules import FLAG
from fastens.table.training_data import AllRows, multiplied
from fastens.warn import warn

Array = NDArray[np.float64]
Reweight = Callable[[Array], Array]
Weighting = Array | Reweight | None

# Each purpose has an independent stream of random numbers.
GROWING, DRAWING, CHOOSING, PERMUTING = range(4)
# Relative rounding error of the product of a fraction and a number of rows.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


def check_seed(model: Any, arrays: Any) -> None:
    """Raise ValueError if the seed of a restored model is malformed; imported models have no seed.

    `arrays`, the saved arrays, are not used.
    """
    seed = vars(model).get("_seed", 0)
    if not isinstance(seed, int) or not 0 <= seed < np.iinfo(np.int32).max:
        raise ValueError(f"the seed of the fit is malformed: {seed!r}")


def draw_seed(random_state: Any) -> int:
    """Return the seed of a fit, an integer below 2**31, drawn from `random_state`."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def growth_seed(random_state: Any) -> int:
    """Return the seed of a single tree: `random_state` itself if it is at least 2**32, as in trees of forests.

    Otherwise, the seed is drawn from `random_state`, and below 2**31.
    """
    if isinstance(random_state, int | np.integer) and random_state >= 2**32:
        return int(random_state)
    return draw_seed(random_state)


def check_continued(n_estimators: int, n_kept: int, kind: str) -> None:
    """Raise ValueError if a warm start would have to drop trees or members; warn if it does not add any.

    `n_kept` is the number of trees or members of the last fit, and `kind` is the word for them.
    """
    if n_estimators < n_kept:
        raise ValueError(
            f"n_estimators must be at least {n_kept}, the number of {kind} of the last fit, with "
            f"warm_start=True; got {n_estimators}."
        )
    if n_estimators == n_kept:
        warn("Warm-start fitting without increasing n_estimators does not fit new trees.")


def draws_match(first: Any, second: Any) -> bool:
    """Return True if two plans of draws have the same rows and probabilities; None is a plan that uses all rows."""
    if first is None or second is None or type(first) is not type(second):
        return first is second
    parts = ([getattr(each, of.name) for of in fields(first)] for each in (first, second))
    return all(np.array_equal(*pair) for pair in zip(*parts, strict=True))


def check_no_bags_needed(model: Any) -> None:
    """Raise ValueError if `oob_score` or `keep_leaves` is set, which need the bags of all trees.

    It is called if a warm start draws bags differently from the last fit, so that earlier bags are not available.
    """
    for name in ("oob_score", "keep_leaves"):
        if value := getattr(model, name, False):
            raise ValueError(
                f"{name} must be False with warm_start=True unless rows are drawn as in all earlier fits, with "
                f"the same rows, weights, bootstrap, class_weight and max_samples; got {value!r}."
            )


class Strata(NamedTuple):
    """The class of each row, for bags that draw the rows of each class separately."""

    of_rows: NDArray[np.intp]
    bootstrap: str | float | dict[int, Any]  # the parameter; the keys of a dict are strata

    @classmethod
    def of(cls, bootstrap: Any, y: Array, classes: Any) -> Strata | None:
        """Return the strata for the value of the parameter `bootstrap`, or None if it is True or False.

        `y` holds indices of `classes`, with a column for each of several targets, whose combinations are the strata.
        Raise ValueError for a dict with unknown classes or with several targets.
        """
        if FLAG.holds(bootstrap):
            return None
        # The rows of a warm start may lack a class, so strata are numbered by the classes that are present.
        present, of_rows = np.unique(y, axis=0, return_inverse=True)
        if isinstance(bootstrap, Mapping):
            if y.ndim > 1:
                raise ValueError("bootstrap must not be a dict with several targets; 'balanced' balances them jointly.")
            class_labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
            for label in bootstrap:
                if label not in class_labels:
                    raise ValueError(f"bootstrap must have keys among the classes {class_labels}; got {label!r}.")
            labels = [class_labels[int(index)] for index in present]
            bootstrap = {k: bootstrap[label] for k, label in enumerate(labels) if label in bootstrap}
        return cls(of_rows.ravel(), bootstrap)

    @property
    def has_counts(self) -> bool:
        """True if the parameter has numbers of draws, which do not depend on the number of rows."""
        sizes = self.bootstrap.values() if isinstance(self.bootstrap, dict) else ()
        return any(isinstance(number, int | np.integer) for number in sizes)

    def draws(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of draws from each stratum, given numbers of draws proportional to their sizes."""
        if self.bootstrap == "stratified":
            return sizes
        if isinstance(self.bootstrap, dict):
            wanted = {k: n if isinstance(n, int | np.integer) else n * sizes[k] for k, n in self.bootstrap.items()}
            return np.array([max(1, round(wanted.get(k, size))) for k, size in enumerate(sizes.tolist())])
        ratio = 1.0 if isinstance(self.bootstrap, str) else float(self.bootstrap)
        max_draws = sizes.min() / ratio
        return np.minimum(sizes, max(1, round(min(float(max_draws), float(sizes.max())))))


def plan_draws(
    max_samples: Any,
    hashes: NDArray[np.uint64],
    weight: Array | None,
    factors: Array | None = None,
    strata: Strata | None = None,
) -> Bootstrap:
    """Return the plan of the bags' draws, with probabilities proportional to weights times factors.

    `hashes` identify the rows. By default, the number of draws is the sum of the weights if they are integers that sum
    to at most 2**53, and the number of rows otherwise. `max_samples` is a number of draws or a fraction of this
    default. With `strata`, the rows of each stratum are drawn separately. Raise ValueError for more than 2**53 draws.
    """
    stratum = None if strata is None else strata.of_rows
    if strata is not None and strata.has_counts and max_samples is not None:
        raise ValueError(
            f"max_samples must be None where bootstrap has numbers of draws; got {max_samples!r}. Multiples of the "
            "sizes of the classes, such as 0.5, follow max_samples."
        )
    total = float(len(hashes) if weight is None or not are_copies(weight) else weight.sum())
    totals = np.array([1.0]) if stratum is None else np.bincount(stratum, weight)
    n_draws = np.maximum(np.rint(_draws_per_bag(max_samples, total) * totals / totals.sum()), 1).astype(np.int64)
    if strata is not None:
        n_draws = strata.draws(n_draws)
        if n_draws.sum() > MAX_COPIES:
            raise ValueError(f"bootstrap must give at most 2**53 draws; got {n_draws.sum():,}.")
    return Bootstrap.plan(hashes, multiplied(weight, factors), n_draws, stratum)


def n_drawn(max_samples: Any, n_rows: int) -> int:
    """Return the number of rows to draw: an integer `max_samples`, or else this fraction of `n_rows`, at least 1."""
    is_count = isinstance(max_samples, int | np.integer)
    return int(max_samples) if is_count else max(1, _floor_share(n_rows, max_samples))


def _floor_share(total: float, share: float) -> int:
    """Return `share` times the integer `total`, rounded down after removing rounding errors: 0.29 of 100 is 29."""
    product = share * total
    nearest = round(product)
    return nearest if math.isclose(product, nearest, rel_tol=_ROUNDING) else math.floor(product)


def _draws_per_bag(max_samples: Any, total: float) -> float:
    """Return the number of draws in a bag: `max_samples`, a fraction of `total`, or `total` if it is None.

    Raise ValueError if it exceeds 2**53.
    """
    if max_samples is None:
        return total
    is_count = isinstance(max_samples, int | np.integer)
    n_draws = float(max_samples) if is_count else max(1.0, float(_floor_share(total, max_samples)))
    if n_draws > MAX_COPIES:
        raise ValueError(f"max_samples must give at most 2**53 draws; got {max_samples}.")
    return n_draws


@dataclass(frozen=True, eq=False)
class Bags:
    """Rows and features that the trees, or the members of a bagging ensemble, are trained on."""

    seed: int
    draws: Bootstrap | Subsample | None  # if None, all rows are used
    n_features: int
    features_per_tree: int
    feature_weights: Array | None = None  # relative probabilities of the features; if None, they are equal
    with_replacement: bool = False  # if True, features are drawn with replacement and duplicates are dropped

    def counts(self, first: int, last: int, n_threads: int = 1) -> Array:
        """Return how often each row is in the bags of trees `first` to `last` - 1, (n_trees, n_rows)."""
        assert self.draws is not None
        return self.draws.counts(stream_seeds(self.seed, first, last, DRAWING), n_threads)

    def features(self, tree: int) -> NDArray[np.int32] | None:
        """Return the sorted indices of the features drawn for the tree with index `tree`, or None for all features."""
        if self.features_per_tree == self.n_features and not self.with_replacement:
            return None
        seed = int(stream_seeds(self.seed, tree, tree + 1, CHOOSING)[0])
        chances, n_drawn = None, self.features_per_tree
        if self.feature_weights is not None:
            chances = self.feature_weights / self.feature_weights.sum()
            n_drawn = min(n_drawn, int(np.count_nonzero(chances)))
        chosen = random_stream(seed, 0).choice(self.n_features, n_drawn, replace=self.with_replacement, p=chances)
        return np.unique(chosen).astype(np.int32)


class LocalRows(NamedTuple):
    """Range of one rank's rows among the rows of all ranks, and their total number."""

    rows: slice
    n_all: int

    @classmethod
    def of(cls, comm: Comm, n_rows: int) -> LocalRows | None:
        """Return the range of this rank's rows, of which it has `n_rows`, or None if there is only one rank."""
        if comm.size == 1:
            return None
        first, n_all = first_row(comm, n_rows)
        return cls(slice(first, first + n_rows), n_all)

    def sample(self, sample: TreeSample) -> TreeSample:
        """Return this rank's part of a tree's sample of all ranks' rows, with the totals over all ranks."""
        weight = sample.weight
        if weight is None:
            return sample._replace(totals=Totals(self.n_all, float(self.n_all), unit=1.0))
        return sample._replace(weight=weight[self.rows], totals=Totals(*totals_of(weight)))


class Samples(Sequence[TreeSample]):
    """Samples that trees `first` to `last` - 1 are grown on, each of which is drawn when it is accessed.

    `weight` holds the weights of all rows. If rows are drawn, it is None or a function from counts to weights. If
    `local` is not None, samples are restricted to the rows of one rank.
    """

    def __init__(self, bags: Bags, weight: Weighting, first: int, last: int, local: LocalRows | None = None) -> None:
        self._bags, self._weight, self._first, self._rank_rows = bags, weight, first, local
        self._seeds = stream_seeds(bags.seed, first, last, GROWING).tolist()
        self._draws = stream_seeds(bags.seed, first, last, DRAWING)

    def __len__(self) -> int:
        return len(self._seeds)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return self[index : index + 1][0]
        bags, weight = self._bags, self._weight
        positions = range(len(self))[index]
        weights: Any = [weight] * len(positions)
        if bags.draws is not None:
            weights = bags.draws.counts(self._draws[index])
            weights = map(weight, weights) if callable(weight) else weights
        return [
            sample if self._rank_rows is None else self._rank_rows.sample(sample)
            for sample in (
                TreeSample(of_rows, bags.features(self._first + position), self._seeds[position])
                for position, of_rows in zip(positions, weights, strict=True)
            )
        ]

    def total_weight(self, n_rows: int) -> float:
        """Return the total weight of the rows that the first tree is grown on."""
        weight = self[0].weight
        return float(n_rows if weight is None else weight.sum())


NOT_ALIKE = "The bags are not available, because a warm start used other rows or other sampling parameters."


def rows_in_bags(bags: Bags, n_members: int, rows: NDArray[np.intp]) -> list[NDArray[np.int32]]:
    """Return the row indices of each bag, repeated as often as drawn, among all rows passed to `fit`.

    `rows` are the indices in `fit` of the rows with a positive weight, which the bags are drawn from.
    """
    if bags.draws is None:
        return rows_drawn([np.ones(len(rows), dtype=np.uint8)] * n_members, rows)
    return rows_drawn((bags.counts(member, member + 1)[0] for member in range(n_members)), rows)


def rows_drawn(counts: Iterable[NDArray[Any]], rows: NDArray[np.intp]) -> list[NDArray[np.int32]]:
    """Return the row indices of each member's bag: `rows`, each repeated as often as the member's `counts` say."""
    check_count("estimators_samples_", "rows", int(rows.max(initial=-1)) + 1, advice="Train on a sample of them.")
    why = "estimators_samples_ lists a row as often as it was drawn"
    return [repeated(rows, of_rows, why).astype(np.int32) for of_rows in counts]


def rows_of_bags(forest: Any, data: AllRows, draws: Bootstrap | None, rows: Any) -> NDArray[np.intp] | None:
    """Return the indices of the rows with a weight, or an empty array if a warm start draws its bags differently.

    Parameters
    ----------
    forest : BaseForest
        Forest with the trees of the last fit and the bootstrap of this one.
    data : AllRows
        The rows of this fit.
    draws, rows
        Bootstrap of the last fit, and its rows with a weight.
    """
    as_many = draws is not None or data.n_rows == forest._ensemble.n_samples[0]
    same_rows = rows is data.rows or (rows is not None and data.rows is not None and np.array_equal(rows, data.rows))
    if as_many and same_rows and draws_match(draws, forest._bootstrap):
        return data.rows
    if draws is not None:
        check_no_bags_needed(forest)
    return np.zeros(0, dtype=np.intp)
