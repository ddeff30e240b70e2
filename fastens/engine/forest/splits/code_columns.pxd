from fastens.engine.bins.pages cimport note_rows
from fastens.engine.forest.splits.structs cimport FEATURES_AT_ONCE, Cells, CodeColumn, Entry, ForestTable, Search
from fastens.engine.structs cimport int32_t, uint32_t

cdef enum:
    CACHE_LINE = 64
    # Of files, records of more rows would be too many pages at a time.
    FEW_PAGES = 64


cdef extern from "engine/forest/splits/rows.h" nogil:
    uint32_t code_at(int code_size, const CodeColumn* column, uint32_t row)


cdef inline CodeColumn column_of(
    Search* search, int32_t feature, const Entry* rows, Py_ssize_t n_rows, int32_t place
) noexcept nogil:
    """Where to read the codes: of many rows by column, for they share cache lines there; else from the records, where
    all codes of a row share one, or not if there are many. Those of a sparse table are spread in one of the places."""
    cdef CodeColumn column
    cdef const ForestTable* table = &search.forest.table
    cdef Py_ssize_t size = table.code_size, shared = 1 if table.record_stride * size > CACHE_LINE else FEATURES_AT_ONCE
    if table.stored.rows != NULL:
        return spread_column(search, feature, rows, n_rows, place)
    if n_rows * CACHE_LINE > table.n_rows * size * shared or (table.pages != NULL and n_rows > FEW_PAGES):
        column.codes = table.columns + feature * table.n_rows * size
        column.stride = 1
    else:
        column.codes = table.records + feature * size
        column.stride = table.record_stride
    if table.pages != NULL and n_rows > 0:
        note_rows(table.pages, rows[0].row, rows[n_rows - 1].row, n_rows, column.stride * size)
    return column


cdef CodeColumn spread_column(
    Search* search, int32_t feature, const Entry* rows, Py_ssize_t n_rows, int32_t place
) noexcept nogil
cdef void note_present(Search* search) noexcept nogil
cdef void forget_places(Search* search) noexcept nogil
cdef void count_stored(Search* search, int32_t feature, const Cells* to, bint marked) noexcept nogil
