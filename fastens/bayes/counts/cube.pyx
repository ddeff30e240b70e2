"""The count cube: the weight of each class in every cell of a table of discrete attributes, "any value" included.

Cell = sum of digit_j * strides[j]; attribute j has sizes[j] values with digits 0, 1, ..., and "any" as the digit
sizes[j]: a cell stands behind all cells that lie within it.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from fastens.engine.exact cimport exp, lgamma, log

cdef enum:
    MOST_ATTRIBUTES = 64


def fill(
    const int64_t[::1] cells, const int64_t[::1] classes, const double[::1] weight, double[:, ::1] cube
):
    """Add each row's weight to its cell and class."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(cells.shape[0]):
            cube[cells[i], classes[i]] += weight[i]


cdef void _add_along(double[::1] cube, const int64_t[::1] sizes, int64_t inner, bint to_any) noexcept nogil:
    # For each attribute in turn, the cells of its values to that of "any", or that one to theirs
    cdef Py_ssize_t j
    cdef int64_t block, outer, v, i
    cdef double* base
    cdef double* any_value
    cdef double* value
    for j in range(sizes.shape[0] - 1, -1, -1):
        block = inner * (sizes[j] + 1)
        for outer in range(cube.shape[0] // block):
            base = &cube[outer * block]
            any_value = base + sizes[j] * inner
            for v in range(sizes[j]):
                value = base + v * inner
                for i in range(inner):
                    if to_any:
                        any_value[i] += value[i]
                    else:
                        value[i] += any_value[i]
        inner = block


def sum_out(double[::1] cube, const int64_t[::1] sizes, int64_t n_inner):
    """For each attribute in turn add the cells of its values to that of "any"; `n_inner` numbers make a cell."""
    with nogil:
        _add_along(cube, sizes, n_inner, True)


def spread(double[::1] cube, const int64_t[::1] sizes, int64_t n_inner):
    """For each attribute in turn add the cell of "any" to those of its values: each cell sums all it lies within."""
    with nogil:
        _add_along(cube, sizes, n_inner, False)


cdef struct Shape:
    const int64_t* sizes
    const int64_t* strides
    int n_attributes


cdef inline int step(int64_t* digits, const Shape* shape, int by) noexcept nogil:
    # The digits of the next cell (by = 1) or of the one before (-1).
    cdef int j = shape.n_attributes - 1
    while j >= 0:
        digits[j] += by
        if 0 <= digits[j] <= shape.sizes[j]:
            return 1
        digits[j] = 0 if by > 0 else shape.sizes[j]
        j -= 1
    return 0


cdef inline int n_fixed(const int64_t* digits, const Shape* shape) noexcept nogil:
    cdef int j, fixed = 0
    for j in range(shape.n_attributes):
        fixed += digits[j] < shape.sizes[j]
    return fixed


def log_weights(
    const double[:, ::1] counts, const int64_t[:, ::1] layout, double per_error, double per_constraint,
    double most_errors, double[::1] out
):
    """Write to each cell, as a conjunction: per_error * errors + per_constraint * constraints, the log of its weight.

    Errors are the first class's weight inside and the second's outside; -inf where they are more than `most_errors`.
    `layout` holds sizes and strides. Returns the least errors, and the first cell that has them.
    """
    cdef Shape shape = Shape(&layout[0, 0], &layout[1, 0], <int> layout.shape[1])
    cdef int64_t digits[MOST_ATTRIBUTES]
    cdef int64_t cell, first = 0
    cdef double n_second = counts[counts.shape[0] - 1, 1], least = INFINITY, errors
    cdef int j
    with nogil:
        for j in range(shape.n_attributes):
            digits[j] = 0
        for cell in range(counts.shape[0]):
            errors = n_second - counts[cell, 1] + counts[cell, 0]
            if errors < least:
                least, first = errors, cell
            if errors > most_errors:
                out[cell] = -INFINITY
            else:
                out[cell] = per_error * errors + per_constraint * n_fixed(digits, &shape)
            step(digits, &shape, 1)
    return least, first


# ------------------------------------------------------------------------------------------------------------- trees

cdef inline double log_children(const double* log_q, int64_t cell, int j, const Shape* shape) noexcept nogil:
    # Log evidence of the parts that a split of the cell by attribute j makes.
    cdef int64_t v
    cdef double total = 0
    for v in range(1, shape.sizes[j] + 1):
        total += log_q[cell - v * shape.strides[j]]
    return total


cdef inline double log_rising(double base, double n, const double* table, Py_ssize_t n_table) noexcept nogil:
    # Log of gamma(base + n) / gamma(base), from the table where n is a whole number within it.
    cdef Py_ssize_t place = <Py_ssize_t> n if n < n_table else 0
    return table[place] if place == n else lgamma(base + n) - lgamma(base)


cdef inline double log_leaf(
    const double* counts, Py_ssize_t n_classes, double alpha, const double* tables, Py_ssize_t n_table
) noexcept nogil:
    # Evidence of class counts under a symmetric Dirichlet.
    cdef double total = 0, found = 0
    cdef Py_ssize_t k
    for k in range(n_classes):
        total += counts[k]
        found += log_rising(alpha, counts[k], tables, n_table)
    return found - log_rising(alpha * n_classes, total, tables + n_table, n_table)


cdef inline double log_sum(const double* terms, int n, bint greatest) noexcept nogil:
    cdef double most = -INFINITY, total = 0
    cdef int i
    for i in range(n):
        if terms[i] > most:
            most = terms[i]
    if greatest or most == -INFINITY:
        return most
    for i in range(n):
        total += exp(terms[i] - most)
    return most + log(total)


def tree_evidence(
    const double[:, ::1] counts, const int64_t[:, ::1] layout, const double[:, ::1] log_prior, double alpha,
    const double[:, ::1] tables, bint greatest, double[::1] log_f, double[::1] log_q
):
    """For each cell the log evidence of a leaf there, and that of all trees on it together (or of the best one).

    `layout` holds sizes and strides; `log_prior[:, d]` the logs of the prior probability to stop, and of each split,
    where d attributes are fixed. Parts of a cell have smaller numbers than the cell. `tables[:, n]` holds the logs of
    gamma(a + n) / gamma(a) for a = alpha and for a = alpha times the number of classes, the first of them 0.
    """
    cdef Shape shape = Shape(&layout[0, 0], &layout[1, 0], <int> layout.shape[1])
    cdef int64_t digits[MOST_ATTRIBUTES]
    cdef double terms[MOST_ATTRIBUTES + 1]
    cdef Py_ssize_t n_classes = counts.shape[1]
    cdef int64_t cell
    cdef int j, n_terms, depth
    with nogil:
        for j in range(shape.n_attributes):
            digits[j] = 0
        for cell in range(counts.shape[0]):
            log_f[cell] = log_leaf(&counts[cell, 0], n_classes, alpha, &tables[0, 0], tables.shape[1])
            depth = n_fixed(digits, &shape)
            terms[0] = log_prior[0, depth] + log_f[cell]
            n_terms = 1
            for j in range(shape.n_attributes):
                if digits[j] == shape.sizes[j]:
                    terms[n_terms] = log_prior[1, depth] + log_children(&log_q[0], cell, j, &shape)
                    n_terms += 1
            log_q[cell] = log_sum(terms, n_terms, greatest)
            step(digits, &shape, 1)


def tree_reach(
    const double[::1] log_q, const int64_t[:, ::1] layout, const double[:, ::1] log_prior, double[::1] reach
):
    """For each cell the posterior probability that a row in it comes to a node there; 1 in the last, the root.
    """
    cdef Shape shape = Shape(&layout[0, 0], &layout[1, 0], <int> layout.shape[1])
    cdef int64_t digits[MOST_ATTRIBUTES]
    cdef int64_t cell, v
    cdef double through
    cdef int j, depth
    with nogil:
        for j in range(shape.n_attributes):
            digits[j] = shape.sizes[j]
        for cell in range(log_q.shape[0] - 1, -1, -1):
            if reach[cell] > 0:
                depth = n_fixed(digits, &shape)
                for j in range(shape.n_attributes):
                    if digits[j] == shape.sizes[j]:
                        through = log_prior[1, depth] + log_children(&log_q[0], cell, j, &shape) - log_q[cell]
                        through = reach[cell] * exp(through)
                        for v in range(1, shape.sizes[j] + 1):
                            reach[cell - v * shape.strides[j]] += through
            step(digits, &shape, -1)
