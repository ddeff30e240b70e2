from fastens.engine.grow.frontier cimport Limits, Outcome
from fastens.engine.splits.gain cimport SplitRules
from fastens.engine.histograms.quantise cimport Quantised, RowGradients, Scales
from fastens.engine.ranks cimport Exchange
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint32_t
from fastens.engine.splits.workspace cimport Workspace


cdef struct GivenRules:
    # In the units of the loss.
    float64_t min_hessian
    float64_t min_count
    float64_t min_weight
    float64_t l2
    float64_t path_smooth
    float64_t category_l2
    float64_t category_smoothing
    float64_t min_gain
    float64_t max_step              # infinite: no limit


cdef class Grower:
    cdef Workspace ws
    cdef GivenRules given
    cdef const uint32_t* given_rows         # NULL: all
    cdef Py_ssize_t n_rows
    cdef bint need_weights
    cdef RowGradients source
    cdef Limits limits
    cdef object matrix, rules, row_weights, kept
    cdef Exchange exchange                  # None: one rank
    cdef readonly float64_t dispersion      # of the gradients around the tree just grown, summed over its outputs

    cdef _set_table(self)
    cdef _set_columns(self)
    cdef _set_features(self)
    cdef _set_rules(self)
    cdef _set_feature_rules(self)
    cdef _set_ranks(self, comm)
    cdef _set_weights(self, of_all, bint constant_hessian)
    cdef SplitRules _scaled(self, const Quantised* quantised) noexcept nogil
    cdef _set_rows(self, rows)
    cdef bint _quantise(self) noexcept nogil
    cdef bint _plant(self) noexcept nogil
    cdef void _limit_root(self) noexcept nogil
    cdef _grow_tree(self)
    cdef Outcome _advance(self, Outcome outcome, int32_t* n_leaves) noexcept nogil
    cdef Outcome _begin(self) noexcept nogil
    cdef bint _run_tasks(self) noexcept nogil
    cdef bint _exchange_tasks(self) noexcept nogil
    cdef void _sum_up(self) noexcept nogil
    cdef _tree(self)
    cdef float64_t _gain_unit(self)
    cdef float64_t _dispersion(self)
    cdef _values(self, weight)
    cdef _newton_steps(
        self, const Scales* scales, int32_t output, float64_t[:, ::1] steps, float64_t[:, ::1] hessians
    )
    cdef _category_words(self, int32_t[::1] category_set)
