from .forest_scan cimport Candidates, Groups
from .forest_tree cimport SQUARES, Forest, FoundSplit, Layout, NodeSums, Room, Sample
from .structs cimport float64_t, int64_t, uint64_t


cdef enum:
    MAX_SQUARED = 0x7FFFFFFF        # weights below it have squares whose sums fit 62 bits


cdef inline bint has_class_words(const Forest* forest, const Sample* sample) noexcept nogil:
    """Whether the score is that of squares, of one target's classes with a word each."""
    return (
        forest.rules.criterion == SQUARES and forest.targets.classes != NULL and forest.targets.n_targets == 1
        and not sample.layout.packed
    )


cdef float64_t class_score(const Layout* layout, const uint64_t* words, Py_ssize_t n_classes) noexcept nogil
cdef void scan_classes(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil
