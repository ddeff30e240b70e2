from .structs cimport int32_t, uint8_t

cdef enum:
    MAX_THREADS = 64
    CACHE_LINES = 128               # bytes; they are fetched in pairs


# One part of a job: its number, and how many there are.
ctypedef void (*Part)(void* job, int32_t part, int32_t n_parts) noexcept nogil


cdef struct Seat:
    # A helper's place, in cache lines of its own, and the job of which it is offered a part.
    int32_t state
    int32_t n_parts
    Part work
    void* job
    uint8_t apart[CACHE_LINES]


cdef struct Team:
    Seat seats[MAX_THREADS]


cdef extern from "team.h" nogil:
    int32_t add_to_word(int32_t* word, int32_t n)


cdef inline int32_t next_item(int32_t* counter) noexcept nogil:
    """The number of the next of some items that the parts of a job deal with as they come."""
    return add_to_word(counter, 1)


cdef void seat_helpers(Team* team, int32_t n_threads) noexcept nogil
cdef void stand_by(Team* team, int32_t thread) noexcept nogil
cdef void dismiss_helpers(Team* team, int32_t n_threads) noexcept nogil
cdef void share(Team* team, Part work, void* job, int32_t n_parts) noexcept nogil
