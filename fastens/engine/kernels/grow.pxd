from .frontier cimport Limits, Outcome
from .gain cimport SplitRules
from .quantise cimport Quantised, RowGradients, Scales
from .structs cimport float64_t, int32_t, int64_t
from .workspace cimport Workspace


cdef class Grower:
    cdef Workspace ws
    cdef RowGradients source
    cdef Limits limits
    cdef object matrix, rules, row_weights, kept
    cdef readonly float64_t dispersion      # of the gradients around the tree just grown, summed over its outputs

    cdef _set_table(self)
    cdef _set_columns(self)
    cdef _set_features(self)
    cdef _set_rules(self)
    cdef int64_t _min_uncertain_count(self)
    cdef _set_feature_rules(self)
    cdef _set_weights(self, bint constant_hessian)
    cdef SplitRules _scaled(self, const Quantised* quantised)
    cdef _start(self, rows)
    cdef _limit_root(self)
    cdef _grow_tree(self, reduce)
    cdef Outcome _advance(self, int32_t* n_leaves) noexcept nogil
    cdef void _lead(self, int32_t* n_leaves, Outcome* outcome) noexcept nogil
    cdef void _run_tasks(self) noexcept nogil
    cdef Outcome _advance_together(self, reduce, int32_t* n_leaves) except *
    cdef _cells(self, int32_t task)
    cdef _tree(self)
    cdef float64_t _gain_unit(self)
    cdef list _sums(self)
    cdef _exact_sums(self, const RowGradients* source, const Scales* scales)
    cdef _values(self, list sums, float64_t[::1] weight)
    cdef _newton_steps(
        self, const int64_t[:, ::1] room, const Scales* scales, float64_t[:, ::1] steps, float64_t[:, ::1] hessians,
        int32_t output,
    )
    cdef _category_words(self, int32_t[::1] category_set)
