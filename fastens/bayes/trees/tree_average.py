"""The exact Bayesian average over all decision trees on a few binary features, without search or sampling."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseClassifier
from fastens.bayes.counts.memory import tree_average_needs
from fastens.bayes.posterior import PosteriorMixin, generator
from fastens.bayes.trees.binary_features import AT_MOST, MISSING, BinaryFeatures, candidate_features, select_features
from fastens.bayes.trees.tree_cube import Tree, TreeCube, n_trees
from fastens.checked_parameters import with_parameters
from fastens.docstrings import Docs, entries
from fastens.engine.comm import in_turn
from fastens.engine.parts import RowSource, map_parts
from fastens.parameters import ANYTHING, DECLINE, POSITIVE, PROBABILITY, parameter, whole
from fastens.saving import SavedEstimator
from fastens.table.arrays import dense
from fastens.table.memory_limits import MemoryNeeds, TableShape
from fastens.table.sample_weights import WEIGHT_TYPE
from fastens.table.training_data import TrainingData
from fastens.tree_model.docs import DOCS as TREE_DOCS

Array = NDArray[np.float64]
MOST_QUESTIONS = 15


DOCS = TREE_DOCS | entries("""\
max_questions : int
    Most questions, up to 15; time and memory triple with each: 3^10 cells take milliseconds, 3^14 (4.8 million) about
    two seconds.
n_thresholds : int
    Most thresholds of a column.
split_prior : float or pair
    Prior probability that a node splits. A pair (a, b): a (1 + depth)^-b.
alpha : float
    Parameter of the Dirichlet prior of a leaf's class probabilities.
random_state : int, RandomState or None
    For Gibbs and `sample_posterior`; the average itself has nothing random.
n_trees_ : int
    How many trees are averaged.
log_evidence_ : float
    Log of the labels' probability, over all trees and leaf values.
""")


@with_parameters
class ExactTreeAverageClassifier(PosteriorMixin, BaseClassifier, SavedEstimator):
    """The exact Bayesian average over all decision trees on up to some 14 binary features ("questions").

    With 6 questions there are 4.8e23 trees, with 14 some 10^6078; every one of them votes with its posterior
    probability. The count cube, one cell for each of the 3^p conjunctions of answers, holds the sum over all trees on
    each cell, and one pass down gives all predictions: predicting is a table lookup.

    Columns become questions: "x <= threshold", "x = category", "x is missing". If there are more than `max_questions`,
    they are selected greedily by the entropy of the class.

    {parameters and attributes}

    Raises
    ------
    ValueError
        If a parameter breaks its rule, or the cube would be larger than a gigabyte.

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

    _takes_parts = True
    _fits_codes = False
    _reads_parts = False
    max_questions: int = parameter(whole(1, MOST_QUESTIONS), default=10, kw_only=False)
    n_thresholds: int = parameter(whole(1), default=16)
    split_prior: float | tuple[float, float] = parameter(PROBABILITY | DECLINE, default=0.5)
    alpha: float = parameter(POSITIVE, default=0.5)
    categorical_features: Any = parameter(ANYTHING, default="from_dtype")
    class_weight: Any = parameter(ANYTHING, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: Any = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = DOCS
    _compares_weights = True
    _modes = ("bayes", "map", "gibbs")
    n_trees_: int = field(init=False)
    log_evidence_: float = field(init=False)

    def __getstate__(self) -> dict[str, Any]:
        # The cube follows from the rows' counts, and may be a gigabyte.
        return {name: value for name, value in super().__getstate__().items() if name != "_made_cube"}

    # Learning --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ExactTreeAverageClassifier:
        """Select the questions and sum over all trees.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows; missing values are allowed.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows: a weight of 2 is a row that is there twice.
        """
        data = self._start_fit(X, y, sample_weight)
        rows = data.X if isinstance(data.X, RowSource) else dense(data.X)
        weight = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
        data = data._replace(X=rows, y=data.y.astype(np.int64))
        self._questions, answers = self._choose_questions(data, weight)
        self._remember(answers, data, weight)
        self._average()
        return self

    def _memory_needs(self, shape: TableShape) -> MemoryNeeds:
        return tree_average_needs(self, shape)

    def _choose_questions(self, data: TrainingData, weight: Array) -> tuple[BinaryFeatures, NDArray[np.uint8]]:
        rows, comm = data.X, data.comm
        found = candidate_features(rows, self._encoder.is_categorical, weight, self.n_thresholds, comm)
        answers = map_parts(lambda part: found.answers(part).astype(np.uint8), rows)
        if answers.shape[1] <= self.max_questions:
            return found, answers
        chosen = sorted(select_features(answers, data.y, weight, self.max_questions, comm))
        return found.take(chosen), answers[:, chosen]

    def _remember(self, answers: NDArray[np.uint8], data: TrainingData, weight: Array) -> None:
        """Keep each combination of answers with its class weights: all that the cube is made of."""
        digits, n_classes = np.arange(answers.shape[1])[::-1], len(self.classes_)
        number = answers.astype(np.int64) @ (1 << digits)
        distinct = np.unique(np.concatenate(data.comm.gather(np.unique(number))))
        cell = np.searchsorted(distinct, number) * n_classes + data.y
        counts = np.zeros(len(distinct) * n_classes)
        in_turn(data.comm, counts, lambda sums: np.add.at(sums, cell, weight))
        self._answers, self._counts = distinct[:, None] >> digits & 1, counts.reshape(-1, n_classes)
        self.__dict__.pop("_made_cube", None)

    def _average(self) -> None:
        cube = self._cube
        self.log_evidence_ = cube.log_evidence
        self._table = cube.predictions()
        self.n_trees_ = n_trees(len(self._questions.column))

    @property
    def _cube(self) -> TreeCube:
        """Made again where it is needed after loading."""
        self._check_fitted()
        if "_made_cube" not in self.__dict__:
            n_rows, n_classes = self._counts.shape
            answers = np.repeat(self._answers, n_classes, axis=0)
            classes = np.tile(np.arange(n_classes, dtype=np.int64), n_rows)
            fitted = self._as_fitted()
            split, alpha = fitted._split_by_depth(), float(fitted.alpha)
            self._made_cube = TreeCube(answers, classes, self._counts.ravel(), n_classes, split, alpha)
        return self._made_cube

    def _split_by_depth(self) -> Array:
        depth = np.arange(len(self._questions.column), dtype=np.float64)
        if isinstance(self.split_prior, tuple | list):
            factor, power = self.split_prior
            return np.asarray(factor * (1.0 + depth) ** -power)
        return np.full(len(depth), float(self.split_prior))

    # Answers --------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the Bayes-optimal probability of each class, that of all trees, shape (n_samples, n_classes)."""
        self._check_fitted()
        return self._table[self._numbers(X)]

    def _numbers(self, X: ArrayLike) -> NDArray[np.int64]:
        """The answers of each row as one binary number."""
        answers = self.answers(X)
        return answers @ (1 << np.arange(answers.shape[1])[::-1])

    def answers(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the binary features, (n_samples, n_questions): the input of a `Tree`."""
        rows = dense(self._check_table(X))
        return map_parts(self._questions.answers, rows)

    @property
    def questions_(self) -> list[str]:
        """The questions as text."""
        self._check_fitted()
        questions = list(zip(*self._questions, strict=True))
        texts = [self._in_words(*question) for question in questions]
        # Thresholds of large numbers may differ beyond the digits that are enough for others.
        if len(set(texts)) == len(texts):
            return texts
        return [self._in_words(*question, in_full=True) for question in questions]

    def _in_words(self, column: int, kind: int, value: float, in_full: bool = False) -> str:
        name = self._encoder.texts[column]
        if kind == MISSING:
            return f"{name} is missing"
        if kind == AT_MOST:
            return f"{name} <= {float(value)!r}" if in_full else f"{name} <= {value:g}"
        categories = self._encoder.categories[column]
        return f"{name} = {categories[int(value)] if categories else value}"

    @property
    def map_estimator_(self) -> Tree:
        """The most probable tree: what an exact search over all trees would find; it predicts from `answers(X)`."""
        return self._cube.map_tree(self.questions_)[0]

    @property
    def map_log_joint_(self) -> float:
        """Log of its joint probability with the labels; minus `log_evidence_`, that of its posterior probability."""
        return self._cube.map_tree(self.questions_)[1]

    def sample_posterior(self, n: int = 1, random_state: Any = None) -> list[Tree]:
        """Draw trees from the posterior, independently and exactly; they predict from `answers(X)`."""
        whole(0).check("n", n)
        random = generator(self.random_state if random_state is None else random_state)
        names = self.questions_
        return [self._cube.random_tree(names, random) for _ in range(n)]

    def _map_proba(self, X: ArrayLike) -> Array:
        answers = self.answers(X)
        return self.map_estimator_.predict_proba(answers)

    def _gibbs_proba(self, X: ArrayLike, random: np.random.Generator) -> Array:
        answers = self.answers(X)
        cells = self._cube.random_leaves(answers, random)
        return self._cube.leaf_proba(cells)

    def _vote_share(self, X: ArrayLike) -> Array:
        numbers = self._numbers(X)
        return self._cube.votes()[numbers]

    # Saving --------------------------------------------------

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        questions = {f"question.{name}": array for name, array in self._questions._asdict().items()}
        return {"answers": self._answers, "counts": self._counts, **questions}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        column, kind, value = (arrays[f"question.{name}"] for name in BinaryFeatures._fields)
        questions = BinaryFeatures(column.astype(np.int64), kind.astype(np.int64), value.astype(np.float64))
        answers, counts = arrays["answers"].astype(np.int64), arrays["counts"].astype(np.float64)
        _check_restored(questions, answers, counts)
        n_columns, n_classes = len(self._encoder.categories), len(self.classes_)
        if counts.shape[1] != n_classes or (questions.column >= n_columns).any() or (questions.column < 0).any():
            raise ValueError("the questions and the columns do not fit together")
        self._questions, self._answers, self._counts = questions, answers, counts
        self._average()


def _check_restored(questions: BinaryFeatures, answers: NDArray[np.int64], counts: Array) -> None:
    n_questions = len(questions.column)
    fits = answers.ndim == counts.ndim == 2 and len(answers) == len(counts) and answers.shape[1] == n_questions
    if not fits or n_questions > MOST_QUESTIONS or any(array.shape != (n_questions,) for array in questions):
        raise ValueError("the questions are malformed")
    if ((answers != 0) & (answers != 1)).any() or not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError("the counts are malformed")
