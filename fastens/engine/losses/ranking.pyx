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
    # A block of documents with equal score and gain: `weight` positions from `place` on, and the sums of their
    # derivatives.
    double score
    double gain
    double place
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


cdef int better(const void* a, const void* b) noexcept nogil:
    # Total order: descending scores, then descending gains, then row indices.
    cdef const Document* x = <const Document*> a
    cdef const Document* y = <const Document*> b
    if x.score != y.score:
        return -1 if x.score > y.score else 1
    if x.gain != y.gain:
        return -1 if x.gain > y.gain else 1
    return (x.row > y.row) - (x.row < y.row)


cdef inline double reach(const double[::1] upto, double place) noexcept nogil:
    # Returns the sum of the discounts of the first `place` positions, which may be fractional. Past the table,
    # discounts are constant.
    cdef Py_ssize_t last = upto.shape[0] - 2
    cdef Py_ssize_t whole = last if place >= last else <Py_ssize_t> floor(place)
    return upto[whole] + (place - whole) * (upto[whole + 1] - upto[whole])


cdef Py_ssize_t find_blocks(
    const Document* documents, Py_ssize_t n, const double[::1] upto, Block* blocks
) noexcept nogil:
    cdef Py_ssize_t i, n_blocks = 0
    cdef double place = 0
    cdef Block* block = NULL
    for i in range(n):
        if block == NULL or documents[i].score != block.score or documents[i].gain != block.gain:
            block = blocks + n_blocks
            n_blocks += 1
            block.score, block.gain, block.place = documents[i].score, documents[i].gain, place
            block.weight = block.gradient = block.hessian = 0
        block.weight += documents[i].weight
        place += documents[i].weight
        block.end = i + 1
    for i in range(n_blocks):
        blocks[i].discount = reach(upto, blocks[i].place + blocks[i].weight) - reach(upto, blocks[i].place)
    return n_blocks


cdef inline double harmonic_sum(const double[::1] upto, double n) noexcept nogil:
    # Returns the sum of the first `n` partial sums of 1 / position.
    return (n + 1.0) * reach(upto, n) - n


cdef double discount_of(const Block* block, double count, bint swaps_up, const double[::1] upto) noexcept nogil:
    # Returns the sum of n / position - a over the first `count` positions of a block. Here, n is the weight of the
    # relevant documents up to the position, and `a` is the sum of 1 / position over these documents. If two documents
    # swap positions, the average precision changes by the difference of two such sums. If the lower document is the
    # relevant one (`swaps_up`), n counts it at both positions.
    cdef double before = reach(upto, block.place), inverse = reach(upto, block.place + count) - before
    cdef double total = block.above * inverse - count * block.precisions
    if block.gain > 0:
        total += count - block.place * inverse + count * before
        total -= harmonic_sum(upto, block.place + count) - harmonic_sum(upto, block.place)
    return total + inverse if swaps_up else total


cdef void count_relevant(Block* blocks, Py_ssize_t n_blocks, const double[::1] upto) noexcept nogil:
    cdef Py_ssize_t i
    cdef double above = 0, precisions = 0
    for i in range(n_blocks):
        blocks[i].above, blocks[i].precisions = above, precisions
        if blocks[i].gain > 0:
            above += blocks[i].weight
            precisions += blocks[i].discount


cdef inline double change_of(
    const Block* a, const Block* b, double top, double top_discount, const double[::1] upto, int objective
) noexcept nogil:
    # Returns the change of the metric, before normalization, if `top` documents of block `a` swap positions with `b`.
    cdef bint swaps_up = b.gain > a.gain
    if objective == PAIRS:
        return top * b.weight
    if objective == MAP:
        return fmax(
            b.weight * discount_of(a, top, swaps_up, upto) - top * discount_of(b, b.weight, swaps_up, upto), 0.0
        )
    return fabs(a.gain - b.gain) * (b.weight * top_discount - top * b.discount)


cdef double compare(Block* a, Block* b, double change, const Options* options) noexcept nogil:
    # Adds the derivatives of the pairs of documents of block `a`, which ranks above `b`, with all of `b`, weighted by
    # the change of the metric; returns their sum.
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


cdef double compare_all(
    Block* blocks, Py_ssize_t n_blocks, const double[::1] upto, const Options* options
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef double top, top_discount, change, total = 0
    for i in range(n_blocks):
        if blocks[i].place >= options.truncation:
            break
        top = min(blocks[i].weight, options.truncation - blocks[i].place)
        top_discount = reach(upto, blocks[i].place + top) - reach(upto, blocks[i].place)
        for j in range(i + 1, n_blocks):
            if blocks[i].gain != blocks[j].gain:
                change = change_of(blocks + i, blocks + j, top, top_discount, upto, options.objective)
                total += compare(blocks + i, blocks + j, change, options)
    return total


# Smallest divisor of the steps of documents that have almost all of the probability.
cdef double MIN_REST = 1e-6


cdef inline double draw_of(uint64_t query, const Block* block) noexcept nogil:
    # Returns a number from 0 to 1. Equal blocks of equal queries draw the same number, so draws do not depend on the
    # order of rows and queries, and repeated rows draw the number of their weighted original.
    return random_share(hash_of(block), query)


cdef inline uint64_t hash_of(const Block* block) noexcept nogil:
    cdef uint64_t score, gain
    cdef double value = block.score + 0.0  # not -0.0, which is the same score
    memcpy(&score, &value, sizeof(score))
    memcpy(&gain, &block.gain, sizeof(gain))
    return random_bits(score, gain)


cdef void cross_entropy(Block* blocks, Py_ssize_t n_blocks) noexcept nogil:
    # Writes the derivatives of the cross entropy between the softmax of the scores and gains with random deductions
    # (Bruch et al. 2019). Gradients have two more terms, so that dividing them by the diagonal of the second
    # derivatives approximates a Newton step with the full matrix.
    cdef Py_ssize_t i
    cdef uint64_t query = 0, weight
    cdef double total = 0, target_total = 0, n_documents = 0, share, rest, sum_of_steps, wanted
    cdef int _order
    for i in range(n_blocks):
        memcpy(&weight, &blocks[i].weight, sizeof(weight))
        query += random_bits(hash_of(blocks + i), weight)
        blocks[i].share = exp_of(blocks[i].score - blocks[0].score)
        total += blocks[i].weight * blocks[i].share
        n_documents += blocks[i].weight
    if n_documents <= 1:
        return
    for i in range(n_blocks):
        blocks[i].step = blocks[i].gain + 1.0 - draw_of(query, blocks + i)
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


cdef double gain_at(Block* blocks, Py_ssize_t n_blocks, const double[::1] upto, double at) noexcept nogil:
    # Returns the discounted gain of the first `at` positions. Tied documents share the mean discount of their
    # positions.
    cdef Py_ssize_t i = 0
    cdef double total = 0, first, last, gain, score
    while i < n_blocks and blocks[i].place < at:
        first, score, gain = blocks[i].place, blocks[i].score, 0
        last = first
        while i < n_blocks and blocks[i].score == score:
            gain += blocks[i].weight * blocks[i].gain
            last = blocks[i].place + blocks[i].weight
            i += 1
        if last > first:  # otherwise their weight is negligible compared with the documents above
            total += gain / (last - first) * (reach(upto, min(last, at)) - reach(upto, first))
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


cdef void _lambdas_of_query(void* job, Py_ssize_t query, int32_t thread) noexcept nogil:
    cdef const Scored* scored = <const Scored*> job
    (<Ranker> scored.queries).lambdas(query, scored.scores, scored.options, scored.gradients, scored.hessians)


cdef void _gain_of_query(void* job, Py_ssize_t query, int32_t thread) noexcept nogil:
    cdef const Scored* scored = <const Scored*> job
    scored.gains[query] = (<Ranker> scored.queries).share_of_best(query, scored.scores, scored.at)


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
    """

    cdef const int64_t[::1] order, starts
    cdef const double[::1] gains, weights, upto
    cdef unsigned char[::1] document_room, block_room

    def __init__(
        self, const int64_t[::1] order, const int64_t[::1] starts, const float64_t[::1] gains,
        const float64_t[::1] weights, const float64_t[::1] upto,
    ):
        self.order, self.starts, self.gains, self.weights, self.upto = order, starts, gains, weights, upto
        self.document_room = np.empty(order.shape[0] * sizeof(Document), dtype=np.uint8)
        self.block_room = np.empty(order.shape[0] * sizeof(Block), dtype=np.uint8)

    cdef Py_ssize_t arrange(self, Py_ssize_t query, const double* scores) noexcept nogil:
        # Sorts the documents of a query by score, or by gain if scores is NULL; returns the number of blocks.
        cdef int64_t first = self.starts[query], n = self.starts[query + 1] - first
        cdef Document* documents = (<Document*> &self.document_room[0]) + first
        cdef int64_t i, row
        for i in range(n):
            row = self.order[first + i]
            documents[i].row = row
            documents[i].gain = self.gains[row]
            documents[i].weight = self.weights[row]
            documents[i].score = documents[i].gain if scores == NULL else scores[row]
        qsort(documents, n, sizeof(Document), better)
        return find_blocks(documents, n, self.upto, (<Block*> &self.block_room[0]) + first)

    cdef double best_gain(self, Py_ssize_t query, double at) noexcept nogil:
        cdef Py_ssize_t n_blocks = self.arrange(query, NULL)
        return gain_at((<Block*> &self.block_room[0]) + self.starts[query], n_blocks, self.upto, at)

    cdef void write(
        self, Py_ssize_t query, Py_ssize_t n_blocks, double scale, float32_t* gradients, float32_t* hessians
    ) noexcept nogil:
        # Distributes the derivatives of each block to its documents by weight.
        cdef int64_t first = self.starts[query], i = 0
        cdef const Document* documents = (<const Document*> &self.document_room[0]) + first
        cdef const Block* blocks = (<const Block*> &self.block_room[0]) + first
        cdef Py_ssize_t k
        cdef float32_t gradient, hessian
        for k in range(n_blocks):
            gradient = <float32_t> (scale * (blocks[k].gradient / blocks[k].weight))
            hessian = <float32_t> (scale * (blocks[k].hessian / blocks[k].weight))
            while i < blocks[k].end:
                gradients[documents[i].row] = gradient
                hessians[documents[i].row] = hessian
                i += 1

    cdef void lambdas(
        self, Py_ssize_t query, const double* scores, Options options, float32_t* gradients, float32_t* hessians
    ) noexcept nogil:
        cdef double best = self.best_gain(query, options.truncation), total, scale
        cdef Py_ssize_t n_blocks = self.arrange(query, scores)
        cdef Block* blocks = (<Block*> &self.block_room[0]) + self.starts[query]
        if options.objective == CROSS_ENTROPY:
            cross_entropy(blocks, n_blocks)
            self.write(query, n_blocks, 1.0, gradients, hessians)
            return
        if options.objective == MAP:
            count_relevant(blocks, n_blocks, self.upto)
            best = blocks[n_blocks - 1].above + (blocks[n_blocks - 1].weight if blocks[n_blocks - 1].gain > 0 else 0.0)
        elif options.objective == PAIRS:
            best = 1.0
        # Normalising by score differences is meaningless while all scores are equal.
        options.normalize = options.normalize and blocks[0].score != blocks[n_blocks - 1].score
        total = compare_all(blocks, n_blocks, self.upto, &options) / best if best > 0 else 0.0
        scale = 1.0 / best if best > 0 else 0.0
        if options.normalize and total > 0:
            scale *= log2(1.0 + total) / total
        self.write(query, n_blocks, scale, gradients, hessians)

    def gradients(
        self, const float64_t[::1] scores, tuple options, float32_t[::1] gradients, float32_t[::1] hessians,
        int n_threads,
    ):
        """Write the derivatives; options: steepness of the sigmoid, truncation, normalize, code in `OBJECTIVES`."""
        cdef Scored scored
        if scores.shape[0] == 0:
            return
        scored.queries, scored.scores = <void*> self, &scores[0]
        scored.options = Options(options[0], options[1], options[2], options[3])
        scored.gradients, scored.hessians = &gradients[0], &hessians[0]
        with nogil:
            parallel_for_until_interrupted(_lambdas_of_query, &scored, self.starts.shape[0] - 1, n_threads)

    cdef double share_of_best(self, Py_ssize_t query, const double* scores, double at) noexcept nogil:
        cdef double best = self.best_gain(query, at)
        cdef Py_ssize_t n_blocks = self.arrange(query, scores)
        if best <= 0:
            return 1.0
        return gain_at((<Block*> &self.block_room[0]) + self.starts[query], n_blocks, self.upto, at) / best

    def ndcg(self, const float64_t[::1] scores, double at, float64_t[::1] out, int n_threads):
        """Write the NDCG of the first `at` positions of each query; 1 if the query has no gain."""
        cdef Scored scored
        if scores.shape[0] == 0:
            return
        scored.queries, scored.scores, scored.at, scored.gains = <void*> self, &scores[0], at, &out[0]
        with nogil:
            parallel_for_until_interrupted(_gain_of_query, &scored, self.starts.shape[0] - 1, n_threads)
