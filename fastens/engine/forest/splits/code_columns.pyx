"""Where the codes of a node's rows are read."""

from libc.string cimport memset

from fastens.engine.forest.splits.structs cimport Cells, CodeColumn, Entry, ForestTable, Search
from fastens.engine.paths cimport add_feature, mask_words
from fastens.engine.rows.stored_rows cimport place_of_row
from fastens.engine.structs cimport code_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    # To look a row up in a column takes as long as to go through so many of its stored codes.
    STORED_PER_LOOK = 8


cdef CodeColumn spread_column(
    Search* search, int32_t feature, const Entry* rows, Py_ssize_t n_rows, int32_t place
) noexcept nogil:
    """The codes of these rows of a sparse table, spread in one of the places."""
    cdef const ForestTable* table = &search.forest.table
    cdef void* codes = search.spread + place * table.n_rows * table.code_size
    if table.code_size == 1:
        _spread(table, feature, rows, n_rows, <uint8_t*>codes)
    else:
        _spread(table, feature, rows, n_rows, <uint16_t*>codes)
    return CodeColumn(codes, 1)


cdef inline void _spread(
    const ForestTable* table, int32_t feature, const Entry* rows, Py_ssize_t n_rows, code_t* out
) noexcept nogil:
    """Write the codes of these rows, ascending ones, each to its place among all rows; other places get anything."""
    cdef int64_t first = table.stored.first[feature]
    cdef Py_ssize_t i, place = 0, n_stored = table.stored.first[feature + 1] - first
    cdef const int32_t* stored_rows = table.stored.rows + first
    cdef const code_t* codes = (<const code_t*>table.stored.codes) + first
    cdef code_t zero = (<const code_t*>table.stored.zeros)[feature]
    for i in range(n_rows):
        out[rows[i].row] = zero
    if n_stored <= STORED_PER_LOOK * n_rows:
        for i in range(n_stored):
            out[stored_rows[i]] = codes[i]
        return
    for i in range(n_rows):
        place = place_of_row(stored_rows, n_stored, place, rows[i].row)
        if place == n_stored:
            return
        if <Py_ssize_t>stored_rows[place] == rows[i].row:
            out[rows[i].row] = codes[place]


cdef void note_present(Search* search) noexcept nogil:
    """The features on which any of a node's rows has another code than that of zeros, and where the rows stand."""
    cdef const ForestTable* table = &search.forest.table
    cdef const int64_t* of_row
    cdef Py_ssize_t i, k
    memset(search.present, 0, mask_words(table.n_features) * sizeof(search.present[0]))
    for i in range(search.n_rows):
        search.places[search.rows[i].row] = <uint32_t>i + 1
        of_row = table.stored.first_of_row + search.rows[i].row
        for k in range(of_row[0], of_row[1]):
            add_feature(search.present, table.stored.features[k])


cdef void forget_places(Search* search) noexcept nogil:
    """No row is in the node any more."""
    cdef Py_ssize_t i
    for i in range(search.n_rows):
        search.places[search.rows[i].row] = 0


cdef void count_stored(Search* search, int32_t feature, const Cells* to, bint marked) noexcept nogil:
    """Count the node's rows on a feature, each adding one word: those of zeros are what the others leave of all."""
    cdef const ForestTable* table = &search.forest.table
    if table.code_size == 1:
        _count(search, feature, to, marked, table.stored.codes)
    else:
        _count(search, feature, to, marked, <const uint16_t*>table.stored.codes)


cdef inline void _count(
    Search* search, int32_t feature, const Cells* to, bint marked, const code_t* codes
) noexcept nogil:
    cdef const ForestTable* table = &search.forest.table
    cdef int64_t first = table.stored.first[feature]
    cdef Py_ssize_t i, k, place = 0, n_found = 0, n_stored = table.stored.first[feature + 1] - first
    cdef Py_ssize_t n_words = search.sample.layout.n_words
    cdef const int32_t* stored_rows = table.stored.rows + first
    cdef uint32_t zero
    if code_t is uint8_t:
        zero = table.stored.zeros[feature]
    else:
        zero = (<const uint16_t*>table.stored.zeros)[feature]
    codes += first
    for k in range(n_words):
        to.cells[zero * n_words + k] += search.total[k]
    if n_stored <= STORED_PER_LOOK * search.n_rows:
        for i in range(n_stored):
            place = search.places[stored_rows[i]]
            if place > 0:
                _move(to, &search.rows[place - 1], codes[i], zero, n_words, marked)
                n_found += 1
    else:
        for i in range(search.n_rows):
            place = place_of_row(stored_rows, n_stored, place, search.rows[i].row)
            if place == n_stored:
                break
            if <uint32_t>stored_rows[place] == search.rows[i].row:
                _move(to, &search.rows[i], codes[place], zero, n_words, marked)
                n_found += 1
    if marked and n_found < search.n_rows:
        _mark(to, zero)


cdef inline void _move(
    const Cells* to, const Entry* entry, uint32_t code, uint32_t zero, Py_ssize_t n_words, bint marked
) noexcept nogil:
    """From the cell of zeros to that of the row's code."""
    cdef Py_ssize_t offset = 0 if n_words == 1 else entry.offset
    to.cells[code * n_words + offset] += entry.word
    to.cells[zero * n_words + offset] -= entry.word
    if marked:
        _mark(to, code)


cdef inline void _mark(const Cells* to, uint32_t code) noexcept nogil:
    to.marks[code >> 6] |= <uint64_t>1 << (code & 63)
    to.summary[code >> 12] |= <uint64_t>1 << ((code >> 6) & 63)
