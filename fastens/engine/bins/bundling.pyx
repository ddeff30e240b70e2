"""Bundling of features with few codes, and the combinations of codes that occur in the rows.

The cost of a bundle is the number of its features' codes and members. Members of a feature are the combinations in
which it has another code than its most frequent one. A feature that joins a bundle adds its own members, and splits
combinations, which adds members of the other features.
"""

from libc.stdint cimport INT32_MAX
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from fastens.engine.structs cimport int32_t, int64_t, uint8_t
from fastens.engine.thread_pool cimport parallel_for

import numpy as np

cpdef enum:
    MAX_CODES = 33                 # including the code of missing values

cdef enum:
    MAX_COMBINATIONS = 256
    MAX_PAIRS = MAX_COMBINATIONS * MAX_CODES
    # Number of most recent bundles that are tried for a feature.
    MAX_OPEN = 16
    # A trial checks after this many rows, after twice as many and so on whether it can still be the best one.
    FIRST_ROWS = 128
    ROW_GRAIN = 50000


cdef struct Candidate:
    const uint8_t* codes            # codes of the rows, which are `step` bytes apart
    Py_ssize_t step
    int32_t n_codes
    int32_t bundle                  # -1 if the feature is not in a bundle
    int32_t before                  # feature that joined the bundle before this one; -1 if there is none
    int32_t n_with[MAX_CODES]      # number of combinations with each code
    uint8_t code_in[MAX_COMBINATIONS]


cdef struct Bundle:
    uint8_t* numbers                # combination of each row
    int32_t n_combinations
    int32_t n_features
    int32_t last                    # last feature that joined
    int32_t n_unusual[MAX_COMBINATIONS]    # number of features whose code is not their most frequent one


cdef struct Joining:
    Candidate* features
    Bundle* bundles
    Py_ssize_t n_rows
    int32_t n_features
    int32_t n_bundles
    int32_t max_cost               # maximum cost of a feature
    int32_t n_threads
    uint8_t* seen                   # MAX_PAIRS pairs of combination and code for each thread


# Pairs of combination and code ----------------------------------------------------------------------------------------

cdef void _mark_pairs(
    const uint8_t* numbers, const Candidate* feature, Py_ssize_t begin, Py_ssize_t end, uint8_t* seen
) noexcept nogil:
    """Set seen[combination * n_codes + code] to 1 for the pairs that the rows begin .. end - 1 have.

    `numbers` holds the combination of each row in a bundle.
    """
    cdef Py_ssize_t i
    for i in range(begin, end):
        seen[numbers[i] * feature.n_codes + feature.codes[i * feature.step]] = 1


cdef inline int32_t _threads_for(const Joining* job, Py_ssize_t n_rows) noexcept nogil:
    """Return the number of threads, at most the job's, that this number of rows keeps busy."""
    return <int32_t>max(<Py_ssize_t>1, min(<Py_ssize_t>job.n_threads, n_rows // ROW_GRAIN))


cdef struct RowPass:
    # A feature that is tried with a bundle or has joined it, on some of the rows.
    const Joining* job
    const Bundle* bundle
    const Candidate* feature
    const uint8_t* number           # combination number of each pair
    Py_ssize_t begin
    Py_ssize_t end


cdef void _mark_pairs_part(void* rows, int32_t part, int32_t n_parts) noexcept nogil:
    """Mark the pairs of a thread's share of the rows in the thread's own part of `seen`."""
    cdef const RowPass* over = <const RowPass*>rows
    cdef Py_ssize_t n = over.end - over.begin
    _mark_pairs(
        over.bundle.numbers, over.feature, over.begin + n * part // n_parts,
        over.begin + n * (part + 1) // n_parts, over.job.seen + part * MAX_PAIRS,
    )


cdef void _mark_more_pairs(
    const Joining* job, const Bundle* bundle, const Candidate* feature, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """Mark the pairs of the rows begin .. end - 1 in parallel, and merge all marks into the first thread's part."""
    cdef RowPass over = RowPass(job, bundle, feature, NULL, begin, end)
    cdef int32_t t, p, n_threads = _threads_for(job, end - begin)
    parallel_for(_mark_pairs_part, &over, n_threads)
    for t in range(1, n_threads):
        for p in range(bundle.n_combinations * feature.n_codes):
            job.seen[p] |= job.seen[t * MAX_PAIRS + p]


cdef inline int32_t _argmax(const int32_t* counts, int32_t n) noexcept nogil:
    """Return the index of the first maximum of n counts."""
    cdef int32_t i, best = 0
    for i in range(1, n):
        if counts[i] > counts[best]:
            best = i
    return best


cdef int32_t _bound_cost(
    const Joining* job, const Bundle* bundle, const Candidate* feature, int32_t too_much
) noexcept nogil:
    """Return a lower bound of the feature's cost in a bundle (see `join`), by the pairs marked in job.seen.

    Return too_much if there would be too many combinations.
    """
    cdef int32_t counts[MAX_CODES]
    cdef bint is_second = bundle.n_features == 1
    cdef int32_t i, k, more, n_new = 0, n_seen = 0, of_others = 0
    cdef const uint8_t* seen = job.seen
    memset(counts, 0, sizeof(counts))
    for i in range(bundle.n_combinations):
        more = -1
        for k in range(feature.n_codes):
            counts[k] += seen[k]
            more += seen[k]
        n_seen += more + 1
        more = max(more, 0)
        n_new += more
        of_others += (more + is_second) * bundle.n_unusual[i]
        seen += feature.n_codes
    if bundle.n_combinations + n_new > MAX_COMBINATIONS:
        return too_much
    if is_second:
        of_others += job.features[bundle.last].n_codes
    return n_seen - counts[_argmax(counts, feature.n_codes)] + of_others + feature.n_codes


cdef int32_t _cost(const Joining* job, const Bundle* bundle, const Candidate* feature, int32_t too_much) noexcept nogil:
    """Return the feature's cost in the bundle (see `join`), or any value >= too_much once it is that high.

    If the cost is lower, job.seen then marks all pairs of combination and code.
    """
    cdef Py_ssize_t begin = 0, end = min(<Py_ssize_t>FIRST_ROWS, job.n_rows), t
    cdef int32_t cost = 0
    for t in range(job.n_threads):
        memset(job.seen + t * MAX_PAIRS, 0, bundle.n_combinations * feature.n_codes)
    while begin < end and cost < too_much:
        _mark_more_pairs(job, bundle, feature, begin, end)
        cost = _bound_cost(job, bundle, feature, too_much)
        begin, end = end, min(2 * end, job.n_rows)
    return cost


# Joining --------------------------------------------------------------------------------------------------------------

cdef inline void _add_combination(Candidate* feature, int32_t combination, int32_t code) noexcept nogil:
    """Record in `feature` that the bundle's combination of this number contains this code of the feature."""
    feature.code_in[combination] = <uint8_t>code
    feature.n_with[code] += 1


cdef void _split_combination(const Joining* job, Bundle* bundle, int32_t combination) noexcept nogil:
    """Append a copy of a combination to the bundle, and record the codes of the bundle's features in it."""
    cdef int32_t g = bundle.last
    while g >= 0:
        _add_combination(&job.features[g], bundle.n_combinations, job.features[g].code_in[combination])
        g = job.features[g].before
    bundle.n_combinations += 1


cdef void _renumber_rows(
    uint8_t* numbers, const Candidate* feature, const uint8_t* number, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """Replace the combinations `numbers` of rows begin .. end - 1 by numbers that include the feature's code.

    `number` holds the new combination of each pair of combination and code.
    """
    cdef Py_ssize_t i
    for i in range(begin, end):
        numbers[i] = number[numbers[i] * feature.n_codes + feature.codes[i * feature.step]]


cdef void _renumber_part(void* rows, int32_t part, int32_t n_parts) noexcept nogil:
    """Replace the combinations of a part of the rows (see `_renumber_rows`), as the body of a parallel for."""
    cdef const RowPass* over = <const RowPass*>rows
    _renumber_rows(
        over.bundle.numbers, over.feature, over.number, over.end * part // n_parts,
        over.end * (part + 1) // n_parts,
    )


cdef void _renumber(
    const Joining* job, const Bundle* bundle, const Candidate* feature, const uint8_t* number
) noexcept nogil:
    """Replace each row's code in the bundle by its new code: `number` of the old code and the feature's code."""
    cdef RowPass over = RowPass(job, bundle, feature, number, 0, job.n_rows)
    parallel_for(_renumber_part, &over, _threads_for(job, job.n_rows))


cdef void _number_pairs(const Joining* job, Bundle* bundle, Candidate* feature, uint8_t* number) noexcept nogil:
    """Write the new combination of each pair in job.seen to `number`, and add the combinations to the bundle.

    The first code in a combination keeps the combination's number.
    """
    cdef int32_t i, k, place, n_before = bundle.n_combinations, p = 0
    for i in range(n_before):
        place = i
        for k in range(feature.n_codes):
            if job.seen[p]:
                if place < 0:
                    place = bundle.n_combinations
                    _split_combination(job, bundle, i)
                _add_combination(feature, place, k)
                number[p] = <uint8_t>place
                place = -1
            p += 1


cdef void _count_unusual(const Joining* job, Bundle* bundle) noexcept nogil:
    """Set n_unusual of each combination: the number of features whose code is not their most frequent one."""
    cdef int32_t i, usual, f = bundle.last
    memset(bundle.n_unusual, 0, sizeof(bundle.n_unusual))
    while f >= 0:
        usual = _argmax(job.features[f].n_with, job.features[f].n_codes)
        for i in range(bundle.n_combinations):
            bundle.n_unusual[i] += job.features[f].code_in[i] != usual
        f = job.features[f].before


cdef void _add_to_bundle(const Joining* job, int32_t b, int32_t f) noexcept nogil:
    """Add feature f to bundle b, and update the bundle's combinations and its combination of each row."""
    cdef uint8_t number[MAX_PAIRS]
    cdef Bundle* bundle = &job.bundles[b]
    cdef Candidate* feature = &job.features[f]
    _cost(job, bundle, feature, INT32_MAX)
    _number_pairs(job, bundle, feature, number)
    feature.bundle, feature.before, bundle.last = b, bundle.last, f
    bundle.n_features += 1
    _count_unusual(job, bundle)
    _renumber(job, bundle, feature, number)


cdef int32_t _find_cheapest_bundle(const Joining* job, int32_t f) noexcept nogil:
    """Return the index of the recent bundle where feature f costs least, or -1 if it costs too much in all."""
    cdef int32_t b, cost, best = -1, least = job.max_cost + 1
    for b in range(max(0, job.n_bundles - MAX_OPEN), job.n_bundles):
        cost = _cost(job, &job.bundles[b], &job.features[f], least)
        if cost < least:
            best, least = b, cost
    return best


cdef void _bundle_all(Joining* job, const int32_t* planned) noexcept nogil:
    """Add each feature to the cheapest recent bundle or a new one, or to planned[f] unless it costs too much.

    `planned` may be NULL.
    """
    cdef int32_t f, b, too_much = job.max_cost + 1
    for f in range(job.n_features):
        if planned != NULL:
            b = planned[f]
            if job.bundles[b].n_features > 0 and _cost(job, &job.bundles[b], &job.features[f], too_much) >= too_much:
                continue
        else:
            b = _find_cheapest_bundle(job, f)
            if b < 0:
                b = job.n_bundles
                job.n_bundles += 1
        _add_to_bundle(job, b, f)


# Results --------------------------------------------------------------------------------------------------------------

cdef inline bint _is_joined(const Joining* job, const Candidate* feature) noexcept nogil:
    """Return True if the feature shares its bundle with another feature."""
    return feature.bundle >= 0 and job.bundles[feature.bundle].n_features > 1


cdef int32_t _write_members(
    const Bundle* bundle, const Candidate* feature, int32_t usual, uint8_t* members
) noexcept nogil:
    """Write to `members`, for each code, the number of its combinations and the combinations, none for `usual`.

    Return the number of bytes.
    """
    cdef int32_t code, i, end = 0, begin
    for code in range(feature.n_codes):
        begin = end
        end += 1
        if code != usual:
            for i in range(bundle.n_combinations):
                if feature.code_in[i] == code:
                    members[end] = <uint8_t>i
                    end += 1
        members[begin] = <uint8_t>(end - begin - 1)
    return end


cdef _collect_results(const Joining* job):
    """Return the tuple (bundle_of, n_combinations, most_frequent_bin, first_member, members): see `join`."""
    cdef int32_t f, most = 1, end = 0
    cdef const Candidate* feature
    bundle_of, most_frequent_bin = np.full(job.n_features, -1, dtype=np.int32), np.zeros(job.n_features, dtype=np.int32)
    first_member = np.zeros(job.n_features, dtype=np.int32)
    n_combinations = np.array([job.bundles[f].n_combinations for f in range(job.n_bundles)], dtype=np.int32)
    cdef int32_t[::1] bundle = bundle_of, usual = most_frequent_bin, first = first_member
    for f in range(job.n_features):
        if _is_joined(job, &job.features[f]):
            bundle[f] = job.features[f].bundle
            most += job.features[f].n_codes + job.bundles[bundle[f]].n_combinations
    cdef uint8_t[::1] members = np.zeros(most, dtype=np.uint8)
    for f in range(job.n_features):
        first[f] = end
        if bundle[f] >= 0:
            feature = &job.features[f]
            usual[f] = _argmax(feature.n_with, feature.n_codes)
            end += _write_members(&job.bundles[bundle[f]], feature, usual[f], &members[end])
    return bundle_of, n_combinations, most_frequent_bin, first_member, np.asarray(members)


def join(
    const uint8_t[:, :] columns, const int64_t[::1] features, const int32_t[::1] n_codes, int32_t max_cost,
    const int32_t[::1] planned, int32_t n_threads
):
    """Bundle features of at most MAX_CODES codes.

    Parameters
    ----------
    columns : uint8 array of shape (n_columns, n_rows)
        Codes.
    features : int64 array of shape (n_features,)
        Columns to bundle, in this order.
    n_codes : int32 array of shape (n_features,)
        Number of codes of each feature.
    max_cost : int
        Maximum cost of a feature: the members it adds plus its codes, and for the second feature of a bundle also the
        codes of the first.
    planned : int32 array of shape (n_features,) or None
        Bundle of each feature, used unless the feature costs too much there. If None, each feature joins the cheapest
        of the most recent bundles.
    n_threads : int
        Maximum number of threads.

    Returns
    -------
    numbers : uint8 array of shape (n_bundles, n_rows)
        Combination of each row.
    bundle_of : int32 array of shape (n_features,)
        Bundle of each feature; -1 if the feature is not bundled.
    n_combinations : int32 array of shape (n_bundles,)
        Number of combinations of each bundle.
    most_frequent_bin : int32 array of shape (n_features,)
        Code that a feature has in most of the combinations.
    first_member : int32 array of shape (n_features,)
        Offset of each feature in `members`.
    members : uint8 array
        For each code, the number of combinations that have it, followed by these combinations; empty for the most
        frequent bin.
    """
    cdef Joining job
    cdef Py_ssize_t f, b, n_bundles = features.shape[0] if planned is None else np.asarray(planned).max() + 1
    numbers = np.zeros((n_bundles, columns.shape[1]), dtype=np.uint8)
    cdef uint8_t[:, ::1] rows = numbers
    job.n_rows, job.n_features, job.n_threads = columns.shape[1], <int32_t>features.shape[0], n_threads
    job.max_cost = max_cost
    job.n_bundles = 0 if planned is None else <int32_t>n_bundles
    job.features = <Candidate*>calloc(job.n_features, sizeof(Candidate))
    job.bundles = <Bundle*>calloc(n_bundles, sizeof(Bundle))
    job.seen = <uint8_t*>malloc(n_threads * MAX_PAIRS)
    try:
        if job.features == NULL or job.bundles == NULL or job.seen == NULL:
            raise MemoryError(f"no memory to join {job.n_features} features")
        for f in range(job.n_features):
            job.features[f].codes, job.features[f].n_codes = &columns[features[f], 0], n_codes[f]
            job.features[f].step = columns.strides[1]
            job.features[f].bundle = job.features[f].before = -1
        for b in range(n_bundles):
            job.bundles[b].numbers, job.bundles[b].n_combinations, job.bundles[b].last = &rows[b, 0], 1, -1
        with nogil:
            _bundle_all(&job, NULL if planned is None else &planned[0])
        return numbers, *_collect_results(&job)
    finally:
        free(job.features)
        free(job.bundles)
        free(job.seen)
