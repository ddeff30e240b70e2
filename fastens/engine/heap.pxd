# Max-heap of nodes by the gain of their split. Ties go to the older node.

from fastens.engine.structs cimport float64_t, int32_t


cdef struct Candidate:
    float64_t gain
    int32_t node


cdef inline bint precedes(const Candidate* a, const Candidate* b) noexcept nogil:
    return a.gain > b.gain or (a.gain == b.gain and a.node < b.node)


cdef inline void push_heap(Candidate* heap, int32_t* n, float64_t gain, int32_t node) noexcept nogil:
    cdef Candidate new = Candidate(gain, node)
    cdef int32_t place = n[0]
    n[0] += 1
    while place > 0 and precedes(&new, &heap[(place - 1) // 2]):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = new


cdef inline int32_t pop_heap(Candidate* heap, int32_t* n) noexcept nogil:
    """Remove the node with the largest gain and return it."""
    cdef int32_t best = heap[0].node, place = 0, child
    cdef Candidate last
    n[0] -= 1
    last = heap[n[0]]
    while 2 * place + 1 < n[0]:
        child = 2 * place + 1
        if child + 1 < n[0] and precedes(&heap[child + 1], &heap[child]):
            child += 1
        if not precedes(&heap[child], &last):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = last
    return best
