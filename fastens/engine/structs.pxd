# Records and types shared by the kernels. One declaration each; nobody copies their fields.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef float float32_t
ctypedef double float64_t

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define FASTENS_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define FASTENS_PREFETCH(address)
    #endif
    """
    void prefetch "FASTENS_PREFETCH"(const void* address) noexcept nogil

cdef enum:
    # Rows that a loop of few instructions over scattered rows asks for in advance: the values of 255 leaves are
    # added to 1 M rows in 1.5 ms, with 16 of them in 2.2 (one thread, a busy machine).
    PREFETCH_AHEAD = 64

# A feature value, a training code. Code 0 is missing (or a category never seen); values have codes 1, 2, ...
ctypedef fused value_t:
    float32_t
    float64_t

ctypedef fused code_t:
    uint8_t
    uint16_t


cdef struct FeatureBins:
    # How one feature's values become codes.
    #
    # numeric:      code = 1 + number of thresholds < x;  `x <= thresholds[c - 1]` is the same as `code <= c`
    # categorical:  x is the category's position; code = category_codes[x], and behind the last one that of a missing
    #               value and that of a number which is no position
    const float64_t* thresholds     # padded with infinity to whole windows of 2**n_steps - 1
    int32_t n_thresholds
    # The search starts at bucket_start[clip((place - origin) * scale, 0, last_bucket)] and takes n_steps binary steps.
    # place: the value itself, or where values spread over many magnitudes (log_floor >= 0) its signed leading bits.
    const uint16_t* bucket_start
    float64_t origin
    float64_t scale
    float64_t last_bucket
    int32_t log_floor
    int32_t n_steps
    # NULL for a numeric feature
    const uint16_t* category_codes
    int32_t n_categories
    float64_t above                 # positions are larger
    bint is_whole                   # a number with a fraction is no position
    bint is_single                  # numbers are rounded to float32 first


cdef struct Nodes:
    # One tree, or all trees of an ensemble one after another, as plain arrays.
    # Children come in pairs: the right child is left_child + 1. A leaf has left_child 0.
    # left_child counts from the first node of its own tree.
    int32_t* feature
    uint16_t* bin_threshold         # code <= bin_threshold goes left
    uint8_t* missing_left           # code 0 goes left
    int32_t* category_set           # -1, or the first word of the set of codes that go left, code 0 among them or not
    int32_t* left_child
    float64_t* value
    const uint32_t* category_words


cdef struct Column:
    # A byte or two of every record, and its part of a histogram: the codes of a feature, or the numbers of the
    # combinations of codes that the features of a bundle have (see bundles.py).
    int32_t n_codes
    uint32_t offset                 # its first cell
    const int32_t* features
    int32_t n_features
    uint32_t first_own              # the cells of its features, which are its own where it has only one
    int32_t n_own


cdef struct Feature:
    int32_t index
    int32_t n_codes                 # code 0, missing, included
    uint32_t offset                 # its first cell
    bint is_categorical
    const float64_t* thresholds     # code c ends at thresholds[c - 1]
    int32_t monotone                # 1: predictions must not fall with its value; -1: not rise; 0: either
    # in a bundle: for each code how many combinations have it, and which, in bytes; none for the most frequent bin
    const uint8_t* members
    int32_t most_frequent_bin
