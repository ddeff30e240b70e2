# Structs and types shared by the kernels. Each is declared once; no kernel copies their fields.

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
    # Prefetch distance, in rows, of short loops over scattered rows: adding the values of 255 leaves to 1 M rows takes
    # 1.5 ms, compared with 2.2 ms for a distance of 16 (one thread on a busy machine).
    PREFETCH_AHEAD = 64

# A feature value and a bin code. Code 0 is missing (or an unseen category); values have codes 1, 2, ...
ctypedef fused value_t:
    float32_t
    float64_t

ctypedef fused code_t:
    uint8_t
    uint16_t


cdef struct Nodes:
    # One tree, or the trees of an ensemble one after another, as plain arrays. Children are adjacent: the right child
    # is left_child + 1. A leaf has left_child 0. left_child is relative to the first node of the tree.
    int32_t* feature
    uint16_t* bin_threshold         # code <= bin_threshold goes left
    uint8_t* missing_left           # true if code 0 goes left
    int32_t* category_set           # -1, or the first word of the set of codes that go left, which may include code 0
    int32_t* left_child
    float64_t* value
    const uint32_t* category_words


cdef struct Column:
    # One or two bytes of every record, and its part of a histogram: the codes of a feature, or the combination numbers
    # of a bundle of features (see bins/binning.py).
    int32_t n_codes
    uint32_t offset                 # index of its first cell
    const int32_t* features
    int32_t n_features
    uint32_t first_own              # first cell of its features, equal to `offset` if it has only one feature
    int32_t n_own


cdef struct Feature:
    int32_t index
    int32_t n_codes                 # including code 0 for missing values
    uint32_t offset                 # index of its first cell
    bint is_categorical
    const float64_t* thresholds     # upper edges: bin c ends at thresholds[c - 1]
    # 1: predictions must not decrease in the feature; -1: must not increase; 0: unconstrained
    int32_t monotone
    # in a bundle: for each code, the number of combinations that have it and their list, as bytes; empty for the most
    # frequent bin
    const uint8_t* members
    int32_t most_frequent_bin
