from libc.stdlib cimport realloc


cdef inline bint resize(void** memory, size_t n_bytes) noexcept nogil:
    """Reallocate memory; on failure, return False and leave it unchanged."""
    cdef void* grown = realloc(memory[0], max(n_bytes, <size_t>1))
    if grown != NULL:
        memory[0] = grown
    return grown != NULL
