# A tree while it grows, and what a thread needs to grow one.

from fastens.engine.forest.splits.scan cimport uses_medians
from fastens.engine.forest.splits.structs cimport Forest, Open, Search
from fastens.engine.heap cimport Candidate
from fastens.engine.structs cimport float64_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef struct ForestNode:
    float64_t gain
    uint32_t begin, end             # entries
    uint32_t n_rows                 # entries of all ranks
    int32_t feature                 # -1: leaf
    int32_t left_child              # 0: leaf
    uint64_t total                  # packed sums of its rows
    int32_t category_set            # first word, -1 for a threshold
    int32_t n_usable, n_groups      # see FoundSplit
    uint16_t last_code              # codes 1 .. last_code go left
    uint8_t missing_left


cdef struct Grown:
    # Nodes in the order in which they were made, and the words of their sets of categories.
    ForestNode* nodes
    int32_t n, capacity
    uint32_t* words
    int32_t n_words, words_capacity
    float64_t* medians              # n_values a node, for ABSOLUTE only
    int32_t n_values


cdef struct RecordNode:
    # A node that may be split, whose rows have records.
    uint64_t key
    uint64_t mask                   # of features that are constant here, or not allowed
    uint32_t begin, end
    uint32_t second                 # of its rows, how many are of class 1
    int32_t node
    int32_t depth
    int32_t n_excluded              # bits of the mask
    int32_t buffer


cdef struct Workspace:
    # What one thread needs to grow trees.
    Search search
    # A stack of open nodes, and their masks.
    Open* open
    uint64_t* masks
    int32_t n_open, open_capacity
    RecordNode* record_nodes        # the same where rows have records, see records.pyx
    int32_t n_record_nodes, record_nodes_capacity
    Candidate* heap                 # best-first: open nodes that have a split, by their places in the stack
    int32_t n_heap
    uint32_t* sets                  # and the categories that go left


cdef enum:
    MIN_BRANCH_ROWS = 4096
    BRANCHES = 32
    MEDIAN_WORK = 64                # a row's for a median, over that of adding its number


cdef inline Py_ssize_t branch_rows(Py_ssize_t n_entries) noexcept nogil:
    """Nodes of so many rows grow to branches that threads may share out; it does not depend on how many threads."""
    return min(max(n_entries // BRANCHES, <Py_ssize_t>MIN_BRANCH_ROWS), n_entries)


cdef inline Py_ssize_t work_on(const Forest* forest, Py_ssize_t n_rows) noexcept nogil:
    """What it takes to look for a split of so many rows, in (row, feature) updates of sums."""
    return n_rows * forest.limits.features_per_split * (MEDIAN_WORK if uses_medians(forest) else 1)


cdef inline Py_ssize_t halvings(Py_ssize_t n) noexcept nogil:
    """How many levels a tree of so many rows has, about."""
    cdef Py_ssize_t levels = 1
    while n >> levels:
        levels += 1
    return levels
