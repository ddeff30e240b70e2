from fastens.engine.forest.splits.structs cimport Forest, Open, Search
from fastens.engine.forest.tree cimport Grown, Workspace
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t


cdef bint allocate_search(Search* search, Py_ssize_t n_entries) noexcept nogil
cdef void free_workspace(Workspace* ws) noexcept nogil
cdef bint reserve_nodes(Grown* grown, int32_t n, int32_t n_words) noexcept nogil
cdef void copy_node(
    Grown* tree, const Grown* grown, int32_t from_, int32_t to, int32_t shift, int32_t word_shift
) noexcept nogil
cdef void free_grown(Grown* grown) noexcept nogil


cdef struct TreeBuffer:
    # Grown trees, one after another in the arrays of the model.
    int32_t n_values, n_squares     # numbers per node
    bint narrow                     # true if values and gains are float32
    bint with_search                # true if the search statistics of each split are kept
    Py_ssize_t n_nodes, n_words
    int32_t n_trees
    int32_t* feature
    uint16_t* bin_threshold
    uint8_t* missing_left
    int32_t* category_set
    int32_t* left_child
    char* value
    char* gain
    int32_t* n_samples
    float32_t* weight
    float64_t* squares
    int32_t* n_usable
    int32_t* n_groups
    uint32_t* words
    int64_t* ends                   # (n_trees, 2): end of each tree's nodes and words
    Py_ssize_t nodes_capacity, words_capacity, trees_capacity


cdef bint reserve_tree(TreeBuffer* buffer, Py_ssize_t n_nodes, Py_ssize_t n_words) noexcept nogil
cdef void close_tree(TreeBuffer* buffer, Py_ssize_t n_nodes, Py_ssize_t n_words) noexcept nogil
cdef void free_buffer(TreeBuffer* buffer) noexcept nogil
cdef list take_trees(TreeBuffer* buffer)


cdef inline void set_gain(TreeBuffer* buffer, Py_ssize_t node, float64_t gain) noexcept nogil:
    if buffer.narrow:
        (<float32_t*>buffer.gain)[node] = <float32_t>gain
    else:
        (<float64_t*>buffer.gain)[node] = gain


cdef enum Outcome:
    GROWING
    COMPLETE
    OUT_OF_MEMORY


cdef int32_t bind_to_path(const Forest* forest, int32_t feature, uint64_t* mask) noexcept nogil
cdef bint add_root(Workspace* ws, Grown* grown, Open* root, const uint64_t* mask) noexcept nogil
cdef Outcome grow_depth_first(Workspace* ws, Grown* grown, Workspace* branches, Py_ssize_t* work) noexcept nogil
cdef Outcome grow_best_first(Workspace* ws, Grown* grown, Py_ssize_t* work) noexcept nogil
