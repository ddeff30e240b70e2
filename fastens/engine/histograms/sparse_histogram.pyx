"""Histograms of rows of which only the codes that are not those of zeros are stored.

A row adds to the cells of its stored codes. The cell of a feature's zeros is what the others leave of the sums of the
node: whole numbers, to the bit what counting the zeros would have given. Only the columns of a mask are of use, those
with stored codes enough in the node: the cells of the others hold anything.
"""

from libc.string cimport memset

from fastens.engine.histograms.cells cimport (
    CellLayout, Histogram, Sums, add_row, add_sums, cell_sums, clear_sums, flush_cell, set_cell, sums_difference,
    unpack, words_per_cell
)
from fastens.engine.histograms.histogram cimport place_of_words, word_of
from fastens.engine.paths cimport next_feature
from fastens.engine.structs cimport PREFETCH_AHEAD, Column, int32_t, prefetch


cdef Sums sums_of_rows(const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows) noexcept nogil:
    """The sums over some rows."""
    cdef Histogram wide
    cdef Sums total, of_row
    cdef Py_ssize_t i
    clear_sums(&total)
    wide.packed = False
    for i in range(n_rows):
        if gradients.narrow:
            of_row = unpack(word_of(gradients, rows[i], place_of_words(gradients)), &gradients.layout)
        else:
            wide.cells = gradients.wide + 3 * <Py_ssize_t>rows[i]
            of_row = cell_sums(&wide, 0, &gradients.layout)
        add_sums(&total, &of_row)
    return total


# Counting ------------------------------------------------------------------------------------------------------------

cdef struct Range:
    # The cells of neighbouring columns.
    uint32_t first
    uint32_t end
    bint is_all


cdef inline Range _range(const Table* table, Columns columns) noexcept nogil:
    cdef Range cells
    cells.first = table.columns[columns.first].offset
    cells.end = <uint32_t>table.n_counted
    if columns.end < table.n_columns:
        cells.end = table.columns[columns.end].offset
    cells.is_all = columns.first == 0 and columns.end == table.n_columns
    return cells


cdef inline int64_t _first_at_least(const uint32_t* cells, int64_t begin, int64_t end, uint32_t least) noexcept nogil:
    cdef int64_t middle
    while begin < end:
        middle = (begin + end) // 2
        if cells[middle] < least:
            begin = middle + 1
        else:
            end = middle
    return begin


cdef inline void _stored(const Table* table, uint32_t row, Range cells, int64_t* begin, int64_t* end) noexcept nogil:
    """Which of the row's stored codes are in the range."""
    begin[0], end[0] = table.first_cell[row], table.first_cell[row + 1]
    if not cells.is_all:
        begin[0] = _first_at_least(table.cells, begin[0], end[0], cells.first)
        end[0] = _first_at_least(table.cells, begin[0], end[0], cells.end)


cdef inline void _add_rows(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Range columns,
    uint64_t* cells,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t k = 0, end = 0
    cdef uint64_t word
    for i in range(n_rows):
        if i + PREFETCH_AHEAD < n_rows:
            prefetch(&table.first_cell[rows[i + PREFETCH_AHEAD]])
            prefetch(&table.cells[table.first_cell[rows[i + PREFETCH_AHEAD // 2]]])
        word = word_of(gradients, rows[i], place_of_words(gradients))
        _stored(table, rows[i], columns, &k, &end)
        while k < end:
            cells[table.cells[k]] += word
            k += 1


cdef void _add_wide_rows(
    const Table* table, const int64_t* wide, const uint32_t* rows, Py_ssize_t n_rows, Range columns, int64_t* cells
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t k = 0, end = 0
    for i in range(n_rows):
        _stored(table, rows[i], columns, &k, &end)
        while k < end:
            add_row(cells + 3 * <Py_ssize_t>table.cells[k], wide + 3 * <Py_ssize_t>rows[i])
            k += 1


cdef void _clear(
    const Table* table, Columns columns, const uint64_t* active, int64_t* cells, Py_ssize_t width
) noexcept nogil:
    cdef const Column* column
    cdef int32_t c = next_feature(active, columns.first, columns.end)
    while c < columns.end:
        column = &table.columns[c]
        memset(cells + width * column.offset, 0, width * column.n_codes * sizeof(int64_t))
        c = next_feature(active, c + 1, columns.end)


cdef void _flush(
    const Table* table, Columns columns, const uint64_t* active, uint64_t* packed, int64_t* wide,
    const CellLayout* layout,
) noexcept nogil:
    """Add packed cells to wide ones and clear them."""
    cdef const Column* column
    cdef Py_ssize_t i
    cdef int32_t c = next_feature(active, columns.first, columns.end)
    while c < columns.end:
        column = &table.columns[c]
        for i in range(column.offset, column.offset + column.n_codes):
            flush_cell(&packed[i], &wide[3 * i], layout)
        c = next_feature(active, c + 1, columns.end)


cdef void build_sparse_histogram(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Columns columns,
    const uint64_t* active, uint64_t* scratch, Histogram* out,
) noexcept nogil:
    """The histogram of some rows and columns, but for zeros, on one thread, in the form of `out.packed`.

    `scratch` has room for n_counted packed cells.
    """
    cdef Range cells = _range(table, columns)
    cdef Py_ssize_t size
    _clear(table, columns, active, out.cells, words_per_cell(out))
    if not gradients.narrow:
        _add_wide_rows(table, gradients.wide, rows, n_rows, cells, out.cells)
        return
    if out.packed:
        _add_rows(table, gradients, rows, n_rows, cells, <uint64_t*>out.cells)
        return
    _clear(table, columns, active, <int64_t*>scratch, 1)
    while n_rows > 0:
        size = min(<Py_ssize_t>gradients.layout.max_rows, n_rows)
        _add_rows(table, gradients, rows, size, cells, scratch)
        _flush(table, columns, active, scratch, out.cells, &gradients.layout)
        rows += size
        n_rows -= size


# Zeros ---------------------------------------------------------------------------------------------------------------

cdef inline void _set_rest(
    int64_t* cells, Py_ssize_t n_codes, Py_ssize_t zero, int64_t* rest, Py_ssize_t width
) noexcept nogil:
    """Called with a literal width."""
    cdef Py_ssize_t i, k
    for i in range(n_codes):
        for k in range(width):
            rest[k] -= cells[width * i + k]
    for k in range(width):
        cells[width * zero + k] = rest[k]


cdef int64_t complete_zeros(
    const Histogram* histogram, const Feature* feature, const Sums* total, const CellLayout* layout
) noexcept nogil:
    """Set the cell of a feature's zeros, counted as 0 so far, given the sums of the node; return their count."""
    cdef int64_t[3] rest
    cdef Histogram whole
    whole.cells, whole.packed = &rest[0], histogram.packed
    set_cell(&whole, 0, total, layout)
    if histogram.packed:
        _set_rest(histogram.cells + feature.offset, feature.n_codes, feature.most_frequent_bin, rest, 1)
    else:
        _set_rest(histogram.cells + 3 * feature.offset, feature.n_codes, feature.most_frequent_bin, rest, 3)
    return cell_sums(&whole, 0, layout).count


cdef void subtract_zeros(
    const Histogram* parent, const Histogram* child, const Feature* feature, Histogram* out, const CellLayout* layout
) noexcept nogil:
    """out = parent - child where the child's rows have only zeros, and out is the parent but for this cell."""
    cdef Py_ssize_t cell = feature.offset + feature.most_frequent_bin
    cdef Sums whole = cell_sums(parent, cell, layout), part = cell_sums(child, cell, layout)
    whole = sums_difference(&whole, &part)
    set_cell(out, cell, &whole, layout)
