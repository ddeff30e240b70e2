from fastens.engine.forest.splits.structs cimport Forest
from fastens.engine.splits.criterion cimport Criterion
from fastens.engine.structs cimport float64_t, int32_t


cdef class ForestData:
    cdef Forest forest
    cdef float64_t[::1] ranges      # of each target's numbers
    cdef float64_t widest           # the largest of them
    cdef int32_t n_values
    cdef int32_t n_squares          # numbers whose squares are summed up too
    cdef bint with_search           # what splits were chosen from is returned too
    cdef const float64_t* weights   # of the features; NULL: equal. 0: no tree may use it
    cdef list kept                  # arrays that the structs point into
    cdef int32_t[::1] columns       # the column of the values that each sum belongs to, -1: none

    cdef size_t _pointer(self, array, dtype) except 0
    cdef _set_table(self, matrix, values)
    cdef _set_stored(self, matrix)
    cdef _set_values(self, values)
    cdef _set_targets(self, target, Criterion criterion)
    cdef _set_classes(self, target)
    cdef _set_numbers(self, target, Criterion criterion)
    cdef _set_rules(self, rules)
