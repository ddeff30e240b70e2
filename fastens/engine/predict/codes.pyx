"""Rows to the codes that trees look at: an array for each view of a feature, or a record for each row."""

from fastens.engine.bins.bins cimport bin_values
from fastens.engine.predict.compile cimport SCAN_ROWS, Column, Program
from fastens.engine.structs cimport code_t, float32_t, float64_t, int32_t

cdef enum:
    BIN_ROWS = 64       # rows binned at once, all features: their values stay in the first-level cache


cdef inline void bin_column(
    const Program* program, const Rows* rows, Py_ssize_t row, int32_t feature, Py_ssize_t n_rows, code_t* out
) noexcept nogil:
    cdef Py_ssize_t at = row * rows.row_stride + feature * rows.column_stride
    if rows.kind == c"f":
        bin_values(program.bins + feature, <const float32_t*> rows.data + at, rows.row_stride, n_rows, out)
    else:
        bin_values(program.bins + feature, <const float64_t*> rows.data + at, rows.row_stride, n_rows, out)


# ---------------------------------------------------------------------------------------------------------- by feature

cdef void bin_views(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t** views
) noexcept nogil:
    # Fill the views with the codes of some rows of a float array.
    cdef Py_ssize_t n, r, c, start = 0
    cdef code_t* codes
    cdef code_t* shifted
    cdef Column column
    while start < n_rows:
        n = min(<Py_ssize_t> BIN_ROWS, n_rows - start)
        for c in range(program.n_columns):
            column = program.columns[c]
            codes = views[column.plain if column.plain >= 0 else column.shifted] + start
            bin_column(program, rows, row + start, column.feature, n, codes)
            if column.shifted >= 0:
                shifted = views[column.shifted] + start
                for r in range(n):
                    shifted[r] = <code_t> (codes[r] - 1)
        start += BIN_ROWS


cdef void show_views(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t** views
) noexcept nogil:
    # Let the views show codes that are there already. Those of a full block that lie side by side are not copied: the
    # view points to them.
    cdef Py_ssize_t r, c
    cdef const code_t* codes
    cdef code_t* copied
    cdef Column column
    for c in range(program.n_columns):
        column = program.columns[c]
        codes = <const code_t*> rows.data + row * rows.row_stride + column.feature * rows.column_stride
        if column.shifted >= 0:
            copied = views[column.shifted]
            for r in range(n_rows):
                copied[r] = <code_t> (codes[r * rows.row_stride] - 1)
        if column.plain >= 0 and n_rows == SCAN_ROWS and rows.row_stride == 1:
            views[column.plain] = <code_t*> codes
        elif column.plain >= 0:
            copied = views[column.plain]
            for r in range(n_rows):
                copied[r] = codes[r * rows.row_stride]


cdef void fill_views(
    const Program* program, const Rows* rows, Py_ssize_t row, char* codes, code_t** views
) noexcept nogil:
    # Show SCAN_ROWS rows, or those that remain; `codes` has room for SCAN_ROWS of each view.
    cdef Py_ssize_t v, n_rows = min(<Py_ssize_t> SCAN_ROWS, rows.n_rows - row)
    for v in range(program.n_views):
        views[v] = <code_t*> codes + v * SCAN_ROWS
    if rows.kind == c"f" or rows.kind == c"d":
        bin_views(program, rows, row, n_rows, views)
    else:
        show_views(program, rows, row, n_rows, views)


# -------------------------------------------------------------------------------------------------------------- by row

cdef Py_ssize_t record_size(const Program* program) noexcept nogil:
    # Bytes from one record to the next: no record of up to 32 bytes crosses a cache line.
    cdef Py_ssize_t n_bytes = <Py_ssize_t> program.n_views * program.code_size
    cdef Py_ssize_t size = 8
    while size < n_bytes and size < 32:
        size *= 2
    return max(size, (n_bytes + 15) // 16 * 16)


cdef void fill_records(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t* records
) noexcept nogil:
    # Fill the records with the codes of some rows of a float array.
    cdef Py_ssize_t n, r, c, start = 0, stride = record_size(program) // <Py_ssize_t> sizeof(code_t)
    cdef code_t codes[BIN_ROWS]
    cdef code_t* record
    cdef Column column
    while start < n_rows:
        n = min(<Py_ssize_t> BIN_ROWS, n_rows - start)
        for c in range(program.n_columns):
            column = program.columns[c]
            bin_column(program, rows, row + start, column.feature, n, codes)
            record = records + start * stride
            if column.plain >= 0:
                for r in range(n):
                    record[r * stride + column.plain] = codes[r]
            if column.shifted >= 0:
                for r in range(n):
                    record[r * stride + column.shifted] = <code_t> (codes[r] - 1)
        start += BIN_ROWS
