"""Target encoding of categories: mean targets computed without the row's own target."""

import numpy as np

from libc.math cimport INFINITY, isnan

from fastens.engine.structs cimport float64_t, int64_t, uint8_t


cdef inline float64_t _shrunk_mean(float64_t total, float64_t weight, float64_t mean, float64_t prior) noexcept nogil:
    """Return (total + prior * mean) / (weight + prior), or `mean` if the denominator is zero or infinite."""
    return (total + prior * mean) / (weight + prior) if 0 < weight + prior < INFINITY else mean


def category_sums(
    const float64_t[::1] column, const float64_t[::1] targets, const float64_t[::1] weights, float64_t[:, ::1] sums
):
    """Add (weight * target, weight * target**2, weight) of each row to sums[category]; skip missing categories.

    `column` holds category positions, with NaN for missing values.
    """
    cdef Py_ssize_t i, category
    cdef float64_t weight = 1.0
    with nogil:
        for i in range(column.shape[0]):
            if isnan(column[i]):
                continue
            category = <Py_ssize_t>column[i]
            if weights is not None:
                weight = weights[i]
            sums[category, 0] += weight * targets[i]
            sums[category, 1] += weight * targets[i] * targets[i]
            sums[category, 2] += weight


def ordered_means(
    const float64_t[::1] column, const float64_t[::1] targets, const float64_t[::1] weights, const int64_t[::1] order,
    float64_t mean, float64_t prior, float64_t[:, ::1] sums, float64_t[::1] out,
):
    """Write the shrunk mean target of the rows that precede each row in `order` and have its category to `out`.

    `column` holds category positions or NaN, which is copied. `sums`, of shape (n_categories, 2), is a workspace
    that must hold zeros.
    """
    cdef Py_ssize_t k, i, category
    cdef float64_t weight = 1.0
    with nogil:
        for k in range(order.shape[0]):
            i = order[k]
            if isnan(column[i]):
                out[i] = column[i]
                continue
            category = <Py_ssize_t>column[i]
            out[i] = _shrunk_mean(sums[category, 0], sums[category, 1], mean, prior)
            if weights is not None:
                weight = weights[i]
            sums[category, 0] += weight * targets[i]
            sums[category, 1] += weight


def means_of_other_folds(
    const float64_t[::1] column, const uint8_t[::1] fold, const float64_t[:, :, ::1] sums, float64_t mean,
    float64_t prior, float64_t[::1] out,
):
    """Write the shrunk mean target of the rows of the same category in the other folds to `out`.

    `column` holds category positions or NaN, which is copied, and `fold` the fold of each row. `sums`, of shape
    (n_categories, n_folds, 3), holds the result of `category_sums` for each category and fold. The other folds are
    added up rather than subtracted from the total, so that rounding errors cannot leak the targets of the row's own
    fold.
    """
    cdef Py_ssize_t i, category, other
    cdef float64_t total, weight
    cdef float64_t[:, ::1] means = np.empty((sums.shape[0], sums.shape[1]))
    with nogil:
        for category in range(sums.shape[0]):
            for i in range(sums.shape[1]):
                total, weight = 0.0, 0.0
                for other in range(sums.shape[1]):
                    if other != i:
                        total += sums[category, other, 0]
                        weight += sums[category, other, 2]
                means[category, i] = _shrunk_mean(total, weight, mean, prior)
        for i in range(column.shape[0]):
            out[i] = column[i] if isnan(column[i]) else means[<Py_ssize_t>column[i], fold[i]]
