"""Log probabilities of rows under models in which columns depend on the class and on one or two other columns.

Codes are stored column after column: 0 for a missing value, p + 1 for category p, one more for a category never seen.
"""

from libc.math cimport INFINITY

from fastens.engine.exact cimport exp, log
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint16_t
from fastens.engine.team cimport share_until_interrupted

ctypedef fused any_code_t:
    uint8_t
    uint16_t

cdef enum:
    ROWS = 256          # a block's scores, and the part of the table that one parent needs, stay in the cache


cdef void _add_family(
    const any_code_t* codes, const any_code_t* parent, const float64_t* table, const Py_ssize_t* shape, float64_t* out
) noexcept nogil:
    # shape: rows, codes of the column, classes; parent NULL: none
    cdef Py_ssize_t n = shape[0], width = shape[1], n_classes = shape[2]
    cdef Py_ssize_t i, c
    cdef const float64_t* entry
    for i in range(n):
        entry = table + ((width * parent[i] if parent != NULL else 0) + codes[i]) * n_classes
        for c in range(n_classes):
            out[i * n_classes + c] += entry[c]


cdef struct Families:
    const void* codes
    int32_t code_size
    const int64_t* parents
    const int64_t* widths
    const int64_t* starts
    const float64_t* table
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t n_classes
    float64_t* out


cdef inline void _add_block(const Families* families, const any_code_t* codes, Py_ssize_t first) noexcept nogil:
    cdef Py_ssize_t[3] shape
    cdef Py_ssize_t j
    shape[0], shape[2] = min(<Py_ssize_t> ROWS, families.n_rows - first), families.n_classes
    for j in range(families.n_features):
        shape[1] = families.widths[j]
        _add_family(
            codes + j * families.n_rows,
            codes + families.parents[j] * families.n_rows if families.parents[j] >= 0 else NULL,
            families.table + families.starts[j] * families.n_classes, shape,
            families.out + first * families.n_classes)


cdef void _block_piece(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef const Families* families = <const Families*> job
    cdef Py_ssize_t first = block * ROWS
    if families.code_size == sizeof(uint8_t):
        _add_block(families, <const uint8_t*> families.codes + first, first)
    else:
        _add_block(families, <const uint16_t*> families.codes + first, first)


def add_families(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] parents,
    const int64_t[::1] widths,
    const int64_t[::1] starts,
    const float64_t[:, ::1] table,
    float64_t[:, ::1] out,
    int n_threads,
):
    """Add to out[i] the rows table[starts[j] + widths[j] * codes[parents[j], i] + codes[j, i]] of all columns j."""
    cdef Families families = Families(
        &codes[0, 0], sizeof(any_code_t), &parents[0], &widths[0], &starts[0], &table[0, 0], codes.shape[0],
        codes.shape[1], out.shape[1], &out[0, 0])
    with nogil:
        share_until_interrupted(_block_piece, &families, (families.n_rows + ROWS - 1) // ROWS, n_threads)


cdef struct Averaged:
    # Models of which each has one column, or two, as parents of all others: place[start + codes of the parents], the
    # row of the table for their values, or -1 where these are no parents; and table[row, other cell, class], the log
    # probability of the other cell given the parents and the class. Among the cells of the parents themselves there is
    # once that of parents and class together, and 0 otherwise.
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t n_cells
    Py_ssize_t n_classes
    Py_ssize_t n_models
    const void* codes
    int32_t code_size
    const int64_t* models       # first parent, second or -1, start, and what one code of the first moves
    const int64_t* place
    const int64_t* offsets
    const float64_t* table
    float64_t* out
    float64_t* totals
    int32_t* n_parents
    Py_ssize_t block_rows       # of which each thread has room for scores and places
    float64_t* scores
    int64_t* places


cdef Py_ssize_t _find_places(
    const Averaged* given, const any_code_t* codes, const int64_t* model, Py_ssize_t n, int64_t* places
) noexcept nogil:
    # The table's row for the parents' values in each row of the block; how many rows have one
    cdef const any_code_t* first = codes + model[0] * given.n_rows
    cdef const any_code_t* second = codes + (model[1] if model[1] >= 0 else model[0]) * given.n_rows
    cdef const int64_t* place = given.place + model[2]
    cdef Py_ssize_t i, n_found = 0
    for i in range(n):
        places[i] = place[first[i] * model[3] + (second[i] if model[1] >= 0 else 0)]
        n_found += places[i] >= 0
    return n_found


cdef void _score_model(
    const Averaged* given, const any_code_t* codes, const int64_t* places, Py_ssize_t n, float64_t* scores
) noexcept nogil:
    # Log probability of each row and class by one of the models; a row without a place has that of place 0
    cdef Py_ssize_t n_classes = given.n_classes
    cdef Py_ssize_t j, i, c
    cdef const float64_t* part
    cdef const float64_t* entry
    cdef const any_code_t* other
    cdef Py_ssize_t stride = given.n_cells * n_classes
    for i in range(n * n_classes):
        scores[i] = 0.0
    for j in range(given.n_features):
        other = codes + j * given.n_rows
        part = given.table + given.offsets[j] * n_classes
        for i in range(n):
            entry = part + (places[i] if places[i] >= 0 else 0) * stride + other[i] * n_classes
            for c in range(n_classes):
                scores[i * n_classes + c] += entry[c]


cdef inline void _add_log(float64_t score, float64_t* largest, float64_t* total) noexcept nogil:
    # total * exp(largest) += exp(score), largest being the greatest score so far
    if score <= largest[0]:
        if score != -INFINITY:
            total[0] += exp(score - largest[0])
    else:
        total[0] = total[0] * exp(largest[0] - score) + 1.0
        largest[0] = score


cdef void _average_block(
    const Averaged* given, const any_code_t* codes, Py_ssize_t n, float64_t* out, float64_t* totals, float64_t* scores,
    int64_t* places, int32_t* n_parents
) noexcept nogil:
    cdef Py_ssize_t n_classes = given.n_classes
    cdef Py_ssize_t model, i, c
    for model in range(given.n_models):
        if _find_places(given, codes, given.models + 4 * model, n, places) == 0:
            continue
        _score_model(given, codes, places, n, scores)
        for i in range(n):
            if places[i] >= 0:
                n_parents[i] += 1
                for c in range(i * n_classes, (i + 1) * n_classes):
                    _add_log(scores[c], out + c, totals + c)
    for i in range(n * n_classes):
        if totals[i] > 0.0:
            out[i] += log(totals[i])


cdef inline void _average_rows(
    const Averaged* given, const any_code_t* codes, Py_ssize_t first, int32_t thread
) noexcept nogil:
    cdef Py_ssize_t room = thread * given.block_rows
    _average_block(
        given, codes + first, min(given.block_rows, given.n_rows - first), given.out + first * given.n_classes,
        given.totals + first * given.n_classes, given.scores + room * given.n_classes, given.places + room,
        given.n_parents + first)


cdef void _average_piece(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef const Averaged* given = <const Averaged*> job
    if given.code_size == sizeof(uint8_t):
        _average_rows(given, <const uint8_t*> given.codes, block * given.block_rows, thread)
    else:
        _average_rows(given, <const uint16_t*> given.codes, block * given.block_rows, thread)


def average_parents(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] offsets,
    const int64_t[:, ::1] models,
    const int64_t[::1] place,
    const float64_t[:, :, ::1] table,
    float64_t[:, ::1] out,
    float64_t[:, ::1] totals,
    int32_t[::1] n_parents,
    float64_t[:, ::1] scores,
    int64_t[:, ::1] places,
):
    """Write to out[i] the log of the sum over models of the row's probabilities, -inf where no model applies.

    `out` starts as -inf, `totals` and `n_parents` as 0. For each of the threads to use `places` has room for as many
    rows as are to be scored at a time, so that what they need of the table stays in the cache, and `scores` for those
    by classes.
    """
    cdef Averaged given
    given.n_features, given.n_rows = codes.shape[0], codes.shape[1]
    given.n_cells, given.n_classes, given.n_models = table.shape[1], table.shape[2], models.shape[0]
    given.offsets, given.models, given.place = &offsets[0], &models[0, 0], &place[0]
    given.table, given.codes, given.code_size = &table[0, 0, 0], &codes[0, 0], sizeof(any_code_t)
    given.out, given.totals, given.n_parents = &out[0, 0], &totals[0, 0], &n_parents[0]
    given.scores, given.places, given.block_rows = &scores[0, 0], &places[0, 0], places.shape[1]
    cdef Py_ssize_t n_blocks = (given.n_rows + given.block_rows - 1) // given.block_rows
    with nogil:
        share_until_interrupted(_average_piece, &given, n_blocks, <int32_t> places.shape[0])
