"""Memory for growing trees of a forest: open nodes of a thread, and the nodes of a tree."""

from libc.stdlib cimport free, realloc

from fastens.engine.forest.splits.structs cimport Open
from fastens.engine.forest.tree cimport ForestNode, Grown, RecordNode, Workspace
from fastens.engine.heap cimport Candidate
from fastens.engine.structs cimport float64_t, int32_t, uint32_t, uint64_t


cdef enum:
    FIRST_NODES = 256


cdef void free_workspace(Workspace* ws) noexcept nogil:
    free(ws.scratch.memory)
    free(ws.open)
    free(ws.record_nodes)
    free(ws.masks)
    free(ws.heap)
    free(ws.sets)


cdef bint _resize(void** array, Py_ssize_t n_bytes) noexcept nogil:
    cdef void* larger = realloc(array[0], max(n_bytes, 1))
    if larger == NULL:
        return False
    array[0] = larger
    return True


cdef bint reserve_open(Workspace* ws, int32_t n) noexcept nogil:
    """Make place for n more open nodes."""
    cdef Py_ssize_t capacity
    if ws.n_open + n <= ws.open_capacity:
        return True
    capacity = max(2 * ws.open_capacity, 64)
    if not (
        _resize(<void**>&ws.open, capacity * sizeof(Open))
        and _resize(<void**>&ws.masks, capacity * ws.scratch.n_mask_words * sizeof(uint64_t))
        and _resize(<void**>&ws.heap, capacity * sizeof(Candidate))
        and _resize(<void**>&ws.sets, capacity * ws.scratch.n_set_words * sizeof(uint32_t))
    ):
        return False
    ws.open_capacity = <int32_t>capacity
    return True


cdef bint reserve_record_nodes(Workspace* ws, int32_t n) noexcept nogil:
    """Make place for n more open nodes whose rows have records."""
    cdef Py_ssize_t capacity
    if ws.n_record_nodes + n > ws.record_nodes_capacity:
        capacity = max(2 * ws.record_nodes_capacity, 64)
        if not _resize(<void**>&ws.record_nodes, capacity * sizeof(RecordNode)):
            return False
        ws.record_nodes_capacity = <int32_t>capacity
    return True


cdef bint reserve_nodes(Grown* grown, int32_t n, int32_t n_words) noexcept nogil:
    """Make place for n more nodes and so many words of categories."""
    cdef Py_ssize_t capacity
    if grown.n + n > grown.capacity:
        capacity = max(2 * grown.capacity, FIRST_NODES)
        if not _resize(<void**>&grown.nodes, capacity * sizeof(ForestNode)):
            return False
        if grown.n_values > 0 and not _resize(<void**>&grown.medians, capacity * grown.n_values * sizeof(float64_t)):
            return False
        grown.capacity = <int32_t>capacity
    if grown.n_words + n_words > grown.words_capacity:
        capacity = 2 * grown.words_capacity + n_words
        if not _resize(<void**>&grown.words, capacity * sizeof(uint32_t)):
            return False
        grown.words_capacity = <int32_t>capacity
    return True


cdef void free_grown(Grown* grown) noexcept nogil:
    free(grown.nodes)
    free(grown.words)
    free(grown.medians)
