"""What all trees of a forest share, as the kernels read it."""

from cython cimport final
from libc.float cimport DBL_MAX

from fastens.engine.bins.pages cimport pages_of
from fastens.engine.forest.splits.threshold cimport cell_of
from fastens.engine.forest.splits.structs cimport LOG_BITS, N_CELLS, WINDOW, BinValues
from fastens.engine.limits cimport read_limits
from fastens.engine.splits.criterion cimport ABSOLUTE, ENTROPY, POISSON, Criterion
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint16_t

from functools import cache

import numpy as np

from fastens.engine.elementary import log2
from fastens.engine.splits.criterion import CRITERIA

# A node of more weight takes logarithms: half a megabyte, and all sums fit 62 bits.
N_LOGS = 1 << 16


@cache
def _logs():
    """x log2 x of whole numbers, as whole numbers: what is added can be taken away again."""
    x = np.arange(N_LOGS)
    return np.rint(x * log2(np.maximum(x, 1)) * 2.0**LOG_BITS).astype(np.int64)


@final
cdef class ForestData:
    """What all trees of a forest share: binned rows, targets, rules. Arguments are trusted."""

    def __init__(self, matrix, values, target, rules, with_squares=False, with_search=False):
        self.kept = []
        self._set_table(matrix, values)
        self._set_targets(target, CRITERIA[rules.criterion])
        self.n_squares = self.forest.targets.n_targets if with_squares else 0
        self.with_search = with_search
        self._set_rules(rules)

    cdef size_t _pointer(self, array, dtype) except 0:
        array = np.ascontiguousarray(array, dtype=dtype)
        self.kept.append(array)
        return array.ctypes.data

    cdef _set_table(self, matrix, values):
        table = &self.forest.table
        table.code_size = matrix.columns.itemsize
        table.n_rows, table.n_features = matrix.n_rows, matrix.n_features
        if matrix.is_sparse:
            self._set_stored(matrix)
        else:
            table.records = <const uint8_t*>self._pointer(matrix.records, np.uint8)
            table.record_stride = matrix.records.shape[1] // table.code_size
            table.columns = <const uint8_t*>self._pointer(matrix.columns, matrix.columns.dtype)
            table.pages = pages_of(matrix.pages)
        table.n_codes = <const int32_t*>self._pointer(matrix.n_codes, np.int32)
        table.max_codes = max(matrix.n_codes)
        table.has_categories = matrix.is_categorical.any()
        table.is_categorical = <const uint8_t*>self._pointer(matrix.is_categorical, np.uint8)
        self.kept.append(matrix.thresholds)
        limits = [of_feature.ctypes.data for of_feature in matrix.thresholds]
        table.thresholds = <const float64_t* const*>self._pointer(limits, np.uintp)
        if values is not None:
            self._set_values(values)

    cdef _set_stored(self, matrix):
        stored, columns = &self.forest.table.stored, matrix.columns
        stored.rows = <const int32_t*>self._pointer(columns.rows, np.int32)
        stored.first = <const int64_t*>self._pointer(columns.starts, np.int64)
        stored.codes = <const uint8_t*>self._pointer(columns.codes, columns.codes.dtype)
        stored.zeros = <const uint8_t*>self._pointer(columns.of_zero, columns.codes.dtype)
        stored.features = <const int32_t*>self._pointer(matrix.features_by_row(), np.int32)
        stored.first_of_row = <const int64_t*>self._pointer(matrix.first_cell, np.int64)

    cdef _set_values(self, values):
        """Where random thresholds are looked up."""
        table = &self.forest.table
        cdef Py_ssize_t f
        cdef int32_t code
        cdef const float64_t* of_feature
        sizes = [len(of_bins) + WINDOW for of_bins in values]
        behind = np.full(WINDOW, np.inf)
        padded = [part for of_bins in values for part in (of_bins, behind)]
        table.values = <const float64_t*>self._pointer(np.concatenate(padded), np.float64)
        first, last = np.array([of_bins[[1, len(of_bins) - 1]] for of_bins in values]).T
        with np.errstate(divide="ignore", over="ignore"):
            scale = np.minimum(0.5 / (0.5 * last - 0.5 * first), DBL_MAX)
        scale[last / 2 == first / 2] = 0.0
        bins = np.rec.fromarrays([np.cumsum([0, *sizes])[:len(values)], scale, first * scale], dtype="i8,f8,f8")
        table.bin_values = <const BinValues*>self._pointer(bins, bins.dtype)
        cells = np.zeros((len(values), N_CELLS + 1), np.uint16)
        cdef uint16_t[:, ::1] n_in = cells
        for f in range(len(values)):
            of_feature = table.values + table.bin_values[f].first
            for code in range(1, len(values[f])):
                n_in[f, cell_of(&table.bin_values[f], of_feature[code]) + 1] += 1
        table.cells = <const uint16_t*>self._pointer(np.cumsum(cells, axis=1, out=cells), np.uint16)

    cdef _set_targets(self, target, Criterion criterion):
        targets = &self.forest.targets
        columns = self._set_numbers(target, criterion) if target.n_classes is None else self._set_classes(target)
        targets.n_targets = target.y.shape[1]
        targets.n_stats = len(columns)
        self.n_values = max(columns) + 1
        self.columns = np.array(columns, dtype=np.int32)

    cdef _set_classes(self, target):
        """The sums of all targets' classes stand one after another; of two classes only the second has a value."""
        columns = []
        n_values = 0
        first = np.cumsum([0, *target.n_classes])
        for n in target.n_classes:
            shown = n if n != 2 else 1
            columns += [-1] * (n - shown) + list(range(n_values, n_values + shown))
            n_values += shown
        self.forest.targets.classes = <const int32_t*>self._pointer(target.y + first[:len(target.n_classes)], np.int32)
        self.forest.targets.first_stat = <const int32_t*>self._pointer(first, np.int32)
        return columns

    cdef _set_numbers(self, target, Criterion criterion):
        y, (lowest, highest) = target.y, target.span
        self.ranges = np.ascontiguousarray(highest - lowest, dtype=np.float64)
        self.widest = max(self.ranges)
        if criterion == POISSON:
            # A mean of counts must stay what it is; other criteria do not change with a shift.
            lowest, self.widest = np.zeros_like(lowest), highest.max()
        elif criterion == ABSOLUTE:
            order = np.argsort(y, axis=0, kind="stable")
            ranks = np.empty(order.shape, np.int32)
            np.put_along_axis(ranks, order, np.arange(len(order), dtype=np.int32)[:, None], axis=0)
            self.forest.targets.ranks = <const int32_t*>self._pointer(ranks.T, np.int32)
        self.forest.targets.numbers = <const float64_t*>self._pointer(y, np.float64)
        self.forest.targets.minimum = <const float64_t*>self._pointer(lowest, np.float64)
        return list(range(y.shape[1]))

    cdef _set_rules(self, rules):
        to = &self.forest.rules
        to.criterion = CRITERIA[rules.criterion]
        if to.criterion == ENTROPY:
            to.logs, to.n_logs = <const int64_t*>self._pointer(_logs(), np.int64), N_LOGS
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
