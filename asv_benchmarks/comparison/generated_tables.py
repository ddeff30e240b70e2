"""Sparse and wide tables that are generated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.sparse as sp


def tfidf(n_rows: int = 18_846, n_columns: int = 50_000) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of length 1 of log counts times log inverse document frequencies; the class follows from all words."""
    rng = np.random.default_rng(0)
    chances = 1 / (np.arange(n_columns) + 10.0)
    n_words = rng.poisson(144, n_rows) + 5
    words = rng.choice(n_columns, n_words.sum(), p=chances / chances.sum())
    rows = np.repeat(np.arange(n_rows), n_words)
    X = sp.csr_matrix((np.ones(len(words)), (rows, words)), shape=(n_rows, n_columns))
    X.sum_duplicates()
    in_texts = np.bincount(X.indices, minlength=n_columns)
    X.data = (1 + np.log(X.data)) * np.log((1 + n_rows) / (1 + in_texts))[X.indices]
    X.data /= np.sqrt(np.repeat(np.add.reduceat(X.data**2, X.indptr[:-1]), np.diff(X.indptr)))
    return X, _classes(X @ rng.normal(size=n_columns), rng)


def million(n_rows: int = 20_000, n_columns: int = 1_000_000) -> tuple[sp.csr_matrix, np.ndarray]:
    """Values in a few columns that many rows have, and in many that few have."""
    rng = np.random.default_rng(0)
    columns = np.minimum(rng.pareto(0.5, 20 * n_rows), n_columns - 1).astype(np.int64)
    X = sp.csr_matrix((rng.random(len(columns)), (np.repeat(np.arange(n_rows), 20), columns)), (n_rows, n_columns))
    X.sum_duplicates()
    return X, _classes(X @ rng.normal(size=n_columns), rng)


def dense(n_rows: int = 1000, n_columns: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Normal numbers; twenty columns matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    return X, _classes(X[:, :20].sum(axis=1), rng)


def frame(n_rows: int = 5000, n_columns: int = 3000) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, and categories in every tenth column."""
    rng = np.random.default_rng(0)
    columns = {f"x{index}": rng.normal(size=n_rows) for index in range(n_columns)}
    target = sum(columns[f"x{index}"] for index in range(1, 9))
    for index in range(0, n_columns, 10):
        codes = rng.integers(0, 8, n_rows)
        columns[f"x{index}"] = pd.Categorical.from_codes(codes, list("abcdefgh"))
    return pd.DataFrame(columns), _classes(target, rng)


def _classes(signal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    signal = np.asarray(signal).ravel()
    return (signal + rng.normal(size=len(signal)) * signal.std() / 2 > 0).astype(int)
