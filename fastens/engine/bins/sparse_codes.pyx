"""Codes of tables of which only some values are stored: the codes of zeros are not stored either."""

from fastens.engine.bins.bins cimport BinTable, bin_values
from fastens.engine.structs cimport (
    FeatureBins, code_t, float32_t, float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, value_t
)
from fastens.engine.team cimport share_pieces


# Values to codes -----------------------------------------------------------------------------------------------------

cdef struct Coding:
    const FeatureBins* bins
    const int64_t* starts
    const void* x
    int32_t value_size
    void* codes
    int32_t code_size
    void* of_zero


cdef inline void _code_column(
    const Coding* job, Py_ssize_t f, const value_t* x, code_t* codes, code_t* of_zero
) noexcept nogil:
    cdef value_t zero = 0
    bin_values(job.bins + f, &zero, 1, 1, of_zero + f)
    bin_values(job.bins + f, x + job.starts[f], 1, job.starts[f + 1] - job.starts[f], codes + job.starts[f])


cdef inline void _code_values(const Coding* job, Py_ssize_t f, const value_t* x) noexcept nogil:
    if job.code_size == 1:
        _code_column(job, f, x, <uint8_t*> job.codes, <uint8_t*> job.of_zero)
    else:
        _code_column(job, f, x, <uint16_t*> job.codes, <uint16_t*> job.of_zero)


cdef void _code_piece(void* job, Py_ssize_t f, int32_t thread) noexcept nogil:
    cdef const Coding* coding = <const Coding*> job
    if coding.value_size == sizeof(float32_t):
        _code_values(coding, f, <const float32_t*> coding.x)
    else:
        _code_values(coding, f, <const float64_t*> coding.x)


def code_stored(
    BinTable table, const value_t[::1] x, const int64_t[::1] starts, code_t[::1] codes, code_t[::1] of_zero,
    int n_threads,
):
    """Write the codes of stored values, one column after another, and the code of zeros in each column.

    Parameters
    ----------
    table : BinTable
        The bins.
    x : float32 or float64 array of shape (n_values,)
        The values.
    starts : int64 array of shape (n_features + 1,)
        Where those of each column begin.
    codes : uint8 or uint16 array of shape (n_values,)
        Gets their codes.
    of_zero : array of shape (n_features,)
        Gets those of zeros.
    n_threads : int
        How many; no matter to the result.
    """
    cdef Coding job
    job.bins, job.starts, job.x, job.value_size = table.features, &starts[0], NULL, sizeof(value_t)
    job.codes, job.code_size, job.of_zero = NULL, sizeof(code_t), &of_zero[0]
    if x.shape[0]:
        job.x, job.codes = &x[0], &codes[0]
    with nogil:
        share_pieces(_code_piece, &job, starts.shape[0] - 1, n_threads)


# Codes by row --------------------------------------------------------------------------------------------------------

def cells_by_row(
    const int32_t[::1] rows, const int64_t[::1] starts, const code_t[::1] codes, const int64_t[::1] first_cell_of,
    int64_t[::1] place, uint32_t[::1] cells,
):
    """Write the cell of each stored code in a histogram, row by row, ascending in each row.

    Parameters
    ----------
    rows, starts, codes : arrays
        Those of SparseCodes.
    first_cell_of : int64 array of shape (n_features,)
        The cell of each feature's code 0.
    place : int64 array of shape (n_rows,)
        Where the cells of each row begin; afterwards, where they end.
    cells : uint32 array of shape (n_stored,)
        Gets the cells.
    """
    cdef Py_ssize_t f, i
    with nogil:
        for f in range(starts.shape[0] - 1):
            for i in range(starts[f], starts[f + 1]):
                cells[place[rows[i]]] = <uint32_t> (first_cell_of[f] + codes[i])
                place[rows[i]] += 1


# Dense codes of some features ----------------------------------------------------------------------------------------

cdef struct Spreading:
    const int32_t* features
    const int64_t* starts
    const int32_t* rows
    const void* codes
    const void* of_zero
    int32_t code_size
    int32_t first_row
    int32_t n_rows
    void* out


cdef inline Py_ssize_t _first_at_least(
    const int32_t* rows, Py_ssize_t begin, Py_ssize_t end, int64_t row
) noexcept nogil:
    cdef Py_ssize_t middle
    while begin < end:
        middle = (begin + end) // 2
        if rows[middle] < row:
            begin = middle + 1
        else:
            end = middle
    return begin


cdef inline void _spread(
    const Spreading* job, Py_ssize_t i, const code_t* codes, const code_t* of_zero, code_t* out
) noexcept nogil:
    cdef int32_t f = job.features[i]
    cdef Py_ssize_t k, begin, end
    cdef code_t zero = of_zero[f]
    begin = _first_at_least(job.rows, job.starts[f], job.starts[f + 1], job.first_row)
    end = _first_at_least(job.rows, begin, job.starts[f + 1], <int64_t> job.first_row + job.n_rows)
    out += i * job.n_rows
    for k in range(job.n_rows):
        out[k] = zero
    for k in range(begin, end):
        out[job.rows[k] - job.first_row] = codes[k]


cdef void _spread_piece(void* job, Py_ssize_t i, int32_t thread) noexcept nogil:
    cdef const Spreading* s = <const Spreading*> job
    if s.code_size == 1:
        _spread(s, i, <const uint8_t*> s.codes, <const uint8_t*> s.of_zero, <uint8_t*> s.out)
    else:
        _spread(s, i, <const uint16_t*> s.codes, <const uint16_t*> s.of_zero, <uint16_t*> s.out)


def spread_codes(columns, const int32_t[::1] features, int32_t first_row, code_t[:, ::1] out, int n_threads):
    """Write the codes of some features, and of the rows from the first one on, shape (n_features, n_rows)."""
    cdef const int64_t[::1] starts = columns.starts
    cdef const int32_t[::1] rows = columns.rows
    cdef const code_t[::1] codes = columns.codes, of_zero = columns.of_zero
    cdef Spreading job
    if out.shape[0] == 0 or out.shape[1] == 0:
        return
    job = Spreading(
        &features[0], &starts[0], &rows[0], &codes[0], &of_zero[0], sizeof(code_t), first_row, <int32_t> out.shape[1],
        &out[0, 0],
    )
    with nogil:
        share_pieces(_spread_piece, &job, out.shape[0], n_threads)
