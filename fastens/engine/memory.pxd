from libc.stdint cimport INT32_MAX
from libc.stdlib cimport realloc


cdef inline bint resize(void** memory, size_t n_bytes) noexcept nogil:
    """Reallocate memory; on failure, return False and leave it unchanged."""
    cdef void* grown = realloc(memory[0], max(n_bytes, <size_t>1))
    if grown != NULL:
        memory[0] = grown
    return grown != NULL


cdef inline Py_ssize_t larger_capacity(Py_ssize_t capacity, Py_ssize_t wanted, Py_ssize_t least) noexcept nogil:
    """Return a capacity of at least `wanted` items, usually doubled, or -1 if 32-bit indices cannot address them."""
    return -1 if wanted > INT32_MAX else min(max(2 * capacity, wanted, least), <Py_ssize_t>INT32_MAX)


cdef struct Plan:
    # Parts of one block of memory: measured while `memory` is NULL, and assigned in a second pass.
    char* memory
    Py_ssize_t size


cdef inline void* carve(Plan* plan, Py_ssize_t n, Py_ssize_t size) noexcept nogil:
    """Return space for n items of `size` bytes, rounded up to 64 bytes; NULL while the block is measured."""
    cdef void* part = plan.memory + plan.size if plan.memory != NULL else NULL
    plan.size += (n * size + 63) // 64 * 64
    return part
