"""Random thresholds for nodes whose rows are stored as records, if there are two classes and one-byte codes.

The rows of a tree are copied to records. A split moves them from one of two buffers to the other, so that the records
of a node are contiguous and no row is read from the table again. Nodes store the number of rows of each class, so the
rows of a leaf need not be moved. The trees are identical to the trees of `grow_depth_first`.

Measured with 100 extra trees on one thread, a fit without records takes 1.76 times as long on 100 000 rows of 28
normally distributed features, 1.40 on bank_marketing, 1.38 on adult, 1.37 on magic_telescope, 1.25 on electricity, and
1.2 to 1.4 on spambase.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from fastens.engine.bins.pages cimport track_more_resident_rows
from fastens.engine.forest.workspace cimport COMPLETE, GROWING, OUT_OF_MEMORY, Outcome
from fastens.engine.forest.splits.draw cimport Draw, draw_features, start_draw
from fastens.engine.forest.splits.scan cimport is_packed_squares, words_score
from fastens.engine.forest.splits.structs cimport Entry, Forest, Open, Sample
from fastens.engine.forest.splits.threshold cimport CodeRange, draw_threshold
from fastens.engine.forest.tree cimport ForestNode, Grown, RecordNode, Workspace, branch_rows, work_on
from fastens.engine.forest.workspace cimport reserve_nodes, reserve_open, reserve_record_nodes
from fastens.engine.splits.goes_left cimport up_to_uint8_t
from fastens.engine.paths cimport binds_paths
from fastens.engine.random cimport random_bits
from fastens.engine.splits.workspace cimport gain_of_squares
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "engine/forest/records.h" nogil:
    enum:
        RECORD_BYTES
        MAX_RECORD_BYTES
        ROWS_IN_BYTES

    ctypedef struct RecordRanges:
        uint8_t smallest[64]
        uint8_t largest[64]
        uint8_t largest_less[64]

    ctypedef struct RecordLimits:
        uint8_t shift[64]
        uint8_t limit[64]

    ctypedef struct RecordCounts:
        uint8_t rows[64]
        uint8_t second[64]

    void record_ranges(const uint8_t* records, Py_ssize_t n_rows, Py_ssize_t n_bytes, RecordRanges* ranges)
    void record_counts(
        const uint8_t* records, Py_ssize_t n_rows, Py_ssize_t n_bytes, const RecordLimits* limits, RecordCounts* counts
    )
    Py_ssize_t part_records(
        const uint8_t* records, Py_ssize_t n_rows, Py_ssize_t n_bytes, Py_ssize_t feature, uint8_t shift,
        uint8_t limit, uint8_t* to
    )


cdef enum:
    # Up to this number of rows, features are counted one by one until one separates the classes (4 or 8 rows take
    # equally long, 16 a tenth longer).
    FEW_ROWS = 8
    # Rows copied between two updates of the number of mapped pages.
    ROWS_NOTED = 512

cdef struct Threshold:
    # A random threshold of a feature, and the rows on its left.
    int32_t feature
    int32_t last_code
    bint missing_left
    bint has_missing
    uint32_t n_rows
    uint32_t second

cdef struct Tree:
    # Data that all nodes share.
    const Forest* forest
    const Sample* sample
    Workspace* ws
    Py_ssize_t n_bytes              # of a record
    float64_t weights[2]            # weight of a row of each class, in fixed-point units

cdef struct Best:
    Threshold threshold
    float64_t gain
    int32_t n_usable                # features that the node may split on, as known before its search


cdef Py_ssize_t _record_bytes(const Forest* forest) noexcept nogil:
    """Return the size of a record, or 0 if rows have no records."""
    if not forest.rules.random_thresholds or forest.table.code_size != 1 or forest.limits.max_leaves > 0:
        return 0
    if forest.table.stored.rows != NULL:
        return 0
    if forest.table.has_categories or forest.targets.classes == NULL:
        return 0
    if forest.limits.monotone != NULL or forest.limits.feature_weights != NULL or binds_paths(&forest.limits):
        return 0
    if forest.table.n_features < RECORD_BYTES:
        return RECORD_BYTES
    return <Py_ssize_t>MAX_RECORD_BYTES if forest.table.n_features < MAX_RECORD_BYTES else 0


cdef bint has_records(const Forest* forest, const Sample* sample) noexcept nogil:
    """Return True if rows get records, which requires equal weights within each class."""
    return sample.layout.packed and sample.by_class and sample.ranks == NULL and _record_bytes(forest) > 0


cdef bint allocate_records(const Forest* forest, Py_ssize_t n_entries, Sample* sample) noexcept nogil:
    """Allocate the workspace for n_entries records, if the forest uses any; return False if memory runs out."""
    cdef int32_t i
    for i in range(2 if sample.ranks == NULL and _record_bytes(forest) > 0 else 0):
        free(sample.records[i])
        sample.records[i] = <uint8_t*>malloc(n_entries * _record_bytes(forest))
        if sample.records[i] == NULL:
            return False
    return True


cdef void make_records(const Forest* forest, const Sample* sample) noexcept nogil:
    """Copy the rows of the sample to records."""
    cdef Py_ssize_t i, n_bytes = _record_bytes(forest)
    cdef int64_t page = -1
    cdef uint32_t last
    cdef const Entry* entry = sample.entries
    cdef uint8_t* record = sample.records[0]
    for i in range(sample.n_entries):
        if i % ROWS_NOTED == 0:
            last = sample.entries[min(i + ROWS_NOTED, sample.n_entries) - 1].row
            page = track_more_resident_rows(forest.table.pages, page, entry.row, last, ROWS_NOTED, forest.table.record_stride)
        memcpy(record, forest.table.records + entry.row * forest.table.record_stride, forest.table.n_features)
        record[n_bytes - 1] = (entry.word >> sample.layout.number_shift) != 0
        record += n_bytes
        entry += 1


cdef inline uint64_t _class_weight(const Sample* sample, int32_t class_) noexcept nogil:
    """Return the weight of a row of the class, or 1 if the sample has no such row."""
    return max((sample.class_words[class_] >> sample.layout.weight_shift) & sample.layout.weight_mask, <uint64_t>1)


cdef inline uint64_t _word(const Tree* tree, uint32_t n_rows, uint32_t second) noexcept nogil:
    """Return the packed sums of n_rows rows, of which `second` are of class 1."""
    return <uint64_t>(n_rows - second) * tree.sample.class_words[0] + second * tree.sample.class_words[1]


cdef inline float64_t _weight(const Tree* tree, uint32_t n_rows, uint32_t second) noexcept nogil:
    return (n_rows - second) * tree.weights[0] + second * tree.weights[1]


cdef float64_t _score(const Tree* tree, uint32_t n_rows, uint32_t second) noexcept nogil:
    tree.ws.search.left[0] = _word(tree, n_rows, second)
    return words_score(&tree.ws.search, tree.ws.search.left)


cdef inline float64_t _gain(
    const Tree* tree, uint32_t n_rows, uint32_t second, const Threshold* threshold
) noexcept nogil:
    if is_packed_squares(tree.forest, &tree.sample.layout):
        return gain_of_squares(
            second * tree.weights[1], _weight(tree, n_rows, second),
            threshold.second * tree.weights[1], _weight(tree, threshold.n_rows, threshold.second),
        )
    return _score(tree, threshold.n_rows, threshold.second) + (
        _score(tree, n_rows - threshold.n_rows, second - threshold.second) - _score(tree, n_rows, second)
    )


cdef inline bint _is_allowed(
    const Tree* tree, uint32_t n_rows, uint32_t second, const Threshold* threshold
) noexcept nogil:
    cdef float64_t left, minimum = <float64_t>tree.sample.min_weight
    cdef int64_t min_rows = tree.forest.limits.min_samples_leaf
    if threshold.n_rows < min_rows or n_rows - threshold.n_rows < min_rows:
        return False
    if minimum == 0:
        return True
    left = _weight(tree, threshold.n_rows, threshold.second)
    return left >= minimum and _weight(tree, n_rows, second) - left >= minimum


cdef inline void _consider(
    const Tree* tree, uint32_t n_rows, uint32_t second, const Threshold* threshold, Best* best
) noexcept nogil:
    """Keep the threshold if it is allowed and better than the best so far."""
    cdef float64_t gain
    if not _is_allowed(tree, n_rows, second, threshold):
        return
    gain = _gain(tree, n_rows, second, threshold)
    if gain > best.gain:
        best.gain, best.threshold = gain, threshold[0]


cdef inline bint _is_perfect(
    uint32_t n_rows, uint32_t second, const Threshold* threshold
) noexcept nogil:
    """Return True if both sides are pure."""
    return (
        (threshold.second == 0 and second == n_rows - threshold.n_rows)
        or (threshold.second == second and threshold.n_rows == second)
    )


cdef inline void _draw(
    const Tree* tree, const RecordRanges* ranges, uint64_t key, int32_t feature, Threshold* threshold
) noexcept nogil:
    """Draw a random threshold."""
    cdef CodeRange range_
    range_.smallest = <uint32_t>ranges.smallest[feature] + 1
    range_.largest = ranges.largest[feature]
    range_.has_missing = ranges.largest_less[feature] == 255
    threshold.feature, threshold.has_missing = feature, range_.has_missing
    threshold.last_code = draw_threshold(
        &tree.forest.table, feature, random_bits(key, ~<uint64_t>feature), &range_, &threshold.missing_left
    )


cdef inline void _count_few(
    const Tree* tree, const uint8_t* records, uint32_t n_rows, Threshold* threshold
) noexcept nogil:
    """Count the rows on the left for one feature."""
    cdef uint8_t shift = <uint8_t>(1 - threshold.missing_left), limit = <uint8_t>(threshold.last_code - shift), left
    cdef uint32_t _i
    threshold.n_rows = threshold.second = 0
    for _i in range(n_rows):
        left = up_to_uint8_t(records[threshold.feature], shift, limit)
        threshold.n_rows += left
        threshold.second += left & records[tree.n_bytes - 1]
        records += tree.n_bytes


cdef inline void _count_many(
    const Tree* tree, const uint8_t* records, uint32_t n_rows, Threshold* thresholds, int32_t n
) noexcept nogil:
    """Count the rows on the left for several features in one pass over the rows."""
    cdef RecordLimits limits
    cdef RecordCounts counts
    cdef uint8_t shift
    cdef uint32_t first = 0
    cdef int32_t i, f
    for i in range(n):
        f, shift = thresholds[i].feature, <uint8_t>(1 - thresholds[i].missing_left)
        limits.shift[f], limits.limit[f] = shift, <uint8_t>(thresholds[i].last_code - shift)
        thresholds[i].n_rows = thresholds[i].second = 0
    while first < n_rows:
        record_counts(
            records + first * tree.n_bytes, min(n_rows - first, <uint32_t>ROWS_IN_BYTES), tree.n_bytes, &limits,
            &counts
        )
        for i in range(n):
            thresholds[i].n_rows += counts.rows[thresholds[i].feature]
            thresholds[i].second += counts.second[thresholds[i].feature]
        first += ROWS_IN_BYTES


cdef bint _find_split(const Tree* tree, RecordNode* node, Best* best) noexcept nogil:
    """Find the best of the random thresholds, mark constant features, and return True if there is a split."""
    cdef const Forest* forest = tree.forest
    cdef uint32_t n_rows = node.end - node.begin
    cdef const uint8_t* records = tree.sample.records[node.buffer] + node.begin * tree.n_bytes
    cdef Draw draw
    cdef RecordRanges ranges
    cdef uint64_t visited = node.mask
    cdef Threshold thresholds[64]
    cdef int32_t drawn[64]
    cdef int32_t i, n, n_compared, n_seen = 0, n_left = forest.table.n_features - node.n_excluded
    start_draw(&draw, forest.table.n_features, forest.rules.in_random_order, node.key)
    best.gain, best.n_usable = -INFINITY, n_left
    if _weight(tree, n_rows, node.second) < 2 * tree.sample.min_weight:
        return False
    record_ranges(records, n_rows, tree.n_bytes, &ranges)
    while n_seen < forest.limits.features_per_split and n_left > 0:
        n = draw_features(&draw, &visited, forest.limits.features_per_split - n_seen, n_left, drawn)
        n_left -= n
        n_compared = 0
        for i in range(n):
            _draw(tree, &ranges, node.key, drawn[i], &thresholds[n_compared])
            if thresholds[n_compared].last_code == 0:
                node.mask |= <uint64_t>1 << drawn[i]
                node.n_excluded += 1
                continue
            if n_rows <= FEW_ROWS:
                _count_few(tree, records, n_rows, &thresholds[n_compared])
                _consider(tree, n_rows, node.second, &thresholds[n_compared], best)
                if best.gain > -INFINITY and _is_perfect(n_rows, node.second, &best.threshold):
                    return best.gain >= tree.sample.min_gain
            n_compared += 1
        if n_rows > FEW_ROWS and n_compared > 0:
            _count_many(tree, records, n_rows, thresholds, n_compared)
            for i in range(n_compared):
                _consider(tree, n_rows, node.second, &thresholds[i], best)
        n_seen += n_compared
    return best.gain > -INFINITY and best.gain >= tree.sample.min_gain


cdef inline void _add_leaf(
    const Tree* tree, Grown* grown, uint32_t begin, uint32_t end, uint32_t second
) noexcept nogil:
    cdef ForestNode* leaf = &grown.nodes[grown.n]
    memset(leaf, 0, sizeof(ForestNode))
    leaf.begin, leaf.end, leaf.n_rows, leaf.total = begin, end, end - begin, _word(tree, end - begin, second)
    leaf.feature = leaf.category_set = -1
    grown.n += 1


cdef inline bint _may_split(const Forest* forest, const RecordNode* node) noexcept nogil:
    cdef uint32_t n_rows = node.end - node.begin
    return (
        0 < node.second < n_rows
        and node.depth < forest.limits.max_depth
        and n_rows >= max(forest.rules.min_split, 2 * <int64_t>forest.limits.min_samples_leaf)
    )


cdef inline void _open_children(
    const Tree* tree, const RecordNode* node, const Best* best, int32_t left_child
) noexcept nogil:
    """Open the children that may be split, the left one last, and move their records."""
    cdef RecordNode children[2]
    cdef const Threshold* threshold = &best.threshold
    cdef uint8_t shift = <uint8_t>(1 - threshold.missing_left)
    cdef int32_t i, n_before = tree.ws.n_record_nodes
    cdef Py_ssize_t place = node.begin * tree.n_bytes
    children[0] = children[1] = node[0]
    children[0].depth = children[1].depth = node.depth + 1
    children[0].end = children[1].begin = node.begin + threshold.n_rows
    children[0].second, children[1].second = threshold.second, node.second - threshold.second
    for i in range(1, -1, -1):
        if not _may_split(tree.forest, &children[i]):
            continue
        children[i].node = left_child + i
        children[i].key = random_bits(node.key, i)
        children[i].buffer = 1 - node.buffer
        tree.ws.record_nodes[tree.ws.n_record_nodes] = children[i]
        tree.ws.n_record_nodes += 1
    if tree.ws.n_record_nodes > n_before:
        part_records(
            tree.sample.records[node.buffer] + place, node.end - node.begin, tree.n_bytes, threshold.feature, shift,
            <uint8_t>(threshold.last_code - shift), tree.sample.records[1 - node.buffer] + place
        )


cdef inline void _record_split(
    const Tree* tree, const Best* best, const RecordNode* node, Grown* grown
) noexcept nogil:
    cdef ForestNode* to = &grown.nodes[node.node]
    cdef const Threshold* threshold = &best.threshold
    to.feature = threshold.feature
    to.gain = max(best.gain, 0.0)
    to.left_child = grown.n
    to.n_usable = best.n_usable
    to.last_code = <uint16_t>threshold.last_code
    # Without missing rows here, later missing values follow the larger side.
    to.missing_left = <uint8_t>(threshold.missing_left if threshold.has_missing else (
        2 * _weight(tree, threshold.n_rows, threshold.second) > _weight(tree, node.end - node.begin, node.second)
    ))


cdef bint start_records(Workspace* ws, const Open* root) noexcept nogil:
    """Open the root of a tree or a branch; return False if memory runs out."""
    cdef const Sample* sample = ws.search.sample
    cdef RecordNode* node
    ws.n_record_nodes = 0
    if not reserve_record_nodes(ws, 1):
        return False
    node = &ws.record_nodes[0]
    node.key, node.mask, node.n_excluded, node.buffer = root.key, ws.masks[0], root.n_excluded, root.buffer
    node.begin, node.end, node.node, node.depth = root.begin, root.end, root.node, root.depth
    node.second = <uint32_t>((root.total >> sample.layout.number_shift) // _class_weight(sample, 1))
    ws.n_record_nodes = _may_split(ws.search.forest, node)
    return True


cdef bint _hand_over(const Tree* tree, const RecordNode* node, Workspace* branches) noexcept nogil:
    """Make a node the root of a branch; return False if memory runs out."""
    cdef Open* root
    if not reserve_open(branches, 1):
        return False
    root = &branches.open[branches.n_open]
    memset(root, 0, sizeof(Open))
    root.node, root.depth, root.begin, root.end = node.node, node.depth, node.begin, node.end
    root.key, root.n_excluded, root.buffer = node.key, node.n_excluded, node.buffer
    root.n_rows, root.total = node.end - node.begin, _word(tree, node.end - node.begin, node.second)
    branches.masks[branches.n_open] = node.mask
    branches.n_open += 1
    return True


cdef Outcome grow_records(Workspace* ws, Grown* grown, Workspace* branches, Py_ssize_t* work) noexcept nogil:
    """Grow nodes whose rows have records, as `grow_depth_first` does."""
    cdef const Forest* forest = ws.search.forest
    cdef const Sample* sample = ws.search.sample
    cdef Tree tree
    cdef Best best
    cdef RecordNode node
    cdef int32_t k
    cdef uint32_t middle
    tree.forest, tree.sample, tree.ws, tree.n_bytes = forest, sample, ws, _record_bytes(forest)
    for k in range(2):
        tree.weights[k] = <float64_t>_class_weight(sample, k)
    while ws.n_record_nodes > 0 and work[0] > 0:
        ws.n_record_nodes -= 1
        node = ws.record_nodes[ws.n_record_nodes]
        if branches != NULL and node.end - node.begin <= branch_rows(sample.n_all):
            if not _hand_over(&tree, &node, branches):
                return OUT_OF_MEMORY
            continue
        work[0] -= work_on(forest, node.end - node.begin)
        if not _find_split(&tree, &node, &best):
            continue
        if not (reserve_nodes(grown, 2, 0) and reserve_record_nodes(ws, 2)):
            return OUT_OF_MEMORY
        _record_split(&tree, &best, &node, grown)
        _open_children(&tree, &node, &best, grown.n)
        middle = node.begin + best.threshold.n_rows
        _add_leaf(&tree, grown, node.begin, middle, best.threshold.second)
        _add_leaf(&tree, grown, middle, node.end, node.second - best.threshold.second)
    return GROWING if ws.n_record_nodes > 0 else COMPLETE
