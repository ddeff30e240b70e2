"""Learning to rank by gradient boosting: LambdaMART and relevance labels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from fastens.base import Capabilities
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.fit_arguments import predicted_to_score
from fastens.boosting.rounds import Rounds
from fastens.engine.comm import LOCAL, Comm, first_row, max_floats
from fastens.engine.losses.losses import Loss
from fastens.engine.losses.ranking_loss import POSITION, QUERY, LambdaRank, RankingOptions
from fastens.modelfile.saving import SavedParts, attributes
from fastens.monitoring.metrics import OwnMetric, metrics_rule
from fastens.params.estimator import with_parameters
from fastens.params.options import Goss, LambdaRankLoss, Mvs, record
from fastens.params.rules import NONE, one_of, parameter, whole
from fastens.params.types import RandomState
from fastens.table.columns.factorize import is_missing
from fastens.table.columns.numbers import unmasked
from fastens.table.training_data import check_same_rows, check_weights, weights_to_count

Array = NDArray[np.float64]

# Sums of gains, 2**relevance, must not overflow.
MAX_RELEVANCE = 64.0
MAX_POSITION = 9999


@dataclass(frozen=True)
class RelevanceLabels:
    """Ranking targets: the relevance, query, weight and optionally the shown position of each document."""

    relevance: Any
    qid: Any
    group: Any
    documents: Array | None = None
    position: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the relevance."""
        return np.shape(self.relevance)

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, comm: Comm = LOCAL) -> Array:
        """Return the columns relevance, global query index and document weight, and position if it is passed.

        Raise ValueError for invalid labels, queries or positions.
        """
        relevance = unmasked(self.relevance, "y")
        if relevance.ndim == 2 and relevance.shape[1] == 1:
            relevance = relevance[:, 0]
        if relevance.ndim != 1:
            raise ValueError(f"y must have one relevance label for each row; got shape {relevance.shape}.")
        n_rows = len(relevance)
        documents = np.ones(n_rows) if self.documents is None else self.documents
        if not documents.all():
            relevance = np.where(documents > 0, relevance, 0)  # rows of weight 0 may have any relevance
        query = self.global_query(n_rows, comm)
        columns = [_checked_relevance(relevance), query, documents]
        return np.column_stack(
            columns if self.position is None else [*columns, _checked_positions(self.position, documents)]
        )

    def global_query(self, n_rows: int, comm: Comm) -> NDArray[np.intp]:
        """Return the index of each row's query among all ranks' queries; raise ValueError if ranks share one."""
        query = self.query(n_rows)
        if comm.size == 1:
            return query
        if self.group is not None:
            first, _ = first_row(comm, len(self.group))
            return query + first
        local_labels = _unique_labels(_read_query_labels(self.qid))[0]
        labels, label_index = _unique_labels(np.concatenate(comm.allgather(local_labels)))
        is_shared = np.bincount(label_index) > 1
        if is_shared.any():
            first_shared = labels[is_shared][:1].tolist()[0]
            raise ValueError(
                f"qid must keep all rows of a query on one rank; query {first_shared!r} is on "
                "several. Repartition the table by query."
            )
        global_query: NDArray[np.intp] = np.searchsorted(labels, local_labels)[query]
        return global_query

    def query(self, n_rows: int) -> NDArray[np.intp]:
        """Return the index of each row's query on this rank; raise ValueError unless one of qid and group is valid."""
        if self.qid is not None and self.group is not None:
            raise ValueError("qid and group must not be passed together, because they hold the same information.")
        if self.group is not None:
            return _queries_from_sizes(self.group, n_rows)
        if self.qid is None:
            raise ValueError(
                "qid (the query of each row) or group (the number of rows of each query) must be passed by keyword; "
                "the third positional argument is sample_weight. If all rows belong to one query, pass group=[len(X)]."
            )
        qid = _read_query_labels(self.qid)
        if qid.shape != (n_rows,):
            raise ValueError(f"qid must have one query for each of the {n_rows} rows; got shape {qid.shape}.")
        return _unique_labels(qid)[1]


def _read_query_labels(qid: Any) -> NDArray[Any]:
    """Return the argument `qid`, each row's query label, as an array; raise ValueError for missing values."""
    labels = unmasked(qid, "qid")
    kind = labels.dtype.kind
    if kind in "fOmM":
        missing = np.array([is_missing(x) for x in labels.flat], bool) if kind == "O" else np.isnan(labels)
        if missing.any():
            raise ValueError(f"qid must not have missing values; row {missing.argmax()} has one.")
    return labels


def _unique_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted unique query labels, and each row's index in them; raise ValueError for mixed types."""
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels.flat}))
        raise ValueError(f"qid must hold labels of one sortable type; got {kinds}.") from error


def _checked_relevance(relevance: NDArray[Any]) -> Array:
    """Return the relevance labels as floats; raise ValueError unless they are from 0 to MAX_RELEVANCE."""
    if relevance.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y must hold real numbers; it holds {relevance.dtype}.")
    try:
        values = relevance.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers: {error}") from error
    if relevance.dtype.kind in "US":
        raise ValueError(f"y must hold real numbers; it holds {relevance.dtype}.")
    if not np.isfinite(values).all():
        raise ValueError("Input y contains " + ("NaN." if np.isnan(values).any() else "infinity."))
    if values.size and (values.min() < 0 or values.max() > MAX_RELEVANCE):
        raise ValueError(
            f"y must hold relevance labels from 0 to {MAX_RELEVANCE:g}; got {values.min()} to {values.max()}."
        )
    return values


def _checked_positions(position: Any, documents: Array) -> Array:
    """Return the documents' positions as floats, 0 where the weight in `documents` is 0.

    Raise ValueError unless they are whole numbers from 0 to MAX_POSITION.
    """
    positions = unmasked(position, "position")
    if positions.shape != documents.shape or positions.dtype.kind not in "iuf":
        got = f"{positions.dtype} of shape {positions.shape}"
        raise ValueError(f"position must hold a number for each of the {len(documents)} rows; got {got}.")
    positions = np.where(documents > 0, positions, 0).astype(np.float64)  # rows of weight 0 may have any position
    is_wrong = ~((positions >= 0) & (positions <= MAX_POSITION) & (positions == np.floor(positions)))
    if is_wrong.any():
        raise ValueError(f"position must hold whole numbers from 0 to {MAX_POSITION}; got {positions[is_wrong][0]}.")
    return positions


def _queries_from_sizes(group: Any, n_rows: int) -> NDArray[np.intp]:
    """Return each row's query index from `group`, the numbers of rows of consecutive queries.

    Raise ValueError unless they are positive integers that sum to `n_rows`.
    """
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu":
        got = f"{sizes.dtype} of shape {sizes.shape}"
    elif (sizes < 1).any():
        got = f"a size of {sizes.min()}"
    elif sizes.sum() != n_rows:
        got = f"{len(sizes)} sizes with the sum {sizes.sum()}"
        got += " (pass the query of each row as qid)" if len(sizes) == n_rows else ""
    else:
        return np.repeat(np.arange(len(sizes)), sizes)
    raise ValueError(
        f"group must hold the number of rows of each query, positive integers that sum to {n_rows}, with the "
        f"rows of a query next to each other; got {got}."
    )


def check_weights_of_rows(sample_weight: Any, n_rows: int, qid: Any, group: Any) -> None:
    """Raise ValueError if `sample_weight` has one weight per query, as in XGBoost, instead of one per row."""
    weights = np.asarray(sample_weight)
    if weights.ndim != 1 or len(weights) == n_rows:
        return
    n_queries = len(np.unique(RelevanceLabels(None, qid, group).query(n_rows)))
    if len(weights) == n_queries > 1:
        raise ValueError(
            f"sample_weight must have one weight for each of the {n_rows} rows; got one for each of the "
            f"{n_queries} queries. Pass query weights as query_weight."
        )


def row_weights(
    labels: RelevanceLabels, n_rows: int, query_weight: Any, weight_type: str, comm: Comm = LOCAL
) -> Array | None:
    """Return the product of document and query weight for each row; None without weights.

    `query_weight` has a weight for each query of all ranks, or is None. Raise ValueError for a wrong number of weights.
    """
    documents = labels.documents
    if query_weight is None:
        return documents
    query_weights, query = unmasked(query_weight, "query_weight"), labels.global_query(n_rows, comm)
    n_queries = 1 + int(max_floats(comm, float(query.max(initial=-1)))[0])
    if query_weights.shape != (n_queries,):
        raise ValueError(
            f"query_weight must have one weight for each of the {n_queries} queries; got shape {query_weights.shape}."
        )
    of_rows = check_weights(query_weights[query], len(query), comm, "query_weight")
    of_rows = weights_to_count(of_rows, weight_type, comm, "query_weight", is_fit=False)
    return of_rows if documents is None or of_rows is None else documents * of_rows


# Names of metrics, with an optional cutoff.
_METRIC = re.compile(r"(ndcg|map)(?:@([1-9]\d*))?")
METRICS = metrics_rule(
    "'ndcg' or 'map', with an optional '@' and number of positions", lambda name: bool(_METRIC.fullmatch(name))
)


class QueryArguments(TypedDict, total=False):
    """Keyword arguments that describe the queries of the rows."""

    qid: ArrayLike | None
    group: ArrayLike | None
    query_weight: ArrayLike | None


@with_parameters
class GradientBoostingRanker(BoostedTrees):
    """Gradient boosting for learning to rank: LambdaMART, RankNet and XE-NDCG.

    Trees are fitted to pairwise gradients of the documents of a query. By default, a pair is weighted by how much the
    normalised discounted cumulative gain (NDCG) would change if its two documents swapped positions. Documents with
    tied scores share their positions, so the model does not depend on the order of the rows.

    `eval_metric` accepts "loss", "ndcg" and "map" (mean average precision), the latter two also with a
    cutoff ("ndcg@5"), and functions of (y, scores), where the columns of y are the relevance and the index of the
    query.

    Parameters
    ----------
    loss : {"lambdarank", "map", "pairwise", "xendcg"} or LambdaRankLoss, default="lambdarank"
        Loss to minimise. "lambdarank" and "map" weight pairs by the change of NDCG and of the mean average precision;
        "pairwise" gives all pairs the same weight (RankNet), and "xendcg" minimises a cross entropy that bounds NDCG.
        `LambdaRankLoss` has options for the pairs and their weights.
    sampling : "uniform", "queries", "goss", "mvs", Goss or Mvs, default="uniform"
        Row sampling method. "uniform" draws rows, "queries" draws whole queries with the probability `subsample`, and
        "goss" and "mvs" sample by the gradients of the rows (see `Goss` and `Mvs`).
    ndcg_at : int or None, default=10
        Number of top positions that count in `score`, in `evals_result_` and for early stopping. If None, all positions
        count.
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Burges (2010), "From RankNet to LambdaRank to LambdaMART: an overview", sections 4 and 7; Bruch, Wang, Bendersky &
    Najork (2019), "An alternative cross entropy loss for learning-to-rank"; Hu, Wang, Peng & Li (2019), "Unbiased
    LambdaMART", for clicks with positions.

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

    _capabilities = Capabilities(supports_distributed_fit=True)
    _metrics_rule: ClassVar = METRICS
    _query_column = QUERY
    # scikit-learn's metadata routing cannot find these names in the signature, which has only ``**queries``.
    __metadata_request__score: ClassVar = {"qid": None, "group": None, "query_weight": None}

    loss: str | LambdaRankLoss = parameter(
        one_of("lambdarank", "pairwise", "map", "xendcg") | record(LambdaRankLoss), default="lambdarank", kw_only=False
    )
    ndcg_at: int | None = parameter(whole(1) | NONE, default=10)
    sampling: str | Goss | Mvs = parameter(
        one_of("uniform", "queries", "goss", "mvs") | record(Goss, Mvs), default="uniform"
    )
    oob_prediction_: Array = field(init=False)
    # Biases of the positions, before the first round and after each round; empty without positions.
    _position_biases: Any = field(init=False, default=())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = tags.target_tags.required = True
        return tags

    def fit(  # type: ignore[override]  # queries have no place in `eval_set`
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
        group_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        init_score: ArrayLike | None = None,
        init_score_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        position: ArrayLike | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> GradientBoostingRanker:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NumPy array, pandas, polars or Arrow table, or SciPy sparse matrix. NaN and None are missing values.
        y : array of shape (n_samples,)
            Non-negative relevance of each row for its query. Larger values are more relevant.
        sample_weight : array of shape (n_samples,), optional
            Weight of each row. A weight of 2 counts as two copies of the row in its query, and 0 removes the row.
        X_val, y_val : table and array, optional
            Validation set for early stopping. If None and early stopping is on, a fraction of the queries is held out.
        qid : array of shape (n_samples,), optional
            Query of each row. Labels may be of any type and in any order. Either `qid` or `group` is required.
        group : array of shape (n_queries,), optional
            Number of rows of each query, if the rows of each query are consecutive. Replaces `qid`.
        query_weight : array of shape (n_queries,), optional
            Weight of each query, in the order of `group` or of the sorted labels of `qid`. A weight of 2 counts as two
            copies of the query, and 0 removes the query.
        qid_val, group_val : arrays, optional
            Queries of the validation set.
        sample_weight_val : array, optional
            Sample weights of the validation set.
        init_score, init_score_val : arrays of shape (n_samples,), optional
            Scores to start from, for X and X_val. Pass the scores of new rows to `predict`.
        groups : array of shape (n_samples,), optional
            Groups for the `EarlyStopping.validation` splitter. If None, the queries are the groups.
        position : array of shape (n_samples,), optional
            If y holds clicks, the position at which each row was shown, such as 1 for the top of the list: a whole
            number from 0 to 9999. A bias of each position is learned and is added to the scores during training, so
            that the trees rank by relevance alone. If None, y is taken to be independent of the position.
        resume : path, optional
            File written by a `Checkpoint`. Training continues from there.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If neither `qid` nor `group` is passed, or if rows, queries, positions and weights are inconsistent.
        """
        if position is not None and self._stopping.folds is not None:
            raise ValueError(
                "position must be None with early_stopping.folds, because the model of each fold has its own biases."
            )
        if (X_val is not None) != (qid_val is not None or group_val is not None):
            raise ValueError("qid_val or group_val must be passed with X_val, and only with it.")
        comm = self._comm
        labels, sample_weight = self._target(
            y, sample_weight, comm, is_fit=True, qid=qid, group=group, query_weight=query_weight
        )
        if labels is not None:
            labels = replace(labels, position=position)
        validation, sample_weight_val = self._target(y_val, sample_weight_val, comm, qid=qid_val, group=group_val)
        super().fit(
            X,
            labels,
            sample_weight,
            X_val=X_val,
            y_val=validation,
            sample_weight_val=sample_weight_val,
            init_score=init_score,
            init_score_val=init_score_val,
            groups=groups,
            resume=resume,
        )
        return self

    def refit_leaves(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        decay_rate: float = 0.9,
        init_score: ArrayLike | None = None,
        **queries: Unpack[QueryArguments],
    ) -> Self:
        """Return a copy of the model with leaf values updated on new rows; the model itself is unchanged.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        decay_rate : float, default=0.9
            Weight of the old leaf values, between 0 and 1. Larger values change the model less.
        init_score : array of shape (n_samples,), optional
            As in `fit`.
        **queries
            `qid` or `group`, and `query_weight`, as in `fit`.
        """
        labels, sample_weight = self._target_of_method("refit_leaves", y, sample_weight, queries)
        return super().refit_leaves(X, labels, sample_weight, decay_rate=decay_rate, init_score=init_score)

    def permutation_importance(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        n_repeats: int = 5,
        random_state: RandomState = None,
        **queries: Unpack[QueryArguments],
    ) -> Bunch:
        """Return the decrease of `score` when the values of each feature are shuffled among the rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        n_repeats : int, default=5
            Number of shuffles of each feature.
        random_state : int, RandomState or None, default=None
            Seed of the shuffles. If None, the shuffles differ between calls.
        **queries
            `qid` or `group`, and `query_weight`, as in `fit`.
        """
        labels, sample_weight = self._target_of_method("permutation_importance", y, sample_weight, queries)
        return super().permutation_importance(X, labels, sample_weight, n_repeats=n_repeats, random_state=random_state)

    def _target(
        self,
        y: Any,
        sample_weight: Any,
        comm: Comm = LOCAL,
        *,
        is_fit: bool = False,
        query_weight: Any = None,
        **of_rows: Any,
    ) -> tuple[Any, Any]:
        """Return y as `RelevanceLabels`, and the product of document and query weights; y and the weights if y is None.

        `of_rows` holds `qid` or `group`. Raise ValueError for invalid weights.
        """
        if y is None:
            return None, sample_weight
        n_rows = np.size(np.asarray(y))
        labels = RelevanceLabels(y, of_rows.get("qid"), of_rows.get("group"))
        check_weights_of_rows(sample_weight, n_rows, labels.qid, labels.group)
        documents = check_weights(sample_weight, n_rows, comm)
        labels = replace(labels, documents=weights_to_count(documents, self.weight_type, comm, is_fit=is_fit))
        return labels, row_weights(labels, n_rows, query_weight, self.weight_type, comm)

    def _weights_to_count(self, weight: Array | None, *, is_fit: bool = False) -> Array | None:
        """Return the weights unchanged, because `_target` has already applied `weight_type` to them."""
        return weight  # `_target` has already converted the weights of documents and queries

    def _target_of_method(self, method: str, y: Any, sample_weight: Any, queries: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the result of `_target` for the keyword arguments `queries` of the public method named `method`.

        Raise TypeError for a keyword argument that is unknown.
        """
        for name in queries:
            if name not in QueryArguments.__annotations__:
                raise TypeError(f"{type(self).__name__}.{method}() got an unexpected keyword argument {name!r}.")
        return self._target(y, sample_weight, **queries)

    # Hooks of the base class --------------------------------------------------

    def _read_target(self, y: Any) -> NDArray[Any]:
        """Return the columns of `RelevanceLabels.read`; raise ValueError for a plain y, which has no queries."""
        labels = y if isinstance(y, RelevanceLabels) else RelevanceLabels(y, None, None)
        return labels.read(self._comm)

    def _labels_of_targets(self, y: Array) -> Array:
        """Return only the columns relevance and query index of an encoded target, as metric functions receive them."""
        return y[:, : QUERY + 1]

    def _get_loss(self) -> LambdaRank:
        """Return the ranking loss that the parameters `loss` and `ndcg_at` describe."""
        options = self._options("loss")
        loss_options = {"metric": "xendcg"} if options is None else options.get_params()
        return LambdaRank(RankingOptions(self.ndcg_at, **loss_options))

    def _own_metric(self, name: str, loss: Loss) -> OwnMetric:
        """Return the function of scored rows for the metric `name`, NDCG or average precision, such as "ndcg@10"."""
        kind, cutoff = _METRIC.fullmatch(name).groups()  # type: ignore[union-attr]  # the rule of eval_metric
        at, ranking_loss = None if cutoff is None else int(cutoff), cast(LambdaRank, loss)
        measure = ranking_loss.ndcg if kind == "ndcg" else ranking_loss.average_precision
        return lambda rows: measure(rows.y, rows.raw, rows.weight, at)

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Array:
        """Return the ranking score of each row.

        Rows with higher scores rank first. Scores are comparable only within a query.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        init_score : array of shape (n_samples,), optional
            Scores to add to the model's scores.
        """
        return self._response("predict", self._raw_from(X, init_score))

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
        **queries: Unpack[QueryArguments],
    ) -> float:
        """Return the mean NDCG of the queries at `ndcg_at`.

        Rows with tied scores share the mean discount of their positions. A query without relevant rows counts as 1.

        Parameters
        ----------
        X, y, sample_weight, init_score
            As in `fit`.
        **queries
            `qid` or `group`, and `query_weight`, as in `fit`.
        """
        labels, weight = self._target_of_method("score", y, sample_weight, queries)
        return self._score_of(labels, predicted_to_score(self, X, init_score, weight), weight)

    def staged_score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
        **queries: Unpack[QueryArguments],
    ) -> Iterator[float]:
        """Yield the `score` of the model after each round.

        Parameters
        ----------
        X, y, sample_weight, init_score
            As in `fit`.
        **queries
            `qid` or `group`, and `query_weight`, as in `fit`.
        """
        labels, weight = self._target_of_method("staged_score", y, sample_weight, queries)
        return super().staged_score(X, labels, weight, init_score=init_score)

    def _continue_loss(self, rounds: Rounds, earlier: Any) -> None:
        """Copy position biases from the fit `earlier`; raise ValueError if only one of the fits has positions."""
        earlier_biases, has_positions = earlier._position_biases, rounds.train.y.shape[1] > POSITION
        if (len(earlier_biases) > 0) != has_positions:
            rule = "given" if len(earlier_biases) else "None"
            raise ValueError(f"position must be {rule}, as in the fit that this one continues.")
        cast(LambdaRank, rounds.loss).position_biases = list(earlier_biases)

    def _learn_from_rounds(self, rounds: Rounds, n_rounds: int) -> None:
        """Set the position biases learned in the first `n_rounds` rounds."""
        biases = getattr(rounds.loss, "position_biases", ())[: n_rounds + 1]  # models averaged over folds have none
        self._delete("_position_biases")
        if len(biases):
            self._position_biases = np.array(biases)

    _saved: ClassVar[SavedParts] = (attributes("_position_biases", key="fitted.position_biases"),)

    @property
    def position_bias_(self) -> Array:
        """The learned bias of each position from 0 on, as a difference of scores to the first position with rows.

        The bias of positions without rows is 0. Raises AttributeError if the model was fitted without `position`.
        """
        if not len(self._position_biases):
            raise AttributeError("position_bias_ is only learned if fit gets the position of each row.")
        return cast(Array, self._position_biases[-1])

    def _score_of(self, y: Any, predicted: Array, sample_weight: Any) -> float:
        """Return the mean NDCG of predicted scores, without rows of weight 0."""
        self._check_target_given(y)
        target = y.read()
        check_same_rows(len(predicted), len(target))
        if sample_weight is not None:
            present = np.flatnonzero(sample_weight)
            target, predicted, sample_weight = target[present], predicted[present], sample_weight[present]
        return self._score_of_raw(predicted[:, None], target, sample_weight)

    def _score_of_raw(self, raw: Array, y: Array, weight: Array | None) -> float:
        """Return the mean NDCG of raw predictions, (n_rows, 1), at `ndcg_at`."""
        return self._get_loss().ndcg(y, np.ascontiguousarray(raw.T), weight, self.ndcg_at)
