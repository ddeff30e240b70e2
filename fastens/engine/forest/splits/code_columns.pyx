"""Where the codes of a node's rows are read."""

from libc.string cimport memset

from fastens.engine.forest.splits.structs cimport CodeColumn, Entry, ForestTable, Search
from fastens.engine.paths cimport add_feature, mask_words
from fastens.engine.rows.stored_rows cimport place_of_row
from fastens.engine.structs cimport code_t, int32_t, int64_t, uint8_t, uint16_t

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
    """The features on which any of a node's rows has another code than that of zeros."""
    cdef const ForestTable* table = &search.forest.table
    cdef const int64_t* of_row
    cdef Py_ssize_t i, k
    memset(search.present, 0, mask_words(table.n_features) * sizeof(search.present[0]))
    for i in range(search.n_rows):
        of_row = table.stored.first_of_row + search.rows[i].row
        for k in range(of_row[0], of_row[1]):
            add_feature(search.present, table.stored.features[k])
