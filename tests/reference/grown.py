"""Rows to grow trees on, and trees that must be the same."""

from __future__ import annotations

import numpy as np

from fastens.engine.bins.binning import learn_binning

ARRAYS = (
    "feature", "bin_threshold", "missing_left", "category_set", "category_words", "left_child", "n_samples", "value",
)  # fmt: skip


def make_rows(n_rows, seed=0, n_features=5, missing=0.1, heavy=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 1] = np.round(2 * X[:, 1]) + 10
    gradients = rng.standard_cauchy(n_rows) ** 3 if heavy else rng.normal(size=n_rows)
    gradients += X[:, 0] + np.abs(X[:, 1] - 10)
    X[rng.random(X.shape) < missing] = np.nan
    hessians = rng.uniform(0.1, 1.1, n_rows)
    return X, gradients.astype(np.float32), hessians.astype(np.float32)


def bin_rows(X, weight=None, max_bins=255, categorical=()):
    is_categorical = np.isin(np.arange(X.shape[1]), categorical)
    return learn_binning(X, weight, max_bins, is_categorical, 1).transform(X, 1)


def assert_same_tree(a, b):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
