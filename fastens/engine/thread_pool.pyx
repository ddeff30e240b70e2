"""Thread pool that never waits for a thread that the operating system has preempted.

A barrier ends only when all of its threads have arrived, including threads that have just been preempted. On a machine
with other load that takes milliseconds, a thousand times as long as the work itself. Here, the calling thread (the
lead) offers the parts of a job to helpers. After its own part, it runs every part that no helper has started, so it
waits only for parts in progress. Results do not depend on which helpers took part, because the parts of a job are
fixed.

Helpers belong to the process and are started on first use. An idle helper spins for a moment, because the next job of a
growing tree follows within microseconds, and then sleeps. A waiting lead also sleeps after a moment, which frees its
core for the helper. If helpers are preempted within their parts so often that waiting costs more than a tenth of the
work, the cores are needed elsewhere, and the lead works alone for a while. Even an idle machine takes a core away now
and then, for a tenth of a millisecond to a few milliseconds: 20 to 250 times in a fit of two seconds. The fit took 1.3
times as long when the lead worked alone after each of them.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.string cimport memset

from fastens.engine.structs cimport int64_t, uint8_t

cdef extern from "engine/thread_pool.h" nogil:
    int32_t load_word(const int32_t* word)
    void store_word(int32_t* word, int32_t value)
    int32_t swap_word(int32_t* word, int32_t value)
    bint change_word(int32_t* word, int32_t from_, int32_t to)
    int64_t load_time(const int64_t* time)
    void store_time(int64_t* time, int64_t value)
    int64_t nanoseconds()
    int32_t core_at_hand()
    bint changes_within(const int32_t* word, int32_t value, int64_t most)

cdef extern from "pythread.h" nogil:
    # Locks that any thread may release. Neither the locks nor threads started through this interface need the GIL.
    ctypedef void* PyThread_type_lock
    PyThread_type_lock PyThread_allocate_lock()
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait)
    void PyThread_release_lock(PyThread_type_lock lock)
    unsigned long PyThread_start_new_thread(void (*work)(void*) noexcept nogil, void* argument)
    unsigned long PYTHREAD_INVALID_THREAD_ID

cdef enum:
    CACHE_LINES = 128               # bytes; processors prefetch cache lines in pairs
    # Times are in nanoseconds.
    AWAKE = 100000                  # spin time of an idle helper before it sleeps
    SPIN_NS = 50000                # spin time of a waiting lead before it sleeps; parts should not take longer
    WORK_PER_WAIT = 10              # minimum ratio of work to waiting; below it, the lead works without helpers
    MIN_SOLO_NS = 1000000           # first period without helpers; doubled each time until a helper is useful again
    MAX_SOLO_NS = 128000000
    SIGNAL_CHECK_NS = 10000000               # time between checks for Ctrl-C
    # Maximum growth factor from one run of pieces to the next, because the first pieces may be fast by chance.
    MAX_STEP_GROWTH = 64

cdef enum State:
    # States of a helper's slot, and the threads that may change them.
    VACANT                          # no thread has been started yet; any lead may change this
    DENIED                          # the system refused to start a thread; final
    IDLE                            # the helper has no part; any lead may claim it
    CLAIMED                         # its lead prepares the offer of a part
    OFFERED                         # the helper takes the part, or its lead withdraws the offer
    TAKEN                           # the helper runs the part; its lead may start to sleep
    AWAITED                         # the helper runs the part, and wakes its lead when the part is done
    DONE                            # the part is done; its lead frees the helper


cdef struct WorkerSlot:
    # A helper's slot, on separate cache lines, and the part that it is offered.
    int32_t state
    int32_t is_asleep               # set by the helper; cleared by the thread that wakes it, or by the helper itself
    int32_t core                    # core that the lead runs on
    int32_t part
    int32_t n_parts
    Part work
    void* job
    PyThread_type_lock call         # held, except while a sleeping helper is woken
    PyThread_type_lock answer       # held, except while a sleeping lead is woken because the part is done
    uint8_t apart[CACHE_LINES]


cdef WorkerSlot slots[MAX_THREADS]
cdef int64_t alone_until = 0        # time until which helpers are not used
cdef int64_t alone_for = 0          # length of the last such period; reset once a helper is useful
# Time that leads worked together with helpers, minus WORK_PER_WAIT times the time that they waited.
cdef int64_t work_with_helpers = 0


# The helper ------------------------------------------------

cdef void _run_helper(void* slot_pointer) noexcept nogil:
    """Run the parts that calling threads (leads) offer to this helper thread in its slot, forever."""
    cdef WorkerSlot* slot = <WorkerSlot*>slot_pointer
    while True:
        if change_word(&slot.state, OFFERED, TAKEN):
            if not _take_part(slot):
                _sleep(slot)
        elif not changes_within(&slot.state, load_word(&slot.state), AWAKE):
            _sleep(slot)


cdef bint _take_part(WorkerSlot* slot) noexcept nogil:
    """Run the offered part; return False if the helper shares a core with its calling thread, so it must sleep."""
    cdef bint is_apart = slot.core < 0 or slot.core != core_at_hand()
    slot.work(slot.job, slot.part, slot.n_parts)
    if swap_word(&slot.state, DONE) == AWAITED:
        PyThread_release_lock(slot.answer)
    if not is_apart:
        _work_alone(0)
    elif load_time(&alone_for) > 0:
        store_time(&alone_for, 0)
    return is_apart


cdef void _sleep(WorkerSlot* slot) noexcept nogil:
    """Sleep until a calling thread wakes this helper, unless it made an offer before it saw the helper asleep."""
    swap_word(&slot.is_asleep, True)
    if load_word(&slot.state) != OFFERED or not change_word(&slot.is_asleep, True, False):
        PyThread_acquire_lock(slot.call, 1)


# The lead ------------------------------------------------

cdef void parallel_for(Part work, void* job, int32_t n_parts) noexcept nogil:
    """Run `work` for all parts of a job; the calling thread runs the first one, and all that helpers do not run."""
    cdef int32_t first = 0
    while first < n_parts - 1 and nanoseconds() < load_time(&alone_until):
        work(job, first, n_parts)
        first += 1
    if first < n_parts - 1:
        _run_with_helpers(work, job, first, n_parts)
    elif n_parts > 0:
        work(job, first, n_parts)


cdef void _run_with_helpers(Part work, void* job, int32_t first, int32_t n_parts) noexcept nogil:
    """Run the parts `first` to n_parts - 1: `first` in this thread, others in helpers or, if these are late, here."""
    cdef WorkerSlot* helpers[MAX_THREADS]
    cdef int32_t t, n_helpers = min(n_parts, <int32_t>MAX_THREADS)
    cdef int64_t end, begin = nanoseconds()
    cdef bint all_done = True
    for t in range(first + 1, n_helpers):
        helpers[t] = _claim(t)
        if helpers[t] != NULL:
            _offer(helpers[t], work, job, t, n_parts)
    work(job, first, n_parts)
    for t in range(first + 1, n_parts):
        if t >= n_helpers:
            work(job, t, n_parts)
        elif helpers[t] == NULL or change_word(&helpers[t].state, OFFERED, IDLE):
            helpers[t] = NULL
            work(job, t, n_parts)
    for t in range(first + 1, n_helpers):
        if helpers[t] != NULL and load_word(&helpers[t].state) == DONE:
            store_word(&helpers[t].state, IDLE)
            helpers[t] = NULL
        all_done = all_done and helpers[t] == NULL
    end = nanoseconds()
    if all_done:
        _update_backoff(end - begin, 0)
        return
    for t in range(first + 1, n_helpers):
        if helpers[t] != NULL:
            _await_done(helpers[t])
    _update_backoff(end - begin, nanoseconds() - end)


cdef WorkerSlot* _claim(int32_t t) noexcept nogil:
    """Return the slot of a free helper thread, preferably slot t, whose cache holds part t; NULL if there is none."""
    cdef WorkerSlot* slot
    cdef int32_t i
    for i in range(t, MAX_THREADS):
        slot = &slots[i]
        if change_word(&slot.state, IDLE, CLAIMED):
            return slot
        if change_word(&slot.state, VACANT, CLAIMED):
            if _start_helper(slot):
                return slot
            store_word(&slot.state, DENIED)
        if load_word(&slot.state) == DENIED:
            return NULL
    return NULL


cdef bint _start_helper(WorkerSlot* slot) noexcept nogil:
    """Start the thread of a slot; return False if the system refuses."""
    if slot.call == NULL:
        slot.call, slot.answer = PyThread_allocate_lock(), PyThread_allocate_lock()
    if slot.call == NULL or slot.answer == NULL:
        return False
    PyThread_acquire_lock(slot.call, 1)
    PyThread_acquire_lock(slot.answer, 1)
    return PyThread_start_new_thread(_run_helper, slot) != PYTHREAD_INVALID_THREAD_ID


cdef inline void _offer(WorkerSlot* slot, Part work, void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Offer a part to a claimed helper, and wake it if it sleeps."""
    slot.work, slot.job, slot.part, slot.n_parts, slot.core = work, job, part, n_parts, core_at_hand()
    swap_word(&slot.state, OFFERED)
    if change_word(&slot.is_asleep, True, False):
        PyThread_release_lock(slot.call)


cdef inline void _await_done(WorkerSlot* slot) noexcept nogil:
    """Wait until the helper's part is done: spin for a moment, then sleep, so that the helper may use this core."""
    if not changes_within(&slot.state, TAKEN, SPIN_NS) and change_word(&slot.state, TAKEN, AWAITED):
        PyThread_acquire_lock(slot.answer, 1)
    store_word(&slot.state, IDLE)


cdef inline void _update_backoff(int64_t worked, int64_t waited) noexcept nogil:
    """Stop using helpers for a while if the ns worked and waited show that helpers are preempted repeatedly."""
    cdef int64_t rest = load_time(&work_with_helpers) + worked
    if waited > SPIN_NS and 2 * waited > worked:
        rest -= WORK_PER_WAIT * waited
        if rest < 0:
            _work_alone(-rest)
    store_time(&work_with_helpers, min(max(rest, <int64_t>0), <int64_t>MAX_SOLO_NS))


cdef void _work_alone(int64_t min_time) noexcept nogil:
    """Stop using helpers for `min_time` ns or twice as long as the last time, whichever is longer, within limits."""
    cdef int64_t time = min(max(2 * load_time(&alone_for), max(min_time, <int64_t>MIN_SOLO_NS)), <int64_t>MAX_SOLO_NS)
    store_time(&alone_for, time)
    store_time(&alone_until, nanoseconds() + time)


# Pieces ------------------------------------------------

cdef struct Pieces:
    Piece work
    void* job
    Py_ssize_t first
    Py_ssize_t n
    int32_t taken[MAX_THREADS]      # number of started pieces in the share of each thread


cdef void dynamic_parallel_for(Piece work, void* job, Py_ssize_t n_pieces, int32_t n_threads) noexcept nogil:
    """Run all pieces of a job, which are many more than threads, with work stealing.

    Each thread starts with its own pieces, which are the same in every job and may be in its cache, and then takes
    pieces that other threads have not started. No thread waits for more than one piece. Threads are numbered from 0 to
    n_threads - 1. A lead that must work alone uses helpers again as soon as that period ends.
    """
    cdef Pieces pieces
    cdef int32_t t
    cdef Py_ssize_t n_done = 0
    n_threads = <int32_t>min(n_threads, <int32_t>MAX_THREADS)
    while n_done < n_pieces and (n_threads <= 1 or n_pieces - n_done == 1 or nanoseconds() < load_time(&alone_until)):
        work(job, n_done, 0)
        n_done += 1
    if n_done == n_pieces:
        return
    n_threads = <int32_t>min(<Py_ssize_t>n_threads, n_pieces - n_done)
    pieces.work, pieces.job, pieces.first, pieces.n = work, job, n_done, n_pieces - n_done
    for t in range(n_threads):
        pieces.taken[t] = 0
    parallel_for(_process_pieces, &pieces, n_threads)


cdef void _process_pieces(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Run the pieces of thread `part`, then pieces of the other n_parts - 1 threads that have not been started."""
    cdef Pieces* pieces = <Pieces*>job
    cdef int32_t k, owner
    cdef Py_ssize_t piece, end
    for k in range(n_parts):
        owner = (part + k) % n_parts
        end = pieces.n * (owner + 1) // n_parts
        piece = pieces.n * owner // n_parts + next_item(&pieces.taken[owner])
        while piece < end:
            pieces.work(pieces.job, pieces.first + piece, part)
            piece = pieces.n * owner // n_parts + next_item(&pieces.taken[owner])


cdef struct Run:
    Piece work
    void* job
    Py_ssize_t first


cdef int parallel_for_until_interrupted(Piece work, void* job, Py_ssize_t n_pieces, int32_t n_threads) except -1 nogil:
    """Run pieces as in `dynamic_parallel_for`; after Ctrl-C, raise KeyboardInterrupt with some pieces not run."""
    cdef Run run = Run(work, job, 0)
    cdef Py_ssize_t min_pieces = max(n_threads, 1)
    cdef Py_ssize_t n = min_pieces
    cdef int64_t begin, end, looked = nanoseconds()
    while run.first < n_pieces:
        n = min(n, n_pieces - run.first)
        begin = nanoseconds()
        dynamic_parallel_for(_process_run_piece, &run, n, n_threads)
        end = nanoseconds()
        run.first += n
        n = max(min_pieces, n * min(SIGNAL_CHECK_NS // max(end - begin, <int64_t>1), <int64_t>MAX_STEP_GROWTH))
        if end - looked > SIGNAL_CHECK_NS // 2:
            with gil:
                PyErr_CheckSignals()
            looked = nanoseconds()
    return 0


cdef void _process_run_piece(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Run one piece of the current run of `parallel_for_until_interrupted`."""
    cdef const Run* run = <const Run*>job
    run.work(run.job, run.first + piece, thread)


def forget_helpers():
    """Reset the pool in a forked child, which has none of its parent's threads."""
    memset(slots, 0, sizeof(slots))
    store_time(&alone_until, 0)
    store_time(&work_with_helpers, 0)
