from fastens.engine.forest.splits.structs cimport CodeColumn, Entry, Forest, Layout, NodeSums, Sample, Scratch
from fastens.engine.structs cimport int32_t, uint32_t, uint64_t


cdef struct Groups:
    # Rows of a node put together by their codes on one feature; scratch.codes has the codes, scratch.found the sums.
    int32_t feature
    int32_t n
    bint is_set                     # in the order of categories, not of codes
    uint64_t key                    # of the random numbers, where thresholds are random


cdef extern from "engine/forest/splits/rows.h" nogil:
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
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const int32_t* features,
    int32_t n,
) noexcept nogil
cdef void collect_groups(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t place, Groups* groups
) noexcept nogil
