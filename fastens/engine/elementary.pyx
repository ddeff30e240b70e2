"""Elementary functions, such as exp, log and log gamma, that are bit-identical on every machine.

Use these for everything that affects a model or a prediction, because NumPy and the C library choose their algorithms
by processor. They are accurate to about one unit in the last place for all arguments, and accept arrays of any shape.
"""

import numpy as np

cdef extern from "engine/elementary.h" nogil:
    void exps(const double* x, Py_ssize_t n, double* out) noexcept
    void logs(const double* x, Py_ssize_t n, double* out) noexcept
    void log1ps(const double* x, Py_ssize_t n, double* out) noexcept
    void log2s(const double* x, Py_ssize_t n, double* out) noexcept
    void lgammas(const double* x, Py_ssize_t n, double* out) noexcept
    void digammas(const double* x, Py_ssize_t n, double* out) noexcept
    void trigammas(const double* x, Py_ssize_t n, double* out) noexcept
    void lbetas(const double* a, const double* b, Py_ssize_t n, double* out) noexcept

ctypedef void (*Loop)(const double* x, Py_ssize_t n, double* out) noexcept nogil


cdef _apply(Loop loop, x, out=None):
    """Apply a loop to all elements of x; return a float64 array like x or `out`, or a scalar if x is one."""
    values = np.ascontiguousarray(x, dtype=np.float64)
    result = np.empty_like(values) if out is None else out
    cdef const double[::1] flat = values.reshape(-1)
    cdef double[::1] flat_result = result.reshape(-1)
    if flat.shape[0]:
        with nogil:
            loop(&flat[0], flat.shape[0], &flat_result[0])
    return result.reshape(np.shape(x))[()]


def exp(x, out=None):
    """Return e to the power of each element; `out` must be C-contiguous and may be x itself."""
    return _apply(exps, x, out)


def log(x):
    """Return the natural logarithm of each element; -inf for 0 and NaN for negative numbers."""
    return _apply(logs, x)


def log1p(x):
    """Return log(1 + x) of each element."""
    return _apply(log1ps, x)


def log2(x):
    """Return the base-2 logarithm of each element; exact integers for powers of 2."""
    return _apply(log2s, x)


def gammaln(x):
    """Return log(gamma(x)) of each positive element; exactly 0 for 1 and 2."""
    return _apply(lgammas, x)


def digamma(x):
    """Return the derivative of log(gamma(x)) of each positive element; NaN for others."""
    return _apply(digammas, x)


def trigamma(x):
    """Return the second derivative of log(gamma(x)) of each positive element; NaN for others."""
    return _apply(trigammas, x)


def betaln(a, b):
    """Return log(gamma(a) gamma(b) / gamma(a + b)) for each pair of positive elements."""
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    first, second = (np.array(np.broadcast_to(x, shape), np.float64).reshape(-1) for x in (a, b))
    result = np.empty_like(first)
    cdef const double[::1] flat_a = first, flat_b = second
    cdef double[::1] flat_result = result
    if flat_a.shape[0]:
        with nogil:
            lbetas(&flat_a[0], &flat_b[0], flat_a.shape[0], &flat_result[0])
    return result.reshape(shape)[()]


def xlogy(x, y):
    """Return x log(y) for each pair of elements; 0 where x is 0."""
    is_zero = np.equal(x, 0)
    return (x * log(np.where(is_zero, 1.0, y)))[()]


def xlog1py(x, y):
    """Return x log(1 + y) for each pair of elements; 0 where x is 0."""
    is_zero = np.equal(x, 0)
    return (x * log1p(np.where(is_zero, 0.0, y)))[()]


def logaddexp(x, y):
    """Return log(exp(x) + exp(y)) for each pair of elements."""
    largest = np.maximum(x, y)
    with np.errstate(invalid="ignore"):
        result = largest + log1p(exp(np.minimum(x, y) - largest))
    return np.where(np.isinf(largest), largest, result)[()]


def logsumexp(x, axis=None):
    """Return the logarithm of the sum of exponentials along an axis, or over all elements."""
    largest = np.max(x, axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    return (log(exp(x - largest).sum(axis=axis, keepdims=True)) + largest).sum(axis=axis)


def softmax(x, axis=None):
    """Return the exponentials divided by their sum along an axis, or over all elements."""
    shares = exp(x - np.max(x, axis=axis, keepdims=True))
    return shares / shares.sum(axis=axis, keepdims=True)


def expit(x):
    """Return 1 / (1 + exp(-x)) of each element; neither tail loses precision."""
    tail = exp(-np.abs(x))
    return (np.where(np.asarray(x) < 0, tail, 1.0) / (1.0 + tail))[()]


def sum_in_order(values):
    """Return the left-to-right sum of floats, rounded after each step; `sum` compensates rounding since Python 3.12."""
    cdef double total = 0.0
    for value in values:
        total += value
    return total
