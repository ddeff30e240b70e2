"""Histograms of gradients, hessians and counts by code, for dense and sparse rows."""

from libc.string cimport memcpy, memset
from fastens.engine.bins.pages cimport track_more_resident_rows, track_resident_rows
from fastens.engine.histograms.cells cimport (
    CellLayout, Histogram, Sums, add_row, add_sums, cell_sums, clear_sums, flush_cell, set_cell, subtract_words,
    sums_difference, unpack, words_per_cell
)
from fastens.engine.structs cimport (
    Column, Feature, PREFETCH_AHEAD, code_t, int32_t, int64_t, prefetch, uint16_t, uint32_t, uint64_t, uint8_t
)
from fastens.engine.paths cimport next_feature
from fastens.engine.rows.stored_rows cimport first_at_least


# The rows of a block stay in the L1 cache while all blocks of columns process them.
cdef enum:
    ROW_BLOCK = 512
    # Prefetch distance for the records, starting with the first record of a node, which no hardware prefetcher
    # anticipates: memory latency spans about twenty records. With a distance of 16 and no prefetch at the start of a
    # block, a tree on 1 M rows took 1.2 times as long (28 columns, 31 and 255 leaves, one thread on a busy machine).
    ROWS_AHEAD = 32


cdef inline void _add_four(uint64_t* cells, const uint8_t* record, uint64_t word) noexcept nogil:
    """Add a row's word to its cells of four columns, whose codes are the next four bytes of its record."""
    cdef uint32_t codes
    memcpy(&codes, record, sizeof(codes))       # records may be unaligned
    cells[codes & 0xFF] += word
    cells[CELL_STRIDE + ((codes >> 8) & 0xFF)] += word
    cells[2 * CELL_STRIDE + ((codes >> 16) & 0xFF)] += word
    cells[3 * CELL_STRIDE + (codes >> 24)] += word


cdef inline void _add_rows_of_bytes(
    const Table* of_all, const Quantised* of_rows, const uint32_t* rows, Py_ssize_t n_rows, Py_ssize_t n_to_come,
    Columns columns, uint64_t* cells, Place place,
) noexcept nogil:
    """Add the words of rows with one-byte codes to packed cells, two rows at a time for independent additions.

    The rows after n_rows, up to n_to_come, will be added next and are only prefetched.
    """
    cdef Table table = of_all[0]                    # local copies, which the stores below cannot alias
    cdef Quantised gradients = of_rows[0]
    cdef const uint8_t* records = table.records + columns.first
    cdef Py_ssize_t i, n_fetched = min(n_rows, n_to_come - ROWS_AHEAD - 1)
    cdef int32_t _k, k, n_fours = (columns.end - columns.first) // 4, n_ones = (columns.end - columns.first) % 4
    cdef const uint8_t* a
    cdef const uint8_t* b
    cdef uint64_t word_a, word_b
    cdef uint64_t* column_cells
    cdef bint apart = gradients.payload_stride != table.stride
    for i in range(0, n_rows, 2):
        if i < n_fetched:
            prefetch(records + rows[i + ROWS_AHEAD] * table.stride)
            prefetch(records + rows[i + 1 + ROWS_AHEAD] * table.stride)
            if place == IN_WORDS:
                prefetch(&gradients.words[rows[i + ROWS_AHEAD]])
            elif apart:
                prefetch(gradients.payloads + rows[i + ROWS_AHEAD] * gradients.payload_stride)
        a = b = records + rows[i] * table.stride
        word_a, word_b = word_of(&gradients, rows[i], place), 0
        if i + 1 < n_rows:
            b = records + rows[i + 1] * table.stride
            word_b = word_of(&gradients, rows[i + 1], place)
        column_cells = cells + columns.first * <Py_ssize_t>CELL_STRIDE
        for _k in range(n_fours):
            _add_four(column_cells, a, word_a)
            _add_four(column_cells, b, word_b)
            column_cells += 4 * CELL_STRIDE
            a += 4
            b += 4
        for k in range(n_ones):
            column_cells[k * CELL_STRIDE + a[k]] += word_a
            column_cells[k * CELL_STRIDE + b[k]] += word_b


cdef void _add_rows_of_two_bytes(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Py_ssize_t n_to_come,
    Columns columns, uint64_t* cells,
) noexcept nogil:
    """Add the words of rows with two-byte codes to packed cells; rows up to n_to_come are prefetched."""
    cdef Py_ssize_t i
    cdef int32_t f
    cdef const uint8_t* record
    cdef uint64_t word
    cdef Place place = place_of_words(gradients)
    for i in range(n_rows):
        if i + ROWS_AHEAD < n_to_come:
            prefetch(table.records + rows[i + ROWS_AHEAD] * table.stride + 2 * columns.first)
        record = table.records + rows[i] * table.stride
        word = word_of(gradients, rows[i], place)
        for f in range(columns.first, columns.end):
            cells[table.columns[f].offset + (<const uint16_t*>record)[f]] += word


cdef inline void _add_rows_wide(
    const Table* table, const int64_t* wide, const uint32_t* rows, Py_ssize_t n_rows, Columns columns,
    int64_t* cells, const code_t* type_of_code,
) noexcept nogil:
    """Add rows of dense codes, which have the type of the unused `type_of_code`, to wide cells.

    `wide` holds three words per row.
    """
    cdef Py_ssize_t i
    cdef int32_t f
    cdef const code_t* codes
    cdef const int64_t* row
    for i in range(n_rows):
        if i + PREFETCH_AHEAD < n_rows:
            prefetch(table.records + rows[i + PREFETCH_AHEAD] * table.stride)
            prefetch(wide + 3 * <Py_ssize_t>rows[i + PREFETCH_AHEAD])
        codes = <const code_t*>(table.records + rows[i] * table.stride)
        row = wide + 3 * <Py_ssize_t>rows[i]
        for f in range(columns.first, columns.end):
            add_row(cells + 3 * <Py_ssize_t>(table.columns[f].offset + codes[f]), row)


cdef void _clear(
    const Table* table, Columns columns, const uint64_t* active, int64_t* cells, Py_ssize_t width
) noexcept nogil:
    """Clear the cells, of `width` words each, of the active ones (NULL: all) among some adjacent columns.

    Runs of adjacent active columns are cleared at a time.
    """
    cdef const Column* column
    cdef Py_ssize_t first = 0, end = 0
    cdef int32_t c = next_feature(active, columns.first, columns.end)
    while c < columns.end:
        column = &table.columns[c]
        if column.offset != end:
            memset(cells + width * first, 0, width * (end - first) * sizeof(int64_t))
            first = column.offset
        end = column.offset + column.n_codes
        c = next_feature(active, c + 1, columns.end)
    memset(cells + width * first, 0, width * (end - first) * sizeof(int64_t))


cdef void _flush(
    const Table* table, Columns columns, const uint64_t* active, uint64_t* packed, int64_t* wide,
    const CellLayout* layout,
) noexcept nogil:
    """Add the packed cells of the active columns (NULL for all) to wide cells, and clear the packed cells."""
    cdef const Column* column
    cdef Py_ssize_t i
    cdef int32_t c = next_feature(active, columns.first, columns.end)
    while c < columns.end:
        column = &table.columns[c]
        for i in range(column.offset, column.offset + column.n_codes):
            flush_cell(&packed[i], &wide[3 * i], layout)
        c = next_feature(active, c + 1, columns.end)


cdef void build_histogram(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Columns columns,
    Py_ssize_t most_rows, uint64_t* scratch, Histogram* out,
) noexcept nogil:
    """Write the histogram of some rows and columns to `out`, on one thread, in the form of `out.packed`.

    `scratch` holds n_counted zeros before and after the call: packed cells that are flushed to wide cells after every
    `most_rows` rows.
    """
    cdef uint64_t* cells = <uint64_t*>out.cells if out.packed else scratch
    cdef Py_ssize_t i, size, n_in_cells = 0
    cdef int64_t page = -1
    cdef Columns block
    cdef Place place = place_of_words(gradients)
    _clear(table, columns, NULL, out.cells, words_per_cell(out))
    if not gradients.narrow:
        if n_rows > 0:
            track_resident_rows(table.pages, rows[0], rows[n_rows - 1], n_rows, table.stride)
        if table.code_size == 1:
            _add_rows_wide(table, gradients.wide, rows, n_rows, columns, out.cells, <const uint8_t*>NULL)
        else:
            _add_rows_wide(table, gradients.wide, rows, n_rows, columns, out.cells, <const uint16_t*>NULL)
        return
    for i in range(min(<Py_ssize_t>ROWS_AHEAD, n_rows)):
        prefetch(table.records + rows[i] * table.stride + table.code_size * columns.first)
    while n_rows > 0:
        size = min(<Py_ssize_t>ROW_BLOCK, n_rows)
        page = track_more_resident_rows(table.pages, page, rows[0], rows[size - 1], size, table.stride)
        if not out.packed and n_in_cells + size > most_rows:
            _flush(table, columns, NULL, scratch, out.cells, &gradients.layout)
            n_in_cells = 0
        block.first = columns.first
        while block.first < columns.end:
            block.end = min(block.first + <int32_t>COLUMN_BLOCK, columns.end)
            if table.code_size == 2:
                _add_rows_of_two_bytes(table, gradients, rows, size, n_rows, block, cells)
            elif place == IN_WORDS:
                _add_rows_of_bytes(table, gradients, rows, size, n_rows, block, cells, IN_WORDS)
            elif place == IN_FRESH:
                _add_rows_of_bytes(table, gradients, rows, size, n_rows, block, cells, IN_FRESH)
            else:
                _add_rows_of_bytes(table, gradients, rows, size, n_rows, block, cells, IN_PAYLOADS)
            block.first = block.end
        rows += size
        n_rows -= size
        n_in_cells += size
    if not out.packed:
        _flush(table, columns, NULL, scratch, out.cells, &gradients.layout)


cdef void merge_histogram(Histogram* into, const Histogram* other, const Column* column) noexcept nogil:
    """Add `other` to `into` for one column. Both must have the same form."""
    cdef Py_ssize_t i, width = words_per_cell(into)
    for i in range(width * column.offset, width * (column.offset + column.n_codes)):
        into.cells[i] += other.cells[i]


cdef void subtract_histogram(
    const Histogram* parent, const Histogram* child, Histogram* out, const CellLayout* layout, const Column* column
) noexcept nogil:
    """Write parent - child for the features of one column. A packed parent has packed children.

    `out` may be the parent if both have the same form.
    """
    cdef Sums whole, part
    cdef Py_ssize_t i, width = words_per_cell(out), first = width * column.first_own
    if parent.packed == child.packed and parent.packed == out.packed:
        subtract_words(parent.cells + first, child.cells + first, width * column.n_own, out.cells + first)
        return
    for i in range(column.first_own, column.first_own + column.n_own):
        whole, part = cell_sums(parent, i, layout), cell_sums(child, i, layout)
        whole = sums_difference(&whole, &part)
        set_cell(out, i, &whole, layout)


cdef inline void _sum_members(
    const int64_t* source, const Feature* feature, const int64_t* total, int64_t* cells, Py_ssize_t width
) noexcept nogil:
    """Write the cells of a bundled feature from the bundle's cells, `source`, and the node's sums, `total`.

    The cell of the most frequent bin follows by subtraction. Call with a literal width, the words per cell.
    """
    cdef const uint8_t* member = feature.members
    cdef const uint8_t* end
    cdef Py_ssize_t code, k
    cdef int64_t[3] sums
    cdef int64_t[3] rest
    for k in range(width):
        rest[k] = total[k]
    for code in range(feature.n_codes):
        for k in range(width):
            sums[k] = 0
        end = member + 1 + member[0]
        member += 1
        while member < end:
            for k in range(width):
                sums[k] += source[width * member[0] + k]
            member += 1
        for k in range(width):
            cells[width * code + k] = sums[k]
            rest[k] -= sums[k]
    for k in range(width):
        cells[width * feature.most_frequent_bin + k] = rest[k]


cdef void unbundle(
    Histogram* histogram, const Column* column, const Feature* features, const Sums* total, const CellLayout* layout
) noexcept nogil:
    """Write the cells of all features of a bundled column, given the column's cells and the node's sums."""
    cdef int64_t[3] sums
    cdef Histogram whole
    cdef const Feature* feature
    cdef int32_t i
    whole.cells, whole.packed = &sums[0], histogram.packed
    set_cell(&whole, 0, total, layout)
    for i in range(column.n_features):
        feature = &features[column.features[i]]
        if histogram.packed:
            _sum_members(histogram.cells + column.offset, feature, sums, histogram.cells + feature.offset, 1)
        else:
            _sum_members(histogram.cells + 3 * column.offset, feature, sums, histogram.cells + 3 * feature.offset, 3)


cdef Sums sums_of_rows(const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows) noexcept nogil:
    """Return the sums of the quantised gradients, hessians, weights and counts over some rows."""
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
    # The cells of a range of adjacent columns.
    uint32_t first
    uint32_t end
    bint is_all


cdef inline Range _cell_range(const Table* table, Columns columns) noexcept nogil:
    """Return the range of the sparse table's cells that adjacent columns occupy."""
    cdef Range cells
    cells.first = table.columns[columns.first].offset
    cells.end = <uint32_t>table.n_counted
    if columns.end < table.n_columns:
        cells.end = table.columns[columns.end].offset
    cells.is_all = columns.first == 0 and columns.end == table.n_columns
    return cells


cdef inline void _find_stored(
    const Table* table, uint32_t row, Range cells, int64_t* begin, int64_t* end
) noexcept nogil:
    """Write to begin[0] and end[0] the range of table.cells with the row's stored codes in a range of cells."""
    begin[0], end[0] = table.first_cell[row], table.first_cell[row + 1]
    if not cells.is_all:
        begin[0] = first_at_least(table.cells, begin[0], end[0], cells.first)
        end[0] = first_at_least(table.cells, begin[0], end[0], cells.end)


cdef inline void _add_sparse_rows(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Range columns,
    uint64_t* cells,
) noexcept nogil:
    """Add the packed gradients of sparse rows to the cells of their stored codes in the cell range `columns`."""
    cdef Py_ssize_t i
    cdef int64_t k = 0, end = 0
    cdef uint64_t word
    for i in range(n_rows):
        if i + PREFETCH_AHEAD < n_rows:
            prefetch(&table.first_cell[rows[i + PREFETCH_AHEAD]])
            prefetch(&table.cells[table.first_cell[rows[i + PREFETCH_AHEAD // 2]]])
        word = word_of(gradients, rows[i], place_of_words(gradients))
        _find_stored(table, rows[i], columns, &k, &end)
        while k < end:
            cells[table.cells[k]] += word
            k += 1


cdef void _add_sparse_rows_wide(
    const Table* table, const int64_t* wide, const uint32_t* rows, Py_ssize_t n_rows, Range columns, int64_t* cells
) noexcept nogil:
    """Add sparse rows to the wide cells of their stored codes, in the range of cells `columns`.

    `wide` holds three words per row.
    """
    cdef Py_ssize_t i
    cdef int64_t k = 0, end = 0
    for i in range(n_rows):
        _find_stored(table, rows[i], columns, &k, &end)
        while k < end:
            add_row(cells + 3 * <Py_ssize_t>table.cells[k], wide + 3 * <Py_ssize_t>rows[i])
            k += 1


cdef void build_sparse_histogram(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Columns columns,
    const uint64_t* active, uint64_t* scratch, Histogram* out,
) noexcept nogil:
    """Write the histogram of some rows, without zeros, to `out`, on one thread, in the form of `out.packed`.

    It is valid for the active ones (NULL: all) among the columns. `scratch` is a buffer for n_counted packed cells.
    """
    cdef Range cells = _cell_range(table, columns)
    cdef Py_ssize_t size
    _clear(table, columns, active, out.cells, words_per_cell(out))
    if not gradients.narrow:
        _add_sparse_rows_wide(table, gradients.wide, rows, n_rows, cells, out.cells)
        return
    if out.packed:
        _add_sparse_rows(table, gradients, rows, n_rows, cells, <uint64_t*>out.cells)
        return
    _clear(table, columns, active, <int64_t*>scratch, 1)
    while n_rows > 0:
        size = min(<Py_ssize_t>gradients.layout.max_rows, n_rows)
        _add_sparse_rows(table, gradients, rows, size, cells, scratch)
        _flush(table, columns, active, scratch, out.cells, &gradients.layout)
        rows += size
        n_rows -= size


# Zeros ---------------------------------------------------------------------------------------------------------------

cdef inline void _set_rest(
    int64_t* cells, Py_ssize_t n_codes, Py_ssize_t zero, int64_t* rest, Py_ssize_t width
) noexcept nogil:
    """Set the empty cell of zeros to `rest`, which holds the node's sums and is overwritten, minus all other cells.

    Call with a literal width, the words per cell.
    """
    cdef Py_ssize_t i, k
    for i in range(n_codes):
        for k in range(width):
            rest[k] -= cells[width * i + k]
    for k in range(width):
        cells[width * zero + k] = rest[k]


cdef void complete_zeros(
    const Histogram* histogram, const Feature* feature, const Sums* total, const CellLayout* layout
) noexcept nogil:
    """Set a feature's cell of zeros, which is empty, from the sums of the node and of the other cells.

    In a node with more rows than packed cells can count, this cell may overflow. Its word is still exact modulo 2**64,
    so differences of words are exact.
    """
    cdef int64_t[3] rest
    cdef Histogram whole
    whole.cells, whole.packed = &rest[0], histogram.packed
    set_cell(&whole, 0, total, layout)
    if histogram.packed:
        _set_rest(histogram.cells + feature.offset, feature.n_codes, feature.most_frequent_bin, rest, 1)
    else:
        _set_rest(histogram.cells + 3 * feature.offset, feature.n_codes, feature.most_frequent_bin, rest, 3)


cdef int64_t count_stored(
    const Histogram* histogram, const Feature* feature, const Sums* total, const CellLayout* layout
) noexcept nogil:
    """Return the number of the node's rows with a stored code of the feature, even if the cell of zeros overflows."""
    cdef const int64_t* cells = histogram.cells + feature.offset
    cdef int64_t count = 0, mask = <int64_t>layout.count_mask
    cdef Py_ssize_t i
    if not histogram.packed or total.count <= mask:
        return total.count - cell_sums(histogram, feature.offset + feature.most_frequent_bin, layout).count
    for i in range(feature.n_codes):
        count += cells[i] & mask
    return count - (cells[feature.most_frequent_bin] & mask)


cdef void subtract_zeros(
    const Histogram* parent, const Histogram* child, const Feature* feature, Histogram* out, const CellLayout* layout
) noexcept nogil:
    """Subtract a child whose rows are all zero in the feature: write the cell of zeros of `out`.

    The other cells of `out` must already equal the parent's cells.
    """
    cdef Py_ssize_t cell = feature.offset + feature.most_frequent_bin
    cdef Sums whole, part
    if parent.packed and child.packed:
        out.cells[cell] = parent.cells[cell] - child.cells[cell]
        return
    whole, part = cell_sums(parent, cell, layout), cell_sums(child, cell, layout)
    whole = sums_difference(&whole, &part)
    set_cell(out, cell, &whole, layout)
