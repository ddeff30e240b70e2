"""Counts of the combinations of a few columns' values, for many such families, and sums of their table entries.

Codes are stored column after column, 0 for a missing value, p + 1 for position p. A family is some of the columns, with
a stride each: a row's cell is the sum of position times stride, in mixed radix. A row in which one of them is missing,
or no position, has no cell.
"""

from cython.parallel cimport prange

from fastens.engine.kernels.structs cimport float64_t, int64_t, uint8_t, uint16_t, uint32_t

ctypedef fused any_code_t:
    uint8_t
    uint16_t
    uint32_t

ctypedef fused count_t:
    int64_t         # rows
    float64_t       # sums of weights

cdef enum:
    BLOCK = 2048    # rows whose cells stay in the first-level cache while a family's columns go by

cdef int64_t NOWHERE = -(1 << 55)       # several of them do not overflow, and no cell makes up for one


cdef struct Family:
    const int64_t* columns
    const int64_t* strides
    Py_ssize_t n_columns


cdef inline Family _family_of(
    Py_ssize_t index, const int64_t* starts, const int64_t* columns, const int64_t* strides
) noexcept nogil:
    cdef Family family
    family.columns = columns + starts[index]
    family.strides = strides + starts[index]
    family.n_columns = starts[index + 1] - starts[index]
    return family


cdef inline void _add_column(
    const any_code_t* codes, int64_t size, int64_t stride, Py_ssize_t n, int64_t* cells
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t position
    for i in range(n):
        position = <int64_t> codes[i] - 1
        cells[i] += NOWHERE if position < 0 or position >= size else position * stride


cdef inline void _find_cells(
    const any_code_t* codes, Py_ssize_t n_rows, Py_ssize_t n, Family family, const int64_t* sizes, int64_t* cells
) noexcept nogil:
    cdef Py_ssize_t i, k
    for i in range(n):
        cells[i] = 0
    for k in range(family.n_columns):
        _add_column(codes + family.columns[k] * n_rows, sizes[family.columns[k]], family.strides[k], n, cells)


cdef void _count_family(
    const any_code_t* codes, const float64_t* weight, Py_ssize_t n_rows, Family family, const int64_t* sizes,
    count_t* out
) noexcept nogil:
    cdef int64_t[BLOCK] cells
    cdef Py_ssize_t block, first, n, i
    for block in range((n_rows + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        n = min(<Py_ssize_t> BLOCK, n_rows - first)
        _find_cells(codes + first, n_rows, n, family, sizes, cells)
        for i in range(n):
            if cells[i] >= 0:
                if count_t is int64_t:
                    out[cells[i]] += 1
                else:
                    out[cells[i]] += weight[first + i]


def count_families(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] sizes,
    const int64_t[::1] starts,
    const int64_t[::1] columns,
    const int64_t[::1] strides,
    const int64_t[::1] offsets,
    const float64_t[::1] weight,
    count_t[::1] out,
    int n_threads,
):
    """Add to out[offsets[f] + cell] the weight of each row, or 1, for each family f; a thread owns whole families."""
    cdef Py_ssize_t n_rows = codes.shape[1]
    cdef const float64_t* weights = NULL
    if weight is not None:
        weights = &weight[0]
    cdef Py_ssize_t f
    for f in prange(
        starts.shape[0] - 1, nogil=True, schedule="dynamic", chunksize=1, num_threads=n_threads,
        use_threads_if=n_threads > 1,
    ):
        _count_family(
            &codes[0, 0], weights, n_rows, _family_of(f, &starts[0], &columns[0], &strides[0]), &sizes[0],
            &out[offsets[f]])


cdef inline void _add_entries(
    const int64_t* cells, Py_ssize_t n, Py_ssize_t width, const float64_t* table, float64_t* out
) noexcept nogil:
    cdef Py_ssize_t i, c
    cdef const float64_t* entry
    for i in range(n):
        if cells[i] >= 0:
            entry = table + cells[i] * width
            for c in range(width):
                out[i * width + c] += entry[c]


def add_family_entries(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] sizes,
    const int64_t[::1] starts,
    const int64_t[::1] columns,
    const int64_t[::1] strides,
    const int64_t[::1] offsets,
    const float64_t[:, ::1] table,
    float64_t[:, ::1] out,
    int n_threads,
):
    """Add to out[i] the rows table[offsets[f] + cell of row i] of all families f in which row i has a cell."""
    cdef Py_ssize_t n_rows = codes.shape[1]
    cdef Py_ssize_t n_families = starts.shape[0] - 1
    cdef Py_ssize_t n_blocks = (n_rows + BLOCK - 1) // BLOCK
    cdef Py_ssize_t block
    for block in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads, use_threads_if=n_threads > 1):
        _add_block(
            &codes[0, block * BLOCK], n_rows, min(<Py_ssize_t> BLOCK, n_rows - block * BLOCK), n_families, &sizes[0],
            &starts[0], &columns[0], &strides[0], &offsets[0], table.shape[1], &table[0, 0], &out[block * BLOCK, 0])


cdef void _add_block(
    const any_code_t* codes, Py_ssize_t n_rows, Py_ssize_t n, Py_ssize_t n_families, const int64_t* sizes,
    const int64_t* starts, const int64_t* columns, const int64_t* strides, const int64_t* offsets, Py_ssize_t width,
    const float64_t* table, float64_t* out
) noexcept nogil:
    cdef int64_t[BLOCK] cells
    cdef Py_ssize_t f
    for f in range(n_families):
        _find_cells(codes, n_rows, n, _family_of(f, starts, columns, strides), sizes, cells)
        _add_entries(cells, n, width, table + offsets[f] * width, out)
