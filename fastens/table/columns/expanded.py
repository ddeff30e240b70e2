"""Columns that become several numeric columns: the words of texts, and the elements of lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest
from typing import Any
from unicodedata import normalize

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm
from fastens.params.options import Texts, is_ngram_range
from fastens.table.columns.factorize import FactorizedColumn, factorize, fault, is_missing, require_state

Floats = NDArray[np.floating]

# Distinct texts that a vocabulary is learned from. The standard error of a term's share of texts is below 0.2 %.
MAX_SAMPLE = 1 << 16
LENGTH = "length"
_WORD = re.compile(r"\b\w\w+\b")  # as in scikit-learn
_LISTS = re.compile(r"(large_|fixed_size_)?list[<(]|array\(")  # types in Arrow, pandas and polars
_BETWEEN_ITEMS = "\x1f"  # the unit separator, which joins lists of strings


class Words:
    """Text column that becomes its length and the counts of its terms.

    Attributes
    ----------
    analyzer : {"word", "char"} or a separator
        Terms are words, character n-grams within words, or the items between separators.
    ngram_range : pair of int
        Minimum and maximum number of words or characters in a term.
    terms : list of str
        The sorted vocabulary.
    """

    def __init__(self, analyzer: str, ngram_range: Sequence[int], terms: Sequence[str] = ()) -> None:
        self.analyzer, self.ngram_range, self.terms = analyzer, tuple(ngram_range), list(terms)
        self._places = {term: position for position, term in enumerate(self.terms)}

    @classmethod
    def learned(cls, options: Texts, texts: Iterable[str]) -> Words:
        """Return a Words of the `options.max_terms` terms that occur in the largest number of texts.

        Ties go to the first term in sorted order.
        """
        empty, text_counts = cls(options.analyzer, options.ngram_range), Counter[str]()
        for text in texts:
            text_counts.update(set(empty.terms_of(text)[1]))
        chosen = nsmallest(options.max_terms, text_counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(options.analyzer, options.ngram_range, sorted(term for term, _ in chosen))

    @property
    def names(self) -> list[str]:
        """Names of the numeric columns."""
        return [LENGTH, *(f'"{term}"' for term in self.terms)]

    def terms_of(self, text: str) -> tuple[int, list[str]]:
        """Return the length of a text in words, characters or items, and its terms."""
        text = text if text.isascii() else normalize("NFKC", text)
        min_size, max_size = self.ngram_range
        if self.analyzer == "char":
            return len(text), list(_iter_char_ngrams(text.lower(), min_size, max_size))
        if self.analyzer != "word":
            items = [item for item in map(str.strip, text.split(self.analyzer)) if item]
            return len(items), items
        words = _WORD.findall(text.lower())
        if max_size == 1:
            return len(words), words
        sizes, n = range(min_size, max_size + 1), len(words)
        return n, [" ".join(words[i : i + size]) for size in sizes for i in range(n - size + 1)]

    def read(self, cells: Sequence[Any], name: str) -> tuple[Floats, sparse.csr_array]:
        """Return the lengths of texts, and the counts of terms of shape (n_rows, n_terms).

        A missing text has length NaN and no terms. Raises ValueError, which names the column by `name`, if a cell is
        not a text or a list of strings.
        """
        lengths, ends, columns, counts = np.full(len(cells), np.nan), [0], list[int](), list[int]()
        for row, text in enumerate(_iter_texts(cells, name)):
            if text is not None:
                lengths[row], terms = self.terms_of(text)
                term_counts = Counter(self._places[term] for term in terms if term in self._places)
                columns.extend(term_counts)
                counts.extend(term_counts.values())
            ends.append(len(columns))
        parts = np.array(counts, dtype=np.float32), np.array(columns, dtype=np.intp), np.array(ends, dtype=np.intp)
        return lengths, sparse.csr_array(parts, shape=(len(cells), len(self.terms)))

    def to_state(self) -> dict[str, Any]:
        """Return the options and the vocabulary as plain values for saving."""
        return {"analyzer": self.analyzer, "ngram_range": list(self.ngram_range), "terms": self.terms}


class Elements:
    """Column of lists of the same length, whose elements become columns."""

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def names(self) -> list[str]:
        """Names of the numeric columns."""
        return list(map(str, range(self.size)))

    def read(self, cells: Sequence[Any], name: str) -> tuple[Floats, Floats]:
        """Return the first elements of lists, of shape (n_rows,), and the others, of shape (n_rows, size - 1).

        All elements of a missing list are NaN. Raises ValueError, which names the column by `name`, if a cell is not a
        list of `size` numbers.
        """
        out = np.full((len(cells), self.size), np.nan)
        for row, cell in enumerate(cells):
            if is_list(cell):
                _check_lengths(name, {self.size, len(cell)})
                out[row] = _list_as_array(cell, name, row)
            elif not is_missing(cell):
                raise fault(name, "lists of numbers", row, cell)
        narrow = out.astype(np.float32)
        values = narrow if np.array_equal(narrow, out, equal_nan=True) else out
        return out[:, 0], values[:, 1:]

    def to_state(self) -> dict[str, Any]:
        """Return the size of the lists as plain values for saving."""
        return {"size": self.size}


Expanded = Words | Elements


def expanded_from(state: Any) -> Expanded:
    """Return the Words or Elements with this state, as `to_state` returns it; raise ValueError if it is malformed."""
    if state.keys() == {"size"} and type(state["size"]) is int and state["size"] > 0:
        return Elements(state["size"])
    terms, sizes = state.get("terms"), state.get("ngram_range")
    require_state(state.keys() == {"analyzer", "ngram_range", "terms"} and isinstance(state["analyzer"], str))
    require_state(bool(state["analyzer"]) and is_ngram_range(sizes) and isinstance(terms, list))
    require_state(all(isinstance(term, str) for term in terms) and sorted(set(terms)) == terms)
    return Words(state["analyzer"], sizes, terms)


# Learning --------------------------------------------------


def learn_expanded(
    table: Any, texts: Mapping[int, Texts], lists: Collection[int], comm: Comm = LOCAL
) -> dict[int, Expanded]:
    """Return the Words or Elements of columns of texts and lists, by column index, from the rows of all ranks.

    Parameters
    ----------
    table : Table
        The table.
    texts : mapping
        Options of the text columns.
    lists : collection of int
        Columns of lists. Lists of strings become the counts of their items.
    comm : Comm
        Ranks that the table is distributed over.
    """
    samples: dict[int, set[str]] = {index: set() for index in [*texts, *lists]}
    sizes: dict[int, set[int]] = {index: set() for index in lists}
    for _, part in table.parts():
        matched = part.matched(table.names)
        for index, distinct_texts in samples.items():
            cells = cells_of(matched.column(index))
            if index in sizes:
                sizes[index].update(len(cell) for cell in cells if is_list(cell) and not _has_strings(cell))
                cells = [cell for cell in cells if is_list(cell) and _has_strings(cell)]
            distinct_texts.update(text for text in _iter_texts(cells, matched.name(index)) if text is not None)
            if len(distinct_texts) > 2 * MAX_SAMPLE:
                samples[index] = sampled(distinct_texts)
    learned: dict[int, Expanded] = {}
    ranks = comm.allgather((samples, sizes))
    for index in sorted(samples):
        sample = sampled(set().union(*(rank_samples[index] for rank_samples, _ in ranks)))
        lengths = set().union(*(rank_sizes[index] for _, rank_sizes in ranks)) if index in sizes else set()
        if index in texts or (sample and lengths <= {0}):
            learned[index] = Words.learned(texts.get(index, Texts(analyzer=_BETWEEN_ITEMS)), sorted(sample))
        elif lengths:
            _check_lengths(table.name(index), lengths)
            learned[index] = Elements(min(lengths))
    return learned


def sampled(texts: set[str]) -> set[str]:
    """Return at most `MAX_SAMPLE` of these texts, chosen by the smallest hashes.

    The sample of a union is the sample of the union of samples, so it does not depend on batches, ranks or the order
    and the number of copies of the rows.
    """
    return texts if len(texts) <= MAX_SAMPLE else set(nsmallest(MAX_SAMPLE, texts, key=_hash_key))


def _hash_key(text: str) -> tuple[bytes, str]:
    """Return the key by which a text is sorted when texts are sampled: its 64-bit hash, then the text itself."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), text


# Cells --------------------------------------------------


def holds_lists(column: Any) -> bool:
    """Return True if the type of a column is a list, or its first object that is not missing is a list."""
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind == "O" and is_list(next((cell for cell in column if not is_missing(cell)), None))
    return _LISTS.match(str(getattr(column, "type", None) if dtype is None else dtype).lower()) is not None


def cells_of(column: Any) -> list[Any]:
    """Return the values of a column (NumPy, narwhals or factorized) as a list of Python objects."""
    if isinstance(column, FactorizedColumn):
        return factorize(column).decoded()
    return column.to_list() if isinstance(column, nw.Series) else column.tolist()


def is_list(cell: Any) -> bool:
    """Return True if a cell is a list of values rather than a single value."""
    return isinstance(cell, list | tuple) or (isinstance(cell, np.ndarray) and cell.ndim == 1)


def _iter_texts(cells: Iterable[Any], name: str) -> Iterator[str | None]:
    """Yield each cell as a text, a list of strings as the joined strings, and a missing value as None.

    Raises ValueError, which names the column by `name` and the row, for other values.
    """
    for row, cell in enumerate(cells):
        if isinstance(cell, str):
            yield cell
        elif is_missing(cell):
            yield None
        elif is_list(cell) and all(isinstance(item, str) or is_missing(item) for item in cell):
            yield _BETWEEN_ITEMS.join(item for item in cell if isinstance(item, str))
        else:
            raise fault(name, "texts", row, cell)


def _has_strings(cell: Sequence[Any]) -> bool:
    """Return True if an item of a list is a string."""
    return any(isinstance(item, str) for item in cell)


def _list_as_array(cell: Sequence[Any], name: str, row: int) -> Floats:
    """Return a list of numbers as an array; raise ValueError that names column `name` and `row` for other lists."""
    try:
        if not _has_strings(cell):
            return np.asarray(cell, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise fault(name, "lists of numbers", row, cell)


def _check_lengths(name: str, lengths: set[int]) -> None:
    """Raise ValueError unless all lists of column `name` have one length, at least 1."""
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(
            f"Column {name} must hold lists of the same length, at least 1; got lengths from {min(lengths)} to "
            f"{max(lengths)}. Pad or truncate the lists."
        )


def _iter_char_ngrams(text: str, min_size: int, max_size: int) -> Iterator[str]:
    """Yield the character n-grams of each word, which is padded with a space on both sides.

    A word that is shorter than an n-gram is yielded once as a whole.
    """
    for word in text.split():
        padded = f" {word} "
        for size in range(min_size, max_size + 1):
            for start in range(max(len(padded) - size, 0) + 1):
                yield padded[start : start + size]
            if size >= len(padded):
                break
