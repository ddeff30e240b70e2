"""How much of the files that codes are in is held in memory: see pages.h."""


# Bytes that the system maps around the one that is read.
PAGE = 1 << PAGES_SHIFT


cdef class MappedPages:
    """Arrays that are pages of files, of which a process holds so many bytes at most, and what is being read.

    On Windows, the system alone decides.

    Parameters
    ----------
    arrays : list of arrays
        At most four, in C order.
    most_bytes : int
        What may be held.
    """

    def __init__(self, arrays, most_bytes):
        cdef int32_t i
        self.arrays = arrays
        self.pages.n = len(arrays)
        self.pages.most = min(page_of(most_bytes), 1 << 28)
        for i in range(self.pages.n):
            self.pages.begin[i] = <const uint8_t*><size_t>arrays[i].ctypes.data
            self.pages.n_bytes[i] = arrays[i].nbytes

    def note(self, n_bytes):
        """So many bytes were read or written, or will be."""
        note_pages(&self.pages, page_of(n_bytes) + self.pages.n)

    def note_all(self):
        """The same of all bytes of the arrays."""
        self.note(sum(array.nbytes for array in self.arrays))


cdef Pages* pages_of(object pages):
    """What kernels read, which lives as long as the object; NULL for None."""
    return NULL if pages is None else &(<MappedPages>pages).pages
