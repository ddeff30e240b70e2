from fastens.engine.forest.splits.scan cimport Candidates, Groups
from fastens.engine.forest.tree cimport ENTROPY, SQUARES, Forest, FoundSplit, Layout, NodeSums, Room, Sample
from fastens.engine.structs cimport float64_t, int64_t, uint64_t


cdef enum:
    FEW_ROWS = 32                   # so few are sorted rather than counted
    MAX_SQUARED = 0x7FFFFFFF        # weights below it have squares whose sums fit 62 bits


cdef inline bint has_class_words(const Forest* forest, const Sample* sample) noexcept nogil:
    """Whether the score is that of squares, of one target's classes with a word each."""
    return (
        forest.rules.criterion == SQUARES and forest.targets.classes != NULL and forest.targets.n_targets == 1
        and not sample.layout.packed
    )


cdef inline bint moves_classes(const Forest* forest, const Sample* sample, const NodeSums* node) noexcept nogil:
    """Whether the score of a node's sides can follow their classes in whole numbers."""
    if forest.rules.criterion == ENTROPY:
        return (
            forest.targets.classes != NULL and forest.targets.n_targets == 1 and not sample.layout.packed
            and node.weight < forest.rules.n_logs
        )
    return has_class_words(forest, sample) and node.weight < MAX_SQUARED


cdef inline bint has_few(const Forest* forest, const Sample* sample, const NodeSums* node) noexcept nogil:
    """Whether the best split of numeric features is searched by sorting the node's rows."""
    return (
        node.n_rows <= FEW_ROWS and moves_classes(forest, sample, node)
        and forest.rules.monotonic == NULL and not forest.rules.random_thresholds
    )


cdef float64_t class_score(const Layout* layout, const uint64_t* words, Py_ssize_t n_classes) noexcept nogil
cdef void scan_classes(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil
cdef void search_few(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil
