"""Strings among Python objects, compared by their characters."""

from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from libc.string cimport memset

from fastens.table.columns.distinct cimport IDENTITY, TEXTS, Distinct, Source, Text
from fastens.engine.structs cimport int64_t, prefetch

cdef extern from "Python.h" nogil:
    bint PyUnicode_CheckExact(PyObject* value)
    bint PyUnicode_IS_COMPACT(PyObject* text)
    int PyUnicode_KIND(PyObject* text)
    const char* PyUnicode_DATA(PyObject* text)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject* text)

cdef enum:
    BLOCK = 32          # texts looked up at a time: their objects are still in the first-level cache
    AHEAD = 32          # objects asked for before they are looked at
    UNSEEN = 2048       # blocks before Python looks for Ctrl-C: some 20 ms


cdef inline Text _text_of(PyObject* value) noexcept nogil:
    cdef Text text
    if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT(value):     # the characters are in the object
        text.kind = PyUnicode_KIND(value) >> 1      # of 1, 2 and 4 bytes a character
        text.length = PyUnicode_GET_LENGTH(value) * PyUnicode_KIND(value)
        text.data = <const char*> PyUnicode_DATA(value)
    else:
        text.data, text.length, text.kind = <const char*> value, 0, IDENTITY
    return text


def number_strings(Distinct distinct, const int64_t[:] pointers):
    """Number objects, strings by their characters and others by identity; False where there are too many.

    `pointers` are the objects' addresses. They live as long as their array holds them: nobody may change it meanwhile.
    """
    cdef Text[BLOCK] texts
    cdef Source source
    cdef Py_ssize_t first, block, i, n, n_rows = pointers.shape[0]
    cdef bint is_done = True
    memset(&source, 0, sizeof(Source))
    source.places = <const char*> texts
    with nogil:
        for block in range((n_rows + BLOCK - 1) // BLOCK):
            if block % UNSEEN == UNSEEN - 1:
                with gil:
                    PyErr_CheckSignals()
            first = block * BLOCK
            n = min(<Py_ssize_t> BLOCK, n_rows - first)
            for i in range(n):
                prefetch(<const void*> <size_t> pointers[min(first + i + AHEAD, n_rows - 1)])
                texts[i] = _text_of(<PyObject*> <size_t> pointers[first + i])
            source.first = 0
            is_done = distinct.add(&source, TEXTS, n)
            if not is_done:
                break
    return is_done
