"""Compact encoding of integers: sums of histograms are usually small compared with the words that hold them."""

from libc.string cimport memcpy

from fastens.engine.structs cimport int64_t, uint8_t, uint64_t

import numpy as np

cdef enum:
    BLOCK = 256                     # numbers of a column that share a minimum and a byte width
    HEAD = 9                        # bytes of a block's header: the minimum and the width
    TAIL = 8                        # padding bytes at the end, so that each number can be read as a whole word

cdef enum How:
    SET
    ADD
    TAKE_LARGER

HOW = {"set": SET, "sum": ADD, "max": TAKE_LARGER}


def pack_ints(arrays):
    """Encode the integers of arrays as bytes, as offsets from the minimum of each block.

    Blocks run along columns, because the numbers of a column have similar magnitudes.

    Parameters
    ----------
    arrays : list of int64 arrays
        In C order, of shape (n,) or (n, n_columns). Further axes count as further columns.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = 10**12 + np.arange(1024)
    >>> message, unpacked = pack_ints([numbers]), np.zeros(1024, dtype=np.int64)
    >>> unpack_ints(message, [unpacked], "sum")
    >>> len(message), bool((unpacked == numbers).all())
    (1068, True)
    """
    most = TAIL
    for array in arrays:
        if array.size:
            most += 8 * array.size + HEAD * (array.size // len(array)) * _n_blocks(len(array))
    message = np.empty(most, dtype=np.uint8)
    cdef uint8_t[::1] out = message
    cdef const int64_t[:, ::1] numbers
    cdef Py_ssize_t size = 0
    for array in arrays:
        if array.size:
            numbers = _as_table(array)
            with nogil:
                size += _write(&numbers[0, 0], numbers.shape[0], numbers.shape[1], &out[size])
    message[size : size + TAIL] = 0
    return message[: size + TAIL]


def unpack_ints(const uint8_t[::1] message, arrays, how):
    """Decode the bytes of `pack_ints` into arrays of the same shapes.

    Parameters
    ----------
    message : uint8 array
        Result of `pack_ints`.
    arrays : list of int64 arrays
        In C order; modified in place.
    how : {"set", "sum", "max"}
        How the decoded numbers are combined with the arrays: they overwrite the elements, are added to them, or replace
        smaller elements.

    Raises
    ------
    ValueError
        If the message does not hold exactly as many numbers as the arrays.
    """
    cdef int64_t[:, ::1] numbers
    cdef Py_ssize_t start = 0, end = message.shape[0] - TAIL
    cdef How chosen = HOW[how]
    for array in arrays:
        if array.size and 0 <= start < end:
            numbers = _as_table(array)
            with nogil:
                start = _read(&message[0], start, end, &numbers[0, 0], numbers.shape[0], numbers.shape[1], chosen)
        elif array.size:
            start = -1
    if start != end:
        raise ValueError(f"message must hold {sum(array.size for array in arrays)} numbers; its {len(message)} bytes "
                         "hold others.")


def _as_table(array):
    return array.reshape(len(array), -1)


cdef inline Py_ssize_t _n_blocks(Py_ssize_t n) noexcept nogil:
    return (n + BLOCK - 1) // BLOCK


cdef Py_ssize_t _write(const int64_t* numbers, Py_ssize_t n, Py_ssize_t n_columns, uint8_t* out) noexcept nogil:
    """Encode a table and return the number of bytes. Up to TAIL bytes after them are overwritten."""
    cdef uint64_t apart[BLOCK]
    cdef Py_ssize_t b, first, column, i, n_rows, width, size = 0
    cdef const int64_t* block
    cdef int64_t least, most
    for b in range(_n_blocks(n)):
        first = b * BLOCK
        n_rows = min(<Py_ssize_t>BLOCK, n - first)
        for column in range(n_columns):
            block = numbers + first * n_columns + column
            least = most = block[0]
            for i in range(n_rows):
                least, most = min(least, block[i * n_columns]), max(most, block[i * n_columns])
            for i in range(n_rows):         # arithmetic modulo 2**64, so that differences of any two int64 fit
                apart[i] = <uint64_t>block[i * n_columns] - <uint64_t>least
            width = _width(<uint64_t>most - <uint64_t>least)
            memcpy(out + size, &least, 8)
            out[size + 8] = <uint8_t>width
            size += HEAD
            for i in range(n_rows):
                memcpy(out + size + i * width, &apart[i], 8)
            size += n_rows * width
    return size


cdef inline Py_ssize_t _width(uint64_t largest) noexcept nogil:
    cdef Py_ssize_t width = 0
    while largest:
        largest >>= 8
        width += 1
    return width


cdef Py_ssize_t _read(
    const uint8_t* message, Py_ssize_t start, Py_ssize_t end, int64_t* numbers, Py_ssize_t n, Py_ssize_t n_columns,
    How how,
) noexcept nogil:
    """Decode a table that begins at `start`; return where the next one begins, or -1 if the message is too short."""
    cdef Py_ssize_t b, first, column, n_rows, width
    cdef int64_t least
    for b in range(_n_blocks(n)):
        first = b * BLOCK
        n_rows = min(<Py_ssize_t>BLOCK, n - first)
        for column in range(n_columns):
            if end - start < HEAD:
                return -1
            memcpy(&least, message + start, 8)
            width = message[start + 8]
            start += HEAD
            if width > 8 or end - start < n_rows * width:
                return -1
            _read_block(message + start, width, least, numbers + first * n_columns + column, n_rows, n_columns, how)
            start += n_rows * width
    return start


cdef inline void _read_block(
    const uint8_t* digits, Py_ssize_t width, int64_t least, int64_t* numbers, Py_ssize_t n, Py_ssize_t step, How how
) noexcept nogil:
    cdef uint64_t value, mask = 0
    cdef Py_ssize_t i
    if width > 0:
        mask = ~<uint64_t>0 >> (64 - 8 * width)
    for i in range(n):
        memcpy(&value, digits + i * width, 8)
        value = (value & mask) + <uint64_t>least
        if how == ADD:
            numbers[i * step] += <int64_t>value
        elif how == SET:
            numbers[i * step] = <int64_t>value
        else:
            numbers[i * step] = max(numbers[i * step], <int64_t>value)
