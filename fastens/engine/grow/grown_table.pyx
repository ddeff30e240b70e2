"""What a workspace knows of the rows that trees are grown on: where codes are, and the cells of their columns."""

from libc.stdlib cimport calloc, malloc

from fastens.engine.bins.pages cimport pages_of
from fastens.engine.histograms.histogram cimport CELL_STRIDE
from fastens.engine.paths cimport add_feature, mask_words
from fastens.engine.splits.workspace cimport Output, Workspace
from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np


cdef set_table(Workspace* ws, matrix, monotone):
    """Set the table, its columns and its features; the matrix must outlive the workspace."""
    ws.table.code_size = matrix.columns.itemsize
    ws.table.n_features = matrix.n_features
    if matrix.is_sparse:
        _set_stored(ws, matrix)
    else:
        _set_records(ws, matrix)
    ws.outputs = <Output*>calloc(matrix.n_payloads, sizeof(Output))
    if ws.outputs == NULL:
        raise MemoryError(f"no memory for growing trees of {matrix.n_payloads} outputs")
    ws.n_outputs = matrix.n_payloads
    _set_columns(ws, matrix.bundles)
    _set_features(ws, matrix, monotone)


cdef _set_records(Workspace* ws, matrix):
    cdef const uint8_t[:, ::1] records = matrix.records
    ws.table.records = &records[0, 0]
    ws.table.pages = pages_of(matrix.pages)
    ws.table.stride = records.shape[1]
    ws.table.codes_per_row = len(matrix.bundles.n_codes)
    ws.codes = <const uint8_t*><size_t>matrix.columns.ctypes.data
    ws.feature_step, ws.row_step = matrix.columns.strides


cdef _set_stored(Workspace* ws, matrix):
    columns = matrix.columns
    cdef const int32_t[::1] rows = columns.rows
    cdef const int64_t[::1] starts = columns.starts, first_cell = matrix.first_cell
    cdef const uint32_t[::1] cells = matrix.cells
    ws.table.cells, ws.table.first_cell = &cells[0], &first_cell[0]
    ws.table.codes_per_row = 1 + cells.shape[0] // matrix.n_rows
    ws.codes = <const uint8_t*><size_t>columns.codes.ctypes.data
    ws.stored_rows, ws.first_stored = &rows[0], &starts[0]
    ws.n_words = mask_words(ws.table.n_features)


cdef _set_columns(Workspace* ws, bundles):
    cdef int32_t c
    cdef const int32_t[::1] n_codes = bundles.n_codes, features = bundles.features, first = bundles.first_feature
    ws.table.n_columns = n_codes.shape[0]
    ws.columns = <Column*>malloc(ws.table.n_columns * sizeof(Column))
    if ws.columns == NULL:
        raise MemoryError(f"no memory for {ws.table.n_columns} columns")
    ws.table.columns = ws.columns
    for c in range(ws.table.n_columns):
        ws.columns[c].n_codes = n_codes[c]
        ws.columns[c].offset = ws.table.n_counted
        ws.columns[c].features = &features[first[c]]
        ws.columns[c].n_features = first[c + 1] - first[c]
        ws.table.n_codes += n_codes[c]
        ws.table.n_counted += CELL_STRIDE if ws.table.code_size == 1 and ws.n_words == 0 else n_codes[c]


cdef _set_features(Workspace* ws, matrix, monotone):
    cdef int32_t f
    cdef Feature* feature
    bundles = matrix.bundles
    cdef const int32_t[::1] n_codes = np.ascontiguousarray(matrix.n_codes, dtype=np.int32)
    cdef const uint8_t[::1] is_categorical = np.ascontiguousarray(matrix.is_categorical, dtype=np.uint8)
    cdef const int32_t[::1] first = bundles.first_member, usual = bundles.most_frequent_bin
    cdef const uint8_t[::1] members = bundles.members
    cdef const float64_t[::1] limits
    ws.features = <Feature*>malloc(ws.table.n_features * sizeof(Feature))
    if ws.features == NULL:
        raise MemoryError(f"no memory for {ws.table.n_features} features")
    for f in range(ws.table.n_features):
        feature = &ws.features[f]
        feature.index = f
        feature.n_codes = n_codes[f]
        feature.is_categorical = is_categorical[f]
        feature.monotone = 0 if monotone is None else monotone[f]
        limits = matrix.thresholds[f]
        feature.thresholds = &limits[0] if limits.shape[0] > 0 else NULL
        feature.members, feature.most_frequent_bin = &members[first[f]], usual[f]


cdef allow_stored(const Workspace* ws, int64_t least):
    """The columns that some tree may split on, as a mask: those with so many stored codes."""
    cdef int32_t f
    mask = np.zeros(max(ws.n_words, 1), dtype=np.uint64)
    cdef uint64_t[::1] words = mask
    for f in range(ws.table.n_features if ws.n_words > 0 else 0):
        if ws.first_stored[f + 1] - ws.first_stored[f] >= least:
            add_feature(&words[0], f)
    return mask
