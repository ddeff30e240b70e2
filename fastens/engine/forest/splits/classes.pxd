from fastens.engine.forest.splits.score cimport BY_CLASS, scan_of
from fastens.engine.forest.splits.structs cimport Search
from fastens.engine.structs cimport int32_t


cdef enum:
    FEW_ROWS = 32                   # so few are sorted rather than counted


cdef inline bint has_few(const Search* search) noexcept nogil:
    """Whether the best split of numeric features is searched by sorting the node's rows."""
    return (
        search.n_rows <= FEW_ROWS and scan_of(search) == BY_CLASS
        and not search.forest.rules.random_thresholds and search.sample.ranks == NULL
    )


cdef void scan_classes(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil
cdef void search_few(Search* search) noexcept nogil
