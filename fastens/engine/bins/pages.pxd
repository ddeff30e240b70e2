from fastens.engine.structs cimport int32_t, int64_t, uint8_t, uint32_t


cdef extern from "engine/bins/pages.h" nogil:
    enum:
        MAX_MAPPED
        PAGES_SHIFT

    ctypedef struct Pages:
        const uint8_t* begin[MAX_MAPPED]
        size_t n_bytes[MAX_MAPPED]
        int32_t n
        int32_t most
        int32_t n_read
        int32_t others

    void drop_pages(Pages* pages)
    int32_t mapped_pages()
    void note_pages(Pages* pages, int64_t n)
    int64_t page_of(int64_t byte)


cdef class MappedPages:
    cdef Pages pages
    cdef object arrays


cdef Pages* pages_of(object pages)


cdef inline int64_t track_more_resident_rows(
    Pages* pages, int64_t seen, uint32_t first, uint32_t last, Py_ssize_t n, Py_ssize_t step
) noexcept nogil:
    """Note that n rows from `first` to `last`, `step` bytes apart, will be read; return their last page.

    `seen` is the last page of the preceding rows, or -1 if there are none.
    """
    cdef int64_t end = page_of(last * <int64_t>step)
    if pages != NULL:
        note_pages(pages, max(0, min(<int64_t>n, end - max(seen, page_of(first * <int64_t>step) - 1))))
    return end


cdef inline void track_resident_rows(
    Pages* pages, uint32_t first, uint32_t last, Py_ssize_t n, Py_ssize_t step
) noexcept nogil:
    """Note that rows without predecessors will be read."""
    track_more_resident_rows(pages, -1, first, last, n, step)
