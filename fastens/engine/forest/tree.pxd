# A tree during growth, and the workspace of a thread that grows it.

from fastens.engine.forest.splits.scan cimport uses_medians
from fastens.engine.forest.splits.structs cimport Forest, Open, Search
from fastens.engine.heap cimport Candidate
from fastens.engine.structs cimport float64_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef struct ForestNode:
    float64_t gain
    uint32_t begin, end             # range of entries
    uint32_t n_rows                 # number of entries on all workers
    int32_t feature                 # -1 for a leaf
    int32_t left_child              # 0 for a leaf
    uint64_t total                  # packed sums of its rows
    int32_t category_set            # first word, or -1 for a threshold
    int32_t n_usable, n_groups      # see FoundSplit
    uint16_t last_code              # codes 1 .. last_code go left
    uint8_t missing_left


cdef struct Grown:
    # Nodes in order of creation, and the words of their category sets.
    ForestNode* nodes
    int32_t n, capacity
    uint32_t* words
    int32_t n_words, words_capacity
    float64_t* medians              # n_values for each node, for ABSOLUTE only
    int32_t n_values


cdef struct Workspace:
    # Workspace of one thread that grows trees.
    Search search
    # A stack of open nodes, and their masks.
    Open* open
    uint64_t* masks
    int32_t n_open, open_capacity
    # best-first growth: heap of open nodes that have a split, by their index in the stack
    Candidate* heap
    int32_t n_heap
    uint32_t* sets                  # category sets of these splits


cdef enum:
    MIN_BRANCH_ROWS = 4096
    BRANCHES = 32
    MEDIAN_WORK = 64                # cost of a row for a median, relative to adding its number to a sum


cdef inline Py_ssize_t branch_rows(Py_ssize_t n_entries) noexcept nogil:
    """Return the size up to which nodes become branches, independent of the number of threads."""
    return min(max(n_entries // BRANCHES, <Py_ssize_t>MIN_BRANCH_ROWS), n_entries)


cdef inline Py_ssize_t work_on(const Forest* forest, Py_ssize_t n_rows) noexcept nogil:
    """Return the cost of a split search on n_rows rows, in (row, feature) updates of sums."""
    return n_rows * forest.limits.features_per_split * (MEDIAN_WORK if uses_medians(forest) else 1)


cdef inline Py_ssize_t halvings(Py_ssize_t n) noexcept nogil:
    """Return the approximate number of levels of a tree on n rows."""
    cdef Py_ssize_t levels = 1
    while n >> levels:
        levels += 1
    return levels
