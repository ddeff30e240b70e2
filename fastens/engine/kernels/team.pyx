"""Threads that stand by while one of them leads, so that even some microseconds of work are worth sharing.

To open and close an OpenMP region costs half a microsecond, and it ends when all of its threads have come, those too
whose core the system has just given to somebody else. So there is one region for many jobs, in which the lead offers
the parts of a job to the helpers, and does itself what no helper has taken when its own part is done. It never waits
for a thread that has not begun, nor do results depend on who came: a part is the same whoever does it.

    lead:    seat_helpers .. share .. share .. dismiss_helpers
    helper:                  stand_by .................... returns
"""

from .structs cimport int32_t

cdef extern from "team.h" nogil:
    int32_t load_word(const int32_t* word)
    void store_word(int32_t* word, int32_t value)
    bint change_word(int32_t* word, int32_t from_, int32_t to)
    void wait_a_moment(int32_t* n)

cdef enum State:
    # Of a seat. The lead offers, takes back and dismisses, the helper takes, and says that it is done.
    DONE
    OFFERED
    TAKEN
    DISMISSED


cdef void seat_helpers(Team* team, int32_t n_threads) noexcept nogil:
    """Before the region."""
    cdef int32_t t
    for t in range(1, n_threads):
        team.seats[t].state = DONE


cdef void dismiss_helpers(Team* team, int32_t n_threads) noexcept nogil:
    cdef int32_t t
    for t in range(1, n_threads):
        store_word(&team.seats[t].state, DISMISSED)


cdef void stand_by(Team* team, int32_t thread) noexcept nogil:
    """Do what is offered until dismissed."""
    cdef Seat* seat = &team.seats[thread]
    cdef int32_t state = load_word(&seat.state), n_waits = 0
    while state != DISMISSED:
        if state == OFFERED and change_word(&seat.state, OFFERED, TAKEN):
            seat.work(seat.job, thread, seat.n_parts)
            store_word(&seat.state, DONE)
            n_waits = 0
        else:
            wait_a_moment(&n_waits)
        state = load_word(&seat.state)


cdef void share(Team* team, Part work, void* job, int32_t n_parts) noexcept nogil:
    """Do all parts of a job; the lead does the first one, and what is left."""
    cdef int32_t t
    for t in range(1, n_parts):
        _offer(&team.seats[t], work, job, n_parts)
    work(job, 0, n_parts)
    for t in range(1, n_parts):
        if not _is_taken(&team.seats[t]):
            work(job, t, n_parts)
    for t in range(1, n_parts):
        _await(&team.seats[t])


cdef inline void _offer(Seat* seat, Part work, void* job, int32_t n_parts) noexcept nogil:
    seat.work, seat.job, seat.n_parts = work, job, n_parts
    store_word(&seat.state, OFFERED)


cdef inline bint _is_taken(Seat* seat) noexcept nogil:
    """Whether a helper has taken its part; if not, it is taken back."""
    return not (load_word(&seat.state) == OFFERED and change_word(&seat.state, OFFERED, DONE))


cdef inline void _await(const Seat* seat) noexcept nogil:
    cdef int32_t n_waits = 0
    while load_word(&seat.state) != DONE:
        wait_a_moment(&n_waits)
