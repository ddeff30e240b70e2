from fastens.engine.forest.splits.candidates cimport Candidates
from fastens.engine.forest.splits.groups cimport Groups
from fastens.engine.forest.splits.score cimport BY_CLASS, scan_of
from fastens.engine.forest.splits.structs cimport Forest, FoundSplit, NodeSums, Sample, Scratch


cdef enum:
    FEW_ROWS = 32                   # so few are sorted rather than counted


cdef inline bint has_few(const Forest* forest, const Sample* sample, const NodeSums* node) noexcept nogil:
    """Whether the best split of numeric features is searched by sorting the node's rows."""
    return (
        node.n_rows <= FEW_ROWS and scan_of(forest, sample, node) == BY_CLASS
        and not forest.rules.random_thresholds
    )


cdef void scan_classes(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil
cdef void search_few(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil
