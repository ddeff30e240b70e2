"""Survival: sums over the rows at risk, and pairs in the right order.

Sums run in a fixed order with twice the digits of a double, so that a row given twice is a row of weight 2.
"""

from libc.math cimport fma
from libc.stdint cimport int64_t

from fastens.engine.structs cimport float64_t


cdef struct Sum:
    # high + low, of which low holds what high has no digits for (Dekker 1971).
    double high
    double low


cdef inline void add(Sum* total, double value, double remainder) noexcept nogil:
    cdef double high = total.high + value
    cdef double part = high - total.high
    cdef double low = (total.high - (high - part)) + (value - part) + (total.low + remainder)
    total.high = high + low
    total.low = low - (total.high - high)


cdef inline void add_product(Sum* total, double a, double b) noexcept nogil:
    cdef double product = a * b
    add(total, product, fma(a, b, -product))


cdef inline void add_row(Sum* total, const float64_t[::1] weight, Py_ssize_t row, double value) noexcept nogil:
    if weight is None:
        add(total, value, 0)
    else:
        add_product(total, weight[row], value)


def risk_sums(
    const int64_t[::1] order, const float64_t[::1] time, const float64_t[::1] weight, const float64_t[::1] risk,
    float64_t[::1] out,
):
    """Write, for each row, the sum of weight * risk over the rows whose time is not before its own.

    `order` holds the rows by descending time, `time` their times in that order; without weights they are 1.
    """
    cdef Sum total = Sum(0, 0)
    cdef Py_ssize_t i = 0, first, n = order.shape[0]
    with nogil:
        while i < n:
            first = i
            while i < n and time[i] == time[first]:
                add_row(&total, weight, order[i], risk[order[i]])
                i += 1
            for first in range(first, i):
                out[order[first]] = total.high


def hazard_sums(
    const int64_t[::1] order, const float64_t[::1] time, const float64_t[::1] weight, const float64_t[::1] share,
    float64_t[::1] out,
):
    """Write, for each row, the sum of weight * share over the rows whose time is not after its own.

    `order` holds the rows by descending time, `time` their times in that order; without weights they are 1.
    """
    cdef Sum total = Sum(0, 0)
    cdef Py_ssize_t i = order.shape[0] - 1, last
    with nogil:
        while i >= 0:
            last = i
            while i >= 0 and time[i] == time[last]:
                add_row(&total, weight, order[i], share[order[i]])
                i -= 1
            while last > i:
                out[order[last]] = total.high
                last -= 1


cdef inline void enter(float64_t[::1] tree, Py_ssize_t place, double weight) noexcept nogil:
    # A tree of partial sums (Fenwick 1994); places count from 1.
    while place < tree.shape[0]:
        tree[place] += weight
        place += place & -place


cdef inline double upto(float64_t[::1] tree, Py_ssize_t place) noexcept nogil:
    cdef double total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


def ordered_pairs(
    const int64_t[::1] later_rank, const float64_t[::1] later_weight, const int64_t[::1] n_later,
    const int64_t[::1] rank, const float64_t[::1] weight, float64_t[::1] tree, float64_t[::1] out,
):
    """Write the weight of the pairs whose ranks are in the wrong order, equal, and in the right order.

    Row `i` of `rank` and `weight` is surely before the first `n_later[i]` rows of `later_rank` and `later_weight`;
    `n_later` ascends, ranks count from 1, and `tree` holds a zero for each rank and one more.
    """
    cdef Py_ssize_t i, entered = 0
    cdef double total = 0, below, through
    with nogil:
        for i in range(rank.shape[0]):
            while entered < n_later[i]:
                enter(tree, later_rank[entered], later_weight[entered])
                total += later_weight[entered]
                entered += 1
            below = upto(tree, rank[i] - 1)
            through = upto(tree, rank[i])
            out[0] += weight[i] * below
            out[1] += weight[i] * (through - below)
            out[2] += weight[i] * (total - through)
