from fastens.engine.structs cimport int32_t

cdef enum:
    MAX_THREADS = 64
    # A pass over fewer rows takes a few microseconds: releasing the GIL, and waiting for other threads to return it,
    # would take longer.
    FEW_ROWS = 1 << 12


# A function that runs one part of a job, given its index and the number of parts.
ctypedef void (*Part)(void* job, int32_t part, int32_t n_parts) noexcept nogil
# A function that runs one of many pieces of a job; `thread` is the index of the thread that runs it.
ctypedef void (*Piece)(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil


cdef extern from "engine/thread_pool.h" nogil:
    int32_t add_to_word(int32_t* word, int32_t n)


cdef inline int32_t next_item(int32_t* counter) noexcept nogil:
    """Return the next item of a counter that the parts of a job share."""
    return add_to_word(counter, 1)


cdef void parallel_for(Part work, void* job, int32_t n_parts) noexcept nogil
cdef void dynamic_parallel_for(Piece work, void* job, Py_ssize_t n_pieces, int32_t n_threads) noexcept nogil
cdef int parallel_for_until_interrupted(Piece work, void* job, Py_ssize_t n_pieces, int32_t n_threads) except -1 nogil
