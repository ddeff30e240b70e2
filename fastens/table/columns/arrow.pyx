"""Reads columns of strings and of dictionary-encoded strings through Arrow's C stream interface without copies.

https://arrow.apache.org/docs/format/CStreamInterface.html
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.string cimport memset, strcmp

from fastens.table.columns.distinct cimport (
    OFFSETS_32, OFFSETS_64, VIEWS, Distinct, Layout, Source, Text, is_valid, text_at_index
)
from fastens.table.columns.whole cimport whole_t
from fastens.engine.structs cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)

import numpy as np

cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #include <stdint.h>
    struct ArrowSchema {
        const char* format;
        const char* name;
        const char* metadata;
        int64_t flags;
        int64_t n_children;
        struct ArrowSchema** children;
        struct ArrowSchema* dictionary;
        void (*release)(struct ArrowSchema*);
        void* private_data;
    };
    struct ArrowArray {
        int64_t length;
        int64_t null_count;
        int64_t offset;
        int64_t n_buffers;
        int64_t n_children;
        const void** buffers;
        struct ArrowArray** children;
        struct ArrowArray* dictionary;
        void (*release)(struct ArrowArray*);
        void* private_data;
    };
    #endif
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
        int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
        int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
        const char* (*get_last_error)(struct ArrowArrayStream*);
        void (*release)(struct ArrowArrayStream*);
        void* private_data;
    };
    #endif
    """
    struct ArrowSchema:
        const char* format
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept

    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        const void** buffers
        ArrowArray* dictionary
        void (*release)(ArrowArray*) noexcept

    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept
        int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept
        void (*release)(ArrowArrayStream*) noexcept

cdef int NO_TEXT = -1


cdef int _string_layout(const char* format):
    """Return the Layout of strings in an Arrow format, or NO_TEXT if the format does not hold strings."""
    if strcmp(format, b"u") == 0:
        return OFFSETS_32
    if strcmp(format, b"U") == 0:
        return OFFSETS_64
    return VIEWS if strcmp(format, b"vu") == 0 else NO_TEXT


cdef Source _locate_strings(const ArrowArray* array, int layout) noexcept:
    """Return the Source (buffers and offsets) of the strings of an Arrow array, which must not be empty.

    Empty arrays may lack buffers.
    """
    cdef Source source
    cdef int64_t last = array.offset + array.length
    memset(&source, 0, sizeof(Source))
    source.first = array.offset
    source.valid = <const uint8_t*> array.buffers[0] if array.null_count != 0 else NULL
    source.items = <const char*> array.buffers[1]
    if layout == VIEWS:
        source.buffers = <const char**> array.buffers + 2
        return source
    source.data = <const char*> array.buffers[2]
    if source.data != NULL:
        if layout == OFFSETS_32:
            source.end = source.data + (<const int32_t*> source.items)[last]
        else:
            source.end = source.data + (<const int64_t*> source.items)[last]
    return source


cdef inline int64_t _copy_indices(
    const whole_t* indices, const uint8_t* valid, int64_t first, int64_t n, int32_t start, uint64_t n_texts,
    uint8_t* present, int32_t* out
) noexcept nogil:
    """Write start + indices[first + i] to out[i] for `n` rows, or -1 for missing values, and set `present` by index.

    Returns the first row whose index is negative or not below `n_texts`, or n if there is none.
    """
    cdef int64_t i, position
    for i in range(n):
        position = first + i
        if valid == NULL or is_valid(valid, position):
            if <uint64_t> indices[position] >= n_texts:    # also true for negative indices
                return i
            present[indices[position]] = 1
            out[i] = start + <int32_t> indices[position]
        else:
            out[i] = -1
    return n


cdef int64_t _read_indices(
    const ArrowArray* array, char format, int32_t start, uint8_t[::1] present, int32_t[::1] out
):
    """Write start + index of each row of a dictionary-encoded array to `out`, and mark the used entries in `present`.

    `format` is the Arrow format character of the index type. Missing values become -1. Returns the first row whose
    index is outside the dictionary, or the number of rows if there is none.
    """
    cdef const uint8_t* valid = <const uint8_t*> array.buffers[0] if array.null_count != 0 else NULL
    cdef const void* indices = array.buffers[1]
    cdef int64_t n = array.length, first = array.offset, size = array.dictionary.length
    cdef uint8_t* used = &present[0]
    cdef int32_t* to = &out[0]
    with nogil:
        if format == c"c":
            return _copy_indices(<const int8_t*> indices, valid, first, n, start, size, used, to)
        elif format == c"C":
            return _copy_indices(<const uint8_t*> indices, valid, first, n, start, size, used, to)
        elif format == c"s":
            return _copy_indices(<const int16_t*> indices, valid, first, n, start, size, used, to)
        elif format == c"S":
            return _copy_indices(<const uint16_t*> indices, valid, first, n, start, size, used, to)
        elif format == c"i":
            return _copy_indices(<const int32_t*> indices, valid, first, n, start, size, used, to)
        elif format == c"I":
            return _copy_indices(<const uint32_t*> indices, valid, first, n, start, size, used, to)
        elif format == c"l":
            return _copy_indices(<const int64_t*> indices, valid, first, n, start, size, used, to)
        else:
            return _copy_indices(<const uint64_t*> indices, valid, first, n, start, size, used, to)


cdef list _decode_texts(const ArrowArray* array, Layout layout, const uint8_t[::1] present):
    """Return a list of the strings of an Arrow array, with None for the entries whose flag in `present` is not set."""
    cdef Source source
    cdef Text text
    cdef int64_t i
    cdef list out = [None] * array.length
    if array.length > 0:
        source = _locate_strings(array, layout)
    for i in range(array.length):
        if present[i] and (source.valid == NULL or is_valid(source.valid, source.first + i)):
            text = text_at_index(&source, layout, source.first + i)
            out[i] = text.data[:text.length].decode("utf-8")
    return out


cdef class _Stream:
    """The Arrow stream of a column and its current chunk."""

    cdef object capsule
    cdef ArrowArrayStream* stream
    cdef ArrowSchema schema
    cdef ArrowArray array

    def __cinit__(self, column):
        memset(&self.schema, 0, sizeof(ArrowSchema))
        memset(&self.array, 0, sizeof(ArrowArray))
        self.capsule = column.__arrow_c_stream__()
        self.stream = <ArrowArrayStream*> PyCapsule_GetPointer(self.capsule, b"arrow_array_stream")
        if self.stream.get_schema(self.stream, &self.schema):
            raise ValueError("the column's Arrow stream has no schema.")

    def __dealloc__(self):
        self.release_chunk()
        if self.schema.release != NULL:
            self.schema.release(&self.schema)

    cdef void release_chunk(self) noexcept:
        """Release the Arrow array of the current chunk, if there is one."""
        if self.array.release != NULL:
            self.array.release(&self.array)

    cdef bint read_chunk(self) except -1:
        """Read the next chunk into `array`; return False at the end of the stream."""
        self.release_chunk()
        if self.stream.get_next(self.stream, &self.array):
            raise ValueError("the column's Arrow stream broke off.")
        return self.array.release != NULL


def read_texts(column, int64_t n_rows):
    """Return the distinct texts of a column of strings or dictionary-encoded strings, and the code of each row.

    Parameters
    ----------
    column : object
        Object with the method ``__arrow_c_stream__``.
    n_rows : int
        Number of rows of the column.

    Returns
    -------
    tuple (codes, texts) or None
        Codes index the texts. A missing value has code -1 or the index of None in the texts; a text may occur twice.
        None is returned if the column does not hold strings.
    """
    cdef _Stream stream = _Stream(column)
    cdef bint is_dictionary = stream.schema.dictionary != NULL
    cdef int layout = _string_layout(stream.schema.dictionary.format if is_dictionary else stream.schema.format)
    if layout == NO_TEXT:
        return None
    return _read_dictionaries(stream, layout, n_rows) if is_dictionary else _read_strings(stream, layout, n_rows)


cdef object _read_dictionaries(_Stream stream, int layout, int64_t n_rows):
    """Return (codes, texts), as in `read_texts`, of all chunks of a stream of dictionary-encoded strings."""
    cdef int64_t done = 0, n_read
    cdef list texts = []
    codes = np.empty(n_rows, dtype=np.int32)
    while stream.read_chunk():
        if stream.array.length == 0:
            continue
        if stream.array.length > n_rows - done:
            raise ValueError(f"the column's Arrow stream has more rows than the column, {n_rows}.")
        present = np.zeros(max(stream.array.dictionary.length, 1), dtype=np.uint8)
        n_read = _read_indices(&stream.array, stream.schema.format[0], len(texts), present, codes[done:])
        if n_read < stream.array.length:
            raise ValueError(
                "A column's dictionary must hold the values of all its rows; "
                f"the index of row {done + n_read} is none of its {stream.array.dictionary.length}."
            )
        texts += _decode_texts(stream.array.dictionary, <Layout> layout, present)
        done += stream.array.length
    return codes, texts


cdef object _read_strings(_Stream stream, int layout, int64_t n_rows):
    """Return (codes, texts), as in `read_texts`, of all chunks of a stream of strings."""
    cdef Distinct distinct
    cdef Source source
    cdef int64_t done = 0
    cdef list texts = [], parts = []
    while stream.read_chunk():
        if stream.array.length == 0:
            continue
        source = _locate_strings(&stream.array, layout)
        distinct = Distinct(stream.array.length, stream.array.length + 1)
        with nogil:
            distinct.add(&source, <Layout> layout, stream.array.length)
        done += stream.array.length
        if done == n_rows and not parts:
            return distinct.codes, distinct.texts()
        parts.append(distinct.codes.astype(np.int32) + len(texts))
        texts += distinct.texts()
    return np.concatenate([np.zeros(0, dtype=np.int32), *parts]), texts
