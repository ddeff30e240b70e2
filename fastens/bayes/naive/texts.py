"""Texts of lists, vectors and tables, also of tables that are read in batches; their terms and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from fastens.engine.comm import Comm
from fastens.engine.parts import RowSource, parts_of
from fastens.table.columns.factorize import is_missing
from fastens.table.parts import take_rows
from fastens.table.source import TableParts
from fastens.table.sources import Batches
from fastens.table.tables import is_frame


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


def learn_terms(texts: Any, vectorizer: CountVectorizer, comm: Comm) -> list[str]:
    """The vocabulary that `fit` of the vectorizer would learn from the texts of all ranks, in lists or in batches."""
    analyze = vectorizer.build_analyzer()
    n_texts: Counter[str] = Counter()
    n_times: Counter[str] = Counter()
    for part in (part for _, part in parts_of(texts)) if isinstance(texts, RowSource) else [texts]:
        for text in texts_of(part, fewest=0):
            found = Counter(analyze(text))
            n_texts.update(found.keys())
            n_times.update(found.keys() if vectorizer.binary else found)
    n_rows = len(texts)
    if comm.size > 1:
        of_ranks = comm.gather((n_texts, n_times, n_rows))
        n_texts, n_times = (sum((found[which] for found in of_ranks), Counter()) for which in (0, 1))
        n_rows = sum(found[2] for found in of_ranks)
    with needing_words():
        terms = sorted(n_texts)
        if not terms:
            raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
        counts = np.array([[n_texts[term], n_times[term]] for term in terms]).T
        return [terms[place] for place in np.flatnonzero(_kept(counts, n_rows, vectorizer))]


def _kept(counts: NDArray[np.int64], n_texts: int, vectorizer: CountVectorizer) -> NDArray[np.bool_]:
    """Which terms `min_df`, `max_df` and `max_features` leave, from the texts they are in and how often they come."""
    ends = vectorizer.min_df, vectorizer.max_df
    least, most = (end if isinstance(end, Integral) else end * n_texts for end in ends)
    if most < least:
        raise ValueError("max_df corresponds to < documents than min_df")
    kept = (counts[0] >= least) & (counts[0] <= most)
    limit = vectorizer.max_features
    if limit is not None and kept.sum() > limit:
        best = np.flatnonzero(kept)[(-counts[1][kept]).argsort()[:limit]]
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


def texts_of(X: Any, fewest: int = 1) -> Any:
    """The texts of a list, a vector, or a table of one column, missing ones empty; one in batches stays as it is."""
    if isinstance(X, str):
        raise ValueError(f"X must be a list of texts; got one text, {X[:40]!r}.")
    if isinstance(X, Batches | TableParts):
        _check_one_column(X.columns)
        return X
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        _check_one_column(frame.columns)
        X = frame.get_column(frame.columns[0]).to_list()
    elif hasattr(X, "shape") and len(X.shape) == 2:
        if X.shape[1] != 1:
            raise ValueError(f"X must be one column of texts; got {X.shape[1]} columns.")
        X = np.asarray(X)[:, 0]
    elif not isinstance(X, Iterable):
        raise ValueError(f"X must be a list of texts; got {X!r}.")
    texts = ["" if is_missing(text) else text for text in X]
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X must hold texts; row {row} holds {text!r}.")
    if len(texts) < fewest:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return texts


def _check_one_column(names: list[str]) -> None:
    if len(names) != 1:
        raise ValueError(f"X must be one column of texts; got the {len(names)} columns {names}.")
