from fastens.engine.forest.splits.structs cimport Entry, Forest, Layout, Search
from fastens.engine.structs cimport int32_t, uint64_t


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
cdef void collect_groups(Search* search, int32_t place) noexcept nogil
