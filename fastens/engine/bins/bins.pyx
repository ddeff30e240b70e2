"""Conversion of values to bin codes, for dense and sparse tables, and the range of values in each bin."""

import numpy as np
from cython cimport final
from libc.float cimport DBL_MAX
from libc.math cimport INFINITY, fabs, floor
from fastens.engine.rows.stored_rows cimport first_at_least
from fastens.engine.strided cimport Strides, Values, code_at, value_at, values_of
from fastens.engine.structs cimport (
    code_t, float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint8_t, value_t
)
from libc.stdint cimport INT32_MAX
from libc.stdlib cimport calloc, free
from fastens.engine.thread_pool cimport parallel_for, dynamic_parallel_for, parallel_for_until_interrupted


cdef enum:
    # The times of tiles of 128 to 1024 rows differ by at most 5 %. With 64 features, the records of a tile stay in the
    # cache.
    TILE_ROWS = 512
    TILE_FEATURES = 64
    # Buckets of the search table: with 16 per threshold one step remains (normal and lognormal data, 255 bins), with 2
    # per threshold two or three. One step instead of three saves a third of the time. A table of 8192 buckets fits in
    # the L1 cache.
    BUCKETS_PER_THRESHOLD = 16
    MIN_BUCKETS_PER_THRESHOLD = 2
    MAX_BUCKETS = 8192
    MAX_TABLE = 2097152         # buckets of all features combined: 4 MiB
    VALUES_AT_ONCE = 256        # values whose buckets are computed together
    FEW_VALUES = 8              # up to this number, vector instructions do not help
    # How a number becomes a category position, with the constants of binning.py.
    TOWARD_ZERO = 1
    WHOLE = 2
    SINGLE = 4

cdef float64_t LARGEST_NEGATIVE = -5e-324


# Search ---------------------------------------------------------------------------------------------------------------

cdef extern from "engine/bins/bin_loops.h" nogil:
    int32_t signed_key(float64_t value, int32_t log_floor)
    int32_t bucket_of(const Buckets* buckets, float64_t value, bint is_log)
    void find_buckets_loop(
        const Buckets* of, const float64_t* values, Py_ssize_t n, int32_t* out, bint* has_nan)
    void find_buckets(const Buckets* of, const float64_t* values, Py_ssize_t n, int32_t* out, bint* has_nan)


cdef bint _find_buckets(
    const Buckets* of, const value_t* x, Py_ssize_t stride, Py_ssize_t n, float64_t* values, int32_t* out
) noexcept nogil:
    """Write n values, `stride` elements apart, to `values` and the index of each value's bucket to `out`.

    Return True if a value is NaN.
    """
    cdef bint has_nan = False
    cdef Py_ssize_t i
    for i in range(n):
        values[i] = x[i * stride]
    if n < FEW_VALUES:
        find_buckets_loop(of, values, n, out, &has_nan)
    else:
        find_buckets(of, values, n, out, &has_nan)
    return has_nan


cdef inline void _code_numeric(
    const FeatureBins* bins, const value_t* x, Py_ssize_t stride, Py_ssize_t n, code_t* out, int n_steps
) noexcept nogil:
    """Write the codes of n values of a numeric feature: 0 for NaN, else 1 + the number of smaller thresholds.

    Values are `stride` elements apart. n_steps is bins.n_steps, a literal in common cases.
    """
    # Called with a literal n_steps in the common cases, so that the compiler unrolls the loop.
    cdef const float64_t* thresholds = bins.thresholds
    cdef const uint16_t* bucket_start = bins.bucket_start
    cdef float64_t[VALUES_AT_ONCE] values
    cdef int32_t[VALUES_AT_ONCE] chosen
    cdef Py_ssize_t i, position, size
    cdef bint has_nan
    cdef int step
    while n > 0:
        size = min(n, <Py_ssize_t> VALUES_AT_ONCE)
        has_nan = _find_buckets(&bins.buckets, x, stride, size, values, chosen)
        for i in range(size):
            position = bucket_start[chosen[i]]
            for step in range(n_steps - 1, -1, -1):
                position += <Py_ssize_t> (thresholds[position + (1 << step) - 1] < values[i]) << step
            out[i] = <code_t> (position + 1)
        for i in range(size if has_nan else 0):
            if values[i] != values[i]:
                out[i] = 0
        x, out, n = x + size * stride, out + size, n - size


cdef inline void _code_categorical(
    const FeatureBins* bins, const value_t* x, Py_ssize_t stride, Py_ssize_t n, code_t* out
) noexcept nogil:
    """Write the codes of n category positions, `stride` elements apart, to `out`.

    NaN and numbers that are not positions have the last two of bins.category_codes.
    """
    cdef Py_ssize_t i, position
    cdef float64_t value
    for i in range(n):
        value = x[i * stride]
        if bins.is_single:
            value = <float32_t> value
        position = bins.n_categories + (value == value)
        if value > bins.above and value < bins.n_categories and (not bins.is_whole or value == floor(value)):
            position = <Py_ssize_t> value
        out[i] = <code_t> bins.category_codes[position]


cdef void bin_values(
    const FeatureBins* bins, const value_t* x, Py_ssize_t stride, Py_ssize_t n, code_t* out
) noexcept nogil:
    """Write the bin codes of n values of one feature, which are `stride` elements apart, to `out`."""
    if bins.category_codes != NULL:
        _code_categorical(bins, x, stride, n, out)
    elif bins.n_steps == 1:
        _code_numeric(bins, x, stride, n, out, 1)
    elif bins.n_steps == 2:
        _code_numeric(bins, x, stride, n, out, 2)
    elif bins.n_steps == 3:
        _code_numeric(bins, x, stride, n, out, 3)
    else:
        _code_numeric(bins, x, stride, n, out, bins.n_steps)


# Search tables --------------------------------------------------------------------------------------------------------

cdef void _spread_buckets(FeatureBins* bins, bint is_log) noexcept nogil:
    """Set the origin and scale of buckets of equal width, in the value or, if is_log, in its logarithm.

    They lie between the first and the last finite threshold.
    """
    cdef const float64_t* thresholds = bins.thresholds
    cdef int32_t i, low = 0, high = bins.n_thresholds - 1
    cdef float64_t first, last, scale
    while low < high and thresholds[low] == -INFINITY:
        low += 1
    while low < high and thresholds[high] >= DBL_MAX:
        high -= 1
    first, last = thresholds[low], thresholds[high]
    bins.buckets.log_floor = -1
    if is_log:
        bins.buckets.log_floor = INT32_MAX
        for i in range(bins.n_thresholds):
            if thresholds[i] != 0.0:
                bins.buckets.log_floor = min(bins.buckets.log_floor, <int32_t> fabs(signed_key(thresholds[i], 0)))
        bins.buckets.log_floor = max(bins.buckets.log_floor - 1, 0)
        first, last = signed_key(first, bins.buckets.log_floor), signed_key(last, bins.buckets.log_floor)
    scale = bins.buckets.last / (last - first)
    bins.buckets.origin = first
    bins.buckets.scale = scale if scale < INFINITY else 0.0


cdef void _set_n_steps(FeatureBins* bins, bint is_log) noexcept nogil:
    """Set the buckets (see `_spread_buckets`) and n_steps, the binary search steps that the fullest one needs."""
    cdef Py_ssize_t i, bucket, first = 0, previous = -1, most = 1
    _spread_buckets(bins, is_log)
    for i in range(bins.n_thresholds):
        bucket = bucket_of(&bins.buckets, bins.thresholds[i], is_log)
        if bucket != previous:
            first, previous = i, bucket
        most = max(most, i + 1 - first)
    bins.n_steps = 1
    while (1 << bins.n_steps) <= most:
        bins.n_steps += 1


cdef void _fill_buckets(const FeatureBins* bins, uint16_t* start) noexcept nogil:
    """Write to `start`, for each bucket, the number of thresholds in earlier buckets, where searches begin.

    The number is lower if the window of the search would not fit.
    """
    cdef Py_ssize_t i, end, b = 0
    cdef Py_ssize_t last_start = max(bins.n_thresholds + 1 - (1 << bins.n_steps), 0)
    for i in range(bins.n_thresholds + 1):
        end = 1 + <Py_ssize_t> bins.buckets.last
        if i < bins.n_thresholds:
            end = 1 + bucket_of(&bins.buckets, bins.thresholds[i], bins.buckets.log_floor >= 0)
        while b < end:
            start[b] = <uint16_t> min(i, last_start)
            b += 1


cdef inline Py_ssize_t _count_buckets(Py_ssize_t n_thresholds, Py_ssize_t max_buckets) noexcept nogil:
    """Return the number of buckets of a feature: up to max_buckets, or more for very many thresholds."""
    return max(min(n_thresholds * BUCKETS_PER_THRESHOLD, max_buckets), n_thresholds * MIN_BUCKETS_PER_THRESHOLD + 1)


cdef void _make_bucket_table(FeatureBins* bins, uint16_t* start) noexcept nogil:
    """Choose even or logarithmic buckets for a feature by the steps they need, and write their starts to `start`."""
    # Extracting the leading bits costs as much as about one and a half steps.
    cdef int32_t n_steps
    bins.bucket_start = start
    if bins.n_thresholds == 0:
        bins.n_steps, bins.buckets.log_floor = 1, -1
        return
    _set_n_steps(bins, False)
    if bins.n_steps > 2:
        n_steps = bins.n_steps
        _set_n_steps(bins, True)
        if bins.n_steps > n_steps - 2:
            _set_n_steps(bins, False)
    _fill_buckets(bins, start)


@final
cdef class BinTable:
    """Search tables of all features.

    Parameters
    ----------
    thresholds : list of float64 arrays
        Ascending thresholds of each feature; empty for a categorical feature.
    category_codes : list of uint16 arrays or None
        Code of each category; None for a numeric feature.
    lookup : int32 array of shape (n_features, 2) or None
        See Binning.
    """

    def __init__(self, list thresholds, list category_codes, lookup=None):
        self.n_features = len(thresholds)
        self.features = <FeatureBins*> calloc(self.n_features + 1, sizeof(FeatureBins))
        if self.features == NULL:
            raise MemoryError(f"no memory for the bins of {self.n_features} features")
        self._set_categories(category_codes, np.zeros((self.n_features, 2), np.int32) if lookup is None else lookup)
        self._set_thresholds(thresholds)

    def __dealloc__(self):
        free(self.features)

    cdef _set_categories(self, list category_codes, const int32_t[:, ::1] lookup):
        """Copy the category codes of all features, each followed by the codes of missing and of other values.

        `category_codes` and `lookup` are attributes of `Binning`.
        """
        cdef Py_ssize_t f, at = 0
        cdef const uint16_t[::1] codes
        parts = [np.zeros(1, dtype=np.uint16)]                              # never empty
        for f in range(self.n_features):
            if category_codes[f] is not None:
                parts += [category_codes[f], np.array([0, lookup[f, 0]], dtype=np.uint16)]
        self.category_codes = codes = np.concatenate(parts)
        at = 1
        for f in range(self.n_features):
            if category_codes[f] is not None:
                self.features[f].category_codes = &codes[at]
                self.features[f].n_categories = len(category_codes[f])
                self.features[f].above = -1.0 if lookup[f, 1] & TOWARD_ZERO else LARGEST_NEGATIVE
                self.features[f].is_whole = lookup[f, 1] & WHOLE != 0
                self.features[f].is_single = lookup[f, 1] & SINGLE != 0
                at += len(category_codes[f]) + 2

    cdef _set_thresholds(self, list thresholds):
        """Copy the thresholds of all features, padded with infinity, and make their bucket tables."""
        cdef Py_ssize_t f, n, n_thresholds = 0, n_buckets = 0, at = 0, table_at = 0
        cdef Py_ssize_t most = min(MAX_BUCKETS, max(1, MAX_TABLE // max(1, self.n_features)))
        cdef float64_t[::1] padded
        cdef uint16_t[::1] starts
        for f in range(self.n_features):
            n = len(thresholds[f])
            n_thresholds += n
            n_buckets += _count_buckets(n, most)
        # Search windows may be up to twice as long as the thresholds, minus one.
        self.thresholds = padded = np.full(2 * n_thresholds + self.n_features, np.inf)
        self.bucket_start = starts = np.zeros(n_buckets, dtype=np.uint16)
        for f in range(self.n_features):
            n = len(thresholds[f])
            if n:
                self.thresholds[at : at + n] = thresholds[f]
            self.features[f].thresholds = &padded[at]
            self.features[f].n_thresholds = n
            self.features[f].buckets.last = _count_buckets(n, most) - 1
            _make_bucket_table(&self.features[f], &starts[table_at])
            at += 2 * n + 1
            table_at += _count_buckets(n, most)


# Matrices -------------------------------------------------------------------------------------------------------------

cdef struct Job:
    # Job of bin_matrix: source of the values and destination of the codes.
    const FeatureBins* bins
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t row_stride           # stride of the values, in elements
    Py_ssize_t column_stride
    Py_ssize_t code_stride          # distance between consecutive columns of codes
    uint8_t* records                # NULL if only columns are written
    Py_ssize_t record_stride
    const void* x
    int32_t value_size
    void* columns                   # NULL if only records are written
    int32_t code_size


cdef void _bin_tile(
    const Job* job, const value_t* x, code_t* columns, Py_ssize_t row, Py_ssize_t first, Py_ssize_t last
) noexcept nogil:
    """Write the codes of features first .. last - 1 for the tile of rows that starts at `row`.

    They go to the job's records and, unless NULL, to `columns`.
    """
    cdef Py_ssize_t f, i
    cdef Py_ssize_t n = min(<Py_ssize_t> TILE_ROWS, job.n_rows - row)
    cdef code_t own[TILE_ROWS]
    cdef code_t* codes = own
    cdef uint8_t* record
    for f in range(first, last):
        if columns != NULL:
            codes = columns + f * job.code_stride + row
        bin_values(job.bins + f, x + row * job.row_stride + f * job.column_stride, job.row_stride, n, codes)
        if job.records != NULL:
            record = job.records + row * job.record_stride + f * sizeof(code_t)
            for i in range(n):
                (<code_t*> (record + i * job.record_stride))[0] = codes[i]


cdef void _bin_rows(const Job* job, const value_t* x, code_t* columns, Py_ssize_t row) noexcept nogil:
    """Write the codes of all features for the tile of rows that starts at `row`, block by block of features."""
    cdef Py_ssize_t first = 0
    while first < job.n_features:
        _bin_tile(job, x, columns, row, first, min(first + TILE_FEATURES, job.n_features))
        first += TILE_FEATURES


cdef inline void _bin_typed_rows(const Job* job, const value_t* x, Py_ssize_t row) noexcept nogil:
    """Call `_bin_rows` for the tile that starts at `row`, with the type of the job's codes."""
    if job.code_size == 1:
        _bin_rows(job, x, <uint8_t*> job.columns, row)
    else:
        _bin_rows(job, x, <uint16_t*> job.columns, row)


cdef void _bin_tile_piece(void* job, Py_ssize_t tile, int32_t thread) noexcept nogil:
    """Write the codes of one tile of rows, as the body of a parallel for."""
    cdef const Job* binning = <const Job*> job
    if binning.value_size == sizeof(float32_t):
        _bin_typed_rows(binning, <const float32_t*> binning.x, tile * TILE_ROWS)
    else:
        _bin_typed_rows(binning, <const float64_t*> binning.x, tile * TILE_ROWS)


cdef struct Copying:
    const void* codes
    int32_t code_size
    Py_ssize_t n_rows
    Py_ssize_t n_features
    uint8_t* records
    Py_ssize_t stride


cdef void _copy_tile_piece(void* job, Py_ssize_t tile, int32_t thread) noexcept nogil:
    """Copy the codes of one tile of rows to the records, as the body of a parallel for."""
    cdef const Copying* c = <const Copying*> job
    if c.code_size == 1:
        _copy_tile(<const uint8_t*> c.codes, c.n_rows, c.n_features, tile * TILE_ROWS, c.records, c.stride)
    else:
        _copy_tile(<const uint16_t*> c.codes, c.n_rows, c.n_features, tile * TILE_ROWS, c.records, c.stride)


cdef void _copy_tile(
    const code_t* codes, Py_ssize_t n_rows, Py_ssize_t n_features, Py_ssize_t first, uint8_t* records,
    Py_ssize_t stride
) noexcept nogil:
    """Copy column-major codes of up to TILE_ROWS rows from row `first` on to records, `stride` bytes apart."""
    cdef Py_ssize_t f, i
    for f in range(n_features):
        for i in range(first, min(first + TILE_ROWS, n_rows)):
            (<code_t*> (records + i * stride + f * sizeof(code_t)))[0] = codes[f * n_rows + i]


def bin_matrix(
    BinTable table, const value_t[:, :] X, code_t[:, :] columns, uint8_t[:, ::1] records, Py_ssize_t first_row,
    int n_threads,
):
    """Write the codes of X to the rows from first_row on of `columns` and, unless None, of `records`.

    `columns` has shape (n_features, n_rows) and is C-contiguous or a view of the records. The strides of X must be
    multiples of the item size.
    """
    cdef Job job
    if X.shape[0] == 0 or X.shape[1] == 0:
        return
    job.x, job.value_size = &X[0, 0], sizeof(value_t)
    job.columns, job.code_size = &columns[0, first_row], sizeof(code_t)
    if columns.strides[1] != sizeof(code_t):
        job.columns = NULL
    job.bins, job.n_features, job.n_rows, job.code_stride = table.features, X.shape[1], X.shape[0], columns.shape[1]
    job.row_stride = X.strides[0] // <Py_ssize_t> sizeof(value_t)
    job.column_stride = X.strides[1] // <Py_ssize_t> sizeof(value_t)
    job.records = &records[first_row, 0] if records is not None else NULL
    job.record_stride = records.shape[1] if records is not None else 0
    with nogil:
        parallel_for_until_interrupted(_bin_tile_piece, &job, (job.n_rows + TILE_ROWS - 1) // TILE_ROWS, n_threads)


def copy_to_records(const code_t[:, ::1] columns, uint8_t[:, ::1] records, int n_threads):
    """Copy codes of shape (n_features, n_rows) to the rows' records, which have shape (n_rows, record bytes)."""
    cdef Copying job
    if columns.shape[0] == 0 or columns.shape[1] == 0:
        return
    job = Copying(
        &columns[0, 0], sizeof(code_t), columns.shape[1], columns.shape[0], &records[0, 0], records.shape[1]
    )
    with nogil:
        parallel_for_until_interrupted(_copy_tile_piece, &job, (job.n_rows + TILE_ROWS - 1) // TILE_ROWS, n_threads)


cdef enum:
    RANGE_ROWS = 512


cdef struct Noting:
    Values X
    const void* codes
    int32_t code_size
    Strides code_strides
    Py_ssize_t n_rows
    Py_ssize_t n_features
    const int64_t* first
    float64_t* low
    float64_t* high


cdef void _widen_extremes_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Update the minima `low` and maxima `high` of the bins of this part's share of the features."""
    cdef Noting noting = (<const Noting*> job)[0]       # a local copy, which the stores below cannot alias
    cdef Py_ssize_t row = 0, end, f, i, cell, n = noting.n_features
    cdef float64_t value
    while row < noting.n_rows:
        end = min(row + <Py_ssize_t> RANGE_ROWS, noting.n_rows)
        for f in range(n * part // n_parts, n * (part + 1) // n_parts):
            for i in range(row, end):
                value = value_at(&noting.X, i, f)
                cell = i * noting.code_strides.row + f * noting.code_strides.column
                cell = noting.first[f] + code_at(noting.codes, noting.code_size, cell)
                noting.low[cell] = min(noting.low[cell], value)
                noting.high[cell] = max(noting.high[cell], value)
        row = end


def note_extremes(
    const code_t[:, :] columns, const value_t[:, :] X, const int64_t[::1] first, float64_t[::1] low,
    float64_t[::1] high, int n_threads
):
    """Lower `low` to the minimum of each bin and raise `high` to the maximum, in parallel over features.

    Parameters
    ----------
    columns : uint8 or uint16 array of shape (n_features, n_rows)
        Codes of the rows.
    X : float32 or float64 array of shape (n_rows, n_features)
        Values of the rows.
    first : int64 array of shape (n_features,)
        Offset of each feature's codes in `low` and `high`.
    low, high : float64 arrays
        Extremes by feature and code. Entries of missing values (code 0) are undefined.
    n_threads : int
        Number of threads. It does not affect the result.
    """
    cdef Noting job
    job.X, job.codes, job.code_size = values_of(X), &columns[0, 0], sizeof(code_t)
    job.code_strides.row = columns.strides[1] // <Py_ssize_t> sizeof(code_t)
    job.code_strides.column = columns.strides[0] // <Py_ssize_t> sizeof(code_t)
    job.n_rows, job.n_features = X.shape[0], X.shape[1]
    job.first, job.low, job.high = &first[0], &low[0], &high[0]
    with nogil:
        parallel_for(_widen_extremes_part, &job, n_threads)


# Values to codes -----------------------------------------------------------------------------------------------------

cdef struct Coding:
    const FeatureBins* bins
    const int64_t* starts
    const void* x
    int32_t value_size
    void* codes
    int32_t code_size
    void* of_zero


cdef inline void _code_column(
    const Coding* job, Py_ssize_t f, const value_t* x, code_t* codes, code_t* of_zero
) noexcept nogil:
    """Write the codes of feature f's stored values to `codes`, and its code of zero to of_zero[f]."""
    cdef value_t zero = 0
    bin_values(job.bins + f, &zero, 1, 1, of_zero + f)
    bin_values(job.bins + f, x + job.starts[f], 1, job.starts[f + 1] - job.starts[f], codes + job.starts[f])


cdef inline void _code_typed_column(const Coding* job, Py_ssize_t f, const value_t* x) noexcept nogil:
    """Call `_code_column` for the type of the job's codes."""
    if job.code_size == 1:
        _code_column(job, f, x, <uint8_t*> job.codes, <uint8_t*> job.of_zero)
    else:
        _code_column(job, f, x, <uint16_t*> job.codes, <uint16_t*> job.of_zero)


cdef void _code_column_piece(void* job, Py_ssize_t f, int32_t thread) noexcept nogil:
    """Write the codes of the stored values of feature f, as the body of a parallel for."""
    cdef const Coding* coding = <const Coding*> job
    if coding.value_size == sizeof(float32_t):
        _code_typed_column(coding, f, <const float32_t*> coding.x)
    else:
        _code_typed_column(coding, f, <const float64_t*> coding.x)


def code_stored(
    BinTable table, const value_t[::1] x, const int64_t[::1] starts, code_t[::1] codes, code_t[::1] of_zero,
    int n_threads,
):
    """Write the codes of stored values, one column after another, and the code of zeros in each column.

    Parameters
    ----------
    table : BinTable
        Bins of the features.
    x : float32 or float64 array of shape (n_values,)
        Stored values.
    starts : int64 array of shape (n_features + 1,)
        Offset of each column in `x`.
    codes : uint8 or uint16 array of shape (n_values,)
        Receives the codes of the values.
    of_zero : array of shape (n_features,)
        Receives the code of zeros in each column.
    n_threads : int
        Number of threads. It does not affect the result.
    """
    cdef Coding job
    job.bins, job.starts, job.x, job.value_size = table.features, &starts[0], NULL, sizeof(value_t)
    job.codes, job.code_size, job.of_zero = NULL, sizeof(code_t), &of_zero[0]
    if x.shape[0]:
        job.x, job.codes = &x[0], &codes[0]
    with nogil:
        dynamic_parallel_for(_code_column_piece, &job, starts.shape[0] - 1, n_threads)


# Dense codes of some features ----------------------------------------------------------------------------------------

cdef struct Spreading:
    const int32_t* features
    const int64_t* starts
    const int32_t* rows
    const void* codes
    const void* of_zero
    int32_t code_size
    int32_t first_row
    int32_t n_rows
    void* out


cdef inline void _spread_feature(
    const Spreading* job, Py_ssize_t i, const code_t* codes, const code_t* of_zero, code_t* out
) noexcept nogil:
    """Write the dense codes of the i-th requested feature for the job's block of rows."""
    cdef int32_t f = job.features[i]
    cdef Py_ssize_t k, begin, end
    cdef code_t zero = of_zero[f]
    begin = first_at_least(<const uint32_t*> job.rows, job.starts[f], job.starts[f + 1], job.first_row)
    end = first_at_least(<const uint32_t*> job.rows, begin, job.starts[f + 1], <int64_t> job.first_row + job.n_rows)
    out += i * job.n_rows
    for k in range(job.n_rows):
        out[k] = zero
    for k in range(begin, end):
        out[job.rows[k] - job.first_row] = codes[k]


cdef void _spread_feature_piece(void* job, Py_ssize_t i, int32_t thread) noexcept nogil:
    """Write the dense codes of the i-th requested feature, as the body of a parallel for."""
    cdef const Spreading* s = <const Spreading*> job
    if s.code_size == 1:
        _spread_feature(s, i, <const uint8_t*> s.codes, <const uint8_t*> s.of_zero, <uint8_t*> s.out)
    else:
        _spread_feature(s, i, <const uint16_t*> s.codes, <const uint16_t*> s.of_zero, <uint16_t*> s.out)


def spread_codes(columns, const int32_t[::1] features, int32_t first_row, code_t[:, ::1] out, int n_threads):
    """Write dense codes of the features at these indices to `out`, (n_features, n_rows), from SparseCodes.

    The rows are the table's rows from first_row on.
    """
    cdef const int64_t[::1] starts = columns.starts
    cdef const int32_t[::1] rows = columns.rows
    cdef const code_t[::1] codes = columns.codes, of_zero = columns.of_zero
    cdef Spreading job
    if out.shape[0] == 0 or out.shape[1] == 0:
        return
    job = Spreading(
        &features[0], &starts[0], &rows[0], &codes[0], &of_zero[0], sizeof(code_t), first_row, <int32_t> out.shape[1],
        &out[0, 0],
    )
    with nogil:
        dynamic_parallel_for(_spread_feature_piece, &job, out.shape[0], n_threads)
