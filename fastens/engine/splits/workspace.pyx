"""Workspace of tree growth, the stable partition of rows, and the criteria by name."""

from libc.stdint cimport INT32_MAX
from libc.string cimport memset
from fastens.engine.bins.pages cimport track_resident_rows
from fastens.engine.splits.goes_left cimport set_has, set_size, up_to_uint16_t
from fastens.engine.rows.stored_rows cimport place_of_row
from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from fastens.engine.heap cimport Candidate
from fastens.engine.histograms.cells cimport Histogram, Sums
from fastens.engine.splits.gain cimport ScanBuffer, Split
from fastens.engine.histograms.quantise cimport Moments
from fastens.engine.memory cimport Plan, carve, larger_capacity, resize
from fastens.engine.paths cimport mask_words, next_feature


cdef extern from "engine/splits/split_rows.h" nogil:
    void fill_lane_orders()
    Py_ssize_t split_eights(
        const uint8_t* codes, Py_ssize_t step, const uint8_t* goes_left, const uint32_t* rows, Py_ssize_t n,
        uint32_t* scratch, Py_ssize_t* n_left,
    )

cdef enum:
    BYTE_CODES = 256

fill_lane_orders()


# How the side of a code is determined: by a lookup table, or by evaluating the decision if there are too many codes.
cdef enum Look:
    TABLE
    THRESHOLD
    SET


cdef void _fill_table(const Decision* decision, uint8_t* goes_left) noexcept nogil:
    """Set goes_left[code] to 1 for each one-byte code that the decision sends left, and to 0 for others."""
    cdef int32_t code
    if decision.category_words == NULL:
        memset(goes_left, True, decision.bin + 1)
        memset(goes_left + decision.bin + 1, False, BYTE_CODES - 1 - decision.bin)
        goes_left[0] = decision.missing_left
        return
    for code in range(decision.n_codes):
        goes_left[code] = set_has(decision.category_words, code)


cdef inline Py_ssize_t _is_left(
    const uint8_t* place, const void* rule, uint16_t shift, uint16_t limit, Look look
) noexcept nogil:
    """Return 1 if the code at address `place` goes left, and 0 otherwise.

    `rule` is the table or the category set; `shift` and `limit` define the threshold.
    """
    cdef uint16_t code
    if look == TABLE:
        return (<const uint8_t*>rule)[place[0]]
    code = (<const uint16_t*>place)[0]
    if look == THRESHOLD:
        return up_to_uint16_t(code, shift, limit)
    return set_has(<const uint32_t*>rule, code)


cdef inline Py_ssize_t _split_dense(
    const Decision* decision, const void* rule, Look look, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    """Partition rows of dense codes like `split_rows`; `rule` is the table or set of `look`. Return the left count.

    It handles four rows per iteration without branches: each row is written to both ends, and one end advances.
    """
    cdef const uint8_t* column = <const uint8_t*>decision.column
    cdef Py_ssize_t step = decision.row_step
    cdef uint16_t shift = 0 if decision.missing_left else 1
    cdef uint16_t limit = <uint16_t>(decision.bin - shift)
    cdef uint32_t* back
    cdef Py_ssize_t i = 0, k, n_left = 0
    cdef Py_ssize_t is_left[4]
    if look == TABLE:
        i = split_eights(column, step, <const uint8_t*>rule, rows, n_rows, scratch, &n_left)
    back = scratch + n_rows - 1 - i
    while i + 4 <= n_rows:
        for k in range(4):
            is_left[k] = _is_left(column + step * rows[i + k], rule, shift, limit, look)
        for k in range(4):
            scratch[n_left] = (back - k)[n_left] = rows[i + k]
            n_left += is_left[k]
        back -= 4
        i += 4
    for i in range(i, n_rows):
        scratch[n_left] = back[n_left] = rows[i]
        n_left += _is_left(column + step * rows[i], rule, shift, limit, look)
        back -= 1
    return n_left


cdef inline Py_ssize_t _code_is_left(const Decision* decision, int32_t code) noexcept nogil:
    """Return 1 if a code goes left by the decision, and 0 otherwise."""
    if decision.category_words != NULL:
        return set_has(decision.category_words, code)
    return decision.missing_left if code == 0 else code <= decision.bin


cdef Py_ssize_t _split_stored(
    const Decision* decision, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    """Partition rows of a sparse column like `split_rows`, by merging them with the rows that have a stored code."""
    cdef Py_ssize_t zeros_left = _code_is_left(decision, decision.zero_code), is_left, i, place = 0, n_left = 0
    cdef uint32_t* back = scratch + n_rows - 1
    cdef int32_t code
    for i in range(n_rows):
        place = place_of_row(decision.stored_rows, decision.n_stored, place, rows[i])
        is_left = zeros_left
        if place < decision.n_stored and <uint32_t>decision.stored_rows[place] == rows[i]:
            if decision.code_size == 1:
                code = (<const uint8_t*>decision.column)[place]
            else:
                code = (<const uint16_t*>decision.column)[place]
            is_left = _code_is_left(decision, code)
        scratch[n_left] = back[n_left] = rows[i]
        n_left += is_left
        back -= 1
    return n_left


cdef Py_ssize_t split_rows(
    const Decision* decision, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    """Write the rows that go left to the front of `scratch`, the others reversed to its back; return the left count."""
    cdef uint8_t goes_left[BYTE_CODES]
    if decision.stored_rows != NULL:
        return _split_stored(decision, rows, n_rows, scratch)
    if n_rows > 0:
        track_resident_rows(decision.pages, rows[0], rows[n_rows - 1], n_rows, decision.row_step)
    if decision.code_size == 1:
        _fill_table(decision, goes_left)
        return _split_dense(decision, goes_left, TABLE, rows, n_rows, scratch)
    if decision.category_words == NULL:
        return _split_dense(decision, NULL, THRESHOLD, rows, n_rows, scratch)
    return _split_dense(decision, decision.category_words, SET, rows, n_rows, scratch)


cdef void collect_rows(
    const uint32_t* scratch, Py_ssize_t n_rows, Py_ssize_t n_left, uint32_t* left, uint32_t* right
) noexcept nogil:
    """Copy rows partitioned by `split_rows` to `left` and `right`; n_left of the n_rows rows in `scratch` go left."""
    cdef Py_ssize_t i
    for i in range(n_left):
        left[i] = scratch[i]
    for i in range(n_rows - n_left):
        right[i] = scratch[n_rows - 1 - i]


cdef enum:
    # Columns are divided into parts for a node of this size. The parts never change, so that each thread finds the
    # parent's cells in its cache.
    USUAL_ROWS = 1 << 8
    # Limit on the total bytes of stored histograms.
    MAX_SLOT_BYTES = 1 << 30
    MIN_SLOTS = 4


cdef void _place_cells(Workspace* ws) noexcept nogil:
    """Set the offsets of all features' cells; cells of bundled features are contiguous after all columns' cells."""
    cdef Column* column
    cdef Feature* feature
    cdef int32_t c, i
    ws.table.n_cells = ws.table.n_counted
    for c in range(ws.table.n_columns):
        column = &ws.columns[c]
        column.first_own, column.n_own = column.offset, 0
        if column.n_features > 1:
            column.first_own = <uint32_t>ws.table.n_cells
        for i in range(column.n_features):
            feature = &ws.features[column.features[i]]
            feature.offset = column.first_own + column.n_own
            column.n_own += feature.n_codes
        if column.n_features > 1:
            ws.table.n_cells += column.n_own


cdef int64_t _work_of_columns(const Workspace* ws, const Node* node, int32_t first, int32_t end) noexcept nogil:
    """Return the expected work of counting and searching the active columns first .. end - 1 for a node."""
    cdef const uint64_t* active = active_columns(ws, max(node.parent, 0))
    cdef int64_t n_stored = 0, n_codes = 0, n_columns = 0
    cdef int32_t c = next_feature(active, first, end)
    while c < end:
        if ws.stored_rows != NULL:
            n_stored += ws.first_stored[c + 1] - ws.first_stored[c]
        n_columns += 1
        n_codes += ws.columns[c].n_codes
        c = next_feature(active, c + 1, end)
    if ws.stored_rows == NULL:
        return USUAL_ROWS * n_columns + UPDATES_PER_CODE * n_codes
    return n_stored * (node.end - node.begin) // ws.nodes[0].end + UPDATES_PER_CODE * n_codes


cdef void divide_columns(Workspace* ws, const Node* node, int32_t n_pieces) noexcept nogil:
    """Divide the columns into n_pieces pieces of equal work for a node; write their bounds to ws.first_columns.

    Pieces of sparse tables begin at a word of the masks of columns.
    """
    cdef int32_t piece, c = 0, n = ws.table.n_columns, step = 1 if ws.n_words == 0 else 64
    cdef int64_t work = 0, all_work = _work_of_columns(ws, node, 0, n)
    for piece in range(n_pieces):
        while c < n and work * n_pieces < piece * all_work:
            work += _work_of_columns(ws, node, c, min(c + step, n))
            c = min(c + step, n)
        ws.first_columns[piece] = c
    ws.first_columns[n_pieces] = n


cdef bint allocate_workspace(Workspace* ws, Py_ssize_t n_rows) noexcept nogil:
    """Allocate the arrays for n_rows rows by the sizes set in `ws`, and place cells; return False if memory runs out.

    After a failure, free_workspace cleans up.
    """
    cdef Py_ssize_t widest = 1
    cdef int32_t f
    cdef Plan plan = Plan(NULL, 0)
    _place_cells(ws)
    ws.feature_bits = 2
    while <int64_t>1 << ws.feature_bits < ws.table.n_features:
        ws.feature_bits += 1
    for f in range(ws.table.n_features):
        widest = max(widest, ws.features[f].n_codes)
        if ws.features[f].is_categorical:
            ws.words_per_node = max(ws.words_per_node, set_size(ws.features[f].n_codes))
    ws.rooms = <ScanBuffer*>calloc(ws.max_threads, sizeof(ScanBuffer))
    if ws.rooms == NULL:
        return False
    _plan_workspace(ws, n_rows, widest, &plan)
    ws.memory = calloc(plan.size, 1)
    if ws.memory == NULL:
        return False
    plan = Plan(<char*>ws.memory, 0)
    _plan_workspace(ws, n_rows, widest, &plan)
    return True


cdef void _plan_workspace(Workspace* ws, Py_ssize_t n_rows, Py_ssize_t widest, Plan* plan) noexcept nogil:
    """Carve the arrays of `ws` and of its threads from the plan, or only add up their size.

    `widest` is the largest number of codes of a feature.
    """
    cdef Py_ssize_t n_features = ws.table.n_features, n_threads = ws.max_threads
    cdef ScanBuffer* room
    cdef int32_t t
    ws.rows = <uint32_t*>carve(plan, n_rows, sizeof(uint32_t))
    ws.scratch_rows = <uint32_t*>carve(plan, n_rows, sizeof(uint32_t))
    ws.zeros = <uint64_t*>carve(plan, n_threads * ws.table.n_counted, sizeof(uint64_t))
    ws.partial = <int64_t*>carve(plan, 3 * n_threads * ws.n_outputs * ws.table.n_cells, sizeof(int64_t))
    ws.histograms = <Histogram*>carve(plan, 3 * ws.n_outputs * n_threads, sizeof(Histogram))
    ws.sampled = <int32_t*>carve(plan, n_threads * n_features, sizeof(int32_t))
    ws.masks = <uint64_t*>carve(plan, 2 * n_threads * mask_words(ws.table.n_features), sizeof(uint64_t))
    ws.allowed = <uint8_t*>carve(plan, 2 * n_threads * n_features, 1)
    ws.of_tree = <uint8_t*>carve(plan, n_features, 1)
    ws.best_splits = <Split*>carve(plan, 2 * n_threads, sizeof(Split))
    ws.first_columns = <int32_t*>carve(plan, n_threads * PIECES_PER_THREAD + 1, sizeof(int32_t))
    for t in range(ws.max_threads):
        room = &ws.rooms[t]
        room.keys = <float64_t*>carve(plan, widest, sizeof(float64_t))
        room.codes = <int32_t*>carve(plan, widest, sizeof(int32_t))
        room.sums = <uint64_t*>carve(plan, widest, sizeof(uint64_t))
        room.gradients = <float64_t*>carve(plan, widest, sizeof(float64_t))
        room.hessians = <float64_t*>carve(plan, widest, sizeof(float64_t))
        room.left = <Sums*>carve(plan, ws.n_outputs, sizeof(Sums))
        room.pooled_of_outputs = <Sums*>carve(plan, ws.n_outputs, sizeof(Sums))


cdef void free_workspace(Workspace* ws) noexcept nogil:
    """Free all memory that belongs to the workspace."""
    cdef int32_t i
    for i in range(ws.n_slots):
        free(ws.slots[i])
    for i in range(MAX_PENDING_SUMS):
        free(ws.travelling[i].cells)
    if ws.outputs != NULL:
        for i in range(ws.n_outputs):
            free(ws.outputs[i].quantised.wide)
        free(ws.outputs[0].quantised.words)
    free(ws.outputs)
    free(ws.sums_of_nodes)
    free(ws.left_sums_of_nodes)
    free(ws.slots)
    free(ws.free_slots)
    free(ws.rooms)
    free(ws.memory)
    free(ws.active)
    free(ws.features)
    free(ws.columns)
    free(ws.nodes)
    free(ws.candidates)
    free(ws.chosen)
    free(ws.tasks)
    free(ws.sums)
    free(ws.leaf_rows)
    free(ws.category_words)


cdef bint reserve_nodes(Workspace* ws, int32_t n_more) noexcept nogil:
    """Reserve space for n_more nodes with their candidates, tasks, sums and sets; return False if memory runs out."""
    cdef Py_ssize_t capacity, wanted = ws.n_nodes + <Py_ssize_t>n_more
    if wanted <= ws.node_capacity:
        return True
    capacity = larger_capacity(ws.node_capacity, wanted, 64)
    # Category sets are addressed by 32-bit indices of their first words.
    if capacity < 0 or wanted * ws.words_per_node > INT32_MAX:
        return False
    if not (
        resize(<void**>&ws.nodes, capacity * sizeof(Node))
        and resize(<void**>&ws.candidates, capacity * sizeof(Candidate))
        and resize(<void**>&ws.chosen, capacity * sizeof(int32_t))
        and resize(<void**>&ws.tasks, capacity * sizeof(Task))
        and resize(<void**>&ws.sums, capacity * (ws.n_outputs + ws.max_threads - 1) * sizeof(Moments))
        # Each of the (capacity + 1) / 2 leaves may have two ranges of rows.
        and resize(<void**>&ws.leaf_rows, (capacity + 1) * ws.max_threads * sizeof(LeafRows))
    ):
        return False
    if not resize(<void**>&ws.active, capacity * ws.n_words * sizeof(uint64_t)):
        return False
    if ws.words_per_node > 0:
        if not resize(<void**>&ws.category_words, capacity * ws.words_per_node * sizeof(uint32_t)):
            return False
    if ws.n_outputs > 1:
        if not (
            resize(<void**>&ws.sums_of_nodes, capacity * ws.n_outputs * sizeof(Sums))
            and resize(<void**>&ws.left_sums_of_nodes, capacity * ws.n_outputs * sizeof(Sums))
        ):
            return False
    ws.node_capacity = <int32_t>capacity
    return True


cdef inline Py_ssize_t _slot_bytes(const Workspace* ws) noexcept nogil:
    """Return the size in bytes of a slot, which stores the histograms of a node for all outputs."""
    return 4 * ws.n_outputs * ws.table.n_cells * <Py_ssize_t>sizeof(int64_t)


cdef int32_t take_slot(Workspace* ws) noexcept nogil:
    """Return the index of a free histogram slot, or -1 if no memory is left: nodes without a slot only cost time."""
    if ws.n_free > 0:
        ws.n_free -= 1
        return ws.free_slots[ws.n_free]
    if ws.n_slots >= max(MIN_SLOTS, MAX_SLOT_BYTES // _slot_bytes(ws)):
        return -1
    if not (
        resize(<void**>&ws.slots, (ws.n_slots + 1) * sizeof(int64_t*))
        and resize(<void**>&ws.free_slots, (ws.n_slots + 1) * sizeof(int32_t))
    ):
        return -1
    ws.slots[ws.n_slots] = <int64_t*>malloc(_slot_bytes(ws))
    if ws.slots[ws.n_slots] == NULL:
        return -1
    ws.n_slots += 1
    return ws.n_slots - 1


cdef void release_slot(Workspace* ws, Node* node) noexcept nogil:
    """Release the slot of a node, if it has one."""
    if node.slot >= 0:
        ws.free_slots[ws.n_free] = node.slot
        ws.n_free += 1
        node.slot = -1


cdef void release_all_slots(Workspace* ws) noexcept nogil:
    """Mark all slots as free."""
    for ws.n_free in range(ws.n_slots):
        ws.free_slots[ws.n_free] = ws.n_free
    ws.n_free = ws.n_slots


cdef Py_ssize_t rows_in_cells(const Workspace* ws, const Node* node, int32_t output) noexcept nogil:
    """Return a number of rows, at most the node's, that packed cells of one output can hold with certainty."""
    cdef Py_ssize_t n_rows = node.end - node.begin
    if 0 < ws.most_stored <= ws.outputs[output].quantised.layout.max_rows:
        return n_rows       # only cells of zeros may overflow, which the search takes into account
    if ws.root_is_packed if node.parent < 0 else ws.codes_are_rare:
        return n_rows
    return min(n_rows, ws.outputs[output].quantised.layout.max_rows)


cdef inline bint _fits_packed(const Workspace* ws, const Node* node, int32_t output) noexcept nogil:
    """Return True if the node's histogram for one output is packed, because its cells can hold all rows."""
    if not ws.outputs[output].quantised.narrow or ws.ranks != NULL:
        return False
    return rows_in_cells(ws, node, output) == node.end - node.begin


cdef Histogram node_histogram(const Workspace* ws, const Node* node, int32_t slot, int32_t output) noexcept nogil:
    """Return one output's histogram of a node in slot `slot`, in the form (packed or wide) that fits its rows.

    Packed cells of all outputs precede the wide ones: while a wide histogram is turned into a packed one, threads that
    process different features read the former and write the latter.
    """
    cdef Histogram histogram
    histogram.packed = _fits_packed(ws, node, output)
    histogram.cells = ws.slots[slot] + (output if histogram.packed else ws.n_outputs + 3 * output) * ws.table.n_cells
    return histogram


cdef Histogram partial_histogram(const Workspace* ws, const Node* node, int32_t thread, int32_t output) noexcept nogil:
    """Return one output's histogram in a thread's workspace, for the rows of the node that this thread counts."""
    cdef Histogram histogram
    histogram.packed = _fits_packed(ws, node, output)
    histogram.cells = ws.partial + 3 * (<Py_ssize_t>thread * ws.n_outputs + output) * ws.table.n_cells
    return histogram


CRITERIA = {
    "gini": SQUARES, "squared_error": SQUARES, "entropy": ENTROPY, "log_loss": ENTROPY, "poisson": POISSON,
    "error": ERROR, "absolute_error": ABSOLUTE,
}
