"""Rows: hashes of their content, and copies of some of them."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from fastens.engine.strided cimport Strides, strides_of
from fastens.engine.structs cimport float32_t, float64_t, value_t
from fastens.engine.team cimport share_pieces, share_until_interrupted

cdef enum:
    TILE_ROWS = 512

# Hashes ---------------------------------------------------------------------------------------------------------------

cdef void _hash_tile(
    const value_t* x, Strides strides, Py_ssize_t n_features, Py_ssize_t n, uint64_t* out
) noexcept nogil:
    cdef Py_ssize_t i, f
    cdef uint64_t salt
    cdef const value_t* column
    memset(out, 0, n * sizeof(uint64_t))
    for f in range(n_features):
        salt, column = salt_of(f), x + f * strides.column
        for i in range(n):
            out[i] += mixed(column[i * strides.row]) * salt
    for i in range(n):
        out[i] = finished(out[i])


cdef struct Hashing:
    const void* x
    int32_t value_size
    Strides strides
    Py_ssize_t n_rows
    Py_ssize_t n_features
    uint64_t* out


cdef void _hash_piece(void* job, Py_ssize_t tile, int32_t thread) noexcept nogil:
    cdef const Hashing* h = <const Hashing*> job
    cdef Py_ssize_t first = tile * TILE_ROWS, at = first * h.strides.row
    cdef Py_ssize_t n = min(<Py_ssize_t> TILE_ROWS, h.n_rows - first)
    if h.value_size == sizeof(float32_t):
        _hash_tile(<const float32_t*> h.x + at, h.strides, h.n_features, n, h.out + first)
    else:
        _hash_tile(<const float64_t*> h.x + at, h.strides, h.n_features, n, h.out + first)


def hash_rows(const value_t[:, :] X, uint64_t[::1] out, int n_threads):
    """Write a hash of each row's content; float32 rows have the hash of the same row in float64."""
    cdef Hashing job = Hashing(&X[0, 0], sizeof(value_t), strides_of(X), X.shape[0], X.shape[1], &out[0])
    with nogil:
        share_until_interrupted(_hash_piece, &job, (job.n_rows + TILE_ROWS - 1) // TILE_ROWS, n_threads)


# Copies ---------------------------------------------------------------------------------------------------------------

cdef void _gather_tile(
    const value_t* x, Strides strides, const int64_t* rows, Py_ssize_t n, value_t* out, Strides out_strides
) noexcept nogil:
    # out_strides.row counts the features; all values of a row lie in few cache lines, so rows go outside.
    cdef Py_ssize_t i, f
    cdef const value_t* row
    for i in range(n):
        row = x + rows[i] * strides.row
        for f in range(out_strides.row):
            out[f * out_strides.column + i] = row[f * strides.column]


cdef struct Gathering:
    const void* x
    int32_t value_size
    Strides strides
    const int64_t* rows
    Py_ssize_t n_rows
    void* out
    Strides out_strides


cdef void _gather_piece(void* job, Py_ssize_t tile, int32_t thread) noexcept nogil:
    cdef const Gathering* g = <const Gathering*> job
    cdef Py_ssize_t first = tile * TILE_ROWS, n = min(<Py_ssize_t> TILE_ROWS, g.n_rows - first)
    if g.value_size == sizeof(float32_t):
        _gather_tile(
            <const float32_t*> g.x, g.strides, g.rows + first, n, <float32_t*> g.out + first, g.out_strides
        )
    else:
        _gather_tile(
            <const float64_t*> g.x, g.strides, g.rows + first, n, <float64_t*> g.out + first, g.out_strides
        )


def gather_columns(const value_t[:, :] X, const int64_t[::1] rows, value_t[:, ::1] out, int n_threads):
    """Copy some rows of X to out, shape (n_features, n_kept)."""
    cdef Gathering job
    job.x, job.value_size, job.strides = &X[0, 0], sizeof(value_t), strides_of(X)
    job.rows, job.n_rows, job.out = &rows[0], rows.shape[0], &out[0, 0]
    job.out_strides.row, job.out_strides.column = X.shape[1], rows.shape[0]
    with nogil:
        share_pieces(_gather_piece, &job, (job.n_rows + TILE_ROWS - 1) // TILE_ROWS, n_threads)
