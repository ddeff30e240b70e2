"""Quantisation of gradients and hessians to integers, so that all later sums are exact in any order.

Resolution: a gradient has 12 bits (21 if all hessians are 1) between -max|g| and max|g|, a hessian 10. If the mean |g|
or the mean h is then less than 4 steps (heavy tails), both get up to 38 bits. Rounding adds at most 1/12 step^2 to the
mean square of the gradients, which is at least 16 step^2: 0.5 % in the worst case, and usually less than 0.01 %.

Neither the resolution nor the scale depends on the weights, so a row of weight 3 is equivalent to three rows.
Fractional weights, and fractional factors of integer weights, are multiplied in before rounding.
"""

from libc.math cimport INFINITY, ceil, fabs, floor, isfinite, llrint
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from fastens.engine.exact cimport log2
from fastens.engine.histograms.cells cimport (
    HESSIAN_BITS, NARROW_BITS, CellLayout, make_layout, payload_of_row, word_of_row, write_row
)
from fastens.engine.ranks cimport max_over, sum_over
from fastens.engine.structs cimport (
    PREFETCH_AHEAD, float32_t, float64_t, int32_t, int64_t, prefetch, uint8_t, uint32_t
)
from fastens.engine.thread_pool cimport MAX_THREADS, parallel_for

cdef extern from "engine/histograms/quantise_loops.h" nogil:
    void largest_bits(const float32_t* gradients, const float32_t* hessians, Py_ssize_t n, int32_t* largest)
    void round_rows(
        const float32_t* gradients, const float32_t* hessians, Py_ssize_t n, float64_t gradient_scale,
        float64_t hessian_scale, int32_t* rounded_gradients, int32_t* rounded_hessians, int64_t* sums,
    )

cdef enum:
    FINE_BITS = 38
    # Bits of a gradient that is squared; smaller parts are negligible compared with the square of the largest gradient.
    ROOT_BITS = 15
    MIN_STEPS = 4                   # minimum number of steps in the mean |gradient| and in the mean hessian
    # Above this number of copies, weights are multiplied in before rounding, because single copies would have too few
    # steps.
    MAX_COPIES = 1 << 20
    MAX_NARROW_WEIGHT = 8
    BLOCK = 512                     # rows that are rounded before they are written to their destination
    ROW_GRAIN = 1 << 12             # minimum number of rows per thread

# Replaces the largest gradient of rows of weight 1 if all gradients are 0; smaller than any float32.
cdef float64_t SMALLEST = 1e-60


cdef struct Extent:
    float64_t max_gradient
    float64_t max_hessian


cdef struct Totals:
    int64_t gradient                # sum of |gradient|
    int64_t hessian


cdef struct Pass:
    # A pass over all rows, divided among the threads.
    const RowGradients* source
    Quantised* out
    Extent extents[MAX_THREADS]
    Totals totals[MAX_THREADS]


cdef inline Py_ssize_t _first_of_part(Py_ssize_t n, int32_t part, int32_t n_parts) noexcept nogil:
    """Return the index of the first of n items in a part, or n for part n_parts, if all parts are equal."""
    return n * part // n_parts


cdef enum Weighting:
    # When weights are multiplied in: never, after rounding (integers), before rounding (other weights), or both.
    UNWEIGHTED = 0
    COPIES = 1
    FACTORS = 2
    BOTH = 3


cdef inline Weighting _weighting(const RowGradients* source) noexcept nogil:
    """Return which row weights apply: copies, which multiply after rounding, factors, which do before, or both."""
    if source.factors == NULL:
        return UNWEIGHTED if source.copies == NULL else COPIES
    return FACTORS if source.copies == NULL else BOTH


cdef inline float64_t _weighted(
    const RowGradients* source, const float32_t* values, Py_ssize_t i, Weighting weighting
) noexcept nogil:
    """Return values[i], a gradient or hessian, multiplied by row i's factor if factors apply."""
    return values[i] * source.factors[i] if weighting & FACTORS else values[i]


cdef inline int64_t _copies(const RowGradients* source, Py_ssize_t i, Weighting weighting) noexcept nogil:
    """Return the number of copies of row i, which is 1 unless copies apply."""
    return <int64_t>source.copies[i] if weighting & COPIES else 1


cdef inline Extent _extent_weighted(
    const RowGradients* source, Weighting weighting, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """Return the largest |gradient| and hessian, times factors, of rows begin .. end - 1.

    The gradient is NaN if any number is not finite.
    """
    cdef Extent extent
    cdef Py_ssize_t i
    cdef float64_t g, h, max_g = 0.0, max_h = 0.0, not_finite = 0.0
    for i in range(begin, end):
        g = fabs(_weighted(source, source.gradients, i, weighting))
        h = _weighted(source, source.hessians, i, weighting)
        max_g = max_g if max_g > g else g
        max_h = max_h if max_h > h else h
        not_finite += 0.0 * g + 0.0 * h
    extent.max_gradient = max_g + not_finite
    extent.max_hessian = max_h
    return extent


cdef inline void _round_weighted(
    const RowGradients* source, const Scales* scales, Weighting weighting, Py_ssize_t begin, Py_ssize_t n,
    int32_t* gradients, int32_t* hessians, int64_t* sums,
) noexcept nogil:
    """Write n rounded weighted gradients and hessians from row `begin` on; `round_rows` does so without weights.

    `sums` receives the sums of |gradient| and of hessians.
    """
    cdef Py_ssize_t i
    cdef int64_t gradient, hessian, copies
    sums[0] = sums[1] = 0
    for i in range(n):
        copies = _copies(source, begin + i, weighting)
        gradient = copies * llrint(_weighted(source, source.gradients, begin + i, weighting) * scales.gradient)
        hessian = copies * _at_least_one(
            llrint(_weighted(source, source.hessians, begin + i, weighting) * scales.hessian)
        )
        gradients[i], hessians[i] = <int32_t>gradient, <int32_t>hessian
        sums[0] += gradient if gradient > 0 else -gradient
        sums[1] += hessian


cdef Totals _write_narrow(
    const RowGradients* source, Quantised* out, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """Round rows begin .. end - 1 to narrow integers in `out`; return the sums of |gradient| and of hessians."""
    cdef Totals totals
    cdef Py_ssize_t n
    cdef int32_t gradients[BLOCK]
    cdef int32_t hessians[BLOCK]
    cdef int64_t sums[2]
    totals.gradient = totals.hessian = 0
    while begin < end:
        n = min(<Py_ssize_t>BLOCK, end - begin)
        if _weighting(source) == UNWEIGHTED:
            round_rows(
                source.gradients + begin, source.hessians + begin, n, out.scales.gradient, out.scales.hessian,
                gradients, hessians, sums,
            )
        else:
            _round_weighted(source, &out.scales, _weighting(source), begin, n, gradients, hessians, sums)
        totals.gradient += sums[0]
        totals.hessian += sums[1]
        _store_rounded_rows(source, out, begin, n, gradients, hessians)
        begin += n
    return totals


cdef inline void _store_rounded_rows(
    const RowGradients* source, Quantised* out, Py_ssize_t begin, Py_ssize_t n, const int32_t* gradients,
    const int32_t* hessians,
) noexcept nogil:
    """Write n rounded rows from row `begin` on to `out`, in the form that histograms read: words or payloads.

    Writing payloads to 1 M records of 32 bytes reads and writes 64 MB. Doing so while a histogram reads the records
    saves half a millisecond.
    """
    cdef Py_ssize_t i
    cdef CellLayout layout = out.layout     # a local copy, which the stores below cannot alias
    cdef uint8_t* payload = out.payloads + begin * out.payload_stride
    cdef Weighting weighting = _weighting(source)
    if out.words != NULL:
        for i in range(n):
            out.words[begin + i] = word_of_row(
                gradients[i], hessians[i], _copies(source, begin + i, weighting), &layout
            )
    elif out.fresh != NULL:
        for i in range(n):
            out.fresh[begin + i] = payload_of_row(gradients[i], hessians[i], &layout)
    else:
        for i in range(n):
            (<uint32_t*>(payload + i * out.payload_stride))[0] = payload_of_row(gradients[i], hessians[i], &layout)


cdef inline Totals _write_wide(
    const RowGradients* source, Quantised* out, Weighting weighting, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """Round rows begin .. end - 1 to wide integers in `out`; return the sums of |gradient| and of hessians."""
    cdef Totals totals
    cdef Py_ssize_t i
    cdef int64_t gradient, hessian, copies, weight
    cdef float64_t of_copy
    cdef bint one_by_one = source.n_copies <= MAX_COPIES
    totals.gradient = totals.hessian = 0
    for i in range(begin, end):
        copies = weight = _copies(source, i, weighting)
        gradient = copies * llrint(_weighted(source, source.gradients, i, weighting) * out.scales.gradient)
        hessian = copies * _at_least_one(llrint(_weighted(source, source.hessians, i, weighting) * out.scales.hessian))
        totals.gradient += gradient if gradient > 0 else -gradient
        totals.hessian += hessian
        if weighting & FACTORS:
            of_copy = source.factors[i] * source.weight_scale
            weight = copies * llrint(of_copy) if one_by_one else llrint(copies * of_copy)
        write_row(&out.wide[3 * i], gradient, hessian, weight, copies)
    return totals


cdef inline int64_t _at_least_one(int64_t hessian) noexcept nogil:
    """Return a rounded hessian, raised to 1 if it is 0 so that no set of rows has a hessian sum of 0."""
    return hessian if hessian > 0 else 1


cdef void _write_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Round a part of the rows and store its sums for `_write_rows`, as the body of a parallel for."""
    cdef Pass* over = <Pass*>job
    cdef const RowGradients* source = over.source
    cdef Py_ssize_t begin = _first_of_part(source.n_rows, part, n_parts)
    cdef Py_ssize_t end = _first_of_part(source.n_rows, part + 1, n_parts)
    if over.out.narrow:
        over.totals[part] = _write_narrow(source, over.out, begin, end)
    else:
        over.totals[part] = _write_wide(source, over.out, _weighting(source), begin, end)


cdef void _measure_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Find the largest |gradient| and hessian of a part of the rows, as the body of a parallel for."""
    cdef Pass* over = <Pass*>job
    cdef Py_ssize_t n = over.source.n_rows
    over.extents[part] = _extent(over.source, _first_of_part(n, part, n_parts), _first_of_part(n, part + 1, n_parts))


cdef Extent _extent(const RowGradients* source, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Return the largest |gradient| and hessian of rows begin .. end - 1; NaN or infinity if one is not finite."""
    cdef int32_t bits[3]
    cdef Extent extent
    if _weighting(source) != UNWEIGHTED:
        return _extent_weighted(source, _weighting(source), begin, end)
    largest_bits(source.gradients + begin, source.hessians + begin, end - begin, bits)
    extent.max_gradient = _float_of(bits[0]) if isfinite(_float_of(bits[2])) else INFINITY
    extent.max_hessian = _float_of(bits[1])
    return extent


cdef inline float32_t _float_of(int32_t bits) noexcept nogil:
    """Return the float whose bit pattern is this integer."""
    cdef float32_t value
    memcpy(&value, &bits, sizeof(value))
    return value


cdef bint _write_rows(Pass* over, int32_t n_parts, Totals* totals) noexcept nogil:
    """Round all rows into the output, and write the sums of |gradient| and of hessians over all workers to `totals`.

    Return False if the reduction over the workers failed.
    """
    cdef int64_t sums[2]
    cdef int64_t* pointer = sums
    cdef int32_t t
    parallel_for(_write_part, over, n_parts)
    sums[0] = sums[1] = 0
    for t in range(n_parts):
        sums[0] += over.totals[t].gradient
        sums[1] += over.totals[t].hessian
    if not sum_over(over.source.ranks, &pointer, 1, 2):
        return False
    totals.gradient, totals.hessian = sums[0], sums[1]
    return True


cdef bint _measure_rows(Pass* over, int32_t n_parts, float64_t smallest, Extent* extent) noexcept nogil:
    """Write the largest |gradient| and hessian over all workers, or `smallest` if larger, to `extent`.

    Return False if a number is not finite or the reduction over the workers failed.
    """
    cdef int64_t bits[3]
    cdef int32_t t
    parallel_for(_measure_part, over, n_parts)
    extent.max_gradient = extent.max_hessian = smallest
    bits[2] = 0
    for t in range(n_parts):
        if not (isfinite(over.extents[t].max_gradient) and isfinite(over.extents[t].max_hessian)):
            bits[2] = 1
        extent.max_gradient = max(extent.max_gradient, over.extents[t].max_gradient)
        extent.max_hessian = max(extent.max_hessian, over.extents[t].max_hessian)
    # For non-negative floats, the order of the bit patterns is the order of the numbers.
    memcpy(&bits[0], &extent.max_gradient, sizeof(int64_t))
    memcpy(&bits[1], &extent.max_hessian, sizeof(int64_t))
    if not max_over(over.source.ranks, bits, 3):
        return False
    memcpy(&extent.max_gradient, &bits[0], sizeof(int64_t))
    memcpy(&extent.max_hessian, &bits[1], sizeof(int64_t))
    return not bits[2]


cdef void _set_scales(const RowGradients* source, const Extent* extent, bint fine, Scales* scales) noexcept nogil:
    """Set the scales so that the largest gradient and hessian fill the bits of narrow or, if fine, wide integers.

    The total sums stay below 2**62.
    """
    cdef int32_t gradient_bits = NARROW_BITS - (1 if source.constant_hessian else HESSIAN_BITS)
    cdef int32_t hessian_bits = HESSIAN_BITS
    cdef float64_t rows = source.n_copies
    if fine:
        gradient_bits = hessian_bits = min(FINE_BITS, 62 - <int32_t>ceil(log2(rows)))
    scales.gradient = (<float64_t>(<int64_t>1 << (gradient_bits - 1)) - 1.0) / extent.max_gradient
    scales.hessian = 1.0
    if not source.constant_hessian:
        scales.hessian = (<float64_t>(<int64_t>1 << hessian_bits) - 1.0) / extent.max_hessian
    scales.exact_gradient = 2.0 ** floor(62.0 - log2(extent.max_gradient * rows))
    scales.exact_hessian = 2.0 ** floor(62.0 - log2(extent.max_hessian * rows))
    scales.root = (1 << ROOT_BITS) / extent.max_gradient


cdef bint quantise(
    const RowGradients* source, bint need_weights, Quantised* out, int32_t n_threads
) noexcept nogil:
    """Round the gradients and hessians of all rows into `out`, with scales by their largest values.

    Integers are wide if weights are needed or narrow ones are too coarse. Return False if a value is not finite, memory
    runs out or communication fails.
    """
    cdef Pass over
    cdef Extent extent
    cdef Totals totals
    cdef Py_ssize_t n = source.n_rows
    cdef float64_t rows = source.n_copies, smallest = SMALLEST * (source.total_weight / rows)
    over.source, over.out = source, out
    n_threads = <int32_t>max(1, min(<Py_ssize_t>n_threads, n // ROW_GRAIN))
    if not _measure_rows(&over, n_threads, smallest, &extent):
        return False
    out.layout = make_layout(1 if source.constant_hessian else HESSIAN_BITS, <int64_t>source.most_copies)
    _set_scales(source, &extent, False, &out.scales)
    out.narrow = not need_weights and source.most_copies <= (MAX_NARROW_WEIGHT if out.words != NULL else 1)
    out.are_fresh = out.narrow and out.fresh != NULL
    if not out.narrow and not _allocate_wide(source, out):
        return False
    if not _write_rows(&over, n_threads, &totals):
        return False
    out.mean_hessian = <float64_t>totals.hessian / rows
    if extent.max_gradient == smallest or (
        <float64_t>totals.gradient >= MIN_STEPS * rows
        and (source.constant_hessian or <float64_t>totals.hessian >= MIN_STEPS * rows)
    ):
        return True
    _set_scales(source, &extent, True, &out.scales)
    out.narrow = out.are_fresh = False
    if not _allocate_wide(source, out):
        return False
    if not _write_rows(&over, n_threads, &totals):
        return False
    out.mean_hessian = <float64_t>totals.hessian / rows
    return True


cdef bint _allocate_wide(const RowGradients* source, Quantised* out) noexcept nogil:
    """Allocate the buffer of wide integers unless it exists; return False if memory runs out."""
    if out.wide == NULL:
        out.wide = <int64_t*>malloc(3 * source.n_rows * sizeof(int64_t))
    return out.wide != NULL


cdef Moments exact_sums(
    const RowGradients* source, const Scales* scales, const uint32_t* rows, Py_ssize_t n_rows
) noexcept nogil:
    """Return the sums of unrounded gradients, hessians, squares and copies over some rows, in 64-bit fixed point."""
    if _weighting(source) == UNWEIGHTED:
        return _add_exact(source, scales, UNWEIGHTED, rows, n_rows)
    return _add_exact(source, scales, _weighting(source), rows, n_rows)


cdef inline Moments _add_exact(
    const RowGradients* source, const Scales* scales, Weighting weighting, const uint32_t* rows, Py_ssize_t n_rows
) noexcept nogil:
    """Implement `exact_sums`, with `weighting` as a literal where no weights apply, so that loops have no branches."""
    cdef Moments sums
    cdef bint constant_hessian = source.constant_hessian
    cdef Py_ssize_t k, i
    cdef int64_t copies, root
    cdef float64_t gradient
    sums.gradient = sums.hessian = sums.square = sums.copies = 0
    for k in range(n_rows):
        if k + PREFETCH_AHEAD < n_rows:
            prefetch(&source.gradients[rows[k + PREFETCH_AHEAD]])
            if not constant_hessian:
                prefetch(&source.hessians[rows[k + PREFETCH_AHEAD]])
        i = rows[k]
        copies = _copies(source, i, weighting)
        gradient = _weighted(source, source.gradients, i, weighting)
        root = llrint(gradient * scales.root)
        sums.gradient += copies * llrint(gradient * scales.exact_gradient)
        if not constant_hessian:
            sums.hessian += copies * llrint(_weighted(source, source.hessians, i, weighting) * scales.exact_hessian)
        sums.square += copies * root * root
        sums.copies += copies
    if constant_hessian:
        sums.hessian = sums.copies * llrint(scales.exact_hessian)
    return sums
