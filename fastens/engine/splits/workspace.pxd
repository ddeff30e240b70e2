from fastens.engine.heap cimport Candidate
from fastens.engine.histograms.cells cimport Histogram, Sums
from fastens.engine.splits.gain cimport ScanRoom, Split, SplitRules, ValueLimits
from fastens.engine.histograms.histogram cimport Table
from fastens.engine.ranks cimport Ranks
from fastens.engine.splits.partition cimport Decision
from fastens.engine.histograms.quantise cimport Moments, Quantised
from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef struct Node:
    # rows[begin:end] of the workspace; left_child 0 while it is a leaf, the right child is the next one.
    Py_ssize_t begin
    Py_ssize_t end
    int32_t depth
    int32_t parent                  # -1 at the root
    int32_t left_child
    int32_t slot                    # its stored histogram, or -1
    Sums sums
    ValueLimits limits
    Split split
    # once the tree is grown
    float64_t profit                # what the splits from here on gain, less their price
    bint goes_on                    # whether the tree has its split
    int32_t place                   # its number in the tree, or that of the leaf that it has become a part of


cdef struct Task:
    # Count one node's rows; where `difference` is a node, it gets its parent's histogram (in its slot) minus that.
    int32_t counted
    int32_t difference              # or -1
    bint want_counted               # find its best split
    bint want_difference
    bint is_root


cdef struct FeatureRules:
    # Which features a tree and its nodes may split on. The arrays belong to the Grower.
    int32_t n_per_tree              # drawn at random for a tree
    int32_t n_per_node              # and of those, for a node
    const float64_t* weights        # chances of being drawn; NULL: all alike
    int32_t max_on_path             # the most features between the root and a leaf; 0: no limit
    const uint8_t* groups           # (n_groups, n_features): the features of a path are all in one group; NULL: no rule
    int32_t n_groups


cdef struct Workspace:
    # Everything that growing one tree after another needs. Belongs to one Grower; kernels allocate nothing but slots.
    Table table
    const void* codes               # (n_features, n_rows)
    Py_ssize_t code_stride          # from one feature's to the next
    Feature* features
    Column* columns                 # those of the table
    Quantised quantised
    SplitRules rules
    int32_t n_threads               # for the tree that is grown: all, or one where there is little to do
    int32_t n_rooms                 # most threads
    uint32_t* rows
    uint32_t* scratch_rows
    # one of each per room
    uint64_t* zeros                 # n_counted cells, always left at 0
    Histogram* partial
    ScanRoom* rooms
    int32_t* sampled                # n_features: the features that may be drawn, in a random order
    uint8_t* allowed                # 2 * n_features: the features that a node may use, for both nodes of a task
    Split* feature_splits           # 2 * n_features
    uint8_t* of_tree                # n_features: those drawn for the tree
    FeatureRules feature_rules
    uint64_t seed
    # stored histograms
    Histogram* slots                # the memory of each, and the form it is in
    int32_t* free_slots
    int32_t n_slots
    int32_t n_free
    Ranks* ranks                    # NULL: one
    # nodes of the tree
    Node* nodes
    int32_t n_nodes
    int32_t node_capacity
    Candidate* candidates           # a heap of the leaves that have a split
    int32_t n_candidates
    int32_t* chosen                 # those of them to split now
    int32_t n_chosen
    Task* tasks
    int32_t n_tasks
    # once it is grown: exact sums of every node, for each output, then the parts of the threads after the first
    Moments* sums
    int32_t n_outputs
    # room for the category set of every node, words_per_node each; 0 where no feature is categorical
    uint32_t* category_words
    int32_t words_per_node


cdef bint allocate_workspace(Workspace* ws, Py_ssize_t n_rows) noexcept nogil
cdef void free_workspace(Workspace* ws) noexcept nogil
cdef bint reserve_nodes(Workspace* ws, int32_t n_more) noexcept nogil
cdef int32_t take_slot(Workspace* ws) noexcept nogil
cdef void release_slot(Workspace* ws, Node* node) noexcept nogil
cdef void release_all_slots(Workspace* ws) noexcept nogil
cdef Histogram slot_histogram(const Workspace* ws, int32_t slot, bint packed) noexcept nogil
