"""Limit on the resident memory of files that hold codes: see pages.h."""


# Number of bytes that the system maps at once when any of them is read.
PAGE = 1 << PAGES_SHIFT


cdef class MappedPages:
    """Arrays in memory-mapped files, with a limit on the bytes that are resident in the process.

    On Windows, only the operating system decides which pages are resident.

    Parameters
    ----------
    arrays : list of arrays
        At most four C-contiguous arrays.
    max_bytes : int
        Limit of resident bytes.
    """

    def __init__(self, arrays, max_bytes):
        cdef int32_t i
        self.arrays = arrays
        self.pages.n = len(arrays)
        self.pages.most = min(page_of(max_bytes), 1 << 28)
        for i in range(self.pages.n):
            self.pages.begin[i] = <const uint8_t*><size_t>arrays[i].ctypes.data
            self.pages.n_bytes[i] = arrays[i].nbytes
        drop_pages(&self.pages)
        self.pages.others = max(0, mapped_pages())

    def note(self, n_bytes):
        """Count n_bytes bytes that were or will be read or written; release pages if too many are resident."""
        note_pages(&self.pages, page_of(n_bytes) + self.pages.n)

    def drop(self):
        """Release the resident pages of the arrays, which will not be read for a while."""
        drop_pages(&self.pages)

    def note_all(self):
        """Count all bytes of the arrays like `note`, because they were or will be read or written."""
        self.note(sum(array.nbytes for array in self.arrays))


cdef Pages* pages_of(object pages):
    """Return the struct of a MappedPages for kernels, which lives as long as the object; NULL for None."""
    return NULL if pages is None else &(<MappedPages>pages).pages
