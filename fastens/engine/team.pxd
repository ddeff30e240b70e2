from fastens.engine.structs cimport int32_t

cdef enum:
    MAX_THREADS = 64
    # A pass over so few rows takes some microseconds. To give up the interpreter's lock for it, and to wait until other
    # threads give it back, would take longer.
    FEW_ROWS = 1 << 12


# One part of a job: its number, and how many there are.
ctypedef void (*Part)(void* job, int32_t part, int32_t n_parts) noexcept nogil
# One of a job's many pieces, done by one of so many threads, which has that number while it is at it.
ctypedef void (*Piece)(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil


cdef extern from "engine/team.h" nogil:
    int32_t add_to_word(int32_t* word, int32_t n)


cdef inline int32_t next_item(int32_t* counter) noexcept nogil:
    """The number of the next of some items that the parts of a job deal with as they come."""
    return add_to_word(counter, 1)


cdef void share(Part work, void* job, int32_t n_parts) noexcept nogil
cdef void share_pieces(Piece work, void* job, Py_ssize_t n_pieces, int32_t n_threads) noexcept nogil
cdef int share_until_interrupted(Piece work, void* job, Py_ssize_t n_pieces, int32_t n_threads) except -1 nogil
