"""Version spaces of conjunctions: exact counts, weights, queries and plots."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target

from fastens.base import Capabilities
from fastens.bayes.concepts.conjunctions import (
    ANY,
    NOTHING,
    Conjunction,
    all_conjunctions,
    sample_complexity,
    space_sizes,
)
from fastens.bayes.concepts.hitting_sets import TooManyError
from fastens.bayes.concepts.spaces import (
    ANYTHING,
    NEGATIVE,
    NEVER,
    POSITIVE,
    ConsistentSpace,
    Examples,
    SpaceError,
    WeightedSpace,
    covers,
    general_without_positives,
)
from fastens.bayes.counts.attributes import DiscreteClassifier
from fastens.bayes.posterior import PosteriorMixin, generator
from fastens.inspection.network_plot import plot_boundaries, plot_lattice
from fastens.inspection.plotting import shortened
from fastens.modelfile.saving import Saved, SavedEstimator, SavedParts
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING as ANY_VALUE
from fastens.params.rules import one_of, parameter, real, whole
from fastens.params.types import RandomState
from fastens.rollback import keeps_model
from fastens.table.columns.numbers import unmasked
from fastens.table.opening import check_in_memory
from fastens.table.parts import drop_zero_weight_rows
from fastens.table.training_data import check_classes, check_weights, read_classes
from fastens.warn import warn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LISTED = 10_000_000  # hypotheses in `posterior_`: 80 MB
MAX_TRIED = 20_000  # maximum number of conjunctions to enumerate without a positive example


def _inner_members(model: Any, specific: list[Conjunction], general: list[Conjunction]) -> list[Conjunction] | None:
    """Return the hypotheses of a fitted model that are neither in S nor in G, the lists `specific` and `general`.

    Return None if S is the empty hypothesis and there are too many conjunctions to try.
    """
    if specific[0].values is not None:
        candidates = _relaxations(specific[0], general)
    elif space_sizes(model._attribute_sizes()).semantic > MAX_TRIED:
        return None
    else:
        candidates = (h for h in all_conjunctions(model._encoder.categories) if any(g >= h for g in general))
    return [hypothesis for hypothesis in candidates if hypothesis not in specific and hypothesis not in general]


def _relaxations(specific: Conjunction, general: list[Conjunction]) -> Iterator[Conjunction]:
    """Yield `specific` and all conjunctions above it, with fewer constraints, up to those in `general`."""
    seen, waiting = {specific}, [specific]
    while waiting:
        hypothesis = waiting.pop()
        yield hypothesis
        values = hypothesis.values or ()
        for index, value in enumerate(values):
            relaxed = Conjunction((*values[:index], ANY, *values[index + 1 :]))
            if value is not ANY and relaxed not in seen and any(g >= relaxed for g in general):
                seen.add(relaxed)
                waiting.append(relaxed)


Array = NDArray[np.float64]


class Question(NamedTuple):
    """Instance whose label to query, and the probability that it is positive; values near 1/2 are best."""

    instance: tuple[Any, ...]
    probability: float


@with_parameters
class VersionSpaceClassifier(PosteriorMixin, DiscreteClassifier, SavedEstimator):
    """Bayes-optimal classifier over conjunctions of attribute values, computed from the version space.

    A hypothesis requires specific values for some attributes and covers the instances that have all of them. There is
    one additional hypothesis that covers nothing. The version space is the set of hypotheses that are consistent with
    all examples. Each of them votes on a new instance, and `predict_proba` is the fraction that covers it. Counts are
    exact: they use bit arrays over the subsets of the constraints that the positive examples share, or branching for
    more than about 30 such constraints. If branching takes too long, counts are estimated with an error bound
    (`is_exact_`).

    Every distinct value of a column is a value of its attribute. This includes numeric columns, so bin continuous
    columns first. Missing values and values that were not seen in `fit` satisfy no constraint.

    Parameters
    ----------
    prior : {"uniform", "length"}, default="uniform"
        Prior over hypotheses. For "uniform", all hypotheses are equally likely; for "length", each constraint halves
        the probability.
    noise : float, default=0
        Probability that a label is wrong, less than 0.5. If greater than 0, all conjunctions have a positive posterior
        probability, which is exact. It is computed from the count cube of all conjunctions, so it requires few
        attributes (about 3^16 conjunctions).
    on_collapse : {"set-aside", "raise", "noise", "max-consistent"}, default="set-aside"
        What to do if no hypothesis is consistent with all examples. "set-aside" drops the negative examples that no
        hypothesis separates from the positive ones, and warns. "raise" raises ValueError. "max-consistent" uses the
        hypotheses with the fewest errors. "noise" uses the noise model with the lowest error rate of any hypothesis
        as the noise. The last two require the count cube.
    positive : label or None, default=None
        Class that hypotheses cover. If None, it is the second class.
    categories : list of lists or None, default=None
        Values of each attribute, including values that do not occur in the examples. They affect counts before the
        first positive example, `log_evidence_`, and the noise model. If None, these are the values in the data.
    max_boundary : int, default=10000
        Maximum number of members of the general boundary, which may be exponentially large (Haussler 1988).
    random_state : int, RandomState or None, default=None
        Seed of mode="gibbs", `sample_posterior` and the estimates for large spaces.

    Attributes
    ----------
    classes_ : array of shape (2,)
        Sorted class labels.
    posterior_ : array of shape (n_hypotheses_,)
        P(h | D) of each hypothesis, in the order of `members()`. Only available for at most 10 million hypotheses.
    {attributes}

    Raises
    ------
    ValueError
        If there are not two classes, the version space is empty and `on_collapse` is "raise", or the count cube would
        be too large.

    References
    ----------
    Mitchell (1997), Machine Learning, chapters 2 and 6; Hirsh (1994), "Generalizing version spaces", Machine Learning
    17; Karp, Luby & Madras (1989), "Monte-Carlo approximation algorithms for enumeration problems".

    Examples
    --------
    >>> from fastens import VersionSpaceClassifier
    >>> X = [
    ...     ["sunny", "warm", "normal", "strong", "warm", "same"],
    ...     ["sunny", "warm", "high", "strong", "warm", "same"],
    ...     ["rainy", "cold", "high", "strong", "warm", "change"],
    ...     ["sunny", "warm", "high", "strong", "cool", "change"],
    ... ]
    >>> model = VersionSpaceClassifier().fit(X, ["yes", "yes", "no", "yes"])
    >>> model.specific_boundary_, model.general_boundary_
    ([<sunny, warm, ?, strong, ?, ?>], [<sunny, ?, ?, ?, ?, ?>, <?, warm, ?, ?, ?, ?>])
    >>> model.n_hypotheses_
    6
    >>> model.predict_proba([["sunny", "cold", "normal", "strong", "warm", "same"]])[0].round(3)
    array([0.667, 0.333])
    """

    _capabilities = Capabilities(supports_out_of_core=False, supports_binned=False, predicts_row_sources=False)
    _modes = ("bayes", "map", "ml", "gibbs")
    _poor_score = True
    _fewest_classes = 2  # a single class does not determine the concept

    prior: str = parameter(one_of("uniform", "length"), default="uniform", kw_only=False)
    noise: float = parameter(real(0, 0.5, open_high=True), default=0.0)
    on_collapse: str = parameter(one_of("set-aside", "raise", "noise", "max-consistent"), default="set-aside")
    positive: Hashable = parameter(ANY_VALUE, default=None)
    categories: Sequence[Sequence[Any]] | None = parameter(ANY_VALUE, default=None)
    max_boundary: int = parameter(whole(1), default=10_000)
    random_state: RandomState = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # The space can be recomputed from the examples and may be a hundred megabytes.
        return {name: value for name, value in super().__getstate__().items() if name != "_cached_space"}

    # Learning --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> VersionSpaceClassifier:
        """Learn the version space from examples.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Attribute values of the examples.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the examples. They only affect the noise model, except that a weight of 0 drops an example.
        """
        data = self._start_fit(X, y, sample_weight)
        self._seed = int(generator(self.random_state).integers(2**62))
        self._set_examples(Examples.of(data.X, self._is_positive(data.y), data.sample_weight))
        self._space  # noqa: B018 -- a collapse raises here
        return self

    @keeps_model
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> VersionSpaceClassifier:
        """Update the version space with one or more examples; the result equals a single `fit` to all of them.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`. New values are added to their attributes unless `categories` is set.
        classes : array-like of shape (2,), optional
            Both labels. Required in the first call unless `y` contains both; later calls check that they are unchanged.
        """
        check_in_memory(self, X)
        self._check_target_given(y)
        X, labels, sample_weight = drop_zero_weight_rows(X, np.atleast_1d(unmasked(y, "y")), sample_weight)
        if not hasattr(self, "_examples"):
            self._check_parameters()
            self._learn_target(labels if classes is None else read_classes(classes, 2))
            codes = self._learn_table(X)
            self._seed = int(generator(self.random_state).integers(2**62))
        else:
            if classes is not None:
                check_classes(classes, self.classes_)
            codes = self._extend_table(X)
        weight = check_weights(sample_weight, len(codes))
        if len(labels) != len(codes):
            raise ValueError(f"X and y must have the same number of rows; got {len(codes)} and {len(labels)}.")
        new = Examples.of(codes, self._is_positive(self._encode_target(labels)), weight)
        self._set_examples(self._examples.merge(new) if hasattr(self, "_examples") else new)
        fitted = self._as_fitted()
        if fitted.on_collapse == "raise" and fitted.noise == 0 and self._has_positives:
            self._space  # noqa: B018 -- a collapse raises here
        return self

    def _learn_target(self, y: NDArray[Any]) -> Array:
        """Learn the two classes and return the class code of each label.

        Raises ValueError for more than two classes, or if `positive` is not one of them.
        """
        index = super()._learn_target(y)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}; "
                f"y holds the classes {self.classes_.tolist()}."
            )
        if self.positive is not None and (
            np.ndim(cast(Any, self.positive)) or self.positive not in self.classes_.tolist()
        ):
            raise ValueError(f"positive must be one of the classes {self.classes_.tolist()}; got {self.positive!r}.")
        self._set_positive_class()
        return index

    def _set_positive_class(self) -> None:
        """Set the index of the positive class, which `positive` names; by default the second class."""
        self._positive_index = 1 if self.positive is None else self.classes_.tolist().index(self.positive)

    def _is_positive(self, y: Array) -> NDArray[np.bool_]:
        """Return a mask of the class codes that are positive."""
        return y == self._positive_index

    def _set_examples(self, examples: Examples) -> None:
        """Set the examples, without rows of weight 0, and drop the cached hypothesis space."""
        present = examples.weight.any(axis=1)
        self._examples = Examples(examples.codes[present], examples.weight[present])
        self.__dict__.pop("_cached_space", None)

    # The space --------------------------------------------------

    @property
    def _space(self) -> Any:
        """Space of hypotheses, which is computed from the examples on first access."""
        self._check_fitted()
        if "_cached_space" not in self.__dict__:
            self._cached_space = self._as_fitted()._create_space()
        return self._cached_space

    def _create_space(self) -> Any:
        """Return the hypothesis space of the examples; warn or raise SpaceError if no hypothesis is consistent."""
        sizes = self._attribute_sizes()
        if self.noise > 0:
            return WeightedSpace(self._examples, sizes, self.prior, float(self.noise))
        if not self._has_positives:
            return WeightedSpace(self._examples, sizes, self.prior, None)
        space = ConsistentSpace(self._examples, sizes, self.prior, np.random.default_rng(self._seed))
        if space.n_set_aside == 0:
            return space
        if self.on_collapse == "set-aside":
            n_negative = len(self._examples.codes_of_class(NEGATIVE))
            warn(
                f"No conjunction agrees with all examples: {space.n_set_aside} of {n_negative} distinct "
                "negative instances are ignored. If labels may be wrong, set noise to the probability of a "
                "wrong label, such as noise=0.1, for the exact posterior of all conjunctions; "
                "on_collapse='max-consistent' lets the conjunctions with the fewest errors vote."
            )
            return space
        if self.on_collapse == "raise":
            raise SpaceError(
                f"the version space is empty: {space.n_set_aside} negative instance(s) satisfy every "
                "conjunction that covers the positive ones. Set noise or on_collapse to continue."
            )
        best = WeightedSpace(self._examples, sizes, self.prior, None)
        if self.on_collapse == "max-consistent":
            return best
        noise = best.min_errors / self._examples.weight.sum()
        return WeightedSpace(self._examples, sizes, self.prior, min(noise, 0.5))

    @property
    def _has_positives(self) -> bool:
        return bool(self._examples.weight[:, POSITIVE].any())

    @property
    def n_hypotheses_(self) -> int:
        """Number of hypotheses in the version space, or that vote under `on_collapse`; exact if `is_exact_` is True."""
        return self._space.n_hypotheses

    @property
    def n_hypotheses_bounds_(self) -> tuple[int, int]:
        """Lower and upper bounds of `n_hypotheses_`, with 99 % confidence if it is an estimate."""
        return self._space.bounds()

    @property
    def is_exact_(self) -> bool:
        """True if counts and votes are exact."""
        return self._space.is_exact

    @property
    def n_set_aside_(self) -> int:
        """Number of distinct negative instances that were set aside because of a contradiction."""
        return self._space.n_set_aside

    @property
    def log_evidence_(self) -> float:
        """Log probability of the labels; without noise and with a uniform prior, it is ``log(|VS| / |H|)``."""
        return self._space.log_evidence

    @property
    def map_estimator_(self) -> Conjunction:
        """Most probable hypothesis: S for the uniform prior, a shortest hypothesis for prior="length"."""
        return self._to_conjunction(self._space.map_codes())

    @property
    def ml_estimator_(self) -> Conjunction:
        """Hypothesis with the fewest errors."""
        return self._to_conjunction(self._space.ml_codes())

    @property
    def specific_boundary_(self) -> list[Conjunction]:
        """S: the least general hypothesis that covers all positive examples, or the empty one if there are none."""
        self._check_boundaries()
        return [self._to_conjunction(self._space.specific)] if self._has_positives else [NOTHING]

    @property
    def general_boundary_(self) -> list[Conjunction]:
        """G: hypotheses that cannot be generalized further without covering a negative example."""
        self._check_boundaries()
        try:
            if self._has_positives:
                boundary = self._space.general_boundary(self.max_boundary)
            else:
                negatives = self._examples.codes_of_class(NEGATIVE)
                boundary = general_without_positives(negatives, self._attribute_sizes(), self.max_boundary)
        except TooManyError:
            raise SpaceError(
                f"the general boundary grew to more than max_boundary={self.max_boundary} members. Raise "
                "max_boundary, or do without the boundary, which predictions do not need."
            ) from None
        return sorted(map(self._to_conjunction, boundary), key=lambda h: [value is ANY for value in h.values or ()])

    def members(self) -> Iterator[Conjunction]:
        """Yield all hypotheses that vote, which are the members of the version space; the size is not limited.

        S comes first if there is a positive example. With noise, all conjunctions are listed in a fixed order.

        Examples
        --------
        >>> from fastens import VersionSpaceClassifier
        >>> model = VersionSpaceClassifier().fit([["sun", "warm"], ["rain", "warm"]], [1, 0])
        >>> list(model.members()), model.posterior_
        ([<sun, warm>, <sun, ?>], array([0.5, 0.5]))
        """
        return map(self._to_conjunction, self._space.all_codes())

    @property
    def posterior_(self) -> Array:
        """P(h | D) of each hypothesis, in the order of `members`; ``1 / |VS|`` for the uniform prior without noise."""
        space = self._space
        if not space.is_exact or space.n_hypotheses > MAX_LISTED:
            raise AttributeError(
                f"posterior_ lists at most {MAX_LISTED} hypotheses; there are {space.n_hypotheses}. Use "
                "posterior_of(hypothesis) for a single one."
            )
        return space.posterior()

    def posterior_of(self, hypothesis: Conjunction) -> float:
        """Return P(h | D) of a hypothesis, 0 if it has no vote; it is exact if `is_exact_` is True.

        Parameters
        ----------
        hypothesis : Conjunction
            Hypothesis over the columns of `fit`.

        Raises
        ------
        ValueError
            If it is not a conjunction, or has a different number of attributes.
        """
        space, codes = self._space, self._conjunction_codes(hypothesis)
        return float(space.posterior_of(codes))

    def plot_lattice(self, ax: Axes | None = None, *, max_members: int = 40) -> Axes:
        """Plot the version space in order of generality, with G at the top and S at the bottom.

        Edges connect a hypothesis to the hypotheses below it with one more constraint. Requires matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to plot on. If None, a new figure of sufficient size is created.
        max_members : int, default=40
            Maximum number of hypotheses to plot. For larger version spaces, the plot shows S, the first members of G
            and the number of hypotheses between them.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        AttributeError
            If a noise model is used, because all conjunctions have a positive weight and there are no boundaries.

        Examples
        --------
        >>> from fastens import VersionSpaceClassifier
        >>> X = [["sunny", "warm", "strong"], ["rainy", "cold", "strong"]]
        >>> model = VersionSpaceClassifier().fit(X, ["yes", "no"])
        >>> ax = model.plot_lattice()
        >>> [text.get_text() for text in ax.texts][:2]
        ['G: <sunny, ?, ?>', 'G: <?, warm, ?>']
        """
        self._check_fitted()
        whole(1).check("max_members", max_members)
        specific, general, n = self.specific_boundary_, self.general_boundary_, self.n_hypotheses_
        title = f"{'' if self.is_exact_ else 'about '}{n:,} {'hypothesis' if n == 1 else 'hypotheses'}"
        if self._encoder.has_own_names:
            title += f" on <{shortened(', '.join(self._encoder.texts), 80)}>"
        between = _inner_members(self, specific, general) if n <= max_members else None
        if between is None:
            return plot_boundaries(specific, general, n - len({*specific, *general}), title=title, ax=ax)
        return plot_lattice(specific, general, between, title=title, ax=ax)

    def _check_boundaries(self) -> None:
        """Raise SpaceError if a noise model replaces the version space, because it has no boundaries."""
        self._check_fitted()
        if self._has_positives and isinstance(self._space, WeightedSpace):
            raise SpaceError("noise must be 0 for the boundaries; with noise, every conjunction has a positive weight.")

    def _to_conjunction(self, codes: NDArray[np.int64]) -> Conjunction:
        """Return the conjunction with these codes."""
        if NEVER in codes:
            return NOTHING
        values = zip(codes.tolist(), self._encoder.categories, strict=True)
        return Conjunction(tuple(ANY if code == ANYTHING else categories[code] for code, categories in values))  # type: ignore[index]

    def __contains__(self, hypothesis: Conjunction) -> bool:
        """Return True if a conjunction is consistent with all examples that are not set aside."""
        self._check_boundaries()
        codes = self._conjunction_codes(hypothesis)
        covered = covers(np.broadcast_to(codes, self._examples.codes.shape), self._examples.codes)
        if self._has_positives:
            specific = np.broadcast_to(self._space.specific, self._examples.codes.shape)
            is_set_aside = covers(specific, self._examples.codes)
        else:
            is_set_aside = np.zeros(len(covered), dtype=bool)
        is_positive, is_negative = self._examples.weight[:, POSITIVE] > 0, self._examples.weight[:, NEGATIVE] > 0
        return bool(covered[is_positive].all() and not covered[is_negative & ~is_set_aside].any())

    def _conjunction_codes(self, hypothesis: Conjunction) -> NDArray[np.int64]:
        """Return the codes of a conjunction, shape (n_attributes,); raise ValueError if it has other attributes."""
        n = len(self._encoder.categories)
        if not isinstance(hypothesis, Conjunction):
            raise ValueError(f"the hypothesis must be a Conjunction; got {hypothesis!r}.")
        if hypothesis.values is None:
            return np.full(n, NEVER)
        if len(hypothesis.values) != n:
            raise ValueError(
                f"the hypothesis must have {n} values, one for each column of X; got {len(hypothesis.values)}."
            )
        pairs = zip(hypothesis.values, self._encoder.categories, strict=True)
        # A constraint on an unknown value covers no example.
        codes = [ANYTHING if v is ANY else categories.index(v) if v in categories else NEVER for v, categories in pairs]  # type: ignore
        return np.array(codes)

    # Predict --------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the Bayes-optimal probability of each class, shape (n_samples, 2).

        All hypotheses vote with their posterior probabilities. The result is the probability of the observed label,
        which is wrong with probability `noise`.
        """
        codes = self._check_table(X)
        return self._class_probabilities(self._space.cover_proba(codes))

    def _class_probabilities(self, covered: NDArray[Any], noise: float | None = None) -> Array:
        """Return class probabilities, shape (n_samples, 2), from the probability that a row is covered.

        Labels are wrong with probability `noise`, by default the noise of the space.
        """
        noise = self._space.noise if noise is None else noise
        positive = noise + (1 - 2 * noise) * covered
        both = np.empty((len(covered), 2))
        both[:, self._positive_index], both[:, 1 - self._positive_index] = positive, 1 - positive
        return both

    def _vote_share(self, X: ArrayLike) -> Array:
        """Return the posterior weight of the hypotheses that vote for each class, shape (n_samples, 2)."""
        codes = self._check_table(X)
        return self._class_probabilities(self._space.cover_proba(codes), noise=0.0)

    def _map_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities under the MAP hypothesis, shape (n_samples, 2)."""
        return self._hypothesis_proba(X, self._space.map_codes()[None, :])

    def _ml_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities under the maximum likelihood hypothesis, shape (n_samples, 2)."""
        return self._hypothesis_proba(X, self._space.ml_codes()[None, :])

    def _gibbs_proba(self, X: ArrayLike, random: np.random.Generator) -> Array:
        """Return the class probabilities of each row under a hypothesis drawn for it, shape (n_samples, 2)."""
        codes = self._check_table(X)
        return self._class_probabilities(covers(self._space.draw(len(codes), random), codes))

    def _hypothesis_proba(self, X: ArrayLike, hypothesis: NDArray[np.int64]) -> Array:
        """Return the class probabilities under one hypothesis, given as codes of shape (1, n_attributes)."""
        codes = self._check_table(X)
        return self._class_probabilities(covers(np.broadcast_to(hypothesis, codes.shape), codes))

    def sample_posterior(self, n: int = 1, random_state: RandomState = None) -> list[Conjunction]:
        """Draw `n` hypotheses from the posterior; if `random_state` is None, the estimator's is used."""
        whole(0).check("n", n)
        drawn = self._space.draw(n, generator(random_state, self.random_state))
        return [self._to_conjunction(codes) for codes in drawn]

    def best_question(self, X: ArrayLike | None = None) -> Question:
        """Return the most informative query, the instance whose share of covering hypotheses is closest to 1/2.

        Parameters
        ----------
        X : array-like or data frame, optional
            Candidate instances. If None, all combinations of attribute values are candidates. In this case, the result
            is optimal if a noise model is used; otherwise, a local search that changes one attribute at a time finds a
            good query.
        """
        if X is None:
            codes, share = self._space.find_query()
        else:
            check_in_memory(self, X)
            rows = self._check_table(X)
            shares = self._space.cover_proba(rows)
            best = int(np.abs(shares - 0.5).argmin())
            codes, share = rows[best], float(shares[best])
        pairs = zip(codes.tolist(), self._encoder.categories, strict=True)
        return Question(tuple(None if code == ANYTHING else categories[code] for code, categories in pairs), share)  # type: ignore

    def sample_complexity(self, epsilon: float, delta: float) -> int:
        """Return a sufficient number of examples for this space, ``(ln |H| + ln 1/delta) / epsilon``, rounded up."""
        self._check_fitted()
        return sample_complexity(space_sizes(self._attribute_sizes()).semantic, epsilon, delta)

    # Saving --------------------------------------------------

    def _example_arrays(self) -> dict[str, np.ndarray]:
        """Return the examples and the seed for the model file."""
        return {"codes": self._examples.codes, "weight": self._examples.weight, "seed": np.array(self._seed)}

    def _restore_examples(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the examples from the arrays of a model file; raise ValueError if they are malformed."""
        codes, weight = arrays["codes"].astype(np.int64), arrays["weight"].astype(np.float64)
        sizes = self._attribute_sizes()
        if codes.ndim != 2 or codes.shape[1] != len(sizes) or len(sizes) != len(self._encoder.categories):
            raise ValueError("the examples are malformed")
        if weight.shape != (len(codes), 2) or not (np.isfinite(weight) & (weight >= 0)).all():
            raise ValueError("the examples are malformed")
        if (codes < ANYTHING).any() or (codes >= sizes).any() or len(self.classes_) != 2 or len(codes) == 0:
            raise ValueError("the examples are malformed")
        self._set_positive_class()
        self._seed = int(arrays["seed"])
        self._examples = Examples(codes, weight)

    _saved: ClassVar[SavedParts] = (Saved(_example_arrays, _restore_examples),)
