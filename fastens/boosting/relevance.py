"""Relevance labels: how relevant documents are to their queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, first_row, max_floats
from fastens.table.columns.factorize import is_missing
from fastens.table.columns.vectors import unmasked
from fastens.table.sample_weights import check_weights, weights_to_count

Array = NDArray[np.float64]

# 2**relevance must leave room for sums.
MOST_RELEVANCE = 64.0


@dataclass(frozen=True)
class RelevanceLabels:
    """The target of a ranker: relevance, query and weight of each document."""

    relevance: Any
    qid: Any
    group: Any
    documents: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the relevance."""
        return np.shape(self.relevance)

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, comm: Comm = LOCAL) -> Array:
        """As columns (relevance, index of the query among those of all ranks, weight of the document)."""
        relevance = unmasked(self.relevance, "y")
        if relevance.ndim == 2 and relevance.shape[1] == 1:
            relevance = relevance[:, 0]
        if relevance.ndim != 1:
            raise ValueError(f"y must have one relevance for each row; got shape {relevance.shape}.")
        n_rows = len(relevance)
        documents = np.ones(n_rows) if self.documents is None else self.documents
        if not documents.all():
            relevance = np.where(documents > 0, relevance, 0)  # whatever rows of weight 0 have
        query = self.number_of_all(n_rows, comm)
        return np.column_stack([_numbers(relevance), query, documents])

    def number_of_all(self, n_rows: int, comm: Comm) -> NDArray[np.intp]:
        """The index of each row's query among those of all ranks; ValueError, on all, where two have the same."""
        query = self.query(n_rows)
        if comm.size == 1:
            return query
        if self.group is not None:
            first, _ = first_row(comm, len(self.group))
            return query + first
        own = _sorted(_labels(self.qid))[0]
        labels, places = _sorted(np.concatenate(comm.gather(own)))
        is_shared = np.bincount(places) > 1
        if is_shared.any():
            first_shared = labels[is_shared][:1].tolist()[0]
            raise ValueError(f"A query must have all of its rows on one rank; {first_shared!r} has them on several.")
        found: NDArray[np.intp] = np.searchsorted(labels, own)[query]
        return found

    def query(self, n_rows: int) -> NDArray[np.intp]:
        """The index of each row's query; ValueError where no queries are given."""
        if self.qid is not None and self.group is not None:
            raise ValueError("qid and group must not be given together; they hold the same information.")
        if self.group is not None:
            return _query_of_sizes(self.group, n_rows)
        if self.qid is None:
            raise ValueError(
                "qid must be given, the query of each row, or group, the number of rows of each query, by keyword; the "
                "third argument is sample_weight. If all rows belong to one query, pass group=[len(X)]."
            )
        qid = _labels(self.qid)
        if qid.shape != (n_rows,):
            raise ValueError(f"qid must have a query for each of the {n_rows} rows; got shape {qid.shape}.")
        return _sorted(qid)[1]


def _labels(qid: Any) -> NDArray[Any]:
    """Those of queries; ValueError where one is missing."""
    labels = unmasked(qid, "qid")
    kind = labels.dtype.kind
    if kind in "fOmM":
        missing = np.array([is_missing(x) for x in labels.flat], bool) if kind == "O" else np.isnan(labels)
        if missing.any():
            raise ValueError(f"qid must have no missing values; that of row {missing.argmax()} is missing.")
    return labels


def _sorted(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The labels of queries in order, and the place of each row's among them."""
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels.flat}))
        raise ValueError(f"qid must hold labels of one kind, which have an order; it holds {kinds}.") from error


def _numbers(relevance: NDArray[Any]) -> Array:
    if relevance.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y must hold real numbers; it holds {relevance.dtype}.")
    try:
        found = relevance.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers: {error}") from error
    if relevance.dtype.kind in "US":
        raise ValueError(f"y must hold real numbers; it holds {relevance.dtype}.")
    if not np.isfinite(found).all():
        raise ValueError("Input y contains " + ("NaN." if np.isnan(found).any() else "infinity."))
    if found.size and (found.min() < 0 or found.max() > MOST_RELEVANCE):
        raise ValueError(
            f"y must hold relevances from 0 to {MOST_RELEVANCE:g}; it goes from {found.min()} to {found.max()}."
        )
    return found


def _query_of_sizes(group: Any, n_rows: int) -> NDArray[np.intp]:
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu":
        got = f"{sizes.dtype} of shape {sizes.shape}"
    elif (sizes < 1).any():
        got = f"a size of {sizes.min()}"
    elif sizes.sum() != n_rows:
        got = f"{len(sizes)} sizes with the sum {sizes.sum()}"
        got += " (qid takes the query of each row)" if len(sizes) == n_rows else ""
    else:
        return np.repeat(np.arange(len(sizes)), sizes)
    raise ValueError(
        f"group must hold the number of rows of each query, whole numbers above 0, {n_rows} in all, the rows of a "
        f"query one after another; got {got}."
    )


def check_weights_of_rows(sample_weight: Any, n_rows: int, qid: Any, group: Any) -> None:
    """Raise ValueError for weights of queries, as XGBoost takes them, in place of those of rows."""
    weights = np.asarray(sample_weight)
    if weights.ndim != 1 or len(weights) == n_rows:
        return
    n_queries = len(np.unique(RelevanceLabels(None, qid, group).query(n_rows)))
    if len(weights) == n_queries > 1:
        raise ValueError(
            f"sample_weight must have one weight for each of the {n_rows} rows; got one for each of the {n_queries} "
            "queries, which query_weight takes."
        )


def row_weights(
    labels: RelevanceLabels, n_rows: int, query_weight: Any, weight_type: str, comm: Comm = LOCAL
) -> Array | None:
    """The weight of each row: that of the document times that of its query, of which there are those of all ranks."""
    documents = labels.documents
    if query_weight is None:
        return documents
    given, query = unmasked(query_weight, "query_weight"), labels.number_of_all(n_rows, comm)
    n_queries = 1 + int(max_floats(comm, float(query.max(initial=-1)))[0])
    if given.shape != (n_queries,):
        raise ValueError(f"query_weight must have one weight for each of the {n_queries} queries; got {given.shape}.")
    of_rows = check_weights(given[query], len(query), comm, "query_weight")
    of_rows = weights_to_count(of_rows, weight_type, comm, "query_weight", is_fit=False)
    return of_rows if documents is None or of_rows is None else documents * of_rows
