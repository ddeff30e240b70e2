"""Distinct values, category weights and quantiles of columns, dense or sparse."""

import numpy as np
from libc.float cimport DBL_MAX
from libc.math cimport INFINITY, NAN
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, value_t
from libc.string cimport memset
from fastens.engine.strided cimport GOLDEN, Values, bits_of, value_at, values_of
from fastens.engine.thread_pool cimport parallel_for, dynamic_parallel_for


cdef enum:
    TILE_ROWS = 512
    # Digit sizes of the radix sort. For few keys, counting digits must not take longer than sorting.
    DIGIT_BITS = 11
    SMALL_DIGIT_BITS = 8
    SMALL_SORT = 4096
    # Below this number of keys, insertion sort is used.
    FEW_KEYS = 24

# Distinct values ------------------------------------------------------------------------------------------------------

cdef struct DistinctValues:
    # Open-addressing hash tables of value bits, one for each part and feature, with 2**n_bits > limit + 1 slots (NaN
    # marks free slots), and their counts.
    uint64_t* slots
    int32_t* n_distinct
    Py_ssize_t n_features
    int n_bits
    int32_t limit
    Values X
    Py_ssize_t n_rows


cdef void _collect_tile(
    const DistinctValues* found, Py_ssize_t table, Py_ssize_t f, Py_ssize_t first, Py_ssize_t end
) noexcept nogil:
    """Add the values of feature f in rows first .. end - 1 to the hash table of index `table`.

    Stop once it has more distinct values than the limit. Missing values are not added.
    """
    # The search for NaN ends at a free slot, which holds the same bits, so missing values are not recorded.
    cdef uint64_t* slots = found.slots + (table << found.n_bits)
    cdef int32_t* n_distinct = found.n_distinct + table
    cdef Py_ssize_t row, at, last = (<Py_ssize_t> 1 << found.n_bits) - 1
    cdef int shift = 64 - found.n_bits
    cdef uint64_t bits, free = bits_of(<float64_t> NAN)
    for row in range(first, end):
        bits = bits_of(value_at(&found.X, row, f))
        at = (bits * GOLDEN) >> shift
        while slots[at] != bits:
            if slots[at] == free:
                n_distinct[0] += 1
                if n_distinct[0] > found.limit:
                    return
                slots[at] = bits
                break
            at = (at + 1) & last


cdef void _collect_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Collect the distinct values of this part's share of the rows in its own hash tables, tile by tile."""
    cdef const DistinctValues* found = <const DistinctValues*> job
    cdef Py_ssize_t row = found.n_rows * part // n_parts, last = found.n_rows * (part + 1) // n_parts, end, f, table
    while row < last:
        end = min(row + <Py_ssize_t> TILE_ROWS, last)
        for f in range(found.n_features):
            table = part * found.n_features + f
            if found.n_distinct[table] <= found.limit:
                _collect_tile(found, table, f, row, end)
        row = end


def collect_values(const value_t[:, :] X, uint64_t[:, :, ::1] slots, int32_t[:, ::1] n_distinct, int32_t limit):
    """Collect the distinct values of each feature in hash tables `slots`, until there are more than `limit`.

    Each thread processes its share of the rows with its own slots and counts. `slots` has shape (n_threads, n_features,
    a power of two > limit + 1) and must be filled with the bits of NumPy's NaN; `n_distinct` has shape (n_threads,
    n_features) and receives the counts. It must be 0, or above `limit` for features to skip.
    """
    cdef int32_t n_parts = <int32_t> slots.shape[0]
    cdef DistinctValues found
    found.X, found.n_rows = values_of(X), X.shape[0]
    found.slots, found.n_distinct, found.n_features, found.limit = &slots[0, 0, 0], &n_distinct[0, 0], X.shape[1], limit
    found.n_bits = 0
    while (1 << found.n_bits) < slots.shape[2]:
        found.n_bits += 1
    with nogil:
        parallel_for(_collect_part, &found, n_parts)


# Sorting --------------------------------------------------------------------------------------------------------------

cdef bint _sort_digit(
    const key_t* keys, key_t* out, const Weights* weights, Py_ssize_t n, int shift, int n_bits
) noexcept nogil:
    """Sort keys by the n_bits bits from `shift` on to `out`, and their weights to weights.spare.

    Return False, without moving keys, if all have the same digit.
    """
    cdef uint32_t[1 << DIGIT_BITS] places
    cdef key_t mask = (<key_t> 1 << n_bits) - 1
    cdef uint32_t place = 0, count
    cdef Py_ssize_t i, digit
    memset(places, 0, sizeof(uint32_t) << n_bits)
    for i in range(n):
        places[(keys[i] >> shift) & mask] += 1
    if places[(keys[0] >> shift) & mask] == n:
        return False
    for digit in range(<Py_ssize_t> 1 << n_bits):
        count = places[digit]
        places[digit] = place
        place += count
    for i in range(n):
        digit = (keys[i] >> shift) & mask
        out[places[digit]] = keys[i]
        if weights.values != NULL:
            weights.spare[places[digit]] = weights.values[i]
        places[digit] += 1
    return True


cdef void _insertion_sort(key_t* keys, const Weights* weights, Py_ssize_t n) noexcept nogil:
    """Sort n keys in place by insertion, together with their weights if there are any."""
    cdef Py_ssize_t i, place
    cdef key_t key
    cdef int64_t weight = 0
    for i in range(1, n):
        key, place = keys[i], i
        if weights.values != NULL:
            weight = weights.values[i]
        while place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            if weights.values != NULL:
                weights.values[place] = weights.values[place - 1]
            place -= 1
        keys[place] = key
        if weights.values != NULL:
            weights.values[place] = weight


cdef key_t* sort_keys(key_t* keys, key_t* spare, Weights* weights, Py_ssize_t n) noexcept nogil:
    """Sort n keys with their weights, if any; return the buffer, `keys` or `spare`, that holds the sorted keys.

    The two buffers of `weights` are swapped so that `values` holds the sorted weights.
    """
    cdef int shift = 0
    cdef int n_bits = DIGIT_BITS if n > SMALL_SORT else SMALL_DIGIT_BITS
    if n <= FEW_KEYS:
        _insertion_sort(keys, weights, n)
        return keys
    while shift < 8 * <int> sizeof(key_t):
        if _sort_digit(keys, spare, weights, n, shift, n_bits):
            keys, spare = spare, keys
            weights.values, weights.spare = weights.spare, weights.values
        shift += n_bits
    return keys


def kth_distinct(uint64_t[::1] numbers, uint64_t[::1] spare, Py_ssize_t k):
    """Return the k-th smallest (from 1) distinct number, or None if there are fewer. Both arrays are overwritten."""
    cdef Weights none
    cdef uint64_t* ordered
    cdef Py_ssize_t i = 0, n = numbers.shape[0], n_distinct = 1
    if n < k:
        return None
    none.values = none.spare = NULL
    with nogil:
        ordered = sort_keys(&numbers[0], &spare[0], &none, n)
        while n_distinct < k and i < n - 1:
            i += 1
            n_distinct += ordered[i] != ordered[i - 1]
    return ordered[i] if n_distinct == k else None


# Quantiles ------------------------------------------------------------------------------------------------------------

cdef Py_ssize_t merge_equal_keys(key_t* keys, const int64_t* weights, Py_ssize_t n, int64_t* totals) noexcept nogil:
    """Merge equal sorted keys in place, and write the total weight of each to `totals`; return their number.

    `weights` may be NULL for weights of 1, or equal `totals`.
    """
    cdef Py_ssize_t i, last = -1
    cdef int64_t weight
    for i in range(n):
        weight = weights[i] if weights != NULL else 1
        if last < 0 or keys[i] != keys[last]:
            last += 1
            keys[last] = keys[i]
            totals[last] = 0
        totals[last] += weight
    return last + 1


cdef float64_t _choose_threshold(float64_t low, float64_t high) noexcept nogil:
    """Return a threshold with low <= threshold < high, halfway if both are finite and that is representable."""
    # Infinities are separated from all finite values.
    cdef float64_t middle = 0.5 * low + 0.5 * high
    if low == -INFINITY:
        return 0.0 if high == INFINITY else low
    if high == INFINITY:
        return DBL_MAX
    return (middle if low <= middle < high else low) + 0.0


cdef struct Shares:
    # Values of more weight than `heavy` have their own bin. Light values share the remaining bins, `target` each.
    float64_t heavy
    float64_t target
    int64_t light
    int32_t light_bins


cdef Shares _plan_shares(const int64_t* totals, Py_ssize_t n, int32_t max_bins) noexcept nogil:
    """Return how max_bins bins are shared out among n values, given the total weight of each value.

    Each value above the mean weight of a bin gets one bin; light values share the others.
    """
    cdef Shares shares
    cdef Py_ssize_t i
    cdef int64_t total = 0
    for i in range(n):
        total += totals[i]
    shares.heavy = <float64_t> total / max_bins
    shares.light, shares.light_bins = total, max_bins
    for i in range(n):
        if totals[i] > shares.heavy:
            shares.light_bins -= 1
            shares.light -= totals[i]
    shares.target = <float64_t> shares.light / max(shares.light_bins, 1)
    return shares


cdef int32_t cut_values(
    const key_t* keys, const int64_t* totals, Py_ssize_t n, int32_t max_bins, float64_t* thresholds
) noexcept nogil:
    """Write at most max_bins - 1 thresholds between n ascending distinct values; return their number.

    `totals` holds the total weight of each value.
    """
    cdef Shares shares = _plan_shares(totals, n, max_bins)
    cdef Py_ssize_t i
    cdef int64_t current = 0
    cdef int32_t n_cuts = 0
    cdef bint is_heavy
    for i in range(n - 1):
        if n_cuts == max_bins - 1:
            break
        is_heavy = totals[i] > shares.heavy
        current += totals[i]
        shares.light -= 0 if is_heavy else totals[i]
        if not (
            n <= max_bins or is_heavy or current >= shares.target
            or (totals[i + 1] > shares.heavy and 2 * current >= shares.target)
        ):
            continue
        thresholds[n_cuts] = _choose_threshold(value_of(keys[i]), value_of(keys[i + 1]))
        n_cuts += 1
        current = 0
        if not is_heavy:
            # The remaining weight is divided evenly, regardless of the weights of the earlier bins.
            shares.light_bins = max(shares.light_bins - 1, 1)
            shares.target = <float64_t> shares.light / shares.light_bins
    return n_cuts


cdef struct Columns:
    # Input and output of cut_columns. room: for each thread, 4 n words for the keys and weights of one column, in two
    # copies.
    const void* x
    int32_t value_size
    const int64_t* starts           # offset of each column's values
    const int32_t* rows             # row index of each value; NULL if columns hold the values of all rows in order
    const int64_t* weights          # weights of the rows; NULL if all are 1
    int64_t total                   # total weight of all rows; zeros have the weight that stored values leave over
    Py_ssize_t n                    # maximum number of values of a column, including one for the zeros
    int64_t* room
    int32_t max_bins
    bint wants_values
    float64_t* found                # thresholds or distinct values
    const int64_t* first            # offset of each column in `found`
    int32_t* n_found
    uint16_t* codes                 # codes of the values; NULL if not needed


cdef void _write_codes(
    const key_t* keys, const int64_t* rows, Py_ssize_t n, const float64_t* thresholds, int32_t n_thresholds,
    uint16_t* codes
) noexcept nogil:
    """Write the code of each of n sorted keys, 1 + the number of thresholds below it, to codes[rows[i]]."""
    cdef Py_ssize_t i
    cdef int32_t below = 0
    cdef float64_t value
    for i in range(n):
        value = value_of(keys[i])
        while below < n_thresholds and thresholds[below] < value:
            below += 1
        codes[rows[i]] = <uint16_t> (below + 1)


cdef int32_t _cut_and_code(
    const Columns* of, Py_ssize_t f, const value_t* x, key_t* keys, int64_t* work
) noexcept nogil:
    """Write the thresholds of column f, which has no implicit zeros, and its codes; return their number.

    `keys` and `work` are buffers of 2 n elements.
    """
    # The row index is sorted with its key. It may be overwritten when equal keys are merged, because sorting is then
    # complete.
    cdef float64_t* thresholds = of.found + of.first[f]
    cdef Py_ssize_t i, n = 0
    cdef int32_t n_cuts
    cdef Weights rows = Weights(work, work + of.n)
    cdef key_t* ordered
    cdef key_t* distinct
    x += of.starts[f]
    for i in range(of.starts[f + 1] - of.starts[f]):
        set_key(&keys[n], x[i])
        rows.values[n] = i
        n += x[i] == x[i]
    if n == 0:
        return 0
    ordered = sort_keys(keys, keys + of.n, &rows, n)
    distinct = keys + of.n if ordered == keys else keys
    for i in range(n):
        distinct[i] = ordered[i]
        rows.spare[i] = of.weights[rows.values[i]] if of.weights != NULL else 1
    n_cuts = cut_values(
        distinct, rows.spare, merge_equal_keys(distinct, rows.spare, n, rows.spare), of.max_bins, thresholds
    )
    _write_codes(ordered, rows.values, n, thresholds, n_cuts, of.codes + of.starts[f])
    return n_cuts


cdef Py_ssize_t _collect_keys(
    const Columns* of, Py_ssize_t f, const value_t* x, key_t* keys, const Weights* weights
) noexcept nogil:
    """Write keys and weights of column f's values that are not missing to `keys` and weights.values.

    All implicit zeros count as one value. Return the number of values.
    """
    cdef Py_ssize_t i, n = 0, start = of.starts[f]
    cdef int64_t weight = 1, rest = of.total
    for i in range(start, of.starts[f + 1]):
        if of.weights != NULL:
            weight = of.weights[of.rows[i] if of.rows != NULL else i - start]
        rest -= weight
        set_key(&keys[n], x[i])
        if weights.values != NULL:
            weights.values[n] = weight
        n += x[i] == x[i]
    if rest > 0:
        set_key(&keys[n], <value_t> 0)
        weights.values[n] = rest
        n += 1
    return n


cdef int32_t _cut_column(const Columns* of, Py_ssize_t f, const value_t* x, key_t* keys, int64_t* work) noexcept nogil:
    """Write column f's thresholds or distinct values to of.found; return their number.

    Return -1 for too many distinct values. `keys` and `work` are buffers of 2 n elements.
    """
    cdef float64_t* found = of.found + of.first[f]
    cdef Weights weights = Weights(NULL, NULL)
    cdef Py_ssize_t i, n
    if of.codes != NULL:
        return _cut_and_code(of, f, x, keys, work)
    if of.weights != NULL or of.total > 0:      # otherwise, only the keys are sorted
        weights.values, weights.spare = work, work + of.n
    n = _collect_keys(of, f, x, keys, &weights)
    if n == 0:
        return 0
    keys = sort_keys(keys, keys + of.n, &weights, n)
    if weights.values != NULL:
        work = weights.values
    n = merge_equal_keys(keys, weights.values, n, work)
    if not of.wants_values:
        return cut_values(keys, work, n, of.max_bins, found)
    if n > of.max_bins:
        return -1
    for i in range(n):
        found[i] = value_of(keys[i])
    return <int32_t> n


cdef void _cut_column_piece(void* job, Py_ssize_t f, int32_t thread) noexcept nogil:
    """Cut column f in the thread's part of the workspace, as the body of a parallel for."""
    cdef const Columns* of = <const Columns*> job
    cdef int64_t* work = of.room + thread * 4 * of.n
    if of.value_size == sizeof(float32_t):
        of.n_found[f] = _cut_column(of, f, <const float32_t*> of.x, <uint32_t*> work, work + 2 * of.n)
    else:
        of.n_found[f] = _cut_column(of, f, <const float64_t*> of.x, <uint64_t*> work, work + 2 * of.n)


def cut_columns(
    const value_t[::1] x, const int32_t[::1] rows, const int64_t[::1] starts, const int64_t[::1] weights,
    int64_t total, int32_t max_bins, bint wants_values, int n_threads, uint16_t[::1] codes=None
):
    """Return the thresholds of each column: between all distinct values, or at quantiles if there are too many.

    Parameters
    ----------
    x : float32 or float64 array of shape (n_values,)
        Values, one column after another.
    rows : int32 array of shape (n_values,)
        Row index of each value; used only with weights. Empty if every column holds the values of all rows in order.
    starts : int64 array of shape (n_columns + 1,)
        Offset of each column in `x`.
    weights : int64 array of shape (n_rows,) or None
        Weights of the rows. If None, all weights are 1.
    total : int
        Sum of all weights. Rows without a stored value are zeros; a column has no such rows if its values already weigh
        at least this much, and columns have none if it is 0.
    max_bins : int
        Maximum number of bins of a column.
    wants_values : bool
        If True, return the distinct values instead of thresholds.
    n_threads : int
        Number of threads. It does not affect the result.
    codes : uint16 array of shape (n_values,), optional
        Receives the codes of the values of columns without implicit zeros; entries of missing values are unchanged.

    Returns
    -------
    found : float64 array
        Thresholds or values, one column after another.
    n_found : int32 array of shape (n_columns,)
        Number for each column; -1 if a column has more than max_bins distinct values.
    """
    cdef Columns of
    cdef Py_ssize_t n_columns = starts.shape[0] - 1
    sizes = np.diff(starts) + 1
    room_of = np.minimum(sizes, max_bins)
    n_found, found = np.zeros(n_columns, dtype=np.int32), np.empty(int(room_of.sum()) + 1)
    cdef const int64_t[::1] first = np.cumsum(room_of) - room_of
    cdef int32_t[::1] counts = n_found
    cdef float64_t[::1] places = found
    cdef int64_t[:, ::1] room
    if n_columns == 0:
        return found[:0], n_found
    of.n = sizes.max()
    n_threads = min(n_threads, <int> n_columns)
    room = np.empty((n_threads, 4 * of.n), dtype=np.int64)
    of.x, of.value_size = &x[0] if x.shape[0] else NULL, sizeof(value_t)
    of.starts, of.rows, of.total, of.first = &starts[0], &rows[0] if rows.shape[0] else NULL, total, &first[0]
    of.weights = &weights[0] if weights is not None else NULL
    of.wants_values, of.max_bins = wants_values, max_bins
    of.room, of.found, of.n_found = &room[0, 0], &places[0], &counts[0]
    of.codes = &codes[0] if codes is not None else NULL
    with nogil:
        dynamic_parallel_for(_cut_column_piece, &of, n_columns, n_threads)
    n_kept = np.maximum(n_found, 0)
    gaps = np.asarray(first) - (np.cumsum(n_kept) - n_kept)
    return found[np.arange(n_kept.sum()) + np.repeat(gaps, n_kept)], n_found
