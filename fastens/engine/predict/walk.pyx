"""Walks of selected rows through selected trees, for out-of-bag sums and permutation importances."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc

from fastens.engine.splits.goes_left cimport code_goes_left
from fastens.engine.strided cimport Values, strides_of, value_at, values_of
from fastens.engine.structs cimport code_t, float64_t, value_t
from fastens.engine.thread_pool cimport dynamic_parallel_for

cdef enum:
    BLOCK_ROWS = 512
    CHANGED_ROWS = 16


cdef struct Split:
    # A 16-byte node for walks. `left` is 0 for a leaf; `category_set` is -1 for a threshold.
    int32_t feature
    int32_t left
    int32_t category_set
    uint16_t threshold
    uint8_t missing_left


cdef struct Tree:
    const Split* splits
    const uint32_t* words


cdef struct Rows:
    # The codes of row r are n_features numbers from codes + r * stride on. Features derived from the same column of the
    # table change together.
    const uint8_t* codes
    Py_ssize_t stride
    Py_ssize_t n_rows
    const int32_t* column_of
    Py_ssize_t n_columns


cdef inline int32_t _next_node(const Split* split, const uint32_t* words, uint32_t code) noexcept nogil:
    """Return the child of a split, as a node of its tree, for a bin code of the split feature."""
    return split.left + (not code_goes_left(words, split.category_set, split.threshold, split.missing_left, code))


cdef inline const code_t* _row_codes(const Rows* rows, Py_ssize_t row, code_t code_type) noexcept nogil:
    """Return a pointer to the codes of a row; `code_type` is ignored, it only selects the C type of codes."""
    return <const code_t*> (rows.codes + row * rows.stride)


cdef inline int32_t _find_leaf(const Tree* tree, const code_t* codes, int32_t node) noexcept nogil:
    """Return the leaf that a row with these codes reaches from a node."""
    while tree.splits[node].left > 0:
        node = _next_node(&tree.splits[node], tree.words, codes[tree.splits[node].feature])
    return node


cdef inline int32_t _find_changed_leaf(
    const Tree* tree, const int32_t* column_of, const code_t* codes, const code_t* other, int32_t node, int32_t column
) noexcept nogil:
    """Return the leaf that a row with `codes` reaches from `node` if features of `column` have the codes `other`."""
    cdef Py_ssize_t feature
    while tree.splits[node].left > 0:
        feature = tree.splits[node].feature
        node = _next_node(
            &tree.splits[node], tree.words, other[feature] if column_of[feature] == column else codes[feature])
    return node


# Out-of-bag sums --------------------------------------------------------------------------------------------------

cdef struct LeftOut:
    # Destination of the leaf values, which are added only for rows with count 0.
    const float64_t* counts
    float64_t* sums
    int32_t* n_trees
    const Tree* tree
    const Rows* rows
    Values values                   # (n_nodes, n_values)
    Py_ssize_t n_values
    bint is_wide                    # true for two-byte codes


cdef void _add_left_out(const LeftOut* out, Py_ssize_t first, code_t code_type) noexcept nogil:
    """Add the leaf values of a tree to the sums of a block of rows, from `first` on, whose sample count is 0.

    `code_type` only selects the C type of codes.
    """
    cdef Py_ssize_t row, k, n = out.n_values
    cdef int32_t leaf
    for row in range(first, min(first + BLOCK_ROWS, out.rows.n_rows)):
        if out.counts[row] > 0:
            continue
        leaf = _find_leaf(out.tree, _row_codes(out.rows, row, code_type), 0)
        for k in range(n):
            out.sums[row * n + k] += value_at(&out.values, leaf, k)
        out.n_trees[row] += 1


cdef void _add_left_out_block(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Add the leaf values to a block's rows with count 0; the parallel task of `Walker.add_left_out`."""
    cdef const LeftOut* out = <const LeftOut*> job
    if out.is_wide:
        _add_left_out(out, block * BLOCK_ROWS, <uint16_t> 0)
    else:
        _add_left_out(out, block * BLOCK_ROWS, <uint8_t> 0)


# Permuted values ----------------------------------------------------------------------------------------------------

cdef struct Query:
    # The rows, the rows they take values from, and the targets for the loss.
    const uint32_t* rows
    const uint32_t* others
    Py_ssize_t n
    const float64_t* weights        # weights of the matrix's rows; NULL if all are 1
    const float64_t* y              # (n_rows, n_targets)
    const float64_t* answers        # (n_nodes, n_targets)
    Py_ssize_t n_targets
    bint is_class


cdef inline float64_t _loss(const Query* query, Py_ssize_t row, int32_t node) noexcept nogil:
    """Return the loss of a node's prediction for a row: the number of wrong classes, or the sum of squared errors."""
    cdef const float64_t* y = query.y + row * query.n_targets
    cdef const float64_t* answer = query.answers + node * query.n_targets
    cdef float64_t miss, loss = 0.0
    cdef Py_ssize_t k
    for k in range(query.n_targets):
        miss = y[k] - answer[k]
        loss += <float64_t> (miss != 0.0) if query.is_class else miss * miss
    return loss


cdef void _permuted_losses(
    const Tree* tree, const Rows* rows, const Query* query, int64_t* seen, float64_t* out, code_t code_type
) noexcept nogil:
    """Add each row's increase of the loss, for each column on its path, to `out`; `code_type` selects codes' type.

    The walk resumes where the row first meets the column, with the other row's codes for that column.
    """
    cdef Py_ssize_t i, row, feature
    cdef const code_t* codes
    cdef const code_t* other
    cdef int32_t node, leaf, column, changed
    cdef float64_t loss, weight
    for i in range(query.n):
        row = query.rows[i]
        codes, other = _row_codes(rows, row, code_type), _row_codes(rows, query.others[i], code_type)
        leaf = _find_leaf(tree, codes, 0)
        loss, weight = _loss(query, row, leaf), 1.0 if query.weights == NULL else query.weights[row]
        node = 0
        while tree.splits[node].left > 0:
            feature = tree.splits[node].feature
            column = rows.column_of[feature]
            if seen[column] != i + 1 and other[feature] != codes[feature]:
                seen[column] = i + 1
                changed = _find_changed_leaf(tree, rows.column_of, codes, other, node, column)
                out[column] += weight * (_loss(query, row, changed) - loss)
            node = _next_node(&tree.splits[node], tree.words, codes[feature])


cdef struct Changed:
    # Destination of the changes in prediction, (n_columns, n, n_values), for rows first to first + n.
    const uint32_t* others          # indices of rows of the matrix
    Py_ssize_t first
    Py_ssize_t n
    float64_t* out
    const Tree* tree
    const Rows* rows
    Values values                   # (n_nodes, n_values)
    Py_ssize_t n_values
    bint is_wide                    # true for two-byte codes
    int64_t* seen                   # for each thread and column, the last walk in which the column was changed
    int64_t stamp                   # number of the first row's walk


cdef void _add_row_changes(const Changed* query, Py_ssize_t i, int64_t* seen, code_t code_type) noexcept nogil:
    """Add to `query.out` the changes of a tree's value if one column of a row comes from another row, by path column.

    `i` is the index of the row within the query, `seen` is a workspace, and `code_type` only selects the C type of
    codes.
    """
    cdef const Tree* tree = query.tree
    cdef const Rows* rows = query.rows
    cdef Py_ssize_t row = query.first + i, feature, k, n = query.n_values
    cdef const code_t* codes = _row_codes(rows, row, code_type)
    cdef const code_t* other = _row_codes(rows, query.others[row], code_type)
    cdef int32_t node = 0, leaf = _find_leaf(tree, codes, 0), changed, column
    cdef float64_t* out
    while tree.splits[node].left > 0:
        feature = tree.splits[node].feature
        column = rows.column_of[feature]
        if seen[column] != query.stamp + i and other[feature] != codes[feature]:
            seen[column] = query.stamp + i
            changed = _find_changed_leaf(tree, rows.column_of, codes, other, node, column)
            out = query.out + (column * query.n + i) * n
            for k in range(n):
                out[k] += value_at(&query.values, changed, k) - value_at(&query.values, leaf, k)
        node = _next_node(&tree.splits[node], tree.words, codes[feature])


cdef void _add_block_changes(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Add the changes of one block of rows; the parallel task of `Walker.permuted_changes`."""
    cdef const Changed* query = <const Changed*> job
    cdef int64_t* seen = query.seen + thread * query.rows.n_columns
    cdef Py_ssize_t i
    for i in range(block * CHANGED_ROWS, min((block + 1) * CHANGED_ROWS, query.n)):
        if query.is_wide:
            _add_row_changes(query, i, seen, <uint16_t> 0)
        else:
            _add_row_changes(query, i, seen, <uint8_t> 0)


cdef class Walker:
    """Trees, and the binned rows that walk through them.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    matrix : BinnedMatrix
        Rows binned with the binning of the trees.
    column_of : array of shape (n_features,), optional
        Source column of each feature, if several features are derived from the same column.
    """

    cdef Split* splits
    cdef const int32_t[::1] column_of
    cdef object matrix_owner
    cdef const uint32_t[::1] words
    cdef const int64_t[::1] offsets
    cdef Rows rows
    cdef bint is_wide

    def __cinit__(self, trees, matrix, column_of=None):
        cdef Py_ssize_t i
        splits = trees.splits()
        cdef const int32_t[::1] feature = splits.feature, left = splits.left_child, sets = splits.category_set
        cdef const uint16_t[::1] threshold = splits.bin_threshold
        cdef const uint8_t[::1] missing_left = splits.missing_left
        cdef const uint8_t[:, ::1] records = matrix.records
        self.words = trees.category_words if len(trees.category_words) else np.zeros(1, dtype=np.uint32)
        self.offsets = trees.node_offsets
        self.matrix_owner = matrix
        columns = np.arange(matrix.n_features) if column_of is None else column_of
        self.column_of = columns.astype(np.int32)
        self.rows = Rows(
            &records[0, 0], records.shape[1], records.shape[0], &self.column_of[0], max(self.column_of) + 1)
        self.is_wide = matrix.columns.itemsize == 2
        self.splits = <Split*> malloc(max(feature.shape[0], 1) * sizeof(Split))
        if self.splits == NULL:
            raise MemoryError
        for i in range(feature.shape[0]):
            self.splits[i] = Split(feature[i], left[i], sets[i], threshold[i], missing_left[i])

    def __dealloc__(self):
        free(self.splits)

    cdef Tree _tree(self, Py_ssize_t t) noexcept nogil:
        """Return tree t, as pointers to its splits and to the words of all category sets."""
        return Tree(self.splits + self.offsets[t], &self.words[0])

    def add_left_out(
        self, Py_ssize_t t, const value_t[:, :] values, const float64_t[::1] counts, float64_t[:, ::1] sums,
        int32_t[::1] n_trees, int n_threads
    ):
        """Add the values of tree t to `sums` for the rows that its sample left out, and 1 to their `n_trees`.

        `values` has shape (n_nodes, n_values), and `counts` is how often the tree's sample holds each row.
        """
        cdef Tree tree = self._tree(t)
        cdef LeftOut out = LeftOut(
            &counts[0], &sums[0, 0], &n_trees[0], &tree, &self.rows, values_of(values), values.shape[1], self.is_wide
        )
        with nogil:
            dynamic_parallel_for(
                _add_left_out_block, &out, (self.rows.n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS, n_threads
            )

    def permuted_losses(
        self, Py_ssize_t t, const uint32_t[:, ::1] pairs, const float64_t[::1] weights, const float64_t[:, ::1] y,
        const float64_t[:, ::1] answers, bint is_class, float64_t[::1] increase
    ):
        """Add to `increase`, for each column, the increase of the loss if rows take its values from other rows.

        `pairs` holds the rows and, for each, the row it takes the value from. `answers` holds the predictions of tree
        t's nodes. The loss is the weighted sum of wrong classes, or of squared errors.
        """
        cdef Tree tree = self._tree(t)
        cdef Query query
        cdef int64_t[::1] seen = np.zeros(self.rows.n_columns, dtype=np.int64)
        query.rows, query.others, query.n = &pairs[0, 0], &pairs[1, 0], pairs.shape[1]
        query.weights = &weights[0] if weights is not None else NULL
        query.y, query.answers, query.n_targets, query.is_class = &y[0, 0], &answers[0, 0], y.shape[1], is_class
        with nogil:
            if self.is_wide:
                _permuted_losses(&tree, &self.rows, &query, &seen[0], &increase[0], <uint16_t> 0)
            else:
                _permuted_losses(&tree, &self.rows, &query, &seen[0], &increase[0], <uint8_t> 0)

    def permuted_changes(
        self, const value_t[:, :] values, const uint32_t[::1] others, Py_ssize_t first, Py_ssize_t last, int n_threads
    ):
        """Return the change of the summed tree values of rows first to last if one column comes from another row.

        The shape is (n_columns, last - first, n_values). Row i takes the values of row `others[i]`, one column at a
        time.
        """
        cdef Py_ssize_t t, n_trees = self.offsets.shape[0] - 1
        cdef Tree tree
        cdef Changed query
        out = np.zeros((self.rows.n_columns, last - first, values.shape[1]))
        cdef float64_t[:, :, ::1] change = out
        cdef int64_t[:, ::1] seen = np.zeros((n_threads, self.rows.n_columns), dtype=np.int64)
        query.others, query.first, query.n, query.is_wide = &others[0], first, last - first, self.is_wide
        query.n_values = values.shape[1]
        query.out, query.tree, query.rows, query.seen = &change[0, 0, 0], &tree, &self.rows, &seen[0, 0]
        for t in range(n_trees):
            tree, query.stamp = self._tree(t), t * query.n + 1
            query.values = Values(&values[self.offsets[t], 0], sizeof(value_t), strides_of(values))
            with nogil:
                dynamic_parallel_for(
                    _add_block_changes, &query, (query.n + CHANGED_ROWS - 1) // CHANGED_ROWS, n_threads
                )
        return out
