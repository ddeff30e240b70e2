from fastens.engine.forest.splits.structs cimport (
    Cells, CodeColumn, Entry, FEATURES_AT_ONCE, Forest, ForestTable, Layout, Sample, Search
)
from fastens.engine.splits.workspace cimport ABSOLUTE, ENTROPY, SQUARES
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint32_t, uint64_t
from fastens.engine.bins.pages cimport track_resident_rows


cdef enum:
    MAX_SQUARED = 0x7FFFFFFF        # for smaller weights, sums of squares fit in 62 bits


cdef enum Scan:
    # How the splits of a feature are scored.
    SEVERAL_AT_ONCE                 # scored with vector instructions
    BY_LOGARITHMS                   # entropy of two classes, from a table
    BY_CLASS                        # scored by incremental updates of integer sums
    ONE_BY_ONE                      # any criterion


cdef inline int64_t word_weight(const Layout* layout, uint64_t word) noexcept nogil:
    return <int64_t>((word >> layout.weight_shift) & layout.weight_mask)


cdef inline bint uses_medians(const Forest* forest) noexcept nogil:
    """Return True if splits are scored from the rows themselves rather than from sums."""
    return forest.rules.criterion == ABSOLUTE


cdef inline bint is_packed_squares(const Forest* forest, const Layout* layout) noexcept nogil:
    """Return True if a gain depends on one sum only."""
    return layout.packed and forest.rules.criterion == SQUARES


cdef inline bint is_one_class_target(const Forest* forest) noexcept nogil:
    return forest.targets.classes != NULL and forest.targets.n_targets == 1


cdef inline bint has_class_words(const Search* search) noexcept nogil:
    """Return True if the score is a sum of squares over one target's classes, with one word for each class."""
    return (
        search.forest.rules.criterion == SQUARES and is_one_class_target(search.forest)
        and not search.sample.layout.packed
    )


cdef inline Scan scan_of(const Search* search) noexcept nogil:
    """Return the fastest applicable scan."""
    cdef const Forest* forest = search.forest
    if forest.limits.monotone != NULL:
        return ONE_BY_ONE
    if is_packed_squares(forest, &search.sample.layout):
        return SEVERAL_AT_ONCE
    if has_class_words(search):
        return BY_CLASS if search.weight < MAX_SQUARED else ONE_BY_ONE
    if forest.rules.criterion == ENTROPY and is_one_class_target(forest) and search.weight < forest.rules.n_logs:
        return BY_LOGARITHMS if search.sample.layout.packed else BY_CLASS
    return ONE_BY_ONE


cdef bint is_pure_word(const Search* search, uint64_t total) noexcept nogil
cdef int64_t words_weight(const Search* search, const uint64_t* words) noexcept nogil
cdef float64_t words_score(const Search* search, const uint64_t* words) noexcept nogil
cdef bint is_monotone(const Search* search, float64_t left, float64_t right) noexcept nogil
cdef float64_t unit_of_gain(const Forest* forest, const Layout* layout) noexcept nogil


cdef enum:
    CACHE_LINE = 64
    # With memory-mapped files, records of more rows would touch too many pages at a time.
    FEW_PAGES = 64


cdef extern from "engine/forest/splits/rows.h" nogil:
    uint32_t code_at(int code_size, const CodeColumn* column, uint32_t row)


cdef inline CodeColumn column_of(
    Search* search, int32_t feature, const Entry* rows, Py_ssize_t n_rows, int32_t slot
) noexcept nogil:
    """Return where to read the codes of a feature.

    Many rows are read by column, because they share cache lines there. Otherwise they are read from the records, where
    the codes of a row share a cache line unless there are many. Codes of a sparse table are spread to one of the
    buffers.
    """
    cdef CodeColumn column
    cdef const ForestTable* table = &search.forest.table
    cdef Py_ssize_t size = table.code_size, shared = 1 if table.record_stride * size > CACHE_LINE else FEATURES_AT_ONCE
    if table.stored.rows != NULL:
        return spread_column(search, feature, rows, n_rows, slot)
    if n_rows * CACHE_LINE > table.n_rows * size * shared or (table.pages != NULL and n_rows > FEW_PAGES):
        column.codes = table.columns + feature * table.n_rows * size
        column.stride = 1
    else:
        column.codes = table.records + feature * size
        column.stride = table.record_stride
    if table.pages != NULL and n_rows > 0:
        track_resident_rows(table.pages, rows[0].row, rows[n_rows - 1].row, n_rows, column.stride * size)
    return column


cdef CodeColumn spread_column(
    Search* search, int32_t feature, const Entry* rows, Py_ssize_t n_rows, int32_t slot
) noexcept nogil
cdef void mark_present_features(Search* search) noexcept nogil
cdef void reset_row_positions(Search* search) noexcept nogil


cdef inline void add_row(const Search* search, const Entry* entry, uint64_t* words) noexcept nogil:
    """Add a row to the words of a cell."""
    cdef const Forest* forest = search.forest
    cdef const Layout* layout = &search.sample.layout
    cdef int32_t t, n = forest.targets.n_targets
    cdef Py_ssize_t first = <Py_ssize_t>entry.row * n
    cdef uint64_t weight = (entry.word >> layout.weight_shift) & layout.weight_mask
    if layout.packed:
        words[0] += entry.word
    elif forest.targets.classes == NULL:
        for t in range(n):
            words[t] += weight * <uint64_t>search.sample.numbers[first + t]
        words[n] += entry.word
    else:
        for t in range(n):
            words[forest.targets.classes[first + t]] += entry.word


cdef void count_features(Search* search, const int32_t* features, int32_t n) noexcept nogil
cdef void collect_groups(Search* search, int32_t slot) noexcept nogil


cdef enum:
    FEW_ROWS = 32                   # up to this number, rows are sorted rather than counted


cdef inline bint has_few(const Search* search) noexcept nogil:
    """Return True if the best split of numeric features is found by sorting the node's rows."""
    return (
        search.n_rows <= FEW_ROWS and scan_of(search) == BY_CLASS
        and not search.forest.rules.random_thresholds and search.sample.ranks == NULL
    )


cdef void search_few(Search* search) noexcept nogil


cdef void consider_left(Search* search, int32_t position, bint missing_left) noexcept nogil
cdef int32_t random_candidate(Search* search, bint* missing_left) noexcept nogil
cdef void search_groups(Search* search) noexcept nogil
cdef void finish_split(Search* search) noexcept nogil
