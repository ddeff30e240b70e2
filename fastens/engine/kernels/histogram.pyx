"""Sums of gradients, hessians and counts for every (feature, code): one integer addition per row and feature."""

from libc.string cimport memset

from .structs cimport CellLayout, Histogram, code_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define FASTENS_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define FASTENS_PREFETCH(address)
    #endif
    """
    void prefetch "FASTENS_PREFETCH"(const void* address) noexcept nogil

# Rows of a block stay in the first cache while the blocks of features pass over them, and the cells of a block of
# features stay there with them: 14 features of 256 cells are 28 KiB.
cdef enum:
    ROW_BLOCK = 512
    FEATURE_BLOCK = 14
    PREFETCH_AHEAD = 16


cdef inline void _add_rows_packed(
    const Table* table, const CellLayout* layout, int32_t hessian_bits,
    const uint32_t* rows, Py_ssize_t n_rows, uint64_t* cells, const code_t* first_code, int32_t first, int32_t last,
) noexcept nogil:
    """Add rows to the packed cells of the features first..last-1. `first_code` only carries the type of the codes."""
    cdef Py_ssize_t i
    cdef int32_t f
    cdef const uint8_t* record
    cdef const code_t* codes
    cdef uint32_t payload
    cdef uint64_t word
    cdef uint64_t hessian_mask = (<uint64_t>1 << hessian_bits) - 1
    cdef int32_t gradient_shift = layout.gradient_shift
    cdef int32_t hessian_shift = layout.hessian_shift
    cdef const uint32_t* offsets = table.offsets
    for i in range(n_rows):
        if i + PREFETCH_AHEAD < n_rows:
            prefetch(table.records + <Py_ssize_t>rows[i + PREFETCH_AHEAD] * table.stride)
        record = table.records + <Py_ssize_t>rows[i] * table.stride
        payload = (<const uint32_t*>(record + table.payload))[0]
        word = (
            <uint64_t>(payload >> hessian_bits) << gradient_shift
            | (payload & hessian_mask) << hessian_shift
            | 1
        )
        codes = <const code_t*>record
        for f in range(first, last):
            cells[offsets[f] + codes[f]] += word


cdef void _build_packed(
    const Table* table, const RowStatistics* statistics, const CellLayout* layout,
    const uint32_t* rows, Py_ssize_t n_rows, uint64_t* cells,
) noexcept nogil:
    cdef Py_ssize_t begin = 0, size
    cdef int32_t first, last
    while begin < n_rows:
        size = min(<Py_ssize_t>ROW_BLOCK, n_rows - begin)
        first = 0
        while first < table.n_features:
            last = min(first + <int32_t>FEATURE_BLOCK, table.n_features)
            if table.code_size == 1:
                _add_rows_packed(
                    table, layout, statistics.hessian_bits, rows + begin, size, cells, <const uint8_t*>NULL, first, last
                )
            else:
                _add_rows_packed(
                    table, layout, statistics.hessian_bits, rows + begin, size, cells, <const uint16_t*>NULL, first, last
                )
            first = last
        begin += size


cdef inline void _add_rows_wide(
    const Table* table, const RowStatistics* statistics,
    const uint32_t* rows, Py_ssize_t n_rows, int64_t* cells, const code_t* first_code,
) noexcept nogil:
    cdef Py_ssize_t i, cell, n_cells = table.n_cells
    cdef int32_t f
    cdef const code_t* codes
    cdef int64_t gradient, hessian, count
    for i in range(n_rows):
        codes = <const code_t*>(table.records + <Py_ssize_t>rows[i] * table.stride)
        gradient = statistics.gradients[rows[i]]
        hessian = statistics.hessians[rows[i]]
        count = statistics.counts[rows[i]]
        for f in range(table.n_features):
            cell = table.offsets[f] + codes[f]
            cells[cell] += gradient
            cells[n_cells + cell] += hessian
            cells[2 * n_cells + cell] += count


cdef void _flush(uint64_t* packed, int64_t* wide, const CellLayout* layout, Py_ssize_t n_cells) noexcept nogil:
    """Add packed cells to wide ones and clear them."""
    cdef Py_ssize_t i
    cdef int64_t count
    cdef int64_t* hessians = wide + n_cells
    cdef int64_t* counts = wide + 2 * n_cells
    for i in range(n_cells):
        count = packed[i] & layout.count_mask
        wide[i] += <int64_t>(packed[i] >> layout.gradient_shift) - layout.gradient_bias * count
        hessians[i] += (packed[i] >> layout.hessian_shift) & layout.hessian_mask
        counts[i] += count << 32 | count
        packed[i] = 0


cdef void build_histogram(
    const Table* table, const RowStatistics* statistics, const CellLayout* layout,
    const uint32_t* rows, Py_ssize_t n_rows, uint64_t* scratch, Histogram* out,
) noexcept nogil:
    """The histogram of some rows, on one thread, in the form that `out.packed` asks for.

    `scratch` holds n_cells zeros, before and after.
    """
    cdef Py_ssize_t begin = 0
    if out.packed:
        memset(out.cells, 0, table.n_cells * sizeof(uint64_t))
        _build_packed(table, statistics, layout, rows, n_rows, <uint64_t*>out.cells)
        return
    memset(out.cells, 0, 3 * table.n_cells * sizeof(int64_t))
    if not statistics.narrow:
        if table.code_size == 1:
            _add_rows_wide(table, statistics, rows, n_rows, out.cells, <const uint8_t*>NULL)
        else:
            _add_rows_wide(table, statistics, rows, n_rows, out.cells, <const uint16_t*>NULL)
        return
    while begin < n_rows:
        _build_packed(table, statistics, layout, rows + begin, min(layout.max_rows, n_rows - begin), scratch)
        _flush(scratch, out.cells, layout, table.n_cells)
        begin += layout.max_rows


cdef void merge_histogram(
    Histogram* into, const Histogram* other, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t n_cells,
) noexcept nogil:
    """into += other for the cells begin..end-1; both have the same form."""
    cdef Py_ssize_t part, i, n_parts = 1 if into.packed else 3
    for part in range(n_parts):
        for i in range(part * n_cells + begin, part * n_cells + end):
            into.cells[i] += other.cells[i]


cdef void subtract_histogram(
    const Histogram* parent, const Histogram* child, Histogram* out, const CellLayout* layout,
    Py_ssize_t begin, Py_ssize_t end, Py_ssize_t n_cells,
) noexcept nogil:
    """out = parent - child for the cells begin..end-1. A packed parent has packed children; out may be the parent."""
    cdef Py_ssize_t part, i, n_parts = 1 if out.packed else 3
    cdef int64_t gradient, hessian, count, rows
    cdef uint64_t word
    if parent.packed == child.packed and parent.packed == out.packed:
        for part in range(n_parts):
            for i in range(part * n_cells + begin, part * n_cells + end):
                out.cells[i] = parent.cells[i] - child.cells[i]
        return
    for i in range(begin, end):
        gradient = parent.cells[i]
        hessian = parent.cells[n_cells + i]
        count = parent.cells[2 * n_cells + i]
        if child.packed:
            word = <uint64_t>child.cells[i]
            rows = <int64_t>(word & layout.count_mask)
            count -= rows << 32 | rows
            hessian -= (word >> layout.hessian_shift) & layout.hessian_mask
            gradient -= <int64_t>(word >> layout.gradient_shift) - layout.gradient_bias * rows
        else:
            gradient -= child.cells[i]
            hessian -= child.cells[n_cells + i]
            count -= child.cells[2 * n_cells + i]
        if out.packed:
            rows = <int64_t><uint32_t>count
            out.cells[i] = <int64_t>(
                <uint64_t>(gradient + layout.gradient_bias * rows) << layout.gradient_shift
                | <uint64_t>hessian << layout.hessian_shift
                | <uint64_t>rows
            )
        else:
            out.cells[i] = gradient
            out.cells[n_cells + i] = hessian
            out.cells[2 * n_cells + i] = count
