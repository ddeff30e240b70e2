"""The best split of one feature from the sums of its codes."""

from fastens.engine.forest.splits.candidates cimport (
    Candidates, consider_left, finish_split, is_allowed, keep, random_candidate
)
from fastens.engine.forest.splits.classes cimport scan_classes
from fastens.engine.forest.splits.groups cimport Groups
from fastens.engine.forest.splits.score cimport BY_CLASS, BY_LOGARITHMS, SEVERAL_AT_ONCE, Scan, scan_of, word_weight
from fastens.engine.forest.splits.structs cimport Forest, FoundSplit, Layout, NodeSums, Sample, Scratch, sum_of_logs
from fastens.engine.histograms.cells cimport first_with_count
from fastens.engine.splits.scan cimport ScanNode, first_largest, split_gains
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t


cdef void _scan_fast(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    """Squares of one number, many splits at a time: the gain is W (s_l - s w_l / W)^2 / (w_l w_r)."""
    cdef const Layout* layout = &sample.layout
    cdef ScanNode scan
    cdef uint64_t sum_ = scratch.found[0] if candidates.missing_left else 0
    cdef Py_ssize_t i, n = candidates.last - candidates.first + 1, begin = 0
    cdef float64_t gain
    for i in range(n):
        sum_ += scratch.found[candidates.first + i]
        scratch.sums[i] = sum_
    scan.layout.count_mask, scan.layout.hessian_mask = layout.count_mask, layout.weight_mask
    scan.layout.gradient_shift, scan.layout.hessian_shift = layout.number_shift, layout.weight_shift
    scan.layout.gradient_bias = 0
    if layout.count_mask != 0:
        begin = first_with_count(scratch.sums, n, &scan.layout, forest.limits.min_samples_leaf)
        n = first_with_count(scratch.sums, n, &scan.layout, node.n_rows - forest.limits.min_samples_leaf + 1)
    scan.l2 = 0.0
    scan.hessian = <float64_t>node.weight
    scan.ratio = <float64_t>(scratch.total[0] >> layout.number_shift) / scan.hessian
    scan.min_hessian = <float64_t>sample.min_weight
    scan.max_hessian = <float64_t>(node.weight - sample.min_weight)
    split_gains(scratch.sums + begin, n - begin, &scan, scratch.gains)
    i = first_largest(scratch.gains, n - begin, &gain)
    if gain < 0 or gain * scan.hessian <= best.gain:
        return
    keep(gain * scan.hessian, groups.feature, <int32_t>(candidates.first + begin + i), candidates.missing_left, best)
    best.left_weight = word_weight(layout, scratch.sums[begin + i])
    best.left_word = scratch.sums[begin + i]


cdef void _scan_two_classes(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    """Entropy of two classes, from a table of logarithms."""
    cdef const Layout* layout = &sample.layout
    cdef const int64_t* logs = forest.rules.logs
    cdef int64_t weight, second, rest_weight, rest_second, entropy
    cdef float64_t gain
    cdef int32_t j
    scratch.left[0] = scratch.found[0] if candidates.missing_left else 0
    for j in range(candidates.first, candidates.last + 1):
        scratch.left[0] += scratch.found[j]
        scratch.left[1] = scratch.total[0] - scratch.left[0]
        weight, second = word_weight(layout, scratch.left[0]), <int64_t>(scratch.left[0] >> layout.number_shift)
        rest_weight = word_weight(layout, scratch.left[1])
        rest_second = <int64_t>(scratch.left[1] >> layout.number_shift)
        entropy = logs[second] + logs[weight - second] - logs[weight]
        entropy += logs[rest_second] + logs[rest_weight - rest_second] - logs[rest_weight]
        gain = sum_of_logs(entropy) - node.score
        if gain > best.gain and is_allowed(forest, sample, scratch, node, groups.feature):
            keep(gain, groups.feature, j, candidates.missing_left, best)
            best.left_weight, best.left_word = weight, scratch.left[0]


cdef void _scan_any(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    """Any criterion, any number of sums, one split after the other."""
    cdef int32_t j, k, n_words = sample.layout.n_words
    cdef const uint64_t* cell
    for k in range(n_words):
        scratch.left[k] = scratch.found[k] if candidates.missing_left else 0
    for j in range(candidates.first, candidates.last + 1):
        cell = scratch.found + <Py_ssize_t>j * n_words
        for k in range(n_words):
            scratch.left[k] += cell[k]
        consider_left(forest, sample, scratch, node, groups.feature, best)
        if best.position < 0:
            best.position, best.missing_left = j, candidates.missing_left


cdef void _scan(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    cdef Scan scan
    if candidates.first > candidates.last:
        return
    scan = scan_of(forest, sample, node)
    if scan == SEVERAL_AT_ONCE:
        _scan_fast(forest, sample, scratch, node, groups, candidates, best)
    elif scan == BY_LOGARITHMS:
        _scan_two_classes(forest, sample, scratch, node, groups, candidates, best)
    elif scan == BY_CLASS:
        scan_classes(forest, sample, scratch, node, groups, candidates, best)
    else:
        _scan_any(forest, sample, scratch, node, groups, candidates, best)


cdef void _scan_one(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    const Candidates* candidate, FoundSplit* best,
) noexcept nogil:
    """A single split: its groups are first put together."""
    cdef int32_t j, k, n_words = sample.layout.n_words
    cdef uint64_t* into = scratch.found + <Py_ssize_t>candidate.last * n_words
    cdef Candidates last = candidate[0]
    for j in range(candidate.first, candidate.last):
        for k in range(n_words):
            into[k] += scratch.found[<Py_ssize_t>j * n_words + k]
    last.first = candidate.last
    _scan(forest, sample, scratch, node, groups, &last, best)


cdef void _search_best(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    FoundSplit* best,
) noexcept nogil:
    """Every threshold, with missing rows on the right and on the left; of ordered categories, every cut."""
    cdef Candidates candidates
    cdef int32_t has_missing = scratch.codes[0] == 0 and not groups.is_set
    candidates.first = has_missing
    candidates.missing_left = False
    candidates.last = groups.n - 1 if has_missing else groups.n - 2
    _scan(forest, sample, scratch, node, groups, &candidates, best)
    if has_missing:
        candidates.last, candidates.missing_left = groups.n - 2, True
        _scan(forest, sample, scratch, node, groups, &candidates, best)


cdef void search_groups(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil:
    """Keep the feature's best split if it is better than the best so far."""
    cdef FoundSplit before = best[0]
    cdef Candidates candidate
    best.last_code = -1
    if forest.rules.random_thresholds:
        candidate.first = scratch.codes[0] == 0 and not groups.is_set
        candidate.last = random_candidate(forest, scratch, groups, &candidate.missing_left, &best.last_code)
        _scan_one(forest, sample, scratch, node, groups, &candidate, best)
    else:
        _search_best(forest, sample, scratch, node, groups, best)
    if best.feature != groups.feature:
        best[0] = before
        return
    finish_split(forest, scratch, node, groups, best)
