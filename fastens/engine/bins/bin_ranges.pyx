"""The smallest and the largest value in every bin."""

from fastens.engine.structs cimport code_t, float32_t, float64_t, int32_t, int64_t, uint8_t, uint16_t, value_t
from fastens.engine.team cimport share


cdef enum:
    TILE_ROWS = 512


cdef void _note_tile(
    const code_t* codes, Py_ssize_t code_stride, const value_t* x, Py_ssize_t stride, Py_ssize_t n, float64_t* low,
    float64_t* high
) noexcept nogil:
    cdef Py_ssize_t i
    cdef code_t code
    cdef float64_t value
    for i in range(n):
        code, value = codes[i * code_stride], x[i * stride]
        low[code] = min(low[code], value)
        high[code] = max(high[code], value)


cdef struct Noting:
    const char* codes
    int32_t code_size
    Py_ssize_t code_strides[2]      # bytes
    const char* x
    int32_t value_size
    Py_ssize_t strides[2]           # bytes
    Py_ssize_t n_rows
    Py_ssize_t n_features
    const int64_t* first
    float64_t* low
    float64_t* high


cdef inline void _note_tiles(
    const Noting* job, Py_ssize_t f, Py_ssize_t row, const code_t* codes, const value_t* x
) noexcept nogil:
    _note_tile(
        codes, job.code_strides[1] // <Py_ssize_t> sizeof(code_t), x, job.strides[0] // <Py_ssize_t> sizeof(value_t),
        min(<Py_ssize_t> TILE_ROWS, job.n_rows - row), job.low + job.first[f],
        job.high + job.first[f])


cdef inline void _note_codes(const Noting* job, Py_ssize_t f, Py_ssize_t row, const code_t* codes) noexcept nogil:
    cdef const char* x = job.x + row * job.strides[0] + f * job.strides[1]
    if job.value_size == sizeof(float32_t):
        _note_tiles(job, f, row, codes, <const float32_t*> x)
    else:
        _note_tiles(job, f, row, codes, <const float64_t*> x)


cdef void _note_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Tile after tile of the part's features."""
    cdef const Noting* noting = <const Noting*> job
    cdef Py_ssize_t row = 0, f, n = noting.n_features
    cdef const char* codes
    while row < noting.n_rows:
        for f in range(n * part // n_parts, n * (part + 1) // n_parts):
            codes = noting.codes + f * noting.code_strides[0] + row * noting.code_strides[1]
            if noting.code_size == sizeof(uint8_t):
                _note_codes(noting, f, row, <const uint8_t*> codes)
            else:
                _note_codes(noting, f, row, <const uint16_t*> codes)
        row += TILE_ROWS


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
    cdef Noting job
    job.codes, job.code_size = <const char*> &columns[0, 0], sizeof(code_t)
    job.code_strides[0], job.code_strides[1] = columns.strides[0], columns.strides[1]
    job.x, job.value_size = <const char*> &X[0, 0], sizeof(value_t)
    job.strides[0], job.strides[1] = X.strides[0], X.strides[1]
    job.n_rows, job.n_features = X.shape[0], X.shape[1]
    job.first, job.low, job.high = &first[0], &low[0], &high[0]
    with nogil:
        share(_note_part, &job, n_threads)
