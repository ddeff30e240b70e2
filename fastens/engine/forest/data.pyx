"""Data that all trees of a forest share, the rows of one tree, and the input of a growth run."""

import numpy as np
from cython cimport final
from libc.float cimport DBL_MAX
from fastens.engine.bins.pages cimport pages_of
from fastens.engine.forest.splits.threshold cimport cell_of
from fastens.engine.forest.splits.structs cimport (
    BinValues, Entry, Forest, LOG_BITS, Layout, N_CELLS, Open, Sample, WINDOW
)
from fastens.engine.limits cimport read_limits
from fastens.engine.splits.workspace cimport ABSOLUTE, Criterion, ENTROPY, POISSON
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from functools import cache
from fastens.engine.elementary import log2
from fastens.engine.splits.workspace import CRITERIA
from libc.math cimport ceil, floor, frexp, ldexp, rint
from fastens.engine.exact cimport log2 as exact_log2
from fastens.engine.forest.splits.scan cimport unit_of_gain, uses_medians
from libc.stdlib cimport free, malloc
from fastens.engine.forest.workspace cimport bind_to_path
from fastens.engine.forest.tree cimport Workspace
from fastens.engine.paths cimport add_feature, binds_paths, mask_words


# Nodes of larger weight compute logarithms directly. The table uses half a megabyte, and all sums fit in 62 bits.
N_LOGS = 1 << 16


cdef extern from "engine/bits.h" nogil:
    int lowest_bit(uint64_t word) noexcept


@cache
def _make_log_table():
    """Return an int64 table of x log2 x for x = 0 .. N_LOGS - 1 in fixed point, so that sums of entries are exact."""
    x = np.arange(N_LOGS)
    return np.rint(x * log2(np.maximum(x, 1)) * 2.0**LOG_BITS).astype(np.int64)


@final
cdef class ForestData:
    """Binned rows, targets and rules that all trees of a forest share. Arguments are not validated."""

    def __init__(self, matrix, values, target, rules, with_squares=False, with_search=False):
        self.kept = []
        self._set_table(matrix, values)
        self._set_targets(target, CRITERIA[rules.criterion])
        self.n_squares = self.forest.targets.n_targets if with_squares else 0
        self.with_search = with_search
        self._set_rules(rules)

    cdef size_t _address(self, array, dtype) except 0:
        """Return the address of the array, converted if it is not C-contiguous of this dtype, and keep it alive."""
        array = np.ascontiguousarray(array, dtype=dtype)
        self.kept.append(array)
        return array.ctypes.data

    cdef _set_table(self, matrix, values):
        """Fill the struct of the binned rows from a BinnedMatrix or SparseMatrix, and set bin values unless None."""
        table = &self.forest.table
        table.code_size = matrix.columns.itemsize
        table.n_rows, table.n_features = matrix.n_rows, matrix.n_features
        if matrix.is_sparse:
            self._set_sparse_codes(matrix)
        else:
            table.records = <const uint8_t*>self._address(matrix.records, np.uint8)
            table.record_stride = matrix.records.shape[1] // table.code_size
            table.columns = <const uint8_t*>self._address(matrix.columns, matrix.columns.dtype)
            table.pages = pages_of(matrix.pages)
        table.n_codes = <const int32_t*>self._address(matrix.n_codes, np.int32)
        table.max_codes = max(matrix.n_codes)
        table.has_categories = matrix.is_categorical.any()
        table.is_categorical = <const uint8_t*>self._address(matrix.is_categorical, np.uint8)
        self.kept.append(matrix.thresholds)
        limits = [of_feature.ctypes.data for of_feature in matrix.thresholds]
        table.thresholds = <const float64_t* const*>self._address(limits, np.uintp)
        if values is not None:
            self._set_bin_values(values)

    cdef _set_sparse_codes(self, matrix):
        """Fill the struct of a SparseMatrix: its stored codes by column, and their features by row."""
        stored, columns = &self.forest.table.stored, matrix.columns
        stored.rows = <const int32_t*>self._address(columns.rows, np.int32)
        stored.first = <const int64_t*>self._address(columns.starts, np.int64)
        stored.codes = <const uint8_t*>self._address(columns.codes, columns.codes.dtype)
        stored.zeros = <const uint8_t*>self._address(columns.of_zero, columns.codes.dtype)
        stored.features = <const int32_t*>self._address(matrix.features_by_row(), np.int32)
        stored.first_of_row = <const int64_t*>self._address(matrix.first_cell, np.int64)

    cdef _set_bin_values(self, values):
        """Fill the lookup tables of random thresholds from a list with an array of values by bin code per feature."""
        table = &self.forest.table
        cdef Py_ssize_t f
        cdef int32_t code
        cdef const float64_t* of_feature
        sizes = [len(of_bins) + WINDOW for of_bins in values]
        behind = np.full(WINDOW, np.inf)
        padded = [part for of_bins in values for part in (of_bins, behind)]
        table.values = <const float64_t*>self._address(np.concatenate(padded), np.float64)
        first, last = np.array([of_bins[[1, len(of_bins) - 1]] for of_bins in values]).T
        with np.errstate(divide="ignore", over="ignore"):
            scale = np.minimum(0.5 / (0.5 * last - 0.5 * first), DBL_MAX)
        scale[last / 2 == first / 2] = 0.0
        bins = np.rec.fromarrays([np.cumsum([0, *sizes])[:len(values)], scale, first * scale], dtype="i8,f8,f8")
        table.bin_values = <const BinValues*>self._address(bins, bins.dtype)
        cells = np.zeros((len(values), N_CELLS + 1), np.uint16)
        cdef uint16_t[:, ::1] n_in = cells
        for f in range(len(values)):
            of_feature = table.values + table.bin_values[f].first
            for code in range(1, len(values[f])):
                n_in[f, cell_of(&table.bin_values[f], of_feature[code]) + 1] += 1
        table.cells = <const uint16_t*>self._address(np.cumsum(cells, axis=1, out=cells), np.uint16)

    cdef _set_targets(self, target, Criterion criterion):
        """Fill the struct of the targets from a TreeTarget; self.columns maps each sum to its column of node values."""
        targets = &self.forest.targets
        columns = self._set_number_sums(target, criterion) if target.n_classes is None else self._set_class_sums(target)
        targets.n_targets = target.y.shape[1]
        targets.n_stats = len(columns)
        self.n_values = max(columns) + 1
        self.columns = np.array(columns, dtype=np.int32)

    cdef _set_class_sums(self, target):
        """Set up one sum per class; return each sum's value column, or -1 for the first class of a binary target."""
        columns = []
        n_values = 0
        first = np.cumsum([0, *target.n_classes])
        for n in target.n_classes:
            shown = n if n != 2 else 1
            columns += [-1] * (n - shown) + list(range(n_values, n_values + shown))
            n_values += shown
        self.forest.targets.classes = <const int32_t*>self._address(target.y + first[:len(target.n_classes)], np.int32)
        self.forest.targets.first_stat = <const int32_t*>self._address(first, np.int32)
        return columns

    cdef _set_number_sums(self, target, Criterion criterion):
        """Set up a sum and a range per regression target and, for ABSOLUTE, row ranks; return the value columns."""
        y, (lowest, highest) = target.y, target.span
        self.ranges = np.ascontiguousarray(highest - lowest, dtype=np.float64)
        self.widest = max(self.ranges)
        if criterion == POISSON:
            # Means of counts must not be shifted; other criteria are invariant to a shift.
            lowest, self.widest = np.zeros_like(lowest), highest.max()
        elif criterion == ABSOLUTE:
            order = np.argsort(y, axis=0, kind="stable")
            ranks = np.empty(order.shape, np.int32)
            np.put_along_axis(ranks, order, np.arange(len(order), dtype=np.int32)[:, None], axis=0)
            self.forest.targets.ranks = <const int32_t*>self._address(ranks.T, np.int32)
        self.forest.targets.numbers = <const float64_t*>self._address(y, np.float64)
        self.forest.targets.minimum = <const float64_t*>self._address(lowest, np.float64)
        return list(range(y.shape[1]))

    cdef _set_rules(self, rules):
        """Fill the structs of the rules and the limits from ForestParameters."""
        to = &self.forest.rules
        to.criterion = CRITERIA[rules.criterion]
        if to.criterion == ENTROPY:
            to.logs, to.n_logs = <const int64_t*>self._address(_make_log_table(), np.int64), N_LOGS
        to.random_thresholds = rules.random_thresholds
        to.min_split, to.min_decrease = rules.min_samples_split, rules.min_impurity_decrease
        to.in_random_order = rules.features_per_split is not None
        self.kept.append(rules)
        limits = &self.forest.limits
        limits[0] = read_limits(rules, self.forest.table.n_features)
        limits.features_per_split = min(limits.features_per_split, self.forest.table.n_features)
        self.weights = limits.feature_weights
        if not to.in_random_order:
            limits.feature_weights = NULL
        if rules.monotone is not None and not rules.monotone.any():
            limits.monotone = NULL


cdef enum:
    WORD_BITS = 64
    SUM_BITS = 62
    FRACTION_BITS = 14              # fraction bits of the mean weight, if weights are not integers
    MIN_NUMBER_BITS = 26            # minimum bits of a number that shares its word
    MAX_FIELD_BITS = 51             # maximum bits of a field that the split search reads as a double

cdef float64_t MAX_UNITS = 2.0**40  # maximum sum of weights, in units, that are not rounded
cdef float64_t EPSILON = 2.0**-52  # tolerance for comparing gains, as in scikit-learn


cdef int32_t _bit_length(float64_t x) noexcept nogil:
    """Return the number of bits of the integer part of x, at least 1."""
    return <int32_t>floor(exact_log2(x)) + 1 if x >= 1 else 1


cdef float64_t power_of_two_below(float64_t x) noexcept nogil:
    """Return the largest power of two that is at most x."""
    return 2.0 ** floor(exact_log2(x))


cdef uint64_t _low_bits(int32_t n) noexcept nogil:
    """Return a mask of the n lowest bits; n must be below 64."""
    return (<uint64_t>1 << n) - 1


cdef Weights sum_weights(const float64_t* weights, Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    """Return the number of positive weights, total and unit of weights[first:end]; NULL stands for weights of 1."""
    cdef Weights found = Weights(end - first, <float64_t>(end - first), 1.0)
    cdef int32_t lowest = 0
    cdef Py_ssize_t i
    if weights != NULL:
        found.n_rows, found.total = 0, 0.0
        for i in range(first, end):
            found.n_rows += weights[i] > 0
            found.total += weights[i]
            if weights[i] < MAX_UNITS and weights[i] != <float64_t><int64_t>weights[i]:
                lowest = min(lowest, _lowest_exponent(weights[i]))
    found.unit = ldexp(1.0, lowest)
    if not found.total < MAX_UNITS * found.unit:
        found.unit = 0.0
    return found


cdef int32_t _lowest_exponent(float64_t x) noexcept nogil:
    """Return the exponent of the lowest bit that is set in the binary form of a positive number."""
    cdef int exponent
    cdef uint64_t mantissa = <uint64_t>ldexp(frexp(x, &exponent), 53)
    return exponent - 53 + lowest_bit(mantissa)


cdef Layout choose_layout(const Forest* forest, const Weights* weights, float64_t widest) noexcept nogil:
    """Return the smallest layout of cells for sums of all rows by the rules; `widest` is the largest target range."""
    cdef Layout layout
    cdef int32_t row_bits = _bit_length(<float64_t>weights.n_rows)
    cdef bint is_class = forest.targets.classes != NULL
    # Class weights make weights multiples of a power of two, which are counted exactly. Rounding other weights leaves
    # more bits for the targets.
    cdef bint exact = weights.unit == 1.0 or (is_class and weights.unit > 0.0)
    cdef int32_t weight_bits = _bit_length(weights.total / weights.unit) if exact else row_bits + FRACTION_BITS
    cdef int32_t count_bits = row_bits if forest.limits.min_samples_leaf > 1 else 0
    cdef int32_t number_bits = min(WORD_BITS - weight_bits - count_bits, <int32_t>MAX_FIELD_BITS)
    layout.weight_scale = (
        1.0 / weights.unit if exact else power_of_two_below(2.0 ** (weight_bits - 1) / weights.total)
    )
    layout.weight_shift = count_bits
    layout.weight_mask = _low_bits(weight_bits)
    layout.count_mask = _low_bits(count_bits)
    layout.number_shift = weight_bits + count_bits
    layout.number_scale = 1.0
    layout.packed = (
        forest.targets.n_targets == 1 and forest.targets.n_stats <= 2 and not uses_medians(forest)
        and number_bits >= weight_bits + (0 if is_class else MIN_NUMBER_BITS)
    )
    if layout.packed:
        layout.n_words = 1
    elif is_class:
        layout.n_words = forest.targets.n_stats
    else:
        layout.n_words = forest.targets.n_targets + 1
        number_bits = SUM_BITS
    if not is_class and widest > 0:
        layout.number_scale = power_of_two_below(min((2.0 ** (number_bits - weight_bits) - 1) / widest, DBL_MAX))
    return layout


cdef inline int64_t _rounded(const Forest* forest, const Layout* layout, Py_ssize_t row, int32_t target) noexcept nogil:
    """Return a row's target minus the target's minimum, in fixed point with the layout's number_scale."""
    cdef float64_t number = forest.targets.numbers[row * forest.targets.n_targets + target]
    return <int64_t>rint((number - forest.targets.minimum[target]) * layout.number_scale)


cdef void fill_entries(
    const Forest* forest, const float64_t* weights, Py_ssize_t first, Py_ssize_t end, Sample* sample
) noexcept nogil:
    """Write an entry for each row first .. end - 1 of positive weight to `sample`, in order, and their number."""
    cdef const Layout* layout = &sample.layout
    cdef bint one_class = forest.targets.classes != NULL and forest.targets.n_targets == 1
    cdef Py_ssize_t row, n = 0
    cdef uint64_t weight = 1, count = layout.count_mask & 1
    cdef Entry* entry
    for row in range(first, end):
        if weights != NULL:
            if weights[row] <= 0:
                continue
            weight = max(<uint64_t>rint(weights[row] * layout.weight_scale), <uint64_t>1)
        entry = &sample.entries[n]
        entry.row = <uint32_t>row
        entry.offset = <uint32_t>forest.targets.classes[row] if one_class else 0
        entry.word = weight << layout.weight_shift | count
        if layout.packed:
            if one_class:
                entry.word += (weight * entry.offset) << layout.number_shift
                entry.offset = 0
            else:
                entry.word += (weight * <uint64_t>_rounded(forest, layout, row, 0)) << layout.number_shift
        n += 1
    sample.n_entries = n


cdef void round_numbers(const Forest* forest, Py_ssize_t first, Py_ssize_t end, Sample* sample) noexcept nogil:
    """Write the targets of the rows first .. end - 1 in fixed point to sample.numbers, (n_rows, n_targets)."""
    cdef Py_ssize_t row
    cdef int32_t t, n = forest.targets.n_targets
    for row in range(first, end):
        for t in range(n):
            sample.numbers[row * n + t] = _rounded(forest, &sample.layout, row, t)


cdef void scale_rules(const Forest* forest, float64_t total_weight, Sample* sample) noexcept nogil:
    """Set the minimum gain, the minimum leaf weight and the gain unit of `sample`, in the units of its sums."""
    cdef const Layout* layout = &sample.layout
    sample.gain_unit = unit_of_gain(forest, layout)
    sample.min_gain = (forest.rules.min_decrease - EPSILON) * total_weight / sample.gain_unit
    sample.min_weight = <int64_t>ceil(forest.limits.min_weight_leaf * layout.weight_scale)


cdef int64_t entry_weight(const Sample* sample, Py_ssize_t i) noexcept nogil:
    """Return the fixed-point weight of the row of entry i of the sample."""
    return <int64_t>((sample.entries[i].word >> sample.layout.weight_shift) & sample.layout.weight_mask)


def totals_of(const float64_t[::1] weights):
    """Return the number of positive weights, their sum, and the power of two that all are multiples of, at most 1.

    The power of two is 0 if it is too small for exact sums: see `Weights`.
    """
    cdef Weights found = Weights(0, 0.0, 1.0)
    if len(weights) > 0:
        found = sum_weights(&weights[0], 0, len(weights))
    return found.n_rows, found.total, found.unit


cdef int32_t _mark_excluded(ForestData data, features, uint64_t* mask):
    """Mark in `mask` the features of a tree that are not in `features` (None for all) or have weight 0.

    If paths are constrained, also mark what may not be at the root. Return the number of marked features.
    """
    cdef int32_t f, n = 0, n_features = data.forest.table.n_features
    cdef const float64_t* weights = data.weights
    cdef uint8_t[::1] allowed
    if features is not None or weights != NULL:
        marked = np.full(n_features, features is None)
        if features is not None:
            marked[features] = True
        allowed = marked.view(np.uint8)
        for f in range(n_features):
            if not allowed[f] or (weights != NULL and weights[f] == 0):
                add_feature(mask, f)
                n += 1
    return bind_to_path(&data.forest, -1, mask) if binds_paths(&data.forest.limits) else n


cdef list open_branches_of(const Workspace* roots, const Sample* sample):
    """Return (node, rows of all ranks, local rows, node bytes, mask bytes) of each node that is still to be split."""
    cdef const Open* root
    cdef Py_ssize_t n_bytes = roots.search.n_mask_words * sizeof(uint64_t)
    cdef uint32_t[::1] rows
    cdef uint32_t k
    cdef int32_t i
    found = []
    for i in range(roots.n_open):
        root = &roots.open[i]
        rows = np.empty(root.end - root.begin, np.uint32)
        for k in range(root.end - root.begin):
            rows[k] = sample.entries[root.begin + k].row
        mask = (<const char*>roots.masks)[i * n_bytes:(i + 1) * n_bytes]
        found.append((root.node, root.n_rows, np.asarray(rows), (<const char*>root)[:sizeof(Open)], mask))
    return found


@final
cdef class Orders:
    """The input of growth, with one order for each TreeSample."""

    def __init__(self, ForestData data, samples):
        cdef int32_t i
        cdef int32_t n_words = mask_words(data.forest.table.n_features) * (1 + binds_paths(&data.forest.limits))
        cdef uint64_t[:, ::1] masks = np.zeros((len(samples), n_words), np.uint64)
        self.n = len(samples)
        self.each = <Order*>malloc(max(self.n, 1) * sizeof(Order))
        if self.each == NULL:
            raise MemoryError(f"no memory for {self.n} samples")
        self.kept = [masks, samples]
        for i in range(self.n):
            self._set_order(&self.each[i], samples[i], data, masks[i])

    def __dealloc__(self):
        free(self.each)

    cdef _set_order(self, Order* order, sample, ForestData data, uint64_t[::1] mask):
        """Fill `order`, the input of one tree, from a TreeSample; `mask` receives the features that it may not use."""
        cdef Py_ssize_t n_rows = data.forest.table.n_rows
        cdef const float64_t[::1] weights = sample.weight
        cdef const uint8_t[::1] root
        order.weights = NULL if weights is None or n_rows == 0 else &weights[0]
        order.seed, order.mask, order.root = sample.seed, &mask[0], NULL
        order.first, order.end = (0, n_rows) if sample.branch is None else sample.branch.rows
        order.totals = sum_weights(order.weights, order.first, order.end)
        order.n_entries = order.totals.n_rows
        if sample.totals is not None:
            order.totals = Weights(sample.totals.n_rows, sample.totals.total, sample.totals.unit)
        if sample.branch is None:
            order.n_excluded = _mark_excluded(data, sample.features, &mask[0])
        else:
            root = sample.branch.node
            order.root = <const Open*>&root[0]
            order.n_excluded = order.root.n_excluded
            np.asarray(mask)[:] = np.frombuffer(sample.branch.mask, np.uint64)
