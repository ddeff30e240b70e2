"""Best split of a node from its histogram: thresholds, category sets, allowed features."""

from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from fastens.engine.splits.goes_left cimport middle_code, set_fill, set_put
from fastens.engine.histograms.cells cimport (
    CellLayout, Histogram, Sums, add_sums, cell_sums, clear_sums, count_of, first_with_count, is_empty,
    sums_difference, unpack
)
from fastens.engine.splits.gain cimport (
    FeatureCells, Scan, ScanBuffer, Split, SplitRules, consider, is_large_enough, keep_split, leaves_enough,
    node_score, sums_of_code
)
from libc.string cimport memcpy, memset
from fastens.engine.paths cimport add_feature, binds_paths, exclude_features, has_feature, mask_words
from fastens.engine.random cimport random_bits, random_share, weighted_place
from fastens.engine.splits.workspace cimport Workspace
from libc.math cimport fabs
from fastens.engine.splits.scan cimport (
    ScanNode, bound_gains, large_gains, large_sums, leave_out_light, ordered_gains, place_of, running_sums,
    split_gains
)


cdef enum:
    FEW_CODES = 32                  # up to this number, insertion sort is fastest


cdef inline bint _precedes(const float64_t* keys, const int32_t* codes, int32_t a, int32_t b) noexcept nogil:
    """Return True if item a sorts before item b: by key, then by code."""
    return keys[a] < keys[b] or (keys[a] == keys[b] and codes[a] < codes[b])


cdef inline void _swap(float64_t* keys, int32_t* codes, int32_t a, int32_t b) noexcept nogil:
    """Exchange the keys and codes of the items at indices a and b."""
    keys[a], keys[b] = keys[b], keys[a]
    codes[a], codes[b] = codes[b], codes[a]


cdef void sort_by_key(float64_t* keys, int32_t* codes, int32_t n) noexcept nogil:
    """Sort n codes with their keys, in place, by ascending key; ties are in code order."""
    cdef int32_t start, end
    if n <= FEW_CODES:
        for end in range(1, n):
            _insert(keys, codes, end)
        return
    for start in range(n // 2 - 1, -1, -1):
        _sift_down(keys, codes, start, n)
    for end in range(n - 1, 0, -1):
        _swap(keys, codes, 0, end)
        _sift_down(keys, codes, 0, end)


cdef inline void _insert(float64_t* keys, int32_t* codes, int32_t place) noexcept nogil:
    """Move the item at index `place` to its position in the sorted items before it."""
    cdef float64_t key = keys[place]
    cdef int32_t code = codes[place]
    while place > 0 and (keys[place - 1] > key or (keys[place - 1] == key and codes[place - 1] > code)):
        keys[place] = keys[place - 1]
        codes[place] = codes[place - 1]
        place -= 1
    keys[place] = key
    codes[place] = code


cdef void _sift_down(float64_t* keys, int32_t* codes, int32_t root, int32_t end) noexcept nogil:
    """Restore the max-heap below index `root` among the first `end` items."""
    cdef int32_t child
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and _precedes(keys, codes, child, child + 1):
            child += 1
        if not _precedes(keys, codes, root, child):
            return
        _swap(keys, codes, root, child)
        root = child


cdef float64_t category_penalty(const Feature* feature, const SplitRules* rules) noexcept nogil:
    """Return the L2 penalty that splits on a set of the feature's categories add: 0 for one-vs-rest splits."""
    return 0.0 if is_one_hot(feature, rules) else rules.category_l2


cdef inline void _append(
    ScanBuffer* room, int32_t n, int32_t code, const Sums* sums, float64_t smoothing
) noexcept nogil:
    """Write a category to position n of room.keys and room.codes; its key is gradient / (hessian + smoothing)."""
    room.keys[n] = <float64_t>sums.gradient / (<float64_t>sums.hessian + smoothing)
    room.codes[n] = code


cdef int32_t order_categories(const FeatureCells* cells) noexcept nogil:
    """Write the node's categories to cells.room in order of smoothed gradient over hessian; return their number.

    Rare categories are pooled and take one position, with the code POOL.
    """
    cdef const SplitRules* rules = cells.rules
    cdef ScanBuffer* room = cells.room
    cdef int32_t code, n = 0
    cdef Sums cell
    clear_sums(&room.pooled)
    for code in range(cells.feature.n_codes):
        cell = sums_of_code(cells, code)
        if cell.count == 0:
            continue
        if is_rare(code, cell.count, rules):
            add_sums(&room.pooled, &cell)
        else:
            _append(room, n, code, &cell, rules.category_smoothing)
            n += 1
    if room.pooled.count > 0:
        _append(room, n, POOL, &room.pooled, rules.category_smoothing)
        n += 1
    sort_by_key(room.keys, room.codes, n)
    return n


cdef inline Sums _sums_at_position(const FeatureCells* cells, int32_t position) noexcept nogil:
    """Return the sums of the category, or of the pool of rare ones, at a position of the order in cells.room."""
    cdef int32_t code = cells.room.codes[position]
    return cells.room.pooled if code == POOL else sums_of_code(cells, code)


cdef void scan_categories(const FeatureCells* cells, Scan* scan) noexcept nogil:
    """Update `scan` by the best split of the ordered categories; `bin` is the last position on the left, from 1.

    With one-vs-rest splits, only the category at this position is on the left.
    """
    cdef const SplitRules* rules = cells.rules
    cdef int32_t k, n = order_categories(cells)
    cdef bint one_hot = is_one_hot(cells.feature, rules)
    cdef int32_t most = rules.max_categories if rules.max_categories > 0 else n
    cdef Sums left, cell
    clear_sums(&left)
    for k in range(n if one_hot and n > 2 else n - 1):
        cell = _sums_at_position(cells, k)
        if one_hot:
            clear_sums(&left)
        add_sums(&left, &cell)
        if not is_large_enough(&left, rules) or (k + 1 > most and n - k - 1 > most):
            continue
        if not leaves_enough(&left, &scan.total, rules):
            if one_hot:
                continue
            break
        consider(&left, rules, k + 1, False, scan)


cdef void write_category_set(const FeatureCells* cells, const Split* split, uint32_t* words) noexcept nogil:
    """Write the bit set of the codes that `split` sends left to `words`.

    Codes that do not occur in the node follow its larger side.
    """
    cdef int32_t code, k, n = order_categories(cells)
    cdef bint one_hot = is_one_hot(cells.feature, cells.rules), left
    cdef int64_t hessian = 0, count
    for k in range(n):
        hessian += _sums_at_position(cells, k).hessian
    set_fill(words, cells.feature.n_codes, 2 * split.left.hessian > hessian)
    for k in range(n):
        left = k == split.bin - 1 if one_hot else k < split.bin
        if cells.room.codes[k] != POOL:
            set_put(words, cells.room.codes[k], left)
            continue
        for code in range(1, cells.feature.n_codes):
            count = sums_of_code(cells, code).count
            if count > 0 and is_rare(code, count, cells.rules):
                set_put(words, code, left)


cdef enum:
    MAX_SHUFFLED = 1 << 15         # shuffling more features for each node would exceed the cache
    ROUNDS = 4                      # three rounds already give pseudo-random permutations (Luby & Rackoff 1988)

cdef uint64_t TREE_STREAM = <uint64_t>1 << 63  # the counter of the tree's own draw; nodes count from 0


cdef void _draw_features(
    const Workspace* ws, int32_t wanted, uint64_t counter, uint8_t* allowed, int32_t* order
) noexcept nogil:
    """Keep `wanted` of the features marked in `allowed`, drawn at random by the tree's seed and `counter`.

    `order` is a buffer for n_features indices.
    """
    cdef const float64_t* weights = ws.limits.feature_weights
    cdef int32_t i, j, n = 0
    cdef uint64_t seed = random_bits(ws.seed, counter)
    for i in range(ws.table.n_features):
        if allowed[i]:
            order[n] = i
            n += 1
    if wanted >= n:
        return
    memset(allowed, 0, ws.table.n_features)
    for i in range(wanted):
        if weights == NULL:
            j = i + <int32_t>(random_bits(seed, i) % <uint64_t>(n - i))
        else:
            j = weighted_place(weights, order, i, n, random_share(seed, i))
        order[i], order[j] = order[j], order[i]
        allowed[order[i]] = True


cdef void draw_tree_features(Workspace* ws) noexcept nogil:
    """Draw the features of the next tree into the mask ws.of_tree; features of weight 0 are never drawn."""
    cdef int32_t f
    for f in range(ws.table.n_features):
        ws.of_tree[f] = ws.limits.feature_weights == NULL or ws.limits.feature_weights[f] > 0
    _draw_features(ws, ws.features_per_tree, TREE_STREAM, ws.of_tree, ws.sampled)


cdef void _bind_to_path(const Workspace* ws, int32_t node, uint64_t* masks, uint8_t* allowed) noexcept nogil:
    """Unmark in `allowed` the features that may not follow the features on the node's path.

    `masks` is a buffer for two bit masks of features.
    """
    cdef int32_t f, n_features = ws.table.n_features, n_words = mask_words(n_features)
    cdef uint64_t* excluded = masks + n_words
    memset(masks, 0, 2 * n_words * sizeof(uint64_t))
    while ws.nodes[node].parent >= 0:
        node = ws.nodes[node].parent
        add_feature(masks, ws.nodes[node].split.feature)
    exclude_features(&ws.limits, n_features, masks, excluded)
    for f in range(n_features):
        allowed[f] = allowed[f] and not has_feature(excluded, f)


cdef bint draws_one_by_one(const Workspace* ws) noexcept nogil:
    """Return True if features are drawn one by one with `is_drawn`, because there are too many to shuffle per node."""
    cdef int32_t n = ws.table.n_features
    cdef bint is_bound = binds_paths(&ws.limits) or ws.features_per_tree < n or ws.limits.feature_weights != NULL
    return n > MAX_SHUFFLED and ws.limits.features_per_split < n and not is_bound


cdef void start_permutation(const Workspace* ws, int32_t node, int32_t* rounds) noexcept nogil:
    """Write the tables of a node's random permutation of features, which `is_drawn` reads, to `rounds`.

    The tables need less space than half the features.
    """
    cdef uint64_t seed = random_bits(ws.seed, node)
    cdef int32_t r, i, bits = ws.feature_bits
    # A round has only 2**half possible inputs; computing them once per node saves four to six hashes per feature.
    for r in range(ROUNDS):
        for i in range(1 << (bits - bits // 2)):
            rounds[(r << (bits - bits // 2)) + i] = <int32_t>(
                random_bits(seed, (<uint64_t>r << 32) + i) >> (64 - (bits // 2 if r % 2 else bits - bits // 2)))


cdef bint is_drawn(const Workspace* ws, const int32_t* rounds, int32_t feature) noexcept nogil:
    """Return True if the permutation of `start_permutation` puts the feature among the first features_per_split.

    The permutation is a cycle-walking Feistel network.
    """
    cdef int32_t r, bits = ws.feature_bits, half = bits // 2
    cdef int64_t high, low, x = feature
    while True:
        high, low = x >> half, x & ((<int64_t>1 << half) - 1)
        for r in range(0, ROUNDS, 2):
            high ^= rounds[(r << (bits - half)) + low]
            low ^= rounds[((r + 1) << (bits - half)) + high]
        x = (high << half) + low
        if x < ws.table.n_features:
            return x < ws.limits.features_per_split


cdef void allow_features(Workspace* ws, int32_t node, int32_t room, uint8_t* allowed) noexcept nogil:
    """Set allowed[f] to 1 if the node may split on feature f, else to 0, with the buffers of thread `room`."""
    cdef int32_t n = ws.table.n_features
    memcpy(allowed, ws.of_tree, n)
    if binds_paths(&ws.limits):
        _bind_to_path(ws, node, ws.masks + 2 * room * mask_words(n), allowed)
    if ws.limits.features_per_split < n:
        _draw_features(ws, ws.limits.features_per_split, node, allowed, ws.sampled + room * n)


cdef float64_t MARGIN = 2.0 ** -30


cdef Sums column_sums(const Histogram* histogram, const Column* column, const CellLayout* layout) noexcept nogil:
    """Return the sums over all codes of a column, which are the sums over all rows of the node."""
    cdef Sums total, cell
    cdef int32_t code
    clear_sums(&total)
    for code in range(column.n_codes):
        cell = cell_sums(histogram, column.offset + code, layout)
        add_sums(&total, &cell)
    return total


cdef ScanNode node_of_scan(const CellLayout* layout, const SplitRules* rules, const Scan* scan) noexcept nogil:
    """Return the inputs of a scan in the form that the loops over packed cells read."""
    cdef ScanNode node
    node.layout = layout[0]
    node.ratio, node.hessian, node.l2 = scan.ratio, scan.hessian, scan.l2
    if scan.limits != NULL:
        node.total_gradient, node.total_hessian = <float64_t>scan.total.gradient, <float64_t>scan.total.hessian
        node.lower, node.upper = scan.limits.lower, scan.limits.upper
        node.smooth, node.smooth_gradient = rules.path_smooth, rules.path_smooth * scan.limits.value
        node.node_score = scan.node_score
    return node


cdef inline float64_t _gains(const uint64_t* sums, Py_ssize_t n, const Scan* scan, float64_t* gains) noexcept nogil:
    """Write the gains of n splits, given their packed left sums, to `gains`; return the largest gain."""
    cdef float64_t largest
    if scan.limits != NULL:
        bound_gains(sums, n, scan.node, scan.monotone, gains, &largest)
    elif scan.monotone != 0:
        ordered_gains(sums, n, scan.node, scan.monotone, gains, &largest)
    else:
        split_gains(sums, n, scan.node, gains, &largest)
    return largest


cdef const uint64_t* select_thresholds(uint64_t* sums, const Thresholds* among) noexcept nogil:
    """Return the running sums at the thresholds of `among`; drawn ones are first moved to the front of `sums`."""
    cdef Py_ssize_t k
    if not among.are_drawn:
        return sums + among.first
    for k in range(among.n):
        sums[k] = sums[threshold_at(among, k)]
    return sums


cdef void _scan_packed(const FeatureCells* cells, int32_t last, bint missing_left, Scan* scan) noexcept nogil:
    """Update `scan` by the best threshold code 1 .. last, from packed running sums; ties go to the first code.

    Splits need a value on the left. Missing values go left if `missing_left`.
    """
    cdef const CellLayout* layout = cells.layout
    cdef const uint64_t* words = <const uint64_t*>cells.histogram.cells + cells.feature.offset
    cdef uint64_t* sums = cells.room.sums
    cdef const uint64_t* lefts
    cdef uint64_t start = words[0] if missing_left else 0
    cdef int64_t some_value = count_of(start, layout) + 1, min_count = cells.rules.min_count
    cdef int64_t min_hessian = cells.rules.min_hessian
    cdef Py_ssize_t first, end
    cdef Thresholds among
    cdef float64_t gain
    running_sums(words + 1, last, start, sums)
    first = first_with_count(sums, last, layout, max(min_count, some_value))
    end = first_with_count(sums, last, layout, scan.total.count - min_count + 1)
    among = thresholds_among(cells, scan.total.count, first, end)
    lefts = select_thresholds(sums, &among)
    first, end = 0, among.n
    leave_out_light(lefts, layout, min_hessian, scan.total.hessian - min_hessian, &first, &end)
    gain = _gains(lefts + first, end - first, scan, cells.room.keys)
    if gain > scan.gain:
        first += place_of(gain, cells.room.keys)
        keep_split(gain, <int32_t>(threshold_at(&among, first) + 1), missing_left, scan)
        scan.left = unpack(lefts[first], layout)


cdef void _restore_zeros(const FeatureCells* cells, int32_t last, bint missing_left, const Scan* scan) noexcept nogil:
    """Correct the running sums in cells.room from the code of zeros on, so that all codes add up to scan.total.

    The cell of zeros may have overflowed. `last` and `missing_left` are the arguments of `_scan_large`.
    """
    cdef int64_t* counts = <int64_t*>cells.room.sums
    cdef float64_t* gradients = cells.room.gradients
    cdef float64_t* hessians = cells.room.hessians
    cdef int64_t count = scan.total.count
    cdef float64_t gradient = <float64_t>scan.total.gradient, hessian = <float64_t>scan.total.hessian
    cdef Sums cell
    cdef int32_t code = 0 if not missing_left else last + 1
    if last > 0:
        count -= counts[last - 1]
        gradient -= gradients[last - 1]
        hessian -= hessians[last - 1]
    while code < cells.feature.n_codes:
        cell = sums_of_code(cells, code)
        count, gradient, hessian = count - cell.count, gradient - cell.gradient, hessian - cell.hessian
        code = max(code, last) + 1
    for code in range(cells.feature.most_frequent_bin - 1, last):
        counts[code] += count
        gradients[code] += gradient
        hessians[code] += hessian


cdef void _scan_large(const FeatureCells* cells, int32_t last, bint missing_left, Scan* scan) noexcept nogil:
    """Update `scan` like `_scan_packed`, from packed cells whose running sums would overflow, without value limits."""
    cdef const CellLayout* layout = cells.layout
    cdef const uint64_t* words = <const uint64_t*>cells.histogram.cells + cells.feature.offset
    cdef int64_t* counts = <int64_t*>cells.room.sums
    cdef float64_t* gradients = cells.room.gradients
    cdef float64_t* hessians = cells.room.hessians
    cdef uint64_t start = words[0] if missing_left else 0
    cdef int64_t least = max(cells.rules.min_count, count_of(start, layout) + 1)
    cdef float64_t min_hessian = <float64_t>cells.rules.min_hessian, gain
    cdef Py_ssize_t first = 0, end = last, k, i
    cdef Thresholds among
    large_sums(words + 1, last, start, layout, counts, gradients, hessians)
    if cells.feature.most_frequent_bin > 0:
        _restore_zeros(cells, last, missing_left, scan)
    while first < last and counts[first] < least:
        first += 1
    while end > first and scan.total.count - counts[end - 1] < cells.rules.min_count:
        end -= 1
    among = thresholds_among(cells, scan.total.count, first, end)
    for k in range(among.n if among.are_drawn else 0):
        i = threshold_at(&among, k)
        counts[k], gradients[k], hessians[k] = counts[i], gradients[i], hessians[i]
    i = 0 if among.are_drawn else among.first
    first, end = 0, among.n
    while first < end and hessians[i + first] < min_hessian:
        first += 1
    while end > first and <float64_t>scan.total.hessian - hessians[i + end - 1] < min_hessian:
        end -= 1
    large_gains(gradients + i + first, hessians + i + first, end - first, scan.node, cells.room.keys, &gain)
    if gain > scan.gain:
        k = first + place_of(gain, cells.room.keys)
        keep_split(gain, <int32_t>(threshold_at(&among, k) + 1), missing_left, scan)
        scan.left.count = scan.left.weight = counts[i + k]
        scan.left.gradient, scan.left.hessian = <int64_t>gradients[i + k], <int64_t>hessians[i + k]


cdef Thresholds thresholds_of_wide(
    const FeatureCells* cells, const Sums* total, int32_t last, bint missing_left
) noexcept nogil:
    """Return the thresholds to evaluate among codes 1 .. last, from unpacked sums; see `thresholds_among`."""
    cdef Sums left, cell
    cdef int64_t n_missing = 0
    cdef Py_ssize_t i, first = last, end = last
    clear_sums(&left)
    if missing_left:
        left = sums_of_code(cells, 0)
        n_missing = left.count
    for i in range(last):
        cell = sums_of_code(cells, i + 1)
        add_sums(&left, &cell)
        if not leaves_enough(&left, total, cells.rules):
            end = i
            break
        if first == last and left.count > n_missing and is_large_enough(&left, cells.rules):
            first = i
    return thresholds_among(cells, total.count, first, end)


cdef void _scan_wide(const FeatureCells* cells, int32_t last, bint missing_left, Scan* scan) noexcept nogil:
    """Update `scan` like `_scan_packed`, but one split after another, because sums would overflow packed cells."""
    cdef Thresholds among = thresholds_of_wide(cells, &scan.total, last, missing_left)
    cdef Py_ssize_t k, threshold, code = 1
    cdef Sums left, cell
    clear_sums(&left)
    if missing_left:
        left = sums_of_code(cells, 0)
    for k in range(among.n):
        threshold = threshold_at(&among, k)
        while code <= threshold + 1:
            cell = sums_of_code(cells, code)
            add_sums(&left, &cell)
            code += 1
        consider(&left, cells.rules, <int32_t>threshold + 1, missing_left, scan)


cdef inline bint _sums_are_packed(const FeatureCells* cells, const Scan* scan) noexcept nogil:
    """Return True if the node's cells are packed and can also hold the sums over all codes."""
    return cells.histogram.packed and scan.total.count <= <int64_t>cells.layout.count_mask


cdef inline void _scan_thresholds(
    const FeatureCells* cells, int32_t last, bint missing_left, Scan* scan
) noexcept nogil:
    """Update `scan` by the best threshold code 1 .. last, in the form in which sums do not overflow.

    Missing values go left if `missing_left`.
    """
    if _sums_are_packed(cells, scan):
        _scan_packed(cells, last, missing_left, scan)
    elif cells.histogram.packed and scan.limits == NULL and scan.monotone == 0:
        _scan_large(cells, last, missing_left, scan)
    else:
        _scan_wide(cells, last, missing_left, scan)


cdef void _scan_numeric(const FeatureCells* cells, Scan* scan) noexcept nogil:
    """Update `scan` by the best threshold, with missing rows on either side.

    If the node has no missing rows, scan.missing_left is set for the larger side.
    """
    cdef bint has_missing = sums_of_code(cells, 0).count > 0
    cdef int32_t last = cells.feature.n_codes - 2
    _scan_thresholds(cells, last + has_missing, False, scan)
    if has_missing:
        _scan_thresholds(cells, last, True, scan)
    else:
        scan.missing_left = 2 * scan.left.hessian > scan.total.hessian


cdef int32_t centre_of_gap(const FeatureCells* cells, int32_t code) noexcept nogil:
    """Return the code that replaces `code` as threshold: centred in the gap between values that occur in the node.

    If no larger value occurs, all values go left.
    """
    cdef int32_t low = code, high = code + 1, n_codes = cells.feature.n_codes
    while high < n_codes and is_empty(cells.histogram, cells.feature.offset + high):
        high += 1
    if high == n_codes:
        return n_codes - 1
    while low > 1 and is_empty(cells.histogram, cells.feature.offset + low):
        low -= 1
    return middle_code(cells.feature.thresholds, low, high)


cdef float64_t _full_gain(const Scan* scan) noexcept nogil:
    """Return the children's scores minus the parent's for the best split in `scan`, whose gain may omit a constant."""
    cdef Sums right
    if scan.limits != NULL:
        return scan.gain
    right = sums_difference(&scan.total, &scan.left)
    return node_score(&scan.left, scan.l2) + node_score(&right, scan.l2) - scan.node_score


cdef inline float64_t _least_gain(const Scan* scan, float64_t worth) noexcept nogil:
    """Return a bound on the gain that the threshold loops compute: up to it, the full gain is below `worth`.

    The bound includes a safety margin: for sums of at most 2**25 hessian steps, rounding errors are at most 2**-37 of
    the gains or of the scores.
    """
    cdef float64_t least = worth - (worth + fabs(scan.node_score)) * MARGIN
    if scan.limits == NULL:
        least = (least + scan.node_score - scan.ratio * <float64_t>scan.total.gradient) / scan.hessian
    return max(least, 0.0)


cdef void best_split_of_feature(
    const FeatureCells* cells, const Scan* start, const Split* so_far, Split* best
) noexcept nogil:
    """Write the feature's best split to `best`, searching from the initial state `start`.

    `best.feature` is -1 if no split is allowed or exceeds the minimum gain, or if all are worse than `so_far`, the best
    split of other features.
    """
    cdef Scan scan = start[0]
    scan.monotone = cells.feature.monotone
    if so_far.feature >= 0 and _sums_are_packed(cells, &scan):
        scan.gain = _least_gain(&scan, so_far.gain)
    best.feature = -1
    best.gain = 0.0
    if cells.feature.is_categorical:
        scan_categories(cells, &scan)
    else:
        _scan_numeric(cells, &scan)
    if not scan.found:
        return
    best.gain = _full_gain(&scan)
    if best.gain > cells.rules.min_gain:
        best.feature = cells.feature.index
        best.bin = scan.bin if cells.feature.is_categorical else centre_of_gap(cells, scan.bin)
        best.missing_left = scan.missing_left
        best.category_set = -1
        best.left = scan.left
