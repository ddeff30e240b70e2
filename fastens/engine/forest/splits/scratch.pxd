from fastens.engine.forest.splits.structs cimport Forest, Layout, Scratch


cdef bint allocate_scratch(
    const Forest* forest, const Layout* layout, Py_ssize_t n_entries, Scratch* scratch
) noexcept nogil
