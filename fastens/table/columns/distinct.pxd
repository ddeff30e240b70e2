from libc.string cimport memcpy
from fastens.engine.structs cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t


cdef struct Slot:
    # A distinct value: its first and its last eight bytes. The slot is free if `number` is 0, because numbers start at
    # 1 here.
    uint64_t low
    uint64_t high
    int64_t extent          # 4 x length + kind
    int64_t number


cdef struct Text:
    const char* data
    int64_t length          # in bytes
    # Texts of different kinds differ even if their bytes are equal. For `IDENTITY` only the address counts.
    int64_t kind


cdef enum:
    IDENTITY = 3            # the largest kind


cdef struct Recent:
    uint64_t word           # eight bytes, or a shorter text with its extent
    int64_t number          # starts at 1; 0 if the entry is empty


cdef enum:
    RECENT_BITS = 10


cdef struct HashTable:
    Recent[1 << RECENT_BITS] recent     # direct-mapped cache of recent values
    Slot* slots
    Text* texts             # indexed by number
    int64_t* rows           # first row of each distinct value
    int64_t n_distinct
    int64_t capacity        # of texts and rows
    int64_t max_distinct
    int64_t missing         # number of the missing value; -1 if none has occurred
    int shift               # 64 - log2(number of slots)


cdef struct Source:
    # Location of the values of consecutive rows.
    const char* data
    const char* end         # end of the readable memory
    const char* items       # offsets, views, or texts
    const char** buffers    # buffers that views refer to
    const uint8_t* valid    # validity bitmap; NULL if no value is missing
    int64_t first           # index of the first row's value
    int64_t stride
    int64_t length


cdef enum Layout:
    WORDS                   # eight bytes each
    FIXED                   # `length` bytes each
    TEXTS                   # `Text` records
    OFFSETS_32              # Arrow's strings
    OFFSETS_64
    VIEWS


cdef enum:
    VIEW = 16           # size in bytes
    INLINE = 12         # length of the longest text stored in the view


cdef inline int32_t load_int32(const char* address) noexcept nogil:
    """Return the 32-bit integer that is stored at an address, which may be unaligned."""
    cdef int32_t value
    memcpy(&value, address, 4)
    return value


cdef inline bint is_valid(const uint8_t* bits, int64_t index) noexcept nogil:
    """Return True if the bit of a value is set in an Arrow validity bitmap."""
    return (bits[index >> 3] >> (index & 7)) & 1


cdef inline Text text_at_index(const Source* source, Layout layout, int64_t index) noexcept nogil:
    """Return the text at an index of the buffers of `source`, without a copy; `layout` is not WORDS."""
    cdef Text text
    cdef int64_t start
    text.kind = 0
    if layout == FIXED:
        text.data = source.data + index * source.stride
        text.length = source.length
    elif layout == TEXTS:
        text = (<const Text*> source.items)[index]
    elif layout == OFFSETS_32:
        start = (<const int32_t*> source.items)[index]
        text.data = source.data + start
        text.length = (<const int32_t*> source.items)[index + 1] - start
    elif layout == OFFSETS_64:
        start = (<const int64_t*> source.items)[index]
        text.data = source.data + start
        text.length = (<const int64_t*> source.items)[index + 1] - start
    else:
        text.data = source.items + VIEW * index
        text.length = load_int32(text.data)
        if text.length <= INLINE:
            text.data += 4
        else:
            text.data = source.buffers[load_int32(text.data + 8)] + load_int32(text.data + 12)
    return text


cdef class Distinct:
    cdef HashTable table
    cdef object codes_      # array that `narrow` or `wide` points to
    cdef uint8_t* narrow
    cdef uint32_t* wide
    cdef bint is_wide
    cdef int64_t n_done
    cdef int64_t max_distinct
    cdef bint add(self, Source* source, Layout layout, int64_t n) except -1 nogil
    cdef int _widen_codes(self) except -1
