# The rows on which stumps are fitted, and the sums of their weights by code and class.

from libc.string cimport memset

from fastens.engine.splits.workspace cimport Criterion
from fastens.engine.structs cimport code_t, float64_t, int32_t, int64_t, uint8_t, uint16_t

cdef enum:
    ROW_BLOCK = 4096            # rows whose weights and classes stay in the cache while all features process them


cdef struct Rows:
    const void* columns         # codes, one feature after another
    # For sparse tables, only stored codes: the ascending rows of each feature. NULL if all codes are stored.
    const int32_t* stored_rows
    const int64_t* first_stored
    const void* zeros           # code of zeros for each feature
    const int64_t* totals       # total weight of each class
    Py_ssize_t n_rows
    const int64_t* weights
    const uint16_t* classes
    const int32_t* n_codes
    const uint8_t* is_categorical
    const float64_t* const* thresholds
    int32_t n_features
    int32_t n_classes
    int32_t code_size
    int32_t most_codes
    int32_t at_once             # number of features counted together
    Criterion criterion


cdef inline void _count_four(
    const Rows* rows, const code_t* codes, Py_ssize_t begin, Py_ssize_t end, int64_t* cells, int32_t n_classes
) noexcept nogil:
    """Count four adjacent features."""
    # Local pointers, because the compiler must assume that the stores alias the fields of `rows`.
    cdef const int64_t* weights = rows.weights
    cdef const uint16_t* classes = rows.classes
    cdef Py_ssize_t i, k, n = rows.n_rows, stride = <Py_ssize_t> rows.most_codes * n_classes
    cdef const code_t* second = codes + n
    cdef const code_t* third = second + n
    cdef const code_t* fourth = third + n
    cdef int64_t* second_cells = cells + stride
    cdef int64_t* third_cells = second_cells + stride
    cdef int64_t* fourth_cells = third_cells + stride
    cdef int64_t weight
    for i in range(begin, end):
        weight, k = weights[i], classes[i]
        cells[<Py_ssize_t> codes[i] * n_classes + k] += weight
        second_cells[<Py_ssize_t> second[i] * n_classes + k] += weight
        third_cells[<Py_ssize_t> third[i] * n_classes + k] += weight
        fourth_cells[<Py_ssize_t> fourth[i] * n_classes + k] += weight


cdef inline void _count_one(
    const Rows* rows, const code_t* codes, Py_ssize_t begin, Py_ssize_t end, int64_t* cells, int32_t n_classes
) noexcept nogil:
    cdef const int64_t* weights = rows.weights
    cdef const uint16_t* classes = rows.classes
    cdef Py_ssize_t i
    for i in range(begin, end):
        cells[<Py_ssize_t> codes[i] * n_classes + classes[i]] += weights[i]


cdef inline void _count_features(
    const Rows* rows, const code_t* columns, int32_t first, int32_t last, int64_t* cells, int32_t n_classes
) noexcept nogil:
    cdef Py_ssize_t begin = 0, end, stride = <Py_ssize_t> rows.most_codes * n_classes
    cdef int32_t f
    memset(cells, 0, (last - first) * stride * sizeof(int64_t))
    while begin < rows.n_rows:
        end = min(begin + ROW_BLOCK, rows.n_rows)
        f = first
        while f + 4 <= last:
            _count_four(rows, columns + f * rows.n_rows, begin, end, cells + (f - first) * stride, n_classes)
            f += 4
        while f < last:
            _count_one(rows, columns + f * rows.n_rows, begin, end, cells + (f - first) * stride, n_classes)
            f += 1
        begin = end


cdef inline void _count_stored(
    const Rows* rows, const code_t* codes, int32_t first, int32_t last, int64_t* cells
) noexcept nogil:
    """Count sparse rows; the cells of zeros are the totals minus all other cells."""
    cdef Py_ssize_t i, k, n_classes = rows.n_classes, stride = <Py_ssize_t> rows.most_codes * n_classes
    cdef int64_t* rest
    cdef int32_t f, row
    memset(cells, 0, (last - first) * stride * sizeof(int64_t))
    for f in range(first, last):
        rest = cells + <Py_ssize_t> (<const code_t*> rows.zeros)[f] * n_classes
        for k in range(n_classes):
            rest[k] = rows.totals[k]
        for i in range(rows.first_stored[f], rows.first_stored[f + 1]):
            row = rows.stored_rows[i]
            cells[<Py_ssize_t> codes[i] * n_classes + rows.classes[row]] += rows.weights[row]
            rest[rows.classes[row]] -= rows.weights[row]
        cells += stride


cdef inline void count_cells(const Rows* rows, int32_t first, int32_t last, int64_t* cells) noexcept nogil:
    """Count the cells of features first..last-1. Two classes are the common case, so they get a specialised loop."""
    if rows.stored_rows != NULL and rows.code_size == 1:
        _count_stored(rows, <const uint8_t*> rows.columns, first, last, cells)
    elif rows.stored_rows != NULL:
        _count_stored(rows, <const uint16_t*> rows.columns, first, last, cells)
    elif rows.code_size == 1 and rows.n_classes == 2:
        _count_features(rows, <const uint8_t*> rows.columns, first, last, cells, 2)
    elif rows.code_size == 1:
        _count_features(rows, <const uint8_t*> rows.columns, first, last, cells, rows.n_classes)
    else:
        _count_features(rows, <const uint16_t*> rows.columns, first, last, cells, rows.n_classes)
