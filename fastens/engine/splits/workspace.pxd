from fastens.engine.bins.pages cimport Pages
from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from fastens.engine.heap cimport Candidate
from fastens.engine.histograms.cells cimport Histogram, Sums
from fastens.engine.splits.gain cimport ScanRoom, Split, SplitRules, ValueLimits
from fastens.engine.histograms.histogram cimport Table
from fastens.engine.ranks cimport Ranks
from fastens.engine.histograms.quantise cimport Moments, Quantised, RowGradients
from fastens.engine.limits cimport Limits
from libc.math cimport INFINITY
from fastens.engine.exact cimport log, log2


cdef struct Decision:
    # Which codes of a column go left (see goes_left.h): those up to the bin, or, with categories, those in the set.
    const void* column
    Py_ssize_t row_step             # bytes from the code of a row to that of the next
    int32_t code_size
    Pages* pages                    # of the files that codes are in; NULL: memory
    int32_t n_codes
    int32_t bin
    bint missing_left
    const uint32_t* category_words  # NULL for a numeric feature
    # where only some rows have a code, and all others that of zeros; NULL: all have
    const int32_t* stored_rows      # ascending
    Py_ssize_t n_stored
    int32_t zero_code


cdef Py_ssize_t split_rows(
    const Decision* decision, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil
cdef void collect_rows(
    const uint32_t* scratch, Py_ssize_t n_rows, Py_ssize_t n_left, uint32_t* left, uint32_t* right
) noexcept nogil


cdef enum:
    # Work is measured in (row, column) updates of histograms, of some 0.4 ns.
    UPDATES_PER_CODE = 8            # what it takes to search a code in both children
    MOST_TRAVELLING = 4             # exchanges of histograms that have begun: no more than 3


cdef struct Node:
    # rows[begin:end] of the workspace; left_child 0 while it is a leaf, the right child is the next one.
    Py_ssize_t begin
    Py_ssize_t end
    int32_t depth
    int32_t parent                  # -1 at the root
    int32_t left_child
    int32_t slot                    # its stored histogram, or -1
    int32_t ahead                   # that of its smaller child, counted before the node is split, or -1
    int32_t exchange                # that adds it up over the ranks, from 1
    Py_ssize_t middle               # where the rows of its right child begin, or -1
    Sums sums
    ValueLimits limits
    Split split
    # once the tree is grown and pruned
    float64_t net_gain              # gain of the splits from here on, less the penalty of each
    bint is_split
    int32_t place                   # its number in the tree, or that of the leaf that it has become a part of


cdef struct Task:
    # Count one node's rows; where `difference` is a node, it gets its parent's histogram (in its slot) minus that.
    int32_t counted
    int32_t difference              # or -1
    bint want_counted               # find its best split
    bint want_difference
    bint is_root
    int32_t exchange                # that adds up its cells over the ranks; 0: they are not yet counted


cdef struct Travelling:
    # An exchange whose sums have begun: the cells that are added up.
    int64_t** cells
    int32_t n


cdef struct LeafRows:
    # The rows of a leaf that are still to come: rows[next:end] of the workspace.
    Py_ssize_t next
    Py_ssize_t end
    int32_t node


cdef struct Output:
    # One of the raw predictions that a tree has values for, with histograms in fixed-point units of its own.
    RowGradients source
    Quantised quantised
    float64_t l2                    # of the tree that is grown
    SplitRules rules                # in the units of its sums
    float64_t gain_unit             # gain in units of the loss = gain of the sums * gain_unit
    float64_t hessian_unit          # likewise, the mean over the outputs


cdef struct Workspace:
    # Everything that growing one tree after another needs. Belongs to one Grower; kernels allocate nothing but slots.
    Table table
    const uint8_t* codes            # of the features and rows, or one feature's stored codes after the other's
    Py_ssize_t feature_step         # bytes from the code of a feature to that of the next
    Py_ssize_t row_step             # likewise of a row
    const size_t* near              # for each feature where its codes are besides, by themselves, or 0; NULL: none
    const int32_t* stored_rows      # of the stored codes, ascending for each feature; NULL: all rows have codes
    const int64_t* first_stored     # where those of each feature begin
    Feature* features
    Column* columns                 # those of the table
    Output* outputs
    int32_t n_outputs
    Limits limits
    int32_t features_per_tree
    Py_ssize_t kept_rows            # histograms of nodes of fewer rows are not stored
    int64_t* work                   # n_columns + 1: that of the columns before, to search a node of usual size
    float64_t min_hessian           # of several outputs: limits of the mean hessian and of the summed gains
    float64_t min_gain
    SplitRules rules                # of the first output, or where there are several, what holds for all
    int32_t n_threads               # for the tree that is grown: all, or one where there is little to do
    int32_t n_rooms                 # most threads
    uint32_t* rows
    uint32_t* scratch_rows
    # one of each per room
    uint64_t* zeros                 # n_counted cells, always left at 0; of sparse rows they hold anything
    int64_t** partial               # cells of all outputs
    Histogram* histograms           # n_outputs for each of: a parent, the node that is counted, its sibling
    ScanRoom* rooms
    int32_t* sampled                # n_features: the features that may be drawn, in a random order
    uint64_t* masks                 # 2 * mask_words: the features of a path, and those that may not join them
    uint8_t* allowed                # 2 * n_features: the features that a node may use, for both nodes of a task
    Split* best_splits              # 2: those of the features searched in it, for both nodes of a task
    uint8_t* of_tree                # n_features: those drawn for the tree
    uint64_t seed
    bint codes_are_rare             # packed cells hold all rows of the root here that have any one code
    bint root_is_packed             # which a tree on all rows has shown before
    # stored histograms, of all outputs
    int64_t** slots
    int32_t* free_slots
    int32_t n_slots
    int32_t n_free
    Ranks* ranks                    # NULL: one
    Travelling travelling[MOST_TRAVELLING]      # exchange i at i % MOST_TRAVELLING
    int32_t n_begun                 # exchanges of the tree, and how many of them have ended
    int32_t n_ended
    # nodes of the tree
    Node* nodes
    Sums* sums_of_nodes             # of several outputs: (node, output), and of what goes left
    Sums* left_sums_of_nodes
    int32_t n_nodes
    int32_t node_capacity
    Candidate* candidates           # a heap of the leaves that have a split
    int32_t n_candidates
    int32_t* chosen                 # those of them to split now
    int32_t n_chosen
    Task* tasks
    int32_t n_tasks
    # of sparse rows: for each node the columns with stored codes enough for a split in it, n_words bits; NULL: all
    uint64_t* active
    int32_t n_words
    # once it is grown: exact sums of every node, for each output, then the parts of the threads after the first
    Moments* sums
    LeafRows* leaf_rows             # node_capacity for each room
    # room for the category set of every node, words_per_node each; 0 where no feature is categorical
    uint32_t* category_words
    int32_t words_per_node


cdef inline const Sums* sums_of_node(const Workspace* ws, int32_t node, int32_t output) noexcept nogil:
    if ws.n_outputs == 1:
        return &ws.nodes[node].sums
    return &ws.sums_of_nodes[<Py_ssize_t>node * ws.n_outputs + output]


cdef inline uint64_t* active_columns(const Workspace* ws, int32_t node) noexcept nogil:
    """Those that a split of the node may be on; NULL: all."""
    return NULL if ws.n_words == 0 else ws.active + <Py_ssize_t>node * ws.n_words


cdef bint allocate_workspace(Workspace* ws, Py_ssize_t n_rows) noexcept nogil
cdef void free_workspace(Workspace* ws) noexcept nogil
cdef bint reserve_nodes(Workspace* ws, int32_t n_more) noexcept nogil
cdef int32_t take_slot(Workspace* ws) noexcept nogil
cdef void release_slot(Workspace* ws, Node* node) noexcept nogil
cdef void release_all_slots(Workspace* ws) noexcept nogil
cdef Py_ssize_t rows_in_cells(const Workspace* ws, const Node* node, int32_t output) noexcept nogil
cdef Histogram node_histogram(const Workspace* ws, const Node* node, int32_t slot, int32_t output) noexcept nogil
cdef Histogram partial_histogram(const Workspace* ws, const Node* node, int32_t thread, int32_t output) noexcept nogil


# What a split lowers. A node's score is larger the purer it is; a split's gain is the score of its two sides less that
# of the node, which is how much it lowers the node's weight times its impurity (Breiman et al. 1984).




cdef enum Criterion:
    # Score of sums s (of the classes' weights, or of numbers) of rows of weight w:
    SQUARES                         # sum(s^2) / w: Gini, squared error; Newton steps with s = G, w = H + l2: gain.pxd
    ENTROPY                         # sum(s log2(s / w))
    POISSON                         # sum(s log(s / w)); all sums must be positive
    ERROR                           # max(s): the share of rows of the largest class
    ABSOLUTE                        # no function of sums: see engine/forest/splits/median.pyx


cdef inline float64_t score_of_sums(
    Criterion criterion, const float64_t* sums, int32_t n, float64_t weight
) noexcept nogil:
    """The score; minus infinity where the criterion allows no such sums."""
    cdef int32_t k
    cdef float64_t score = 0.0
    for k in range(n):
        if criterion == SQUARES:
            score += sums[k] * sums[k]
        elif criterion == ERROR:
            score = max(score, sums[k])
        elif sums[k] > 0:
            score += sums[k] * (log2(sums[k] / weight) if criterion == ENTROPY else log(sums[k] / weight))
        elif criterion == POISSON:
            return -INFINITY
    return score / weight if criterion == SQUARES else score


cdef inline float64_t gain_of_squares(
    float64_t sum_, float64_t weight, float64_t left, float64_t left_weight
) noexcept nogil:
    """The gain of SQUARES for one sum: W (s_l - s w_l / W)^2 / (w_l w_r)."""
    cdef float64_t distance = left * weight - sum_ * left_weight
    return distance * distance / (weight * left_weight * (weight - left_weight))
