from fastens.engine.histograms.cells cimport Histogram
from fastens.engine.splits.gain cimport FeatureCells, Scan, ScanBuffer, Split
from fastens.engine.splits.scan cimport ScanNode
from fastens.engine.splits.split cimport is_drawn
from fastens.engine.splits.workspace cimport ForcedSplit, Output, Task, Workspace
from fastens.engine.structs cimport Feature, int32_t, int64_t, uint64_t, uint8_t


cdef struct Side:
    # One of the two nodes of a task: its cells and the state of its search.
    int32_t node                    # -1 if absent
    bint wanted
    Histogram* histograms           # one for each output
    uint8_t* allowed                # by feature, unless each feature is asked for
    int32_t* rounds                 # of the permutation that tells which features are drawn; otherwise NULL
    uint64_t key                    # key of the node's random thresholds
    const ForcedSplit* forced       # NULL if the node has no forced split
    Split* best                     # best split among the features of each part
    # Initial search states for one output: over thresholds or single categories, and over category sets.
    Scan of_values
    Scan of_sets
    ScanNode node_of_values         # loop form of of_values


cdef inline bint is_allowed(const Workspace* ws, const Side* side, int32_t feature) noexcept nogil:
    """Return True if the node may split on the feature."""
    return is_drawn(ws, side.rounds, feature) if side.rounds != NULL else side.allowed[feature] != 0


cdef inline FeatureCells cells_of_output(
    const Workspace* ws, const Side* side, const Feature* feature, ScanBuffer* room, int32_t output
) noexcept nogil:
    """Return the cells of a feature for one output."""
    cdef const Output* out = &ws.outputs[output]
    return FeatureCells(&side.histograms[output], &out.quantised.layout, feature, &out.rules, room, side.key)


cdef void run_tasks(Workspace* ws) noexcept nogil
cdef void count_task(Workspace* ws, const Task* task, int64_t** cells) noexcept nogil
cdef void search_counted(Workspace* ws, const Task* task) noexcept nogil
