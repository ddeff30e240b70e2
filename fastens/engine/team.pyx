"""Threads that help each other, and never wait for one that the system does not run.

A barrier ends when all of its threads have come, those too whose core the system has just given to somebody else: on a
machine with other work that takes milliseconds, a thousand times what there was to do. Here the thread that calls, the
lead, offers the parts of a job to helpers, and does itself what none of them has begun when its own part is done. It
waits only for parts that are begun. Results do not depend on who came: a part is the same whoever does it.

Helpers are the process's own, started when first called for. One that has nothing to do waits awake for a moment,
since the next job of a growing tree comes within microseconds, and then sleeps. So does a lead that waits: its core is
then free for the helper that it waits for. And where helpers are taken off their cores within parts so often that
waiting costs more than a tenth of the work beside them, the cores are wanted elsewhere: for a while, the lead works
alone. An idle machine, too, takes a core now and then, for a tenth of a millisecond or a few: 20 to 250 times in a fit
of two seconds, which took 1.3 times as long where each of them had the lead work alone.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.string cimport memset

from fastens.engine.structs cimport int64_t, uint8_t

cdef extern from "engine/team.h" nogil:
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
    # Locks that any thread may release; neither they nor threads started here need the interpreter.
    ctypedef void* PyThread_type_lock
    PyThread_type_lock PyThread_allocate_lock()
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait)
    void PyThread_release_lock(PyThread_type_lock lock)
    unsigned long PyThread_start_new_thread(void (*work)(void*) noexcept nogil, void* argument)
    unsigned long PYTHREAD_INVALID_THREAD_ID

cdef enum:
    CACHE_LINES = 128               # bytes; they are fetched in pairs
    # nanoseconds
    AWAKE = 100000                  # that a helper waits for a job before it sleeps
    PATIENCE = 50000                # that a lead waits for a part before it sleeps: no part should take longer
    WORK_PER_WAIT = 10              # beside helpers, or else alone
    LEAST_ALONE = 1000000           # at first; twice as long each time, until a helper is of use again
    MOST_ALONE = 128000000
    UNSEEN = 10000000               # that pieces are done before Python looks for Ctrl-C
    # A run of pieces may be so many times as long as the one before it: their first ones may be quick by chance.
    MOST_LONGER = 64

cdef enum State:
    # Of a seat, and who changes it.
    VACANT                          # no thread yet: a lead
    DENIED                          # the system gave none: nobody
    IDLE                            # a lead
    CLAIMED                         # its lead
    OFFERED                         # the helper, or its lead, who takes it back
    TAKEN                           # the helper, or its lead, who is going to sleep
    AWAITED                         # the helper, who wakes its lead
    DONE                            # its lead


cdef struct Seat:
    # A helper's place, in cache lines of its own, and the part that it is offered.
    int32_t state
    int32_t is_asleep               # set by the helper; who unsets it calls, or is the helper itself
    int32_t core                    # of the lead
    int32_t part
    int32_t n_parts
    Part work
    void* job
    PyThread_type_lock call         # held, but for a moment when the sleeping helper is called
    PyThread_type_lock answer       # likewise, when the lead that sleeps is told that the part is done
    uint8_t apart[CACHE_LINES]


cdef Seat seats[MAX_THREADS]
cdef int64_t alone_until = 0        # the time up to which helpers are not called
cdef int64_t alone_for = 0          # how long the last such time was, unless a helper was of use since
cdef int64_t work_beside = 0        # what leads have done beside helpers, beyond WORK_PER_WAIT of what they waited


# The helper ------------------------------------------------

cdef void _help(void* place) noexcept nogil:
    """Do what is offered, for ever."""
    cdef Seat* seat = <Seat*>place
    while True:
        if change_word(&seat.state, OFFERED, TAKEN):
            if not _take_part(seat):
                _sleep(seat)
        elif not changes_within(&seat.state, load_word(&seat.state), AWAKE):
            _sleep(seat)


cdef bint _take_part(Seat* seat) noexcept nogil:
    """Whether it was of use: not if this thread has the core of the lead, which waits meanwhile."""
    cdef bint is_apart = seat.core < 0 or seat.core != core_at_hand()
    seat.work(seat.job, seat.part, seat.n_parts)
    if swap_word(&seat.state, DONE) == AWAITED:
        PyThread_release_lock(seat.answer)
    if not is_apart:
        _work_alone(0)
    elif load_time(&alone_for) > 0:
        store_time(&alone_for, 0)
    return is_apart


cdef void _sleep(Seat* seat) noexcept nogil:
    """Until called. An offer that came before the lead could see that this thread sleeps is not missed."""
    swap_word(&seat.is_asleep, True)
    if load_word(&seat.state) != OFFERED or not change_word(&seat.is_asleep, True, False):
        PyThread_acquire_lock(seat.call, 1)


# The lead ------------------------------------------------

cdef void share(Part work, void* job, int32_t n_parts) noexcept nogil:
    """Do all parts of a job; the lead does the first one, what is left, and what comes after MAX_THREADS."""
    cdef int32_t first = 0
    while first < n_parts - 1 and nanoseconds() < load_time(&alone_until):
        work(job, first, n_parts)
        first += 1
    if first < n_parts - 1:
        _share(work, job, first, n_parts)
    elif n_parts > 0:
        work(job, first, n_parts)


cdef void _share(Part work, void* job, int32_t first, int32_t n_parts) noexcept nogil:
    """Do the parts from one on, which is the lead's own."""
    cdef Seat* helpers[MAX_THREADS]
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
        _judge(end - begin, 0)
        return
    for t in range(first + 1, n_helpers):
        if helpers[t] != NULL:
            _await(helpers[t])
    _judge(end - begin, nanoseconds() - end)


cdef Seat* _claim(int32_t t) noexcept nogil:
    """A helper that is free: the t-th, which has the t-th part in its cache, or a later one. NULL: there is none."""
    cdef Seat* seat
    cdef int32_t i
    for i in range(t, MAX_THREADS):
        seat = &seats[i]
        if change_word(&seat.state, IDLE, CLAIMED):
            return seat
        if change_word(&seat.state, VACANT, CLAIMED):
            if _start(seat):
                return seat
            store_word(&seat.state, DENIED)
        if load_word(&seat.state) == DENIED:
            return NULL
    return NULL


cdef bint _start(Seat* seat) noexcept nogil:
    if seat.call == NULL:
        seat.call, seat.answer = PyThread_allocate_lock(), PyThread_allocate_lock()
    if seat.call == NULL or seat.answer == NULL:
        return False
    PyThread_acquire_lock(seat.call, 1)
    PyThread_acquire_lock(seat.answer, 1)
    return PyThread_start_new_thread(_help, seat) != PYTHREAD_INVALID_THREAD_ID


cdef inline void _offer(Seat* seat, Part work, void* job, int32_t part, int32_t n_parts) noexcept nogil:
    seat.work, seat.job, seat.part, seat.n_parts, seat.core = work, job, part, n_parts, core_at_hand()
    swap_word(&seat.state, OFFERED)
    if change_word(&seat.is_asleep, True, False):
        PyThread_release_lock(seat.call)


cdef inline void _await(Seat* seat) noexcept nogil:
    """Until the part is done: awake for a moment, then asleep, so that the helper may have this core."""
    if not changes_within(&seat.state, TAKEN, PATIENCE) and change_word(&seat.state, TAKEN, AWAITED):
        PyThread_acquire_lock(seat.answer, 1)
    store_word(&seat.state, IDLE)


cdef inline void _judge(int64_t worked, int64_t waited) noexcept nogil:
    """Work alone for a while where helpers took so long that they can only have lost their cores, again and again."""
    cdef int64_t rest = load_time(&work_beside) + worked
    if waited > PATIENCE and 2 * waited > worked:
        rest -= WORK_PER_WAIT * waited
        if rest < 0:
            _work_alone(-rest)
    store_time(&work_beside, min(max(rest, <int64_t>0), <int64_t>MOST_ALONE))


cdef void _work_alone(int64_t least) noexcept nogil:
    """For a while call no helpers: they only take cores from others, or from their lead."""
    cdef int64_t time = min(max(2 * load_time(&alone_for), max(least, <int64_t>LEAST_ALONE)), <int64_t>MOST_ALONE)
    store_time(&alone_for, time)
    store_time(&alone_until, nanoseconds() + time)


# Pieces ------------------------------------------------

cdef struct Pieces:
    Piece work
    void* job
    Py_ssize_t first
    Py_ssize_t n
    int32_t taken[MAX_THREADS]      # of each thread's own


cdef void share_pieces(Piece work, void* job, Py_ssize_t n_pieces, int32_t n_threads) noexcept nogil:
    """Do all pieces of a job, which are many more than threads; nobody waits for more than a piece.

    Each thread begins with pieces of its own, always the same ones, which it may have in its cache, and goes on with
    what others have not begun. Threads have the numbers 0 to n_threads - 1. A lead that is to work alone asks for help
    as soon as that time is over.
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
    share(_do_pieces, &pieces, n_threads)


cdef void _do_pieces(void* job, int32_t part, int32_t n_parts) noexcept nogil:
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


cdef int share_until_interrupted(Piece work, void* job, Py_ssize_t n_pieces, int32_t n_threads) except -1 nogil:
    """As share_pieces, for passes over many rows; after Ctrl-C, raise with some of the pieces done."""
    cdef Run run = Run(work, job, 0)
    cdef Py_ssize_t least = max(n_threads, 1)
    cdef Py_ssize_t n = least
    cdef int64_t begin, end, looked = nanoseconds()
    while run.first < n_pieces:
        n = min(n, n_pieces - run.first)
        begin = nanoseconds()
        share_pieces(_do_of_run, &run, n, n_threads)
        end = nanoseconds()
        run.first += n
        n = max(least, n * min(UNSEEN // max(end - begin, <int64_t>1), <int64_t>MOST_LONGER))
        if end - looked > UNSEEN // 2:
            with gil:
                PyErr_CheckSignals()
            looked = nanoseconds()
    return 0


cdef void _do_of_run(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    cdef const Run* run = <const Run*>job
    run.work(run.job, run.first + piece, thread)


def forget_helpers():
    """In a forked child, which has none of its parent's threads."""
    memset(seats, 0, sizeof(seats))
    store_time(&alone_until, 0)
    store_time(&work_beside, 0)
