"""Texts of lists, vectors and tables, also of tables that are read in batches; their terms and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from fastens.bayes.counts.memory import TEXTS_AT_ONCE
from fastens.bayes.naive.likelihoods import Array, sums_by_class
from fastens.bayes.naive.moments import add_sparse_sums
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.limits import MAX_INT32
from fastens.engine.parts import RowSource, parts_of
from fastens.engine.whole import are_copies
from fastens.table.columns.factorize import is_missing
from fastens.table.frames import is_frame
from fastens.table.parts import take_rows
from fastens.table.source import TableParts
from fastens.table.sources import Batches


class LabelledTexts(NamedTuple):
    """The classes and weights of texts."""

    y: NDArray[np.int32]
    weight: Array | None
    n_classes: int

    def of(self, rows: slice) -> LabelledTexts:
        """Those of some of them."""
        return self._replace(y=self.y[rows], weight=None if self.weight is None else self.weight[rows])


class TermSums(NamedTuple):
    """What naive Bayes keeps of texts: sums over those of each class, a column for each term of the vocabulary."""

    terms: list[str]
    sums: Array  # how many texts have the term, or how often it comes, times their weights
    class_counts: Array  # of the texts


class CountedTerms(NamedTuple):
    """Different terms of some texts; the texts that have each and how often it comes, shape (2, n_terms)."""

    terms: list[str]
    counts: Array
    n_texts: float


class _Terms:
    """Terms in the order of their first sight, and what is counted of each."""

    def __init__(self, vectorizer: CountVectorizer, *, is_there: bool) -> None:
        self._analyze, self._binary, self._is_there = vectorizer.build_analyzer(), vectorizer.binary, is_there
        self.places: dict[str, int] = {}
        self.counts = np.zeros((2, 0))  # the texts that have it, and how often it comes
        self._n_texts = 0.0

    def rows_of(self, texts: Sequence[str], copies: Array | None) -> sparse.csr_matrix:
        """Count the terms of texts, each so many times; return what naive Bayes adds up of each text and term."""
        found = [Counter(self._analyze(text)) for text in texts]
        columns = np.array([self.places.setdefault(term, len(self.places)) for own in found for term in own], np.int64)
        n_times = np.array([n for own in found for n in own.values()], dtype=np.float64)
        n_times = np.ones_like(n_times) if self._binary else n_times
        times = np.ones(len(found)) if copies is None else copies
        of_terms = np.repeat(times, list(map(len, found)))
        of_batch = np.stack([np.bincount(columns, w, len(self.places)) for w in (of_terms, of_terms * n_times)])
        self.counts = widened(self.counts, len(self.places)) + of_batch
        self._n_texts += float(times.sum())
        ends = np.cumsum([0, *map(len, found)])
        dtype = index_type(max(int(ends[-1]), len(self.places)))
        data = np.ones_like(n_times) if self._is_there else n_times
        return sparse.csr_matrix((data, columns.astype(dtype), ends.astype(dtype)), (len(found), len(self.places)))

    def of_texts(self) -> CountedTerms:
        """What was counted."""
        return CountedTerms(list(self.places), self.counts, self._n_texts)


def index_type(largest: int) -> type[np.signedinteger[Any]]:
    """Return the narrowest type that SciPy has for positions up to the largest."""
    return np.int32 if largest <= MAX_INT32 else np.int64


def widened(sums: NDArray[Any], n_columns: int) -> NDArray[Any]:
    """Sums with room for more columns."""
    return np.pad(sums, ((0, 0), (0, n_columns - sums.shape[1])))


def sum_terms(
    source: RowSource,
    vectorizer: CountVectorizer,
    rows: LabelledTexts,
    *,
    is_there: bool,
    on_terms: Callable[[int], Any],
) -> TermSums:
    """The vocabulary that `fit` of the vectorizer would learn from all texts, and the sums of its terms, in one pass.

    With `is_there` a term counts once in a text, whatever the vectorizer's choice of the most frequent terms. How many
    terms were seen is told to `on_terms` on the way. Whole weights are numbers of copies for the vectorizer too.
    """
    copies = rows._replace(weight=rows.weight if are_copies(rows.weight) else None)
    found = _Terms(vectorizer, is_there=is_there)
    sums = np.zeros((rows.n_classes, 0))
    for start, part in parts_of(source):
        texts = texts_of(part)
        for first in range(0, len(texts), TEXTS_AT_ONCE):
            batch = texts[first : first + TEXTS_AT_ONCE]
            of_batch = slice(start + first, start + first + len(batch))
            counted = found.rows_of(batch, copies.of(of_batch).weight)
            on_terms(counted.shape[1])
            sums = widened(sums, counted.shape[1])
            own = rows.of(of_batch)
            if counted.nnz:
                add_sparse_sums(counted.data, counted.indices, counted.indptr, own.y, own.weight, sums)
    terms = _vocabulary([found.of_texts()], vectorizer)
    places = [found.places[term] for term in terms]
    class_counts = sums_by_class(rows.y, rows.weight, rows.n_classes, LOCAL)
    return TermSums(terms, sums[:, places], class_counts)


class CountedTexts(RowSource):
    """The counts of terms in the texts of a table that is read in batches: a CSR matrix for each batch."""

    has_sparse_parts = True

    def __init__(self, source: Any, vectorizer: CountVectorizer) -> None:
        self._source, self._vectorizer = source, vectorizer
        self.shape = source.shape[0], len(vectorizer.vocabulary)

    def parts(self) -> Iterator[Any]:
        """Yield the counts of each batch."""
        for _, part in parts_of(self._source):
            yield self._vectorizer.transform(texts_of(part, fewest=0)).astype(np.float64)


def learn_terms(texts: Any, weight: Array | None, vectorizer: CountVectorizer, comm: Comm) -> list[str]:
    """The vocabulary that `fit` of the vectorizer would learn from the texts of all ranks, in lists or in batches.

    Whole weights are numbers of copies.
    """
    found = _Terms(vectorizer, is_there=False)
    copies = weight if all(comm.gather(are_copies(weight))) else None
    for start, part in parts_of(texts) if isinstance(texts, RowSource) else [(0, texts)]:
        own = texts_of(part, fewest=0)
        found.rows_of(own, None if copies is None else copies[start : start + len(own)])
    return _vocabulary(comm.gather(found.of_texts()), vectorizer)


def _vocabulary(of_ranks: list[CountedTerms], vectorizer: CountVectorizer) -> list[str]:
    """The terms that the vectorizer keeps, sorted."""
    with needing_words():
        terms = sorted({term for own in of_ranks for term in own.terms})
        if not terms:
            raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
        counts = np.zeros((2, len(terms)))
        place = {term: position for position, term in enumerate(terms)}
        for own in of_ranks:
            counts[:, [place[term] for term in own.terms]] += own.counts
        kept = _kept(counts, sum(own.n_texts for own in of_ranks), vectorizer)
        return [terms[place] for place in np.flatnonzero(kept)]


def _kept(counts: Array, n_texts: float, vectorizer: CountVectorizer) -> NDArray[np.bool_]:
    """Which terms `min_df`, `max_df` and `max_features` leave, from the texts they are in and how often they come."""
    ends = vectorizer.min_df, vectorizer.max_df
    least, most = (end if isinstance(end, Integral) else end * n_texts for end in ends)
    if most < least:
        raise ValueError("max_df corresponds to < documents than min_df")
    kept = (counts[0] >= least) & (counts[0] <= most)
    limit = vectorizer.max_features
    if limit is not None and kept.sum() > limit:
        best = np.flatnonzero(kept)[(-counts[1][kept].astype(np.int64)).argsort()[:limit]]  # as it does
        kept = np.zeros_like(kept)
        kept[best] = True
    if not kept.any():
        raise ValueError("After pruning, no terms remain. Try a lower min_df or a higher max_df.")
    return kept


@contextmanager
def needing_words() -> Iterator[None]:
    """Within it, an error of a vocabulary that is empty says what texts must hold."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            "X must hold texts with words of at least two letters or digits that stop_words, min_df and max_df leave: "
            f"{error}"
        ) from error


def take_texts(texts: Any, rows: NDArray[np.intp]) -> Any:
    """Some of the texts of a list or of a table in batches."""
    return take_rows(texts, rows) if isinstance(texts, RowSource) else [texts[row] for row in rows]


def name_of_texts(X: Any) -> str | None:
    """The name of the column of texts of a table of one column that has one."""
    if isinstance(X, Batches | TableParts):
        names = list(X.columns or ())
    else:
        names = nw.from_native(X, eager_only=True).columns if is_frame(X) else []
    return names[0] if names and isinstance(names[0], str) else None


def texts_of(X: Any, fewest: int = 1, name: str | None = None) -> Any:
    """The texts of a list, a vector, or a table of one column, missing ones empty; one in batches stays as it is.

    A table may have further columns beside that of the name.
    """
    if isinstance(X, str):
        raise ValueError(f"X must be a list of texts; got one text, {X[:40]!r}.")
    if isinstance(X, Mapping | set | frozenset):  # whose keys are no rows, or in no order
        raise ValueError(f"X must be a list of texts, or a table of one column; got a {type(X).__name__}.")
    if isinstance(X, Batches | TableParts):
        _check_one_column(X.columns or list(range(X.shape[1])))
        return X
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        if name is None or name not in frame.columns:
            _check_one_column(frame.columns)
            name = frame.columns[0]
        X = frame.get_column(name).to_list()
    elif hasattr(X, "shape") and len(X.shape) == 2:
        if X.shape[1] != 1:
            raise ValueError(f"X must be one column of texts; got {X.shape[1]} columns.")
        X = np.asarray(X)[:, 0]
    elif hasattr(X, "to_pylist"):  # a column of Arrow
        X = X.to_pylist()
    elif not np.iterable(X):
        raise ValueError(f"X must be a list of texts; got {X!r}.")
    texts = ["" if is_missing(text) else text for text in X]
    _check_texts(texts, fewest)
    return texts


def _check_texts(texts: list[Any], fewest: int) -> None:
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X must hold texts; row {row} holds {text!r}.")
    if len(texts) < fewest:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def _check_one_column(names: list[str]) -> None:
    if len(names) != 1:
        raise ValueError(f"X must be one column of texts; got the {len(names)} columns {names}.")
