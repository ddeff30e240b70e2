from fastens.engine.bins.bins cimport FeatureBins
from fastens.engine.structs cimport (
    code_t, float64_t, int8_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
)


# The compiled form of an ensemble. It is immutable once constructed, so threads may share it.
#
# A node does not read a feature but a *view* of it: an array of codes in which exactly the rows above a threshold go
# right, without a separate test for missing values. A view holds either the codes themselves (missing values, code 0,
# go left) or the codes minus one (code 0 wraps to the largest code, so missing values go right).


cdef extern from "engine/predict/leafscan.h" nogil:
    enum:
        SCAN_ROWS
        SCAN_TREES
        SET_BYTES
        MAX_SCAN_LEAVES
    ctypedef struct ScanNode:
        int32_t view
        int32_t set
        int8_t threshold
        uint8_t first_leaf
        uint8_t left_leaves
    ctypedef struct ScanTree:
        const ScanNode* nodes
        int32_t n_nodes
        int32_t n_skipping
        const float64_t* values
    int best_scan_level() noexcept
    void shift_view(const uint8_t* codes, uint8_t* shifted) noexcept
    void scan_leaves(
        int level, ScanTree tree, const int8_t* const* views, const uint8_t* sets, uint8_t* leaf) noexcept
    void add_leaves(int level, const ScanTree* trees, int n, const uint8_t* leaf, float64_t* raw) noexcept


cdef extern from "engine/predict/walk.h" nogil:
    enum:
        CHILD_SHIFT
        TEST_SHIFT
        MAX_NARROW_VIEWS
        WALK_LANES
    ctypedef struct Nodes:
        const uint64_t* words
        const int32_t* views
        const int32_t* sets
        const uint32_t* set_words
    ctypedef struct Walk:
        uint32_t root
        int32_t output
        uint16_t first_steps
        uint16_t more_steps
        int32_t is_plain
    ctypedef struct Codes:
        const char* records
        Py_ssize_t stride
        const void* const* views
    void walk_rows(
        const Nodes* nodes, const Walk* walk, const Codes* codes, int code_size, uint32_t n_rows, uint32_t* at,
        uint32_t* waiting) noexcept
    void walk_trees(
        const Nodes* nodes, const Walk* walks, int n_trees, const Codes* codes, int code_size, uint32_t* at,
        uint32_t* waiting) noexcept


cdef struct Column:
    # Views of a feature's codes, and of its codes minus one; -1 if no node needs the view.
    int32_t feature
    int32_t plain
    int32_t shifted


cdef struct Program:
    ScanTree* scans                 # one for each tree; its values are NULL if the tree is too large for a scan
    Walk* walks                     # by tree
    ScanNode* scan_nodes
    float64_t* scan_values          # leaf values of each tree
    Nodes nodes
    const void* value               # by node, n_values each: float32 (value_size 4) or float64
    int value_size
    bint scans_all                  # true if every tree is small enough for a scan
    uint8_t* scan_sets
    Column* columns
    int32_t* column_of              # by feature: its index in `columns`, or -1
    int32_t n_columns
    int32_t n_views
    int32_t n_trees
    int32_t n_outputs
    int32_t n_values                # 1, or n_outputs
    int32_t n_features              # minimum number of columns of the input
    float64_t* baseline             # one for each output
    const FeatureBins* bins         # NULL if the input consists of codes
    void* zeros                     # by view: the code of 0
    int code_size                   # 1 or 2: uint8 or uint16 codes
    int level


cdef class CompiledTrees:
    cdef Program program
    # Arrays that own the memory the program points to.
    cdef object table, value, category_set, category_words
    cdef _compile(self, ensemble)
    cdef const float64_t* _read_values(self, value) except? NULL


# Input rows, as values or codes, presented to the trees as views (see compile.pxd), by feature or by row.


cdef struct Rows:
    # Values ("f", "d": float32, float64) or codes ("B", "H"). Strides are in elements.
    const char* data
    Py_ssize_t n_rows
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    char kind
    # For sparse rows: the feature of each value, and the first value of each row; `starts` is NULL for dense rows.
    const int32_t* features
    const int64_t* starts


cdef void fill_views(
    const Program* program, const Rows* rows, Py_ssize_t row, char* codes, code_t** views
) noexcept nogil

cdef void fill_records(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t* records
) noexcept nogil

cdef Py_ssize_t record_size(const Program* program) noexcept nogil
