from fastens.engine.forest.splits.scan cimport Groups
from fastens.engine.forest.tree cimport CodeColumn, Entry, Forest, Layout, NodeSums, Room, Sample
from fastens.engine.structs cimport int32_t, uint32_t, uint64_t


cdef extern from "engine/forest/rows.h" nogil:
    uint32_t code_at(int code_size, const CodeColumn* column, uint32_t row)


cdef inline void add_row(
    const Forest* forest, const Sample* sample, const Entry* entry, uint64_t* words
) noexcept nogil:
    """Add a row to the words of a cell."""
    cdef int32_t t, n = forest.targets.n_targets
    cdef Py_ssize_t first = <Py_ssize_t>entry.row * n
    cdef const Layout* layout = &sample.layout
    if layout.packed:
        words[0] += entry.word
    elif forest.targets.classes == NULL:
        for t in range(n):
            words[t] += ((entry.word >> layout.weight_shift) & layout.weight_mask) * <uint64_t>sample.numbers[first + t]
        words[n] += entry.word
    else:
        for t in range(n):
            words[forest.targets.classes[first + t]] += entry.word


cdef CodeColumn column_of(const Forest* forest, int32_t feature, Py_ssize_t n_rows) noexcept nogil
cdef bint is_marked(const Forest* forest, Py_ssize_t n_rows) noexcept nogil
cdef void count_features(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const int32_t* features, int32_t n
) noexcept nogil
cdef void collect_groups(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, int32_t place, Groups* groups
) noexcept nogil
