"""Memory of a thread that searches for splits."""

from libc.stdlib cimport calloc, free

from fastens.engine.forest.splits.score cimport uses_medians
from fastens.engine.forest.splits.structs cimport (
    FEATURES_AT_ONCE, Forest, Layout, MedianScratch, Scratch, binds_paths, mask_words
)
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef enum:
    ALIGNMENT = 64


cdef struct Plan:
    # Parts of one block of memory: measured while memory is NULL, handed out in a second pass.
    char* memory
    Py_ssize_t size


cdef void* _part(Plan* plan, Py_ssize_t n, Py_ssize_t size) noexcept nogil:
    cdef void* part = plan.memory + plan.size if plan.memory != NULL else NULL
    plan.size += (n * size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return part


cdef void _plan_cells(const Forest* forest, const Layout* layout, Scratch* scratch, Plan* plan) noexcept nogil:
    cdef Py_ssize_t n_codes = forest.table.max_codes
    cdef int32_t j
    for j in range(FEATURES_AT_ONCE):
        # One cache line more, so that the same codes of two features do not compete for a place in the cache.
        scratch.cells[j].cells = <uint64_t*>_part(plan, n_codes * layout.n_words + 8, sizeof(uint64_t))
        scratch.cells[j].marks = <uint64_t*>_part(plan, 4 if forest.table.code_size == 1 else 1024, sizeof(uint64_t))
        scratch.cells[j].summary = <uint64_t*>_part(plan, 16, sizeof(uint64_t))


cdef void _plan_scratch(
    const Forest* forest, const Layout* layout, Py_ssize_t n_entries, Scratch* scratch, Plan* plan
) noexcept nogil:
    cdef Py_ssize_t n_codes = forest.table.max_codes, n_stats = forest.targets.n_stats + 1
    _plan_cells(forest, layout, scratch, plan)
    scratch.codes = <uint16_t*>_part(plan, n_codes + 1, sizeof(uint16_t))
    scratch.found = <uint64_t*>_part(plan, 2 * (n_codes + 1) * layout.n_words, sizeof(uint64_t))
    scratch.left = <uint64_t*>_part(plan, 2 * layout.n_words, sizeof(uint64_t))
    scratch.total = <uint64_t*>_part(plan, layout.n_words, sizeof(uint64_t))
    scratch.stats = <float64_t*>_part(plan, n_stats, sizeof(float64_t))
    scratch.sums = <uint64_t*>_part(plan, n_codes + 1, sizeof(uint64_t))
    scratch.gains = <float64_t*>_part(plan, n_codes + 1, sizeof(float64_t))
    scratch.order = <int32_t*>_part(plan, 2 * (n_codes + 1), sizeof(int32_t))
    scratch.axis = <float64_t*>_part(plan, 2 * n_stats, sizeof(float64_t))
    scratch.drawn = <int32_t*>_part(plan, forest.table.n_features, sizeof(int32_t))
    scratch.set_words = <uint32_t*>_part(plan, scratch.n_set_words, sizeof(uint32_t))
    scratch.visited = <uint64_t*>_part(plan, scratch.n_mask_words, sizeof(uint64_t))
    if forest.rules.random_thresholds:
        # A few cache lines more, so that the features' codes do not compete for a place in the cache.
        scratch.n_row_codes = (n_entries + 5 * ALIGNMENT) // ALIGNMENT * ALIGNMENT
        scratch.row_codes = <uint8_t*>_part(plan, FEATURES_AT_ONCE * scratch.n_row_codes, forest.table.code_size)
        scratch.row_words = <uint64_t*>_part(plan, n_entries, sizeof(uint64_t))
    if uses_medians(forest):
        _plan_medians(&scratch.medians, n_entries, n_codes + 1, forest.targets.n_targets, plan)


cdef void _plan_medians(
    MedianScratch* medians, Py_ssize_t n, Py_ssize_t n_groups, Py_ssize_t n_targets, Plan* plan
) noexcept nogil:
    medians.keys = <uint64_t*>_part(plan, n, sizeof(uint64_t))
    medians.rank = <int32_t*>_part(plan, n_targets * n, sizeof(int32_t))
    medians.number = <int64_t*>_part(plan, n_targets * n, sizeof(int64_t))
    medians.tree_weight = <int64_t*>_part(plan, n + 1, sizeof(int64_t))
    medians.tree_sum = <int64_t*>_part(plan, n + 1, sizeof(int64_t))
    medians.start = <int64_t*>_part(plan, n_groups + 1, sizeof(int64_t))
    medians.group = <int32_t*>_part(plan, n_groups, sizeof(int32_t))
    medians.loss = <float64_t*>_part(plan, n_groups, sizeof(float64_t))
    medians.left_median = <float64_t*>_part(plan, n_groups, sizeof(float64_t))
    medians.right_median = <float64_t*>_part(plan, n_groups, sizeof(float64_t))
    medians.left_weight = <int64_t*>_part(plan, n_groups, sizeof(int64_t))


cdef bint allocate_scratch(
    const Forest* forest, const Layout* layout, Py_ssize_t n_entries, Scratch* scratch
) noexcept nogil:
    """Allocate for trees of so many rows; cells are zero."""
    cdef Plan plan
    free(scratch.memory)
    scratch.n_mask_words = mask_words(forest) * (1 + binds_paths(forest))
    scratch.n_set_words = (forest.table.max_codes + 31) // 32
    plan.memory, plan.size = NULL, 0
    _plan_scratch(forest, layout, n_entries, scratch, &plan)
    scratch.memory = calloc(plan.size, 1)
    if scratch.memory == NULL:
        return False
    plan.memory, plan.size = <char*>scratch.memory, 0
    _plan_scratch(forest, layout, n_entries, scratch, &plan)
    return True
