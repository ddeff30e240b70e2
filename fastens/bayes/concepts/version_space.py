"""Version spaces of conjunctions: exact counts, weights, queries and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target

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
    ListsHypotheses,
    SpaceError,
    WeightedSpace,
    covers,
    general_without_positives,
)
from fastens.bayes.counts.attributes import DiscreteClassifier
from fastens.bayes.counts.counting import version_space_needs
from fastens.bayes.posterior import PosteriorMixin, generator
from fastens.inspection.network_plot import plot_boundaries, plot_lattice
from fastens.inspection.plotting import shortened
from fastens.modelfile.saving import SavedEstimator
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING as ANY_VALUE
from fastens.params.rules import one_of, real, whole
from fastens.rollback import keeps_model
from fastens.table.columns.numbers import unmasked
from fastens.table.labels import check_classes, read_classes
from fastens.table.opening import check_in_memory
from fastens.table.parts import present_rows
from fastens.table.source import MemoryNeeds, TableShape
from fastens.table.training_data import check_weights
from fastens.warn import warn

MOST_TRIED = 20_000  # conjunctions to go through, before there is a positive example


class DrawsVersionSpace:
    """A classifier with the boundaries of a version space that draws it."""

    def plot_lattice(self, ax: Any = None, *, max_members: int = 40) -> Any:
        """Draw the version space in the order of generality, G on top and S at the bottom, and return the axes.

        Edges lead from a hypothesis down to those with one more constraint. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure, large enough.
        max_members : int, default=40
            Of larger version spaces S and the first members of G are drawn alone, and how many are between them.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        AttributeError
            Under noise, where every conjunction has a weight and there are no boundaries.

        Examples
        --------
        >>> from fastens import VersionSpaceClassifier
        >>> X = [["sunny", "warm", "strong"], ["rainy", "cold", "strong"]]
        >>> model = VersionSpaceClassifier().fit(X, ["yes", "no"])
        >>> ax = model.plot_lattice()
        >>> [text.get_text() for text in ax.texts][:2]
        ['G: <sunny, ?, ?>', 'G: <?, warm, ?>']
        """
        model: Any = self
        model._check_fitted()
        whole(1).check("max_members", max_members)
        specific, general, n = model.specific_boundary_, model.general_boundary_, model.n_hypotheses_
        title = f"{'' if model.is_exact_ else 'about '}{n:,} {'hypothesis' if n == 1 else 'hypotheses'}"
        if model._encoder.has_own_names:
            title += f" on <{shortened(', '.join(model._encoder.texts), 80)}>"
        between = _between(model, specific, general) if n <= max_members else None
        if between is None:
            return plot_boundaries(specific, general, n - len({*specific, *general}), title=title, ax=ax)
        return plot_lattice(specific, general, between, title=title, ax=ax)


def _between(model: Any, specific: list[Conjunction], general: list[Conjunction]) -> list[Conjunction] | None:
    """The members beside S and G; None where they cannot be listed."""
    if specific[0].values is not None:
        found = _relaxations(specific[0], general)
    elif space_sizes(model._attribute_sizes()).semantic > MOST_TRIED:
        return None
    else:
        found = (h for h in all_conjunctions(model._encoder.categories) if any(g >= h for g in general))
    return [hypothesis for hypothesis in found if hypothesis not in specific and hypothesis not in general]


def _relaxations(specific: Conjunction, general: list[Conjunction]) -> Iterator[Conjunction]:
    """The conjunctions between S and G: every one is reached from S by dropping constraints one after another."""
    seen, waiting = {specific}, [specific]
    while waiting:
        hypothesis = waiting.pop()
        yield hypothesis
        values = hypothesis.values or ()
        for place, value in enumerate(values):
            relaxed = Conjunction((*values[:place], ANY, *values[place + 1 :]))
            if value is not ANY and relaxed not in seen and any(g >= relaxed for g in general):
                seen.add(relaxed)
                waiting.append(relaxed)


Array = NDArray[np.float64]


class Question(NamedTuple):
    """An instance to query the label of, and the probability that it is positive: best near 1/2."""

    instance: tuple[Any, ...]
    probability: float


@with_parameters
class VersionSpaceClassifier(ListsHypotheses, PosteriorMixin, DiscreteClassifier, SavedEstimator, DrawsVersionSpace):
    """The Bayes-optimal classifier over conjunctions of attribute values, by the version space.

    A hypothesis requires one value of some attributes and covers the instances that have them all; one more covers
    nothing. The version space holds the hypotheses that agree with all examples; every one of them votes on a new
    instance, and `predict_proba` is the share of those that cover it. Counts are exact, by bit arrays over the subsets
    of the constraints that the positive examples share; beyond some 30 of them by branching, and where that is too much
    they are estimated with a bound (`is_exact_`).

    Every distinct value of a column is a value of its attribute, numbers too: bin continuous columns first. A missing
    value, and one that was not there in `fit`, satisfies no constraint.

    Parameters
    ----------
    prior : {"uniform", "length"}, default="uniform"
        Every hypothesis alike, or each constraint halves the probability.
    noise : float, default=0
        Probability that a label is wrong. Above 0 all conjunctions keep a part of the posterior, which is exact, from
        the count cube of all of them: for few attributes only (about 3^16 conjunctions).
    on_collapse : {"set-aside", "raise", "noise", "max-consistent"}, default="set-aside"
        What to do where no hypothesis agrees with all examples. "set-aside": leave out the negative examples that no
        hypothesis separates from the positive ones, and warn. "raise": ValueError. "max-consistent": the hypotheses
        with the fewest errors vote. "noise": the noise model, with that least share of errors as the noise. The last
        two need the count cube.
    positive : label or None, default=None
        The class that hypotheses cover; None: the second.
    categories : list of lists or None, default=None
        The values of each attribute, also those that no example has; they matter for counts before the first positive
        example, for `log_evidence_`, and under noise. None: those in the data.
    max_boundary : int, default=10000
        The most members of the general boundary to find; there may be exponentially many (Haussler 1988).
    random_state : int, RandomState or None, default=None
        For Gibbs, `sample_posterior`, and estimates where the space is too large.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The labels, sorted.
    posterior_ : array of shape (n_hypotheses_,)
        P(h | D) of each hypothesis, in the order of `members()`; of a space of at most 10 million.
    {attributes}

    Raises
    ------
    ValueError
        If there are not two classes, the space collapses under "raise", or the count cube would be too large.

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

    _fits_sources = False
    _parameter_rules: ClassVar = {
        "prior": one_of("uniform", "length"),
        "noise": real(0, 0.5, open_high=True),
        "on_collapse": one_of("set-aside", "raise", "noise", "max-consistent"),
        "positive": ANY_VALUE,
        "categories": ANY_VALUE,
        "max_boundary": whole(1),
    }
    _modes = ("bayes", "map", "ml", "gibbs")
    _poor_score = True
    _fewest_classes = 2  # which of them is the concept, a single one does not say

    prior: str = field(default="uniform", kw_only=False)
    noise: float = 0.0
    on_collapse: str = "set-aside"
    positive: Any = None
    categories: Sequence[Sequence[Any]] | None = None
    max_boundary: int = 10_000
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # The space follows from the examples, and may be a hundred megabytes.
        return {name: value for name, value in super().__getstate__().items() if name != "_made_space"}

    # Learning --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> VersionSpaceClassifier:
        """Learn from examples.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Values of the attributes.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the examples; they matter under noise only, but 0 leaves an example out.
        """
        data = self._start_fit(X, y, sample_weight)
        self._seed = int(generator(self.random_state).integers(2**62))
        self._remember(Examples.of(data.X, self._is_positive(data.y), data.sample_weight))
        self._space  # noqa: B018 -- a collapse raises here
        return self

    @keeps_model
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> VersionSpaceClassifier:
        """Learn from further examples, one or many; the result is that of `fit` on all of them.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; values that no example had become new values of the attribute, unless `categories` are given.
        classes : array-like of shape (2,), optional
            Both labels; needed in the first call unless `y` holds both. Later calls check that they are the same.
        """
        check_in_memory(self, X)
        self._check_target_given(y)
        X, labels, sample_weight = present_rows(X, np.atleast_1d(unmasked(y, "y")), sample_weight)
        if not hasattr(self, "_examples"):
            self._check_parameters()
            self._learn_target(labels if classes is None else read_classes(classes))
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
        self._remember(self._examples.and_also(new) if hasattr(self, "_examples") else new)
        fitted = self._as_fitted()
        if fitted.on_collapse == "raise" and fitted.noise == 0 and self._has_positives:
            self._space  # noqa: B018 -- a collapse raises here
        return self

    def _memory_needs(self, shape: TableShape) -> MemoryNeeds:
        return version_space_needs(self, shape)

    def _learn_target(self, y: NDArray[Any]) -> Array:
        index = super()._learn_target(y)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}; "
                f"y holds the classes {self.classes_.tolist()}."
            )
        if self.positive is not None and (np.ndim(self.positive) or self.positive not in self.classes_.tolist()):
            raise ValueError(f"positive must be one of the classes {self.classes_.tolist()}; got {self.positive!r}.")
        self._learn_positive()
        return index

    def _learn_positive(self) -> None:
        self._positive_index = 1 if self.positive is None else self.classes_.tolist().index(self.positive)

    def _is_positive(self, y: Array) -> NDArray[np.bool_]:
        return y == self._positive_index

    def _remember(self, examples: Examples) -> None:
        present = examples.weight.any(axis=1)
        self._examples = Examples(examples.codes[present], examples.weight[present])
        self.__dict__.pop("_made_space", None)

    # The space --------------------------------------------------

    @property
    def _space(self) -> Any:
        """Made from the examples when first needed."""
        self._check_fitted()
        if "_made_space" not in self.__dict__:
            self._made_space = self._as_fitted()._make_space()
        return self._made_space

    def _make_space(self) -> Any:
        sizes = self._attribute_sizes()
        if self.noise > 0:
            return WeightedSpace(self._examples, sizes, self.prior, float(self.noise))
        if not self._has_positives:
            return WeightedSpace(self._examples, sizes, self.prior, None)
        space = ConsistentSpace(self._examples, sizes, self.prior, np.random.default_rng(self._seed))
        if space.n_set_aside == 0:
            return space
        if self.on_collapse == "set-aside":
            n_negative = len(self._examples.of_class(NEGATIVE))
            warn(
                f"No conjunction agrees with all examples: {space.n_set_aside} of {n_negative} distinct negative "
                "instances are set aside. If labels may be wrong, noise=0.1, the probability of that, gives the exact "
                "posterior of all conjunctions; on_collapse='max-consistent' lets those with the fewest errors vote."
            )
            return space
        if self.on_collapse == "raise":
            raise SpaceError(
                f"the version space is empty: {space.n_set_aside} negative instance(s) satisfy every conjunction that "
                "covers the positive ones. Set noise, or on_collapse, to go on."
            )
        best = WeightedSpace(self._examples, sizes, self.prior, None)
        if self.on_collapse == "max-consistent":
            return best
        noise = best.least_errors / self._examples.weight.sum()
        return WeightedSpace(self._examples, sizes, self.prior, min(noise, 0.5))

    @property
    def _has_positives(self) -> bool:
        return bool(self._examples.weight[:, POSITIVE].any())

    @property
    def n_hypotheses_(self) -> int:
        """Size of the version space, exactly where `is_exact_`; under a policy, the number of hypotheses that vote."""
        return self._space.n_hypotheses

    @property
    def n_hypotheses_bounds_(self) -> tuple[int, int]:
        """Where the size lies, with a confidence of 99 % where it is estimated."""
        return self._space.bounds()

    @property
    def is_exact_(self) -> bool:
        """Whether counts and votes are exact."""
        return self._space.is_exact

    @property
    def n_set_aside_(self) -> int:
        """Distinct negative instances left out because of a contradiction."""
        return self._space.n_set_aside

    @property
    def log_evidence_(self) -> float:
        """Log of the labels' probability under the prior; without noise ``log(|VS| / |H|)`` for a uniform prior."""
        return self._space.log_evidence

    @property
    def map_estimator_(self) -> Conjunction:
        """A most probable hypothesis: that of S under the uniform prior, a shortest one under "length"."""
        return self._conjunction(self._space.map_codes())

    @property
    def ml_estimator_(self) -> Conjunction:
        """A hypothesis with the fewest errors."""
        return self._conjunction(self._space.ml_codes())

    @property
    def specific_boundary_(self) -> list[Conjunction]:
        """S: one hypothesis, the least general that covers the positive examples; nothing before the first of them."""
        self._needs_boundaries()
        return [self._conjunction(self._space.specific)] if self._has_positives else [NOTHING]

    @property
    def general_boundary_(self) -> list[Conjunction]:
        """G: the hypotheses that cannot be relaxed further without covering a negative example."""
        self._needs_boundaries()
        try:
            if self._has_positives:
                found = self._space.general(self.max_boundary)
            else:
                negatives = self._examples.of_class(NEGATIVE)
                found = general_without_positives(negatives, self._attribute_sizes(), self.max_boundary)
        except TooManyError:
            raise SpaceError(
                f"the general boundary has more than max_boundary={self.max_boundary} members on the way; the version "
                "space itself is held without it."
            ) from None
        return sorted(map(self._conjunction, found), key=lambda h: [value is ANY for value in h.values or ()])

    def _needs_boundaries(self) -> None:
        self._check_fitted()
        if self._has_positives and isinstance(self._space, WeightedSpace):
            raise SpaceError("boundaries exist only without noise: here every conjunction has a weight.")

    def _conjunction(self, codes: NDArray[np.int64]) -> Conjunction:
        if NEVER in codes:
            return NOTHING
        values = zip(codes.tolist(), self._encoder.categories, strict=True)
        return Conjunction(tuple(ANY if code == ANYTHING else known[code] for code, known in values))  # type: ignore[index]

    def __contains__(self, hypothesis: Conjunction) -> bool:
        """Whether a conjunction is in the version space: it agrees with all examples that are not set aside."""
        self._needs_boundaries()
        codes = self._codes_of(hypothesis)
        covered = covers(np.broadcast_to(codes, self._examples.codes.shape), self._examples.codes)
        if self._has_positives:
            specific = np.broadcast_to(self._space.specific, self._examples.codes.shape)
            is_set_aside = covers(specific, self._examples.codes)
        else:
            is_set_aside = np.zeros(len(covered), dtype=bool)
        is_positive, is_negative = self._examples.weight[:, POSITIVE] > 0, self._examples.weight[:, NEGATIVE] > 0
        return bool(covered[is_positive].all() and not covered[is_negative & ~is_set_aside].any())

    def _codes_of(self, hypothesis: Conjunction) -> NDArray[np.int64]:
        n = len(self._encoder.categories)
        if not isinstance(hypothesis, Conjunction):
            raise ValueError(f"the hypothesis must be a Conjunction; got {hypothesis!r}.")
        if hypothesis.values is None:
            return np.full(n, NEVER)
        if len(hypothesis.values) != n:
            raise ValueError(f"the hypothesis must have {n} values, as X has columns; got {len(hypothesis.values)}.")
        pairs = zip(hypothesis.values, self._encoder.categories, strict=True)
        # A value that no attribute has covers no example.
        codes = [ANYTHING if v is ANY else known.index(v) if v in known else NEVER for v, known in pairs]  # type: ignore
        return np.array(codes)

    # Answers --------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the Bayes-optimal probability of each class, shape (n_samples, 2).

        That of the label, wrong with probability `noise`, given the votes of all hypotheses by their posterior.
        """
        codes = self._check_table(X)
        return self._both_classes(self._space.cover_proba(codes))

    def _both_classes(self, covered: NDArray[Any], noise: float | None = None) -> Array:
        noise = self._space.noise if noise is None else noise
        positive = noise + (1 - 2 * noise) * covered
        both = np.empty((len(covered), 2))
        both[:, self._positive_index], both[:, 1 - self._positive_index] = positive, 1 - positive
        return both

    def _vote_share(self, X: ArrayLike) -> Array:
        codes = self._check_table(X)
        return self._both_classes(self._space.cover_proba(codes), noise=0.0)

    def _map_proba(self, X: ArrayLike) -> Array:
        return self._member_proba(X, self._space.map_codes()[None, :])

    def _ml_proba(self, X: ArrayLike) -> Array:
        return self._member_proba(X, self._space.ml_codes()[None, :])

    def _gibbs_proba(self, X: ArrayLike, random: np.random.Generator) -> Array:
        codes = self._check_table(X)
        return self._both_classes(covers(self._space.draw(len(codes), random), codes))

    def _member_proba(self, X: ArrayLike, hypothesis: NDArray[np.int64]) -> Array:
        codes = self._check_table(X)
        return self._both_classes(covers(np.broadcast_to(hypothesis, codes.shape), codes))

    def sample_posterior(self, n: int = 1, random_state: Any = None) -> list[Conjunction]:
        """Draw hypotheses from the posterior, `n` of them; `random_state` None takes the estimator's."""
        whole(0).check("n", n)
        chosen = self.random_state if random_state is None else random_state
        return [self._conjunction(codes) for codes in self._space.draw(n, generator(chosen))]

    def best_question(self, X: ArrayLike | None = None) -> Question:
        """Return the most informative query: the instance that closest to half of the hypotheses cover.

        Parameters
        ----------
        X : array-like or data frame, optional
            Instances to choose from. Default: any that the attributes' values make up, the best one under noise and a
            good one otherwise, found by changing one attribute at a time.
        """
        if X is None:
            codes, share = self._space.question()
        else:
            check_in_memory(self, X)
            rows = self._check_table(X)
            shares = self._space.cover_proba(rows)
            best = int(np.abs(shares - 0.5).argmin())
            codes, share = rows[best], float(shares[best])
        pairs = zip(codes.tolist(), self._encoder.categories, strict=True)
        return Question(tuple(None if code == ANYTHING else known[code] for code, known in pairs), share)  # type: ignore

    def sample_complexity(self, epsilon: float, delta: float) -> int:
        """How many examples suffice for this space: ``(ln |H| + ln 1/delta) / epsilon``, rounded up."""
        self._check_fitted()
        return sample_complexity(space_sizes(self._attribute_sizes()).semantic, epsilon, delta)

    # Saving --------------------------------------------------

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return {"codes": self._examples.codes, "weight": self._examples.weight, "seed": np.array(self._seed)}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        codes, weight = arrays["codes"].astype(np.int64), arrays["weight"].astype(np.float64)
        sizes = self._attribute_sizes()
        if codes.ndim != 2 or codes.shape[1] != len(sizes) or len(sizes) != len(self._encoder.categories):
            raise ValueError("the examples are malformed")
        if weight.shape != (len(codes), 2) or not (np.isfinite(weight) & (weight >= 0)).all():
            raise ValueError("the examples are malformed")
        if (codes < ANYTHING).any() or (codes >= sizes).any() or len(self.classes_) != 2 or len(codes) == 0:
            raise ValueError("the examples are malformed")
        self._learn_positive()
        self._seed = int(arrays["seed"])
        self._examples = Examples(codes, weight)
