# What to predict: rows of values or codes, shown to the trees as views (see compile.pxd), by feature or by row.

from fastens.engine.predict.compile cimport Program
from fastens.engine.structs cimport code_t

cdef struct Rows:
    # Values ("f", "d": float32, float64), or codes ("B", "H").
    # Strides count elements.
    const char* data
    Py_ssize_t n_rows
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    char kind


cdef void fill_views(
    const Program* program, const Rows* rows, Py_ssize_t row, char* codes, code_t** views
) noexcept nogil

cdef void fill_records(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t* records
) noexcept nogil

cdef Py_ssize_t record_size(const Program* program) noexcept nogil
