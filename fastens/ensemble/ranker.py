"""Ranking by gradient boosting: LambdaMART."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupShuffleSplit
from sklearn.utils import check_random_state

from fastens.base import TrainingData, check_weights
from fastens.engine.losses import Loss
from fastens.engine.ranking_loss import QUERY, LambdaRank, Queries, RankingOptions
from fastens.ensemble.base_boosting import BaseGradientBoosting, taken
from fastens.ensemble.boosting_parameters import RULES
from fastens.parameters import FLAG, NONE, one_of, whole

Array = NDArray[np.float64]

# 2**relevance must leave room for sums.
MOST_RELEVANCE = 64.0


@dataclass(frozen=True)
class Judgements:
    """What a ranking is learned from: relevance of documents, their queries and how many documents each stands for."""

    relevance: Any
    qid: Any
    group: Any
    documents: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the relevance, which stands for all."""
        return np.shape(self.relevance)

    def read(self, n_rows: int) -> Array:
        """As columns (relevance, number of the query, number of documents)."""
        relevance = np.asarray(self.relevance)
        if relevance.ndim == 2 and relevance.shape[1] == 1:
            relevance = relevance[:, 0]
        if relevance.shape != (n_rows,):
            raise ValueError(f"y must have one relevance for each of the {n_rows} rows; got shape {relevance.shape}.")
        documents = np.ones(n_rows) if self.documents is None else self.documents
        return np.column_stack([_numbers(relevance), self.query(n_rows), documents])

    def query(self, n_rows: int) -> NDArray[np.intp]:
        """The number of each row's query; without any, all rows are of one."""
        if self.qid is not None and self.group is not None:
            raise ValueError("qid and group must not be given together; they say the same.")
        if self.group is not None:
            return _query_of_sizes(self.group, n_rows)
        if self.qid is None:
            return np.zeros(n_rows, dtype=np.intp)
        qid = np.asarray(self.qid)
        if qid.shape != (n_rows,):
            raise ValueError(f"qid must have a query for each of the {n_rows} rows; got shape {qid.shape}.")
        return np.unique(qid, return_inverse=True)[1]


def _numbers(relevance: NDArray[Any]) -> Array:
    try:
        found = relevance.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers: {error}") from error
    if relevance.dtype.kind in "cUS":
        raise ValueError(f"y must hold real numbers; it holds {relevance.dtype}.")
    if not np.isfinite(found).all():
        raise ValueError("Input y contains " + ("NaN." if np.isnan(found).any() else "infinity."))
    if found.min() < 0 or found.max() > MOST_RELEVANCE:
        raise ValueError(
            f"y must hold relevances from 0 to {MOST_RELEVANCE:g}; it goes from {found.min()} to {found.max()}."
        )
    return found


def _query_of_sizes(group: Any, n_rows: int) -> NDArray[np.intp]:
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any() or sizes.sum() != n_rows:
        total = sizes.sum() if sizes.dtype.kind in "iuf" else None
        raise ValueError(
            f"group must hold the number of rows of each query, {n_rows} in all, the rows of a query one after "
            f"another; got {len(sizes) if sizes.ndim else 0} sizes with the sum {total}."
        )
    return np.repeat(np.arange(len(sizes)), sizes)


class GradientBoostingRanker(BaseGradientBoosting):
    """Gradient boosting that puts the rows of each query in order: LambdaMART.

    Trees are fitted to gradients that say, for every two documents of a query, how much better the order would be if
    the more relevant one came first, measured by NDCG, the normalised discounted cumulative gain. Of documents with
    the same score and relevance none comes first, so the model does not depend on the order of the rows.

    Parameters
    ----------
    ndcg_at : int or None, default=10
        Places that count in `score`, in `train_score_` and for early stopping; None for all.
    truncation_level : int, default=30
        Places whose documents are compared with all below; a little more than `ndcg_at` is good.
    label_gain : {"exponential", "linear"}, default="exponential"
        What a document of relevance r is worth: 2**r - 1 or r.
    normalize : bool, default=True
        Whether close pairs count more than those far apart, and queries of many pairs no more than others.
    {parameters}

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    n_estimators_, n_iter_ : int
        Rounds kept.
    train_score_, validation_score_ : arrays
        1 - NDCG after each round: on the training rows, and on the validation rows, if any.
    feature_importances_, feature_split_counts_ : arrays of shape (n_features_in_,)
        Share of the total gain, and number of splits.

    References
    ----------
    Burges (2010), "From RankNet to LambdaRank to LambdaMART: an overview", sections 4 and 7.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens import GradientBoostingRanker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> relevance, qid = (X[:, 0] + X[:, 1] > 1).astype(int), np.repeat(np.arange(50), 20)
    >>> model = GradientBoostingRanker(n_estimators=20).fit(X, relevance, qid=qid)
    >>> model.score(X, relevance, qid=qid) > 0.9
    True
    """

    _parameter_rules: ClassVar = {
        **RULES,
        "ndcg_at": whole(1) | NONE,
        "truncation_level": whole(1),
        "label_gain": one_of("exponential", "linear"),
        "normalize": FLAG,
    }

    def __init__(
        self,
        *,
        ndcg_at: int | None = 10,
        truncation_level: int = 30,
        label_gain: str = "exponential",
        normalize: bool = True,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        min_gain_to_split: float = 0.0,
        l2_regularization: float = 0.0,
        max_bins: int = 255,
        max_features: int | float = 1.0,
        max_features_per_tree: int | float = 1.0,
        feature_weights: Any = None,
        subsample: float = 1.0,
        min_weight_leaf: float = 0.0,
        validation_fraction: float = 0.1,
        early_stopping: bool | str = "auto",
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        path_smooth: float = 0.0,
        max_delta_step: float | None = None,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        one_hot_max_size: int = 2,
        min_samples_category: int | None = None,
        max_categories_per_split: int | None = None,
        category_smoothing: float = 5.0,
        category_l2: float = 3.0,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.target_tags.required = True
        return tags

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
        group_val: ArrayLike | None = None,
    ) -> GradientBoostingRanker:
        """Train.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NumPy array, pandas, polars or Arrow table, or SciPy sparse matrix. NaN and None are missing values.
        y : array of shape (n_samples,)
            Relevance of each row for its query, not negative; more is better.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice in its query, 0 as the row left out.
        X_val, y_val : table and array, optional
            Rows to validate on, in place of a part of the queries; used where `early_stopping` is not False.
        qid : array of shape (n_samples,), optional
            The query of each row, any labels in any order. Without `qid` and `group`, all rows are of one query.
        group : array of shape (n_queries,), optional
            In place of `qid`: how many rows each query has, which then stand one after another.
        query_weight : array of shape (n_queries,), optional
            A weight of 2 is the same as the query given twice, 0 as the query left out; in the order of `group`, or of
            the sorted labels of `qid`.
        qid_val, group_val : arrays, optional
            The queries of the rows to validate on.

        Returns
        -------
        self
        """
        judged: Any = None
        if y is not None:
            n_rows = np.size(np.asarray(y))
            documents = check_weights(sample_weight, n_rows)
            judged = Judgements(y, qid, group, documents)
            sample_weight = _weights_of_rows(documents, query_weight, judged.query(n_rows))
        validation: Any = None if y_val is None else Judgements(y_val, qid_val, group_val)
        super().fit(X, judged, sample_weight, X_val, validation)
        return self

    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        return (y if isinstance(y, Judgements) else Judgements(y, None, None)).read(n_rows)

    def _learn_target(self, y: NDArray[Any]) -> Array:
        return y

    def _encode_target(self, y: NDArray[Any]) -> Array:
        return y

    def _split_validation(self, data: TrainingData, X_val: Any, y_val: Any) -> tuple[TrainingData, TrainingData | None]:
        """Whole queries to validate on, if anything."""
        if X_val is not None or y_val is not None or isinstance(self.early_stopping, str) or not self.early_stopping:
            return super()._split_validation(data, X_val, y_val)
        if len(np.unique(data.y[:, QUERY])) < 2:
            raise ValueError("early_stopping must not be True with a single query and no X_val.")
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        splitter = GroupShuffleSplit(1, test_size=self.validation_fraction, random_state=seed)
        train, validation = next(splitter.split(data.y, groups=data.y[:, QUERY]))
        return taken(data, train), taken(data, validation)

    def _learn_statistics(self, data: Any, seed: int) -> Any:
        relevance = np.ascontiguousarray(data.y[:, 0])
        return super()._learn_statistics(data._replace(y=relevance), seed)._replace(y=data.y)

    def _get_loss(self) -> Loss:
        return LambdaRank(RankingOptions(self.ndcg_at, self.truncation_level, self.label_gain, self.normalize))

    def predict(self, X: ArrayLike) -> Array:
        """Return the score of each row, shape (n_samples,): higher ones first; comparable within a query alone."""
        return self._raw(X)[:, 0]

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean NDCG of the queries at `ndcg_at`.

        Rows of equal score share the mean discount of their places; a query without any relevant row counts as 1.

        Parameters
        ----------
        X, y, sample_weight, qid, group, query_weight
            As in `fit`.
        """
        scores = self.predict(X)
        documents = check_weights(sample_weight, len(scores))
        judged = Judgements(y, qid, group, documents)
        target = judged.read(len(scores))
        weight = _weights_of_rows(documents, query_weight, judged.query(len(scores)))
        if weight is not None:
            present = np.flatnonzero(weight)
            target, scores, weight = target[present], scores[present], weight[present]
        queries = Queries(target, self.label_gain)
        found = queries.ndcg(scores, self.ndcg_at)
        return float(np.average(found, weights=None if weight is None else queries.weights(weight)))


def _weights_of_rows(documents: Array | None, query_weight: Any, query: NDArray[np.intp]) -> Array | None:
    """The weight of each row, from how many documents it stands for and how many times its query is given."""
    if query_weight is None:
        return documents
    given = np.asarray(query_weight)
    n_queries = int(query.max()) + 1
    if given.shape != (n_queries,):
        raise ValueError(f"query_weight must have one weight for each of the {n_queries} queries; got {given.shape}.")
    of_rows = check_weights(given[query], len(query))
    return of_rows if documents is None or of_rows is None else documents * of_rows
