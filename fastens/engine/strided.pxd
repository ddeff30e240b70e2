"""Values of arrays with arbitrary strides, and their bits."""

from libc.math cimport NAN
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from fastens.engine.structs cimport float32_t, float64_t, int32_t, uint8_t, uint16_t, value_t

cdef extern from *:
    """
    #define FASTENS_GOLDEN 0x9E3779B97F4A7C15u
    """
    const uint64_t GOLDEN "FASTENS_GOLDEN"


cdef struct Strides:
    Py_ssize_t row
    Py_ssize_t column


cdef inline Strides strides_of(const value_t[:, :] X) noexcept nogil:
    cdef Strides strides
    strides.row = X.strides[0] // <Py_ssize_t> sizeof(value_t)
    strides.column = X.strides[1] // <Py_ssize_t> sizeof(value_t)
    return strides


cdef struct Values:
    # A table of float32 or float64, for multithreaded jobs, which cannot hold memoryviews.
    const void* x
    int32_t value_size
    Strides strides


cdef inline Values values_of(const value_t[:, :] X) noexcept nogil:
    return Values(&X[0, 0], sizeof(value_t), strides_of(X))


cdef inline float64_t value_at(const Values* X, Py_ssize_t row, Py_ssize_t column) noexcept nogil:
    cdef Py_ssize_t place = row * X.strides.row + column * X.strides.column
    if X.value_size == sizeof(float32_t):
        return (<const float32_t*> X.x)[place]
    return (<const float64_t*> X.x)[place]


cdef inline uint16_t code_at(const void* codes, int32_t code_size, Py_ssize_t place) noexcept nogil:
    return (<const uint8_t*> codes)[place] if code_size == 1 else (<const uint16_t*> codes)[place]


cdef inline uint64_t bits_of(float64_t value) noexcept nogil:
    # Equal for both zeros, and for all NaN payloads.
    cdef uint64_t bits
    value = value + 0.0 if value == value else <float64_t> NAN
    memcpy(&bits, &value, sizeof(bits))
    return bits
