"""Ranking: LambdaMART and cross-entropy gradients and NDCG of each query, in parallel over queries.

The documents of a query are sorted by score. Documents of equal score and equal gain form one block, which occupies as
many positions as its total weight: weight 2 is bit-identical to a duplicated document, and results do not depend on row
order.
"""

import numpy as np

from libc.math cimport fabs, floor, fmax
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy

from fastens.engine.exact cimport log2
from fastens.engine.random cimport random_bits, random_share
from fastens.engine.structs cimport float32_t, float64_t
from fastens.engine.thread_pool cimport parallel_for_until_interrupted


cdef extern from "engine/losses/loss_loops.h" nogil:
    double exp_of(double x) noexcept


cdef struct Document:
    double score
    double gain
    double weight
    int64_t row


cdef struct Block:
    # A block of documents with equal score and gain: `weight` positions from `start` on, and the sums of their
    # derivatives.
    double score
    double gain
    double start
    double weight
    double above            # total weight of the relevant documents above it
    double precisions       # sum of 1 / position over the relevant documents above it
    double share            # softmax of the scores
    double step             # gradient of the cross entropy, with its additional terms
    double discount         # sum over all its positions
    double gradient
    double hessian
    Py_ssize_t end          # end (exclusive) of its documents


cdef enum Objective:
    NDCG, MAP, PAIRS, CROSS_ENTROPY


OBJECTIVES = {"ndcg": NDCG, "map": MAP, "pairs": PAIRS, "xendcg": CROSS_ENTROPY}


cdef struct Options:
    double sigmoid
    double truncation       # number of top positions whose documents are compared with all documents below
    bint normalize
    int objective


cdef int compare_documents(const void* a, const void* b) noexcept nogil:
    """Return the order of two documents for qsort: by descending score, descending gain, then row index."""
    cdef const Document* x = <const Document*> a
    cdef const Document* y = <const Document*> b
    if x.score != y.score:
        return -1 if x.score > y.score else 1
    if x.gain != y.gain:
        return -1 if x.gain > y.gain else 1
    return (x.row > y.row) - (x.row < y.row)


cdef inline double discount_sum(const double[::1] discounts, double n_positions) noexcept nogil:
    """Return the sum of the first `n_positions` (may be fractional) discounts; `discounts` holds cumulative sums."""
    cdef Py_ssize_t last = discounts.shape[0] - 2
    cdef Py_ssize_t whole = last if n_positions >= last else <Py_ssize_t> floor(n_positions)
    return discounts[whole] + (n_positions - whole) * (discounts[whole + 1] - discounts[whole])


cdef Py_ssize_t find_blocks(
    const Document* documents, Py_ssize_t n, const double[::1] discounts, Block* blocks
) noexcept nogil:
    """Group n sorted documents of equal score and gain, write the groups to `blocks`, and return their number.

    Each block gets its positions and the sum of their discounts; `discounts` holds cumulative sums by position.
    """
    cdef Py_ssize_t i, n_blocks = 0
    cdef double start = 0
    cdef Block* block = NULL
    for i in range(n):
        if block == NULL or documents[i].score != block.score or documents[i].gain != block.gain:
            block = blocks + n_blocks
            n_blocks += 1
            block.score, block.gain, block.start = documents[i].score, documents[i].gain, start
            block.weight = block.gradient = block.hessian = 0
        block.weight += documents[i].weight
        start += documents[i].weight
        block.end = i + 1
    for i in range(n_blocks):
        start = blocks[i].start
        blocks[i].discount = discount_sum(discounts, start + blocks[i].weight) - discount_sum(discounts, start)
    return n_blocks


cdef inline double harmonic_sum(const double[::1] discounts, double n) noexcept nogil:
    """Return the sum of the first `n` partial sums of 1 / position, from the table of partial sums `discounts`."""
    return (n + 1.0) * discount_sum(discounts, n) - n


cdef double precision_sum(const Block* block, double n, bint swaps_up, const double[::1] discounts) noexcept nogil:
    """Return the sum of r / position - a over the first `n` positions of a block.

    Here, r is the weight of the relevant documents up to the position, and `a` is the sum of 1 / position over these
    documents. If two documents swap positions, the average precision changes by the difference of two such sums. If the
    lower document is the relevant one (`swaps_up`), r counts it at both positions.
    """
    cdef double before = discount_sum(discounts, block.start)
    cdef double inverse = discount_sum(discounts, block.start + n) - before
    cdef double total = block.above * inverse - n * block.precisions
    if block.gain > 0:
        total += n - block.start * inverse + n * before
        total -= harmonic_sum(discounts, block.start + n) - harmonic_sum(discounts, block.start)
    return total + inverse if swaps_up else total


cdef void sum_precisions_above(Block* blocks, Py_ssize_t n_blocks, const double[::1] discounts) noexcept nogil:
    """Write to each block the total weight and the sum of 1 / position of the relevant documents above it."""
    cdef Py_ssize_t i
    cdef double above = 0, precisions = 0
    for i in range(n_blocks):
        blocks[i].above, blocks[i].precisions = above, precisions
        if blocks[i].gain > 0:
            above += blocks[i].weight
            precisions += blocks[i].discount


cdef inline double metric_change(
    const Block* a, const Block* b, double top, double top_discount, const double[::1] discounts, int objective
) noexcept nogil:
    """Return the unnormalised change of the metric if the first `top` documents of `a` swap with block `b`.

    Block `b` ranks below `a`, `top_discount` is the sum of the discounts of the `top` positions, and `objective` is the
    code of the metric.
    """
    cdef bint swaps_up = b.gain > a.gain
    if objective == PAIRS:
        return top * b.weight
    if objective == MAP:
        top_discount = precision_sum(b, b.weight, swaps_up, discounts)
        return fmax(b.weight * precision_sum(a, top, swaps_up, discounts) - top * top_discount, 0.0)
    return fabs(a.gain - b.gain) * (b.weight * top_discount - top * b.discount)


cdef double add_pair_derivatives(Block* a, Block* b, double change, const Options* options) noexcept nogil:
    """Add the derivatives of all pairs of a document of `a` and one of `b`, which ranks below `a`, to both blocks.

    The pairs are weighted by `change`, the change of the metric if they swap. The result is the sum of the absolute
    gradients.
    """
    cdef Block* high = a if a.gain > b.gain else b
    cdef Block* low = b if a.gain > b.gain else a
    cdef double difference = high.score - low.score
    cdef double wrong = 1.0 / (1.0 + exp_of(options.sigmoid * difference))
    cdef double slope, curvature
    if options.normalize and options.objective != PAIRS:
        change /= 0.01 + fabs(difference)
    slope = options.sigmoid * wrong * change
    curvature = options.sigmoid * options.sigmoid * wrong * (1.0 - wrong) * change
    high.gradient -= slope
    low.gradient += slope
    high.hessian += curvature
    low.hessian += curvature
    return 2.0 * slope


cdef double add_all_derivatives(
    Block* blocks, Py_ssize_t n_blocks, const double[::1] discounts, const Options* options
) noexcept nogil:
    """Add the derivatives of all pairs of documents with different gains to their blocks.

    The higher document of a pair must rank within the truncation. The result is the sum of the absolute gradients.
    """
    cdef Py_ssize_t i, j
    cdef double top, top_discount, change, total = 0
    for i in range(n_blocks):
        if blocks[i].start >= options.truncation:
            break
        top = min(blocks[i].weight, options.truncation - blocks[i].start)
        top_discount = discount_sum(discounts, blocks[i].start + top) - discount_sum(discounts, blocks[i].start)
        for j in range(i + 1, n_blocks):
            if blocks[i].gain != blocks[j].gain:
                change = metric_change(blocks + i, blocks + j, top, top_discount, discounts, options.objective)
                total += add_pair_derivatives(blocks + i, blocks + j, change, options)
    return total


# Smallest divisor of the steps of documents that have almost all of the probability.
cdef double MIN_REST = 1e-6


cdef inline double random_deduction(uint64_t query, const Block* block) noexcept nogil:
    """Return a number from 0 to 1 that a hash of the query and the block determines.

    Equal blocks of equal queries draw the same number, so draws do not depend on the order of rows and queries, and
    repeated rows draw the number of their weighted original.
    """
    return random_share(block_hash(block), query)


cdef inline uint64_t block_hash(const Block* block) noexcept nogil:
    """Return a hash of the score and the gain of a block."""
    cdef uint64_t score, gain
    cdef double value = block.score + 0.0  # not -0.0, which is the same score
    memcpy(&score, &value, sizeof(score))
    memcpy(&gain, &block.gain, sizeof(gain))
    return random_bits(score, gain)


cdef void write_cross_entropy(Block* blocks, Py_ssize_t n_blocks) noexcept nogil:
    """Write the derivatives of the cross entropy between the softmax of the scores and random gains to the blocks.

    Gains have random deductions (Bruch et al. 2019). Gradients have two more terms, so that dividing them by the
    diagonal of the second derivatives approximates a Newton step with the full matrix.
    """
    cdef Py_ssize_t i
    cdef uint64_t query = 0, weight
    cdef double total = 0, target_total = 0, n_documents = 0, share, rest, sum_of_steps, wanted
    cdef int _order
    for i in range(n_blocks):
        memcpy(&weight, &blocks[i].weight, sizeof(weight))
        query += random_bits(block_hash(blocks + i), weight)
        blocks[i].share = exp_of(blocks[i].score - blocks[0].score)
        total += blocks[i].weight * blocks[i].share
        n_documents += blocks[i].weight
    if n_documents <= 1:
        return
    for i in range(n_blocks):
        blocks[i].step = blocks[i].gain + 1.0 - random_deduction(query, blocks + i)
        target_total += blocks[i].weight * blocks[i].step
    for i in range(n_blocks):
        share = blocks[i].share / total
        wanted = blocks[i].step / target_total
        blocks[i].share = share
        blocks[i].step = share - wanted
        blocks[i].gradient = blocks[i].weight * (share - wanted)
        blocks[i].hessian = blocks[i].weight * share * (1.0 - share)
    for _order in range(2):
        sum_of_steps = 0
        for i in range(n_blocks):
            sum_of_steps += blocks[i].weight * blocks[i].step / fmax(1.0 - blocks[i].share, MIN_REST)
        for i in range(n_blocks):
            rest = fmax(1.0 - blocks[i].share, MIN_REST)
            blocks[i].step = blocks[i].share * (sum_of_steps - blocks[i].step / rest)
            blocks[i].gradient += blocks[i].weight * blocks[i].step


cdef double block_dcg(Block* blocks, Py_ssize_t n_blocks, const double[::1] discounts, double at) noexcept nogil:
    """Return the DCG of the first `at` positions; tied documents share the mean discount of their positions."""
    cdef Py_ssize_t i = 0
    cdef double total = 0, first, last, gain, score
    while i < n_blocks and blocks[i].start < at:
        first, score, gain = blocks[i].start, blocks[i].score, 0
        last = first
        while i < n_blocks and blocks[i].score == score:
            gain += blocks[i].weight * blocks[i].gain
            last = blocks[i].start + blocks[i].weight
            i += 1
        if last > first:  # otherwise their weight is negligible compared with the documents above
            total += gain / (last - first) * (discount_sum(discounts, min(last, at)) - discount_sum(discounts, first))
    return total


cdef struct Scored:
    # Input and output of the pass over the queries.
    void* queries                   # Ranker
    const double* scores
    Options options
    float32_t* gradients
    float32_t* hessians
    double at
    double* gains


cdef void _write_lambdas_of_query(void* job, Py_ssize_t query, int32_t thread) noexcept nogil:
    """Write the gradients and hessians of one query's rows; a parallel task of `Ranker.gradients`."""
    cdef const Scored* scored = <const Scored*> job
    (<Ranker> scored.queries).write_lambdas(query, scored.scores, scored.options, scored.gradients, scored.hessians)


cdef void _write_ndcg_of_query(void* job, Py_ssize_t query, int32_t thread) noexcept nogil:
    """Write the NDCG of one query; a parallel task of `Ranker.ndcg`."""
    cdef const Scored* scored = <const Scored*> job
    scored.gains[query] = (<Ranker> scored.queries).query_ndcg(query, scored.scores, scored.at)


cdef class Ranker:
    """Queries of a ranking data set.

    Parameters
    ----------
    order : int64 array of shape (n_rows,)
        Row indices, query by query.
    starts : int64 array of shape (n_queries + 1,)
        Offset of each query's rows in `order`.
    gains, weights : float64 arrays of shape (n_rows,)
        Gain of each row, and the number of documents it counts for.
    discounts : float64 array of shape (n_discounts + 1,)
        Element i is the sum of the discounts of the first i positions.
    """

    cdef const int64_t[::1] order, starts
    cdef const double[::1] gains, weights, discounts
    cdef unsigned char[::1] document_buffer, block_buffer

    def __init__(
        self, const int64_t[::1] order, const int64_t[::1] starts, const float64_t[::1] gains,
        const float64_t[::1] weights, const float64_t[::1] discounts,
    ):
        self.order, self.starts, self.gains, self.weights, self.discounts = order, starts, gains, weights, discounts
        self.document_buffer = np.empty(order.shape[0] * sizeof(Document), dtype=np.uint8)
        self.block_buffer = np.empty(order.shape[0] * sizeof(Block), dtype=np.uint8)

    cdef Py_ssize_t sort_documents(self, Py_ssize_t query, const double* scores) noexcept nogil:
        """Sort a query's documents by score, or by gain if `scores` is NULL, into blocks; return their number."""
        cdef int64_t first = self.starts[query], n = self.starts[query + 1] - first
        cdef Document* documents = (<Document*> &self.document_buffer[0]) + first
        cdef int64_t i, row
        for i in range(n):
            row = self.order[first + i]
            documents[i].row = row
            documents[i].gain = self.gains[row]
            documents[i].weight = self.weights[row]
            documents[i].score = documents[i].gain if scores == NULL else scores[row]
        qsort(documents, n, sizeof(Document), compare_documents)
        return find_blocks(documents, n, self.discounts, (<Block*> &self.block_buffer[0]) + first)

    cdef double ideal_dcg(self, Py_ssize_t query, double at) noexcept nogil:
        """Return the largest possible DCG of a query at its top `at` positions."""
        cdef Py_ssize_t n_blocks = self.sort_documents(query, NULL)
        return block_dcg((<Block*> &self.block_buffer[0]) + self.starts[query], n_blocks, self.discounts, at)

    cdef void write_derivatives(
        self, Py_ssize_t query, Py_ssize_t n_blocks, double scale, float32_t* gradients, float32_t* hessians
    ) noexcept nogil:
        """Write each block's derivatives, times `scale` and per unit of weight, to the rows of its documents."""
        cdef int64_t first = self.starts[query], i = 0
        cdef const Document* documents = (<const Document*> &self.document_buffer[0]) + first
        cdef const Block* blocks = (<const Block*> &self.block_buffer[0]) + first
        cdef Py_ssize_t k
        cdef float32_t gradient, hessian
        for k in range(n_blocks):
            gradient = <float32_t> (scale * (blocks[k].gradient / blocks[k].weight))
            hessian = <float32_t> (scale * (blocks[k].hessian / blocks[k].weight))
            while i < blocks[k].end:
                gradients[documents[i].row] = gradient
                hessians[documents[i].row] = hessian
                i += 1

    cdef void write_lambdas(
        self, Py_ssize_t query, const double* scores, Options options, float32_t* gradients, float32_t* hessians
    ) noexcept nogil:
        """Write the gradients and hessians of one query's rows for these scores of all rows."""
        cdef double best = self.ideal_dcg(query, options.truncation), total, scale
        cdef Py_ssize_t n_blocks = self.sort_documents(query, scores)
        cdef Block* blocks = (<Block*> &self.block_buffer[0]) + self.starts[query]
        if options.objective == CROSS_ENTROPY:
            write_cross_entropy(blocks, n_blocks)
            self.write_derivatives(query, n_blocks, 1.0, gradients, hessians)
            return
        if options.objective == MAP:
            sum_precisions_above(blocks, n_blocks, self.discounts)
            best = blocks[n_blocks - 1].above + (blocks[n_blocks - 1].weight if blocks[n_blocks - 1].gain > 0 else 0.0)
        elif options.objective == PAIRS:
            best = 1.0
        # Normalising by score differences is meaningless while all scores are equal.
        options.normalize = options.normalize and blocks[0].score != blocks[n_blocks - 1].score
        total = add_all_derivatives(blocks, n_blocks, self.discounts, &options) / best if best > 0 else 0.0
        scale = 1.0 / best if best > 0 else 0.0
        if options.normalize and total > 0:
            scale *= log2(1.0 + total) / total
        self.write_derivatives(query, n_blocks, scale, gradients, hessians)

    def gradients(
        self, const float64_t[::1] scores, tuple options, float32_t[::1] gradients, float32_t[::1] hessians,
        int n_threads,
    ):
        """Write gradients and hessians of all rows; options are (sigmoid, truncation, normalize, objective code)."""
        cdef Scored scored
        if scores.shape[0] == 0:
            return
        scored.queries, scored.scores = <void*> self, &scores[0]
        scored.options = Options(options[0], options[1], options[2], options[3])
        scored.gradients, scored.hessians = &gradients[0], &hessians[0]
        with nogil:
            parallel_for_until_interrupted(_write_lambdas_of_query, &scored, self.starts.shape[0] - 1, n_threads)

    cdef double query_ndcg(self, Py_ssize_t query, const double* scores, double at) noexcept nogil:
        """Return the NDCG of a query at its top `at` positions; 1 if the query has no gain."""
        cdef double best = self.ideal_dcg(query, at)
        cdef Py_ssize_t n_blocks = self.sort_documents(query, scores)
        if best <= 0:
            return 1.0
        return block_dcg((<Block*> &self.block_buffer[0]) + self.starts[query], n_blocks, self.discounts, at) / best

    def ndcg(self, const float64_t[::1] scores, double at, float64_t[::1] out, int n_threads):
        """Write the NDCG of each query at its top `at` positions to `out`; 1 if the query has no gain."""
        cdef Scored scored
        if scores.shape[0] == 0:
            return
        scored.queries, scored.scores, scored.at, scored.gains = <void*> self, &scores[0], at, &out[0]
        with nogil:
            parallel_for_until_interrupted(_write_ndcg_of_query, &scored, self.starts.shape[0] - 1, n_threads)
