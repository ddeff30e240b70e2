"""Compact encoding of integers: sums of histograms are usually small compared with the words that hold them."""

from libc.string cimport memcpy

from fastens.engine.structs cimport int64_t, uint8_t, uint64_t

import numpy as np

cdef enum:
    BLOCK = 256                     # numbers of a column that share a minimum and a byte width
    HEAD = 9                        # bytes of a block's header: the minimum and the width
    TAIL = 8                        # padding bytes at the end, so that each number can be read as a whole word

cdef enum Operation:
    SET
    ADD
    TAKE_LARGER

HOW = {"set": SET, "sum": ADD, "max": TAKE_LARGER}


def pack_ints(arrays):
    """Return the integers of arrays encoded as a uint8 array, as offsets from the minimum of each block.

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
    max_size = TAIL
    for array in arrays:
        if array.size:
            max_size += 8 * array.size + HEAD * (array.size // len(array)) * _n_blocks(len(array))
    message = np.empty(max_size, dtype=np.uint8)
    cdef uint8_t[::1] out = message
    cdef const int64_t[:, ::1] numbers
    cdef Py_ssize_t size = 0
    for array in arrays:
        if array.size:
            numbers = _as_table(array)
            with nogil:
                size += _encode_table(&numbers[0, 0], numbers.shape[0], numbers.shape[1], &out[size])
    message[size : size + TAIL] = 0
    return message[: size + TAIL]


def unpack_ints(const uint8_t[::1] message, arrays, operation):
    """Decode the bytes of `pack_ints` into arrays of the same shapes, in place.

    Parameters
    ----------
    message : uint8 array
        Result of `pack_ints`.
    arrays : list of int64 arrays
        In C order; modified in place.
    operation : {"set", "sum", "max"}
        How the decoded numbers are combined with the arrays: they overwrite the elements, are added to them, or replace
        smaller elements.

    Raises
    ------
    ValueError
        If the message does not hold exactly as many numbers as the arrays.
    """
    cdef int64_t[:, ::1] numbers
    cdef Py_ssize_t start = 0, end = message.shape[0] - TAIL
    cdef Operation chosen = HOW[operation]
    for array in arrays:
        if array.size and 0 <= start < end:
            numbers = _as_table(array)
            with nogil:
                start = _decode_table(
                    &message[0], start, end, &numbers[0, 0], numbers.shape[0], numbers.shape[1], chosen
                )
        elif array.size:
            start = -1
    if start != end:
        raise ValueError(f"message must hold {sum(array.size for array in arrays)} numbers; its {len(message)} bytes "
                         "hold others.")


def _as_table(array):
    """Return a view of an array of shape (n, ...) as a matrix (n, n_columns); further axes become columns."""
    return array.reshape(len(array), -1)


cdef inline Py_ssize_t _n_blocks(Py_ssize_t n) noexcept nogil:
    """Return the number of blocks of BLOCK rows, of which the last may be shorter, in `n` rows."""
    return (n + BLOCK - 1) // BLOCK


cdef Py_ssize_t _encode_table(const int64_t* numbers, Py_ssize_t n, Py_ssize_t n_columns, uint8_t* out) noexcept nogil:
    """Write a matrix (n, n_columns) to `out`; return the bytes used, after which up to TAIL more may change."""
    cdef uint64_t offsets[BLOCK]
    cdef Py_ssize_t b, first, column, i, n_rows, width, size = 0
    cdef const int64_t* block
    cdef int64_t minimum, maximum
    for b in range(_n_blocks(n)):
        first = b * BLOCK
        n_rows = min(<Py_ssize_t>BLOCK, n - first)
        for column in range(n_columns):
            block = numbers + first * n_columns + column
            minimum = maximum = block[0]
            for i in range(n_rows):
                minimum, maximum = min(minimum, block[i * n_columns]), max(maximum, block[i * n_columns])
            for i in range(n_rows):         # arithmetic modulo 2**64, so that differences of any two int64 fit
                offsets[i] = <uint64_t>block[i * n_columns] - <uint64_t>minimum
            width = _n_bytes_to_hold(<uint64_t>maximum - <uint64_t>minimum)
            memcpy(out + size, &minimum, 8)
            out[size + 8] = <uint8_t>width
            size += HEAD
            for i in range(n_rows):
                memcpy(out + size + i * width, &offsets[i], 8)
            size += n_rows * width
    return size


cdef inline Py_ssize_t _n_bytes_to_hold(uint64_t largest) noexcept nogil:
    """Return the minimum number of bytes that can hold an unsigned integer; 0 for 0."""
    cdef Py_ssize_t width = 0
    while largest:
        largest >>= 8
        width += 1
    return width


cdef Py_ssize_t _decode_table(
    const uint8_t* message, Py_ssize_t start, Py_ssize_t end, int64_t* numbers, Py_ssize_t n, Py_ssize_t n_columns,
    Operation operation,
) noexcept nogil:
    """Combine a matrix read from message[start:end] into the output `numbers`; return its end, -1 if too short."""
    cdef Py_ssize_t b, first, column, n_rows, width
    cdef int64_t minimum
    for b in range(_n_blocks(n)):
        first = b * BLOCK
        n_rows = min(<Py_ssize_t>BLOCK, n - first)
        for column in range(n_columns):
            if end - start < HEAD:
                return -1
            memcpy(&minimum, message + start, 8)
            width = message[start + 8]
            start += HEAD
            if width > 8 or end - start < n_rows * width:
                return -1
            _decode_block(
                message + start, width, minimum, numbers + first * n_columns + column, n_rows, n_columns, operation
            )
            start += n_rows * width
    return start


cdef inline void _decode_block(
    const uint8_t* digits, Py_ssize_t width, int64_t minimum, int64_t* numbers, Py_ssize_t n, Py_ssize_t step,
    Operation operation,
) noexcept nogil:
    """Combine `n` integers, stored in `width` bytes each as offsets from `minimum`, into the output `numbers`.

    Integer i is combined into numbers[i * step]: added, or written, or written if it is larger, by `operation`.
    """
    cdef uint64_t value, mask = 0
    cdef Py_ssize_t i
    if width > 0:
        mask = ~<uint64_t>0 >> (64 - 8 * width)
    for i in range(n):
        memcpy(&value, digits + i * width, 8)
        value = (value & mask) + <uint64_t>minimum
        if operation == ADD:
            numbers[i * step] += <int64_t>value
        elif operation == SET:
            numbers[i * step] = <int64_t>value
        else:
            numbers[i * step] = max(numbers[i * step], <int64_t>value)
