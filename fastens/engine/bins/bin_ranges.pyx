"""The smallest and the largest value in every bin."""

from cython.parallel cimport prange

from fastens.engine.structs cimport code_t, float64_t, int64_t, value_t


cdef enum:
    TILE_ROWS = 512


cdef void _note_tile(
    const code_t* codes, const value_t* x, Py_ssize_t stride, Py_ssize_t n, float64_t* low, float64_t* high
) noexcept nogil:
    cdef Py_ssize_t i
    cdef float64_t value
    for i in range(n):
        value = x[i * stride]
        low[codes[i]] = min(low[codes[i]], value)
        high[codes[i]] = max(high[codes[i]], value)


cdef void _note_features(
    const code_t[:, :] columns, const value_t[:, :] X, const int64_t* first, Py_ssize_t begin, Py_ssize_t end,
    float64_t* low, float64_t* high
) noexcept nogil:
    cdef Py_ssize_t row = 0, f, n, stride = X.strides[0] // <Py_ssize_t>sizeof(value_t)
    while row < X.shape[0]:
        n = min(<Py_ssize_t>TILE_ROWS, X.shape[0] - row)
        for f in range(begin, end):
            _note_tile(&columns[f, row], &X[row, f], stride, n, low + first[f], high + first[f])
        row += n


def note_extremes(
    const code_t[:, :] columns, const value_t[:, :] X, const int64_t[::1] first, float64_t[::1] low,
    float64_t[::1] high, int n_threads
):
    """Lower `low` to the smallest value of each bin, raise `high` to the largest; threads share the features.

    Parameters
    ----------
    columns : uint8 or uint16 array of shape (n_features, n_rows)
        The rows' codes.
    X : float32 or float64 array of shape (n_rows, n_features)
        Their values.
    first : int64 array of shape (n_features,)
        Where the codes of each feature begin in the next two.
    low, high : float64 arrays
        By feature and code; missing values (code 0) have none of use.
    n_threads : int
        How many; no matter to the result.
    """
    cdef Py_ssize_t n = X.shape[1]
    cdef int thread
    for thread in prange(n_threads, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1):
        _note_features(
            columns, X, &first[0], n * thread // n_threads, n * (thread + 1) // n_threads, &low[0], &high[0]
        )
