"""One random threshold of a numeric feature: no cells, but the codes of the rows side by side, gone through twice."""

from libc.string cimport memset

from fastens.engine.forest.splits.code_columns cimport column_of
from fastens.engine.forest.splits.groups cimport add_row
from fastens.engine.forest.splits.scan cimport consider_left
from fastens.engine.forest.splits.score cimport is_one_class_target
from fastens.engine.forest.splits.structs cimport FEATURES_AT_ONCE, CodeColumn, Entry, Search
from fastens.engine.forest.splits.threshold cimport CodeRange, draw_threshold
from fastens.engine.splits.goes_left cimport code_goes_left
from fastens.engine.structs cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "engine/forest/splits/rows.h" nogil:
    void read_codes(
        int code_size, const CodeColumn* columns, const Entry* rows, Py_ssize_t n_rows, int n_columns, void* out,
        Py_ssize_t scratch
    )
    CodeRange code_range(int code_size, const void* codes, Py_ssize_t n_rows)
    uint64_t sum_left(
        int code_size, const void* codes, const uint64_t* words, Py_ssize_t n_rows, uint32_t last,
        uint32_t missing_left
    )
    void add_left(
        int code_size, const void* codes, const Entry* rows, Py_ssize_t n_rows, uint32_t last, uint32_t missing_left,
        uint64_t* words
    )


cdef void copy_words(Search* search) noexcept nogil:
    """The words of the node's rows, side by side."""
    cdef Py_ssize_t i
    for i in range(search.n_rows):
        search.row_words[i] = search.rows[i].word


cdef void copy_codes(Search* search, const int32_t* features, int32_t n) noexcept nogil:
    """The codes of the node's rows on up to FEATURES_AT_ONCE features."""
    cdef CodeColumn[FEATURES_AT_ONCE] columns
    cdef int32_t j
    for j in range(n):
        columns[j] = column_of(search, features[j], search.rows, search.n_rows, j)
    read_codes(
        search.forest.table.code_size, columns, search.rows, search.n_rows, n, search.row_codes, search.n_row_codes
    )


cdef inline const void* _codes(const Search* search, int32_t place) noexcept nogil:
    return search.row_codes + place * search.n_row_codes * search.forest.table.code_size


cdef CodeRange range_of(const Search* search, int32_t place) noexcept nogil:
    """The range of the codes in one place."""
    return code_range(search.forest.table.code_size, _codes(search, place), search.n_rows)


cdef void sum_left_of(Search* search, int32_t place, uint32_t last, bint missing_left) noexcept nogil:
    """The words of the left side to search.left, by the codes in one place."""
    cdef const void* codes = _codes(search, place)
    cdef Py_ssize_t i
    cdef uint32_t code
    cdef int32_t code_size = search.forest.table.code_size
    if search.sample.layout.packed:
        search.left[0] = sum_left(code_size, codes, search.row_words, search.n_rows, last, missing_left)
        return
    memset(search.left, 0, search.sample.layout.n_words * sizeof(uint64_t))
    if is_one_class_target(search.forest):
        add_left(code_size, codes, search.rows, search.n_rows, last, missing_left, search.left)
        return
    for i in range(search.n_rows):
        code = (<const uint8_t*>codes)[i] if code_size == 1 else (<const uint16_t*>codes)[i]
        if code_goes_left(NULL, -1, last, missing_left, code):
            add_row(search, &search.rows[i], search.left)


cdef void search_threshold(Search* search, int32_t place) noexcept nogil:
    """Draw a threshold and keep the split if it is better than the best so far."""
    cdef CodeRange range_ = range_of(search, place)
    cdef bint missing_left
    cdef int32_t last = draw_threshold(&search.forest.table, search.feature, search.key, &range_, &missing_left)
    set_threshold(search, last, range_.has_missing)
    if search.n_groups == 2:
        sum_left_of(search, place, last, missing_left)
        consider_left(search, 0, missing_left)


cdef void set_threshold(Search* search, int32_t last_code, bint has_missing) noexcept nogil:
    """Let a threshold, 0 for none, part the node's rows in two groups."""
    search.last_code = last_code
    search.n_groups, search.is_set = 1 if last_code == 0 else 2, False
    search.codes[0] = not has_missing
