# Structs of the tree walk that explains rows, and the Shapley values of features at a leaf.

from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t


cdef extern from "engine/trees/shapley.h" nogil:
    enum:
        SHAPLEY_LANES
        MASK_BITS
        N_VECTORS
    ctypedef struct LeafPath:
        int32_t n
        int32_t n_points
        const float64_t* points
        const float64_t* weights
        const float64_t* share
        float64_t* factors
        float64_t* inverse_known
        float64_t* inverse_unknown
        float64_t* known
        float64_t* unknown
        int32_t n_vectors
    ctypedef struct Pattern:
        const uint32_t* mask
        const int32_t* lacking
        int32_t n_lacking
        int32_t count
        int32_t first
        int32_t last


cdef struct Lines:
    # Linear terms of leaves: node i, numbered over all trees, has the terms starts[i] to starts[i + 1]. NULL if there
    # are none.
    const int64_t* starts
    const int32_t* features
    const float64_t* slopes
    const float64_t* lower
    const float64_t* upper
    const float64_t* at_means
    Py_ssize_t most                 # maximum number of terms of a node


cdef struct Trees:
    # All trees one after another; child indices are relative to the tree.
    const int64_t* first_node
    const int32_t* feature
    # for each feature, the column it is derived from, which is a player of the game
    const int32_t* column
    const uint16_t* bin_threshold
    const uint8_t* missing_left
    const int32_t* category_set
    const uint32_t* category_words
    const int32_t* left_child
    const float64_t* value          # n_values for each node
    Py_ssize_t n_values
    const int32_t* output           # for each tree, the output of its first value
    Py_ssize_t n_trees
    Py_ssize_t n_features
    Py_ssize_t n_columns
    Py_ssize_t n_outputs
    # See `edge_shares`.
    const float64_t* share
    const int32_t* position
    const int32_t* n_on_path
    Py_ssize_t max_depth
    int32_t most_on_path
    const float64_t* points         # quadrature points for 1, 2, 3, ... points, one rule after another
    const float64_t* weights
    Lines lines


cdef struct Rows:
    # Input of an explanation: rows of codes by column, and background rows (training weights are used if n_background
    # is 0).
    const Trees* trees
    const float64_t* X              # NULL if no tree has linear terms
    const float64_t* background_X
    const void* codes
    const void* background
    int32_t code_size
    Py_ssize_t n_rows
    Py_ssize_t n_background
    const float64_t* scales         # factor of each row and background row, (n_background, scales_stride), or NULL
    Py_ssize_t scales_stride
    const float64_t* worth          # worth of coalitions, (most_on_path + 1) squared; see shapley.h
    bint pairs
    Py_ssize_t chunk                # rows, a multiple of SHAPLEY_LANES
    Py_ssize_t n_results
    const int64_t* first_tree       # first tree of each group of trees
    Py_ssize_t n_groups
    Py_ssize_t first                # first row of the current chunk
    char* memory                    # workspace of the first thread; the others follow
    size_t size                     # size of each workspace
    float64_t* sums                 # for each chunk and group: (n_outputs, n_results, chunk)
    float64_t* out
    Py_ssize_t out_stride           # distance between the outputs of a row


cdef struct LinePart:
    # A linear term of a leaf against background rows.
    Py_ssize_t term
    int32_t member                  # the position of its column on the path
    # deviation of the row from the leaf's mean, summed over the background rows of a pattern
    float64_t own
    float64_t others                # deviation of the background rows of this pattern from the leaf's mean


cdef struct Stack:
    # Workspace of a thread. By depth: the node, the number of its children visited, the masks of rows and of background
    # rows, word after word, and the share of the edge's feature before the edge.
    int32_t* node
    int32_t* n_done
    uint32_t* masks
    float64_t* share_above
    # By position on the path.
    float64_t* share
    int32_t* column
    # For a leaf.
    int64_t* offsets                # offset of the result of each column, or pair of columns, on the path
    LeafPath path
    float64_t* products
    float64_t* divided
    float64_t* quotients
    float64_t* counts
    float64_t* parts
    uint32_t* slots                 # for each row, the entry of its mask in the table
    uint32_t* distinct_masks
    uint32_t* entry_of_mask         # entry of each mask plus one; 0 if there is none
    float64_t* factors              # factor of each row, for a linear term or from a table
    Pattern* patterns
    Pattern* sorted_patterns
    uint32_t* pattern_masks
    int32_t* lacking
    int32_t* next_row               # next background row of the same pattern
    int32_t* first_lacking          # for each number of missing features, the first pattern
    int32_t* table                  # hash table of patterns
    float64_t* values               # values of the rows by feature, if leaves have linear terms
    uint32_t* line_masks            # masks of the rows and background rows, if leaves have linear terms
    LinePart* line_parts            # linear terms of a leaf
    float64_t* line_sums            # deviations by background row, then part; followed by one row's deviations
    float64_t* phi                  # sums of a chunk and a group


cdef struct Walk:
    # One tree on a chunk of rows.
    const Rows* rows
    Stack* stack
    Py_ssize_t row                  # first row
    Py_ssize_t n                    # number of rows
    Py_ssize_t stride               # distance between the words of a mask
    Py_ssize_t n_words
    int64_t first                   # first node of the tree
    int32_t output


cdef struct Leaf:
    # The work at a leaf, which is done once for its value and once for each linear term (term >= 0).
    const Walk* walk
    const uint32_t* masks           # masks of its rows
    int64_t node
    int32_t n                       # number of columns on its path
    int32_t n_parts
    int32_t n_patterns
    Py_ssize_t term
    int32_t term_member


cdef inline Py_ssize_t mask_stride(const Rows* rows) noexcept nogil:
    # Slots for the rows of a chunk, followed by the background rows.
    return rows.chunk + (rows.n_background + SHAPLEY_LANES - 1) // SHAPLEY_LANES * SHAPLEY_LANES


cdef inline Py_ssize_t sums_size(const Rows* rows) noexcept nogil:
    return rows.trees.n_outputs * rows.n_results * rows.chunk


cdef inline int32_t table_size(Py_ssize_t n) noexcept nogil:
    cdef int32_t size = 16
    while size < 2 * n:
        size *= 2
    return size


cdef void add_linear_terms(Leaf* leaf) noexcept nogil
cdef void prepare_leaf(Leaf* leaf) noexcept nogil
cdef void compute_parts(
    const Leaf* leaf, const uint32_t* masks, Py_ssize_t stride, Py_ssize_t row, float64_t* parts) noexcept nogil
