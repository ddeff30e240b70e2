# Input and output of a split search: the forest's table, targets and rules, the rows of a tree, one node.

from fastens.engine.bins.pages cimport Pages
from fastens.engine.limits cimport Limits
from fastens.engine.ranks cimport Ranks
from fastens.engine.splits.workspace cimport Criterion
from fastens.engine.structs cimport (
    float32_t, float64_t, int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)

cdef extern from "engine/forest/splits/rows.h" nogil:
    enum:
        FEATURES_AT_ONCE
        WINDOW

    ctypedef struct Entry:
        uint32_t row
        uint32_t offset
        uint64_t word

    ctypedef struct CodeColumn:
        const void* codes
        Py_ssize_t stride

    ctypedef struct Cells:
        uint64_t* cells
        uint64_t* marks
        uint64_t* summary

cdef enum:
    # Cells that divide a range: 32 for each power of two from 2**-12 to 1, so that cells hold few codes even for skewed
    # features.
    CELL_BITS = 18
    FIRST_CELL = 115 << 5
    N_CELLS = (12 << 5) + 1

cdef struct BinValues:
    # A value within each bin of a feature: values[first + code], followed by WINDOW infinities.
    int64_t first
    # value * scale - origin is the relative position in the feature's range, from 0 to 1.
    float64_t scale
    float64_t origin


cdef struct StoredCodes:
    # The non-zero codes of a sparse table by column: the ascending rows of each column, and their codes.
    const int32_t* rows             # NULL if the table is dense
    const int64_t* first            # offset of each column
    const uint8_t* codes
    const uint8_t* zeros            # the code of zeros in each column
    # By row: the columns of the stored codes.
    const int32_t* features
    const int64_t* first_of_row


cdef struct ForestTable:
    # The binned rows.
    StoredCodes stored              # replaces records and columns
    Pages* pages                    # pages of the memory-mapped files that hold the codes; NULL if they are in memory
    const uint8_t* records          # row-major
    Py_ssize_t record_stride        # distance between records, in codes
    const uint8_t* columns          # column-major
    Py_ssize_t n_rows
    int32_t code_size
    int32_t n_features
    int32_t max_codes
    const int32_t* n_codes
    const uint8_t* is_categorical
    const float64_t* const* thresholds  # one array for each feature
    bint has_categories
    # For random thresholds: the values of bins, and for each cell the number of a feature's codes in preceding cells,
    # at cells[f * (N_CELLS + 1) + cell].
    const float64_t* values
    const BinValues* bin_values
    const uint16_t* cells


cdef struct Targets:
    int32_t n_targets
    int32_t n_stats                 # total number of classes over all targets, or number of targets
    # (n_rows, n_targets), each already an index into the n_stats sums; NULL for regression
    const int32_t* classes
    const float64_t* numbers        # (n_rows, n_targets)
    const int32_t* ranks            # (n_targets, n_rows), ranks of the numbers; for ABSOLUTE only
    const int32_t* first_stat       # first statistic of each target, and n_stats at the end
    const float64_t* minimum        # offset subtracted from the numbers


cdef enum:
    LOG_BITS = 40                   # fraction bits in tables of logarithms


cdef struct ForestRules:
    Criterion criterion
    # x log2 x for x = 0, 1, ..., n_logs - 1, in units of 2**-LOG_BITS; for ENTROPY only.
    const int64_t* logs
    int64_t n_logs
    bint random_thresholds
    int64_t min_split
    bint in_random_order            # if true, ties may go to any feature, otherwise to the first
    float64_t min_decrease          # minimum decrease per unit of the root's weight


cdef struct Forest:
    # Data that all trees share.
    ForestTable table
    Targets targets
    ForestRules rules
    Limits limits                   # feature_weights is also NULL if all features are evaluated


cdef struct Layout:
    # Contents of a cell's words. The sums of one number and of the weights are packed into one word if they fit:
    #     number << number_shift | weight << weight_shift | count
    # For two classes, the number is the weight of the second class. If the sums do not fit, each class has a word,
    # weight << weight_shift | count. Several numbers, or numbers that need more bits, have one word each, plus a word
    # for weight and count. The count is left out unless a rule needs it.
    bint packed
    int32_t n_words
    int32_t number_shift
    int32_t weight_shift
    uint64_t weight_mask
    uint64_t count_mask
    # The targets behind the sums are (sum / weight) / number_scale + minimum; the weights are weight / weight_scale.
    float64_t number_scale
    float64_t weight_scale


cdef struct Sample:
    # The rows of one tree, or the local rows in distributed training. Nodes own ranges of the entries.
    Ranks* ranks                    # NULL if all rows are local
    Py_ssize_t n_all                # entries on all workers; for a branch grown separately, the entries of its tree
    Entry* entries
    Entry* spare
    Py_ssize_t n_entries
    Layout layout
    int64_t* numbers                # (n_rows, n_targets): rounded numbers, if the entries' words do not hold them
    int64_t min_weight              # minimum weight of a leaf, in fixed-point units
    float64_t min_gain
    float64_t gain_unit             # gain in units of the target = gain in fixed-point units * gain_unit
    uint64_t seed


cdef struct FoundSplit:
    float64_t gain
    int32_t feature                 # -1 if there is none
    int32_t n_usable                # features that the node may split on, as far as known before this search
    int32_t n_groups                # number of codes of the feature in the node
    int32_t position                # position of the last code on the left, among the codes that occur
    int32_t last_code
    bint missing_left
    bint is_set
    int64_t left_weight
    uint64_t left_word              # packed sums of the left side
    float64_t left_value, right_value


cdef struct Open:
    # A node that may be split.
    int32_t node
    int32_t depth
    uint32_t begin, end             # range of its entries
    Py_ssize_t n_rows               # on all workers
    # key of its random numbers: derived from the path to the node, so the order of growth does not matter
    uint64_t key
    float64_t lower, upper          # bounds on its values from monotone constraints
    uint64_t total                  # packed sums of its rows
    int32_t n_excluded              # number of constant or excluded features, which are the set bits of its mask
    FoundSplit split


cdef struct MedianScratch:
    # For ABSOLUTE only; n is the number of rows of a node.
    uint64_t* keys                  # n row keys, sorted
    int32_t* rank                   # (n_targets, n): rank of each row's number
    int64_t* number                 # (n_targets, n), ascending
    int64_t* tree_weight            # n + 1
    int64_t* tree_sum
    int64_t weight, sum             # sums over the rows in the set
    int64_t* start                  # offset of each group
    int32_t* group                  # order of the groups
    float64_t* loss
    float64_t* left_median
    float64_t* right_median
    int64_t* left_weight


cdef struct Search:
    # State of a thread's search for the best split of a node, one feature after another.
    const Forest* forest
    const Sample* sample
    const uint8_t* stop             # set by another thread if the result is no longer needed
    FoundSplit best                 # best split so far
    # The node; its packed sums are in `total`.
    const Entry* rows
    Py_ssize_t n_rows               # rows on this worker
    Py_ssize_t n_all                # on all workers
    int64_t weight
    float64_t score
    float64_t lower, upper
    # The feature, and the groups of rows with equal codes: `codes` holds the codes, `found` the sums.
    int32_t feature
    int32_t n_groups
    bint is_set                     # true if groups are in category order rather than code order
    int32_t last_code               # last code on the left of a random threshold; -1 if centred between groups
    uint64_t key                    # key of its random numbers
    Cells cells[FEATURES_AT_ONCE]
    uint16_t* codes                 # codes that occur, in ascending or category order
    uint64_t* found                 # packed sums of each group, n_words each
    uint64_t* left                  # packed sums of the left side
    uint64_t* total                 # packed sums of the node
    float64_t* stats                # n_stats: the sums that the criterion scores
    uint64_t* sums                  # running sums
    float64_t* gains                # gains, or sort keys of categories
    int32_t* order
    float64_t* axis                 # 2 * n_stats
    int32_t* drawn                  # features drawn in one round
    # Sparse tables: codes of a node's rows on FEATURES_AT_ONCE features, by row, and the features on which some row is
    # non-zero.
    uint8_t* spread
    uint64_t* present
    # position of each row of the table among the node's rows, from 1 on; 0 if it is not in the node
    uint32_t* places
    # For random thresholds: codes of a node's rows on FEATURES_AT_ONCE features, and the rows' words.
    uint8_t* row_codes
    uint64_t* row_words
    Py_ssize_t n_row_codes
    # Distributed training: buffer of sums that are reduced together, and the next of them to read; and the maximum and
    # minimum targets of all workers.
    uint64_t* reduced
    Py_ssize_t n_reduced
    const uint64_t* next_reduced
    int64_t* extremes
    uint32_t* set_words             # set of the best split so far
    MedianScratch medians
    void* memory
    bint found_perfect              # true if a split that cannot be improved was found
    uint64_t* visited               # mask of features that need not be evaluated again
    int32_t n_mask_words, n_set_words


cdef inline void keep_split(Search* search, float64_t gain, int32_t position, bint missing_left) noexcept nogil:
    search.best.gain = gain
    search.best.feature = search.feature
    search.best.position = position
    search.best.missing_left = missing_left
    search.best.last_code = search.last_code


cdef inline float64_t sum_of_logs(int64_t units) noexcept nogil:
    """Convert a sum of entries of the table of logarithms to a float."""
    return <float64_t>units / <float64_t>(<int64_t>1 << LOG_BITS)
