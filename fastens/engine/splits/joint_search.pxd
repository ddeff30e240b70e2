from fastens.engine.histograms.cells cimport Histogram
from fastens.engine.splits.gain cimport FeatureCells, Scan, ScanRoom, Split
from fastens.engine.splits.workspace cimport Workspace
from fastens.engine.structs cimport Feature, int32_t, uint8_t, uint64_t


cdef struct Side:
    # One of the two nodes of a task: its cells and what is known of its splits.
    int32_t node                    # -1: not there
    bint wanted
    Histogram* histograms           # of each output
    uint8_t* allowed
    uint64_t key                    # of its draws of thresholds
    Split* best                     # the best split of the features searched in each part
    # where searches for one output begin: over thresholds or single categories, and over sets of categories
    Scan of_values
    Scan of_sets


cdef FeatureCells cells_of_output(
    const Workspace* ws, const Side* side, const Feature* feature, ScanRoom* room, int32_t output
) noexcept nogil
cdef void best_joint_split(
    const Workspace* ws, const Side* side, const Feature* feature, ScanRoom* room, Split* best
) noexcept nogil
cdef int32_t complete_joint_split(Workspace* ws, const Side* side, ScanRoom* room, Split* split) noexcept nogil
