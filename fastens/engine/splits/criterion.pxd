# What a split lowers. A node's score is larger the purer it is; a split's gain is the score of its two sides less that
# of the node, which is how much it lowers the node's weight times its impurity (Breiman et al. 1984).

from libc.math cimport INFINITY

from fastens.engine.exact cimport log, log2
from fastens.engine.structs cimport float64_t, int32_t


cdef enum Criterion:
    # Score of sums s (of the classes' weights, or of numbers) of rows of weight w:
    SQUARES                         # sum(s^2) / w: Gini, squared error; Newton steps with s = G, w = H + l2: gain.pxd
    ENTROPY                         # sum(s log2(s / w))
    POISSON                         # sum(s log(s / w)); all sums must be positive
    ERROR                           # max(s): the share of rows of the largest class
    ABSOLUTE                        # no function of sums: see engine/forest/splits/median.pyx


cdef inline float64_t score_of_sums(
    Criterion criterion, const float64_t* sums, int32_t n, float64_t weight
) noexcept nogil:
    """The score; minus infinity where the criterion allows no such sums."""
    cdef int32_t k
    cdef float64_t score = 0.0
    for k in range(n):
        if criterion == SQUARES:
            score += sums[k] * sums[k]
        elif criterion == ERROR:
            score = max(score, sums[k])
        elif sums[k] > 0:
            score += sums[k] * (log2(sums[k] / weight) if criterion == ENTROPY else log(sums[k] / weight))
        elif criterion == POISSON:
            return -INFINITY
    return score / weight if criterion == SQUARES else score


cdef inline float64_t gain_of_squares(
    float64_t sum_, float64_t weight, float64_t left, float64_t left_weight
) noexcept nogil:
    """The gain of SQUARES for one sum: W (s_l - s w_l / W)^2 / (w_l w_r)."""
    cdef float64_t distance = left * weight - sum_ * left_weight
    return distance * distance / (weight * left_weight * (weight - left_weight))
