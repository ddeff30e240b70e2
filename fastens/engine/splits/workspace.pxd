from fastens.engine.bins.pages cimport Pages
from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from fastens.engine.heap cimport Candidate
from fastens.engine.histograms.cells cimport Histogram, Sums
from fastens.engine.splits.gain cimport ScanBuffer, Split, SplitRules, ValueLimits
from fastens.engine.histograms.histogram cimport Table
from fastens.engine.ranks cimport Ranks
from fastens.engine.histograms.quantise cimport Moments, Quantised, RowGradients
from fastens.engine.limits cimport Limits
from libc.math cimport INFINITY
from fastens.engine.exact cimport log, log2


cdef struct Decision:
    # Decides which codes of a column go left (see goes_left.h): codes up to the bin or, for categories, codes in the
    # set.
    const void* column
    Py_ssize_t row_step             # bytes between the codes of consecutive rows
    int32_t code_size
    Pages* pages                    # pages of the memory-mapped files that hold the codes; NULL if they are in memory
    int32_t n_codes
    int32_t bin
    bint missing_left
    const uint32_t* category_words  # NULL for a numeric feature
    # For sparse columns: the rows with stored codes; all other rows have the code of zeros. NULL if all rows have a
    # stored code.
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
    # Work is measured in (row, column) updates of histograms, about 0.4 ns each.
    UPDATES_PER_CODE = 8            # cost of searching a code in both children
    PIECES_PER_THREAD = 4           # of sparse columns, whose costs vary
    MAX_PENDING_SUMS = 4             # size of the ring of histogram reductions, of which at most 3 are pending


cdef struct ForcedSplit:
    # A split that every tree makes first: the codes up to the bin go left or, for categories, the codes in the set.
    int32_t feature
    int32_t bin
    int32_t category_set            # first word of the set; -1 for a numeric feature
    int32_t left                    # index of the forced split of the left child, or -1
    int32_t right


cdef struct Node:
    # rows[begin:end] of the workspace. left_child is 0 for a leaf; the right child is the next node.
    Py_ssize_t begin
    Py_ssize_t end
    int32_t depth
    int32_t parent                  # -1 for the root
    int32_t left_child
    int32_t slot                    # its stored histogram; -1 if there is none
    int32_t ahead                   # slot of its smaller child if that is counted before the split, or -1
    int32_t exchange                # reduction that sums it over the workers, from 1
    int32_t forced                  # index of the forced split that it makes, or -1
    Py_ssize_t middle               # begin of its right child's rows, or -1
    Sums sums
    ValueLimits limits
    Split split
    # set once the tree is grown and pruned
    float64_t net_gain              # gain of all splits in the node's subtree, minus their penalties
    bint is_split
    int32_t place                   # its index in the tree, or the index of the leaf that contains it


cdef struct Task:
    # Counts one node's rows. If `difference` is a node, it gets its parent's histogram (in its slot) minus the counted
    # one.
    int32_t counted
    int32_t difference              # or -1
    bint want_counted               # find the best split of the counted node
    bint want_difference
    bint is_root
    int32_t exchange                # reduction that sums its cells over the workers; 0 if they are not yet counted


cdef struct PendingSum:
    # A pending reduction: the cells that are summed.
    int64_t** cells
    int32_t n


cdef struct LeafRows:
    # The remaining rows of a leaf: rows[next:end] of the workspace.
    Py_ssize_t next
    Py_ssize_t end
    int32_t node


cdef struct Output:
    # One output of a tree, with histograms in its own fixed-point units.
    RowGradients source
    Quantised quantised
    float64_t l2                    # L2 penalty of the current tree
    SplitRules rules                # rules in the units of the tree's sums
    float64_t gain_unit             # gain in units of the loss = gain of the sums * gain_unit
    float64_t hessian_unit          # the same unit for the mean over the outputs


cdef struct Workspace:
    # All state for growing one tree after another. Belongs to one Grower; kernels allocate only histogram slots.
    Table table
    const uint8_t* codes            # codes of the features and rows, or the stored codes of one feature after another
    Py_ssize_t feature_step         # bytes between the codes of consecutive features
    Py_ssize_t row_step             # bytes between the codes of consecutive rows
    const size_t* near              # address of a separate copy of each feature's codes, or 0; NULL if there are none
    const int32_t* stored_rows      # rows of the stored codes, ascending for each feature; NULL if all rows have codes
    const int64_t* first_stored     # offset of each feature's stored codes
    Feature* features
    Column* columns                 # columns of the table
    Output* outputs
    int32_t n_outputs
    Limits limits
    const ForcedSplit* forced       # the first belongs to the root; NULL if there are none
    const uint32_t* forced_words
    int32_t features_per_tree
    Py_ssize_t kept_rows            # histograms of nodes with fewer rows are not stored
    float64_t min_hessian           # for several outputs: limits on the mean hessian and on the summed gains
    float64_t min_gain
    SplitRules rules                # rules of the first output; for several outputs, the common rules
    int32_t* first_columns          # by piece of a search, followed by n_columns
    int32_t n_threads               # threads for the current tree: all, or one if there is little work
    int32_t max_threads                 # maximum number of threads
    void* memory                    # block of the arrays down to of_tree, and of those of first_columns and the rooms
    uint32_t* rows
    uint32_t* scratch_rows
    # one for each thread
    uint64_t* zeros                 # n_counted cells, which are 0 between uses; undefined for sparse rows
    int64_t* partial                # cells of all outputs
    Histogram* histograms           # n_outputs each for the parent, the counted node and its sibling
    ScanBuffer* rooms
    int32_t* sampled                # n_features: the features that may be drawn, in random order
    uint64_t* masks                 # 2 * mask_words: the features of a path, and those not allowed together with them
    int32_t feature_bits            # smallest number, at least 2, with n_features <= 2**feature_bits
    uint8_t* allowed                # 2 * n_features: the features allowed at both nodes of a task
    Split* best_splits              # 2: the best split of this thread's features, for both nodes of a task
    uint8_t* of_tree                # n_features: the features drawn for the tree
    uint64_t seed
    bint codes_are_rare             # true if a packed cell can hold all local rows of the root with its code
    bint root_is_packed             # known from an earlier tree on all rows
    int64_t most_stored             # for sparse rows, the maximum number with the same code, except zeros; 0: unknown
    # stored histograms, of all outputs
    int64_t** slots
    int32_t* free_slots
    int32_t n_slots
    int32_t n_free
    Ranks* ranks                    # NULL if there is only one worker
    PendingSum travelling[MAX_PENDING_SUMS]      # reduction i is at i % MAX_PENDING_SUMS
    int32_t n_begun                 # number of reductions started for the tree, followed by the number completed
    int32_t n_ended
    # nodes of the tree
    Node* nodes
    Sums* sums_of_nodes             # for several outputs: the sums of each (node, output), and of its left side
    Sums* left_sums_of_nodes
    int32_t n_nodes
    int32_t node_capacity
    Candidate* candidates           # heap of the leaves that have a split
    int32_t n_candidates
    int32_t* chosen                 # candidates that are split next
    int32_t n_chosen
    Task* tasks
    int32_t n_tasks
    # for sparse rows: the columns of each node with enough stored codes for a split, n_words bits; NULL if all columns
    uint64_t* active
    int32_t n_words
    # after growth: exact sums of every node, for each output, then the partial sums of the other threads
    Moments* sums
    LeafRows* leaf_rows             # node_capacity + 1 for each thread
    # space for the category set of every node, words_per_node each; 0 if no feature is categorical
    uint32_t* category_words
    int32_t words_per_node


cdef inline const Sums* sums_of_node(const Workspace* ws, int32_t node, int32_t output) noexcept nogil:
    if ws.n_outputs == 1:
        return &ws.nodes[node].sums
    return &ws.sums_of_nodes[<Py_ssize_t>node * ws.n_outputs + output]


cdef inline uint64_t* active_columns(const Workspace* ws, int32_t node) noexcept nogil:
    """Return the mask of columns that a split of the node may use; NULL stands for all columns."""
    return NULL if ws.n_words == 0 else ws.active + <Py_ssize_t>node * ws.n_words


cdef inline void clear_active(const Workspace* ws, int32_t node, int32_t first, int32_t end) noexcept nogil:
    """Clear the words of adjacent columns in the node's mask; the first column begins a word."""
    cdef uint64_t* active = active_columns(ws, node)
    cdef int32_t w
    for w in range(first // 64, (end + 63) // 64):
        active[w] = 0


cdef bint allocate_workspace(Workspace* ws, Py_ssize_t n_rows) noexcept nogil
cdef void free_workspace(Workspace* ws) noexcept nogil
cdef void divide_columns(Workspace* ws, const Node* node, int32_t n_pieces) noexcept nogil
cdef bint reserve_nodes(Workspace* ws, int32_t n_more) noexcept nogil
cdef int32_t take_slot(Workspace* ws) noexcept nogil
cdef void release_slot(Workspace* ws, Node* node) noexcept nogil
cdef void release_all_slots(Workspace* ws) noexcept nogil
cdef Py_ssize_t rows_in_cells(const Workspace* ws, const Node* node, int32_t output) noexcept nogil
cdef Histogram node_histogram(const Workspace* ws, const Node* node, int32_t slot, int32_t output) noexcept nogil
cdef Histogram partial_histogram(const Workspace* ws, const Node* node, int32_t thread, int32_t output) noexcept nogil


# Split criteria. A node's score is larger the purer it is. The gain of a split is the score of both sides minus the
# score of the node, which is the decrease of the node's weight times its impurity (Breiman et al. 1984).


cdef enum Criterion:
    # Score of sums s (class weights, or sums of numbers) of rows of total weight w:
    SQUARES                         # sum(s^2) / w: Gini, squared error; Newton steps with s = G, w = H + l2: gain.pxd
    ENTROPY                         # sum(s log2(s / w))
    POISSON                         # sum(s log(s / w)); all sums must be positive
    ERROR                           # max(s): the weight of the majority class
    ABSOLUTE                        # is not a function of sums: see engine/forest/splits/search.pyx


cdef inline float64_t score_of_sums(
    Criterion criterion, const float64_t* sums, int32_t n, float64_t weight
) noexcept nogil:
    """Return the score, or minus infinity if the criterion does not allow these sums."""
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
    """Return the gain of SQUARES for one sum: W (s_l - s w_l / W)^2 / (w_l w_r)."""
    cdef float64_t distance = left * weight - sum_ * left_weight
    return distance * distance / (weight * left_weight * (weight - left_weight))
