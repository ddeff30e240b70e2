# What a search for splits reads and writes: the forest's table, targets and rules, a tree's rows, one node.

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
    # Cells of places in a range, 32 to each power of two from 2**-12 to 1: also of skewed features each has few codes.
    CELL_BITS = 18
    FIRST_CELL = 115 << 5
    N_CELLS = (12 << 5) + 1

cdef struct BinValues:
    # A value within each bin of a feature: values[first + code]; behind them stand WINDOW infinite ones.
    int64_t first
    # value * scale - origin is its place in the feature's range, from 0 to 1.
    float64_t scale
    float64_t origin


cdef struct StoredCodes:
    # Codes of a sparse table other than those of zeros, by column: the ascending rows of each column, and their codes.
    const int32_t* rows             # NULL: the table is not sparse
    const int64_t* first            # of each column
    const uint8_t* codes
    const uint8_t* zeros            # the code of zeros in each column
    # and by row, in which columns
    const int32_t* features
    const int64_t* first_of_row


cdef struct ForestTable:
    # The binned rows.
    StoredCodes stored              # in place of records and columns
    Pages* pages                    # of the files that these are in; NULL: memory
    const uint8_t* records          # row-major
    Py_ssize_t record_stride        # in codes
    const uint8_t* columns          # column-major
    Py_ssize_t n_rows
    int32_t code_size
    int32_t n_features
    int32_t max_codes
    const int32_t* n_codes
    const uint8_t* is_categorical
    const float64_t* const* thresholds  # of each feature
    bint has_categories
    # where thresholds are random: values of bins, and for each cell how many of a feature's lie in cells before it:
    # cells[f * (N_CELLS + 1) + cell]
    const float64_t* values
    const BinValues* bin_values
    const uint16_t* cells


cdef struct Targets:
    int32_t n_targets
    int32_t n_stats                 # classes of all targets together, or number of targets
    const int32_t* classes          # (n_rows, n_targets), each already its position among the n_stats; NULL: numbers
    const float64_t* numbers        # (n_rows, n_targets)
    const int32_t* ranks            # (n_targets, n_rows) of the numbers; for ABSOLUTE only
    const int32_t* first_stat       # of each target, and n_stats at the end
    const float64_t* minimum        # what is subtracted from the numbers


cdef enum:
    LOG_BITS = 40                   # of the fractions in tables of logarithms


cdef struct ForestRules:
    Criterion criterion
    # x log2 x for x = 0, 1, ..., n_logs - 1, in units of 2**-LOG_BITS; for ENTROPY only
    const int64_t* logs
    int64_t n_logs
    bint random_thresholds
    int64_t min_split
    bint in_random_order            # so that of equal gains any may win; else the first feature's does
    float64_t min_decrease          # per unit of the root's weight


cdef struct Forest:
    # What all trees share.
    ForestTable table
    Targets targets
    ForestRules rules
    Limits limits                   # feature_weights: NULL also where all features are looked at


cdef struct Layout:
    # What the words of a cell hold. Sums of one number and of the weights fit in one word:
    #     number << number_shift | weight << weight_shift | count          (packed; the number is the second class's
    #                                                                       weight where there are two classes)
    # else classes have a word each, weight << weight_shift | count; several numbers, or those that need more bits, have
    # a word each and there is one for weight and count. Without a rule that needs it there is no count.
    bint packed
    int32_t n_words
    int32_t number_shift
    int32_t weight_shift
    uint64_t weight_mask
    uint64_t count_mask
    # The numbers behind the sums are (sum / weight) / number_scale + minimum, the weights are weight / weight_scale.
    float64_t number_scale
    float64_t weight_scale


cdef struct Sample:
    # The rows of one tree, those of one rank if there are several. Nodes own ranges of the entries.
    Ranks* ranks                    # NULL: all rows are here
    Py_ssize_t n_all                # entries of all ranks; of a branch grown apart, those of its tree
    Entry* entries
    Entry* spare
    Py_ssize_t n_entries
    Py_ssize_t capacity
    Layout layout
    bint by_class                   # all rows of a class, the first or the second, have the same word
    uint64_t class_words[2]
    uint8_t* records[2]             # see records.pyx
    int64_t* numbers                # (n_rows, n_targets): rounded numbers where they are not in the entries' words
    int64_t min_weight              # of a leaf, in units
    float64_t min_gain
    float64_t gain_unit             # a gain in units, times this, is in units of the target
    uint64_t seed


cdef struct FoundSplit:
    float64_t gain
    int32_t feature                 # -1: none
    int32_t n_usable                # features that the node may split on, as far as was known before
    int32_t n_groups                # codes that it has of the feature
    int32_t position                # of the last code that goes left, among those found
    int32_t last_code
    bint missing_left
    bint is_set
    int64_t left_weight
    uint64_t left_word              # of packed sums
    float64_t left_value, right_value


cdef struct Open:
    # A node that may be split.
    int32_t node
    int32_t depth
    uint32_t begin, end             # its entries
    Py_ssize_t n_rows               # those of all ranks
    uint64_t key                    # of its random numbers: follows from the path to it, so order does not matter
    float64_t lower, upper          # bounds of its values that monotone constraints set
    uint64_t total                  # packed sums of its rows
    int32_t n_excluded              # features that are constant here, or not allowed: the bits of its mask
    int32_t buffer                  # where its records are, if rows have any: 0 or 1
    FoundSplit split


cdef struct MedianScratch:
    # For ABSOLUTE only; n stands for the rows of a node.
    uint64_t* keys                  # of n rows, sorted
    int32_t* rank                   # (n_targets, n): each row's place by its number
    int64_t* number                 # (n_targets, n), ascending
    int64_t* tree_weight            # n + 1
    int64_t* tree_sum
    int64_t weight, sum             # of the rows in the set
    int64_t* start                  # of each group
    int32_t* group                  # the order of the groups
    float64_t* loss
    float64_t* left_median
    float64_t* right_median
    int64_t* left_weight


cdef struct Search:
    # A thread's search for the best split of a node, one feature after another.
    const Forest* forest
    const Sample* sample
    const uint8_t* stop             # set by another thread: what is found is not needed any more
    FoundSplit best                 # so far
    # the node; its words are in `total`
    const Entry* rows
    Py_ssize_t n_rows               # of this rank
    Py_ssize_t n_all                # of all ranks
    int64_t weight
    float64_t score
    float64_t lower, upper
    # the feature, and the groups of rows that have the same code on it: `codes` has the codes, `found` the sums
    int32_t feature
    int32_t n_groups
    bint is_set                     # in the order of categories, not of codes
    int32_t last_code               # on the left of a random threshold; -1: in the middle between groups
    uint64_t key                    # of its random numbers
    Cells cells[FEATURES_AT_ONCE]
    uint16_t* codes                 # codes found, ascending, or in the order of categories
    uint64_t* found                 # their words
    uint64_t* left                  # words of the left side
    uint64_t* total                 # words of the node
    float64_t* stats                # n_stats: the sums that are scored
    uint64_t* sums                  # running sums
    float64_t* gains                # or keys of categories
    int32_t* order
    float64_t* axis                 # 2 * n_stats
    int32_t* drawn                  # features of one round
    # Of sparse rows: codes of a node's rows on FEATURES_AT_ONCE features, by row, and the features that any is not zero
    # on.
    uint8_t* spread
    uint64_t* present
    uint32_t* places                # of each row of the table among those of the node, from 1 on; 0: it is not there
    # Where thresholds are random: codes of a node's rows on FEATURES_AT_ONCE features, and the rows' words.
    uint8_t* row_codes
    uint64_t* row_words
    Py_ssize_t n_row_codes
    # On several ranks: room for sums that are reduced together, and the next of them to be read; for each feature the
    # range of its codes, then its threshold; and what all ranks' largest and smallest targets are compared by.
    uint64_t* reduced
    Py_ssize_t n_reduced
    const uint64_t* next_reduced
    int64_t* ranges
    int64_t* extremes
    uint32_t* set_words             # of the best split so far
    MedianScratch medians
    void* memory
    bint found_perfect              # a split that no other can beat
    uint64_t* visited               # mask of features that need no look any more
    int32_t n_mask_words, n_set_words


cdef inline void keep_split(Search* search, float64_t gain, int32_t position, bint missing_left) noexcept nogil:
    search.best.gain = gain
    search.best.feature = search.feature
    search.best.position = position
    search.best.missing_left = missing_left
    search.best.last_code = search.last_code


cdef inline float64_t sum_of_logs(int64_t units) noexcept nogil:
    """What entries of the table of logarithms add up to."""
    return <float64_t>units / <float64_t>(<int64_t>1 << LOG_BITS)
