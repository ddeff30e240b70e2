"""Distinct values in order of appearance: words of eight bytes, texts and Python strings."""

import numpy as np
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset
from fastens.engine.structs cimport int64_t, prefetch, uint32_t, uint64_t, uint8_t
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject


cdef enum:
    FIRST_SLOTS = 6         # log2 of the initial number of slots
    SHORT = 16              # bytes that fit in a slot
    NARROW = 256
    FULL = -1
    NO_MEMORY = -2

cdef uint64_t ODD = 0x9E3779B97F4A7C15      # 2**64 divided by the golden ratio: multiples differ in their high bits
cdef uint64_t OTHER = 0xC2B2AE3D27D4EB4F
cdef uint64_t[9] FIRST_BYTES                # byte masks
cdef uint64_t[9] LAST_BYTES
cdef uint64_t FIRST_BYTE = 0                # a word in which only that byte is 1
cdef uint64_t LAST_BYTE = 0
cdef int _n

memset(FIRST_BYTES, 0, sizeof(FIRST_BYTES))
memset(LAST_BYTES, 0, sizeof(LAST_BYTES))
for _n in range(9):
    memset(&FIRST_BYTES[_n], 0xFF, _n)
    memset(<char*> LAST_BYTES + 8 * _n + 8 - _n, 0xFF, _n)
memset(&FIRST_BYTE, 1, 1)
memset(<char*> &LAST_BYTE + 7, 1, 1)

ctypedef fused number_t:
    uint8_t
    uint32_t


cdef inline uint64_t _load_word(const char* address) noexcept nogil:
    """Return the eight bytes at an address, which may be unaligned."""
    cdef uint64_t word
    memcpy(&word, address, 8)
    return word


cdef inline uint64_t _slot_index(const HashTable* table, uint64_t low, uint64_t high) noexcept nogil:
    """Return the preferred slot of a value in the hash table, from the value's first and last eight bytes."""
    return ((low + high * OTHER) * ODD) >> table.shift


cdef bint _grow_slots(HashTable* table, int n_bits) noexcept nogil:
    """Rehash all values into 2**n_bits slots; return False if memory is exhausted."""
    cdef Slot* old = table.slots
    cdef int64_t n_old = (<int64_t> 1 << (64 - table.shift)) if old != NULL else 0
    cdef uint64_t mask = (<uint64_t> 1 << n_bits) - 1
    cdef uint64_t index
    cdef int64_t i
    cdef Slot* slots = <Slot*> calloc(<size_t> 1 << n_bits, sizeof(Slot))
    if slots == NULL:
        return False
    table.slots = slots
    table.shift = 64 - n_bits
    for i in range(n_old):
        if old[i].number:
            index = _slot_index(table, old[i].low, old[i].high)
            while slots[index].number:
                index = (index + 1) & mask
            slots[index] = old[i]
    free(old)
    return True


cdef bint _grow_capacity(HashTable* table) noexcept nogil:
    """Double the capacity of the arrays of texts and first rows; return False if memory is exhausted."""
    cdef int64_t capacity = max(<int64_t> 16, 2 * table.capacity)
    cdef void* texts = realloc(table.texts, capacity * sizeof(Text))
    if texts != NULL:
        table.texts = <Text*> texts
    cdef void* rows = realloc(table.rows, capacity * sizeof(int64_t))
    if rows != NULL:
        table.rows = <int64_t*> rows
    if texts == NULL or rows == NULL:
        return False
    table.capacity = capacity
    return True


cdef int64_t _append(HashTable* table, Text text, int64_t row) noexcept nogil:
    """Append a new value, which first occurs in `row`, to the list of values only, not to the hash table.

    Returns its code, FULL if the limit of distinct values is reached, or NO_MEMORY.
    """
    if table.n_distinct >= table.max_distinct:
        return FULL
    if table.n_distinct == table.capacity and not _grow_capacity(table):
        return NO_MEMORY
    table.texts[table.n_distinct] = text
    table.rows[table.n_distinct] = row
    table.n_distinct += 1
    return table.n_distinct - 1


cdef int64_t _insert(HashTable* table, uint64_t low, uint64_t high, Text text, int64_t row) noexcept nogil:
    """Add a value that is not in the hash table; return its new code, FULL or NO_MEMORY (see `_append`).

    `low` and `high` are the first and last eight bytes of the value, and `row` is the row in which it first occurs.
    """
    cdef int64_t code
    cdef uint64_t index
    if (table.n_distinct + 1) * 2 > (<int64_t> 1 << (64 - table.shift)):
        if not _grow_slots(table, 64 - table.shift + 2):
            return NO_MEMORY
    code = _append(table, text, row)
    if code >= 0:
        index = _slot_index(table, low, high)
        while table.slots[index].number:
            index = (index + 1) & ((<uint64_t> 1 << (64 - table.shift)) - 1)
        table.slots[index] = Slot(low, high, 4 * text.length + text.kind, code + 1)
    return code


cdef inline int64_t _find_or_insert(
    HashTable* table, uint64_t low, uint64_t high, Text text, int64_t row
) noexcept nogil:
    """Return the code of a value, after adding it if it is new; FULL or NO_MEMORY (see `_append`) if that fails.

    `low` and `high` are the first and last eight bytes of the value, and `row` is the row in which it occurs.
    """
    cdef uint64_t index = _slot_index(table, low, high)
    cdef const Slot* slot = table.slots + index
    while slot.number:
        if slot.low == low and slot.high == high and slot.extent == 4 * text.length + text.kind:
            if text.length <= SHORT or memcmp(table.texts[slot.number - 1].data, text.data, text.length) == 0:
                return slot.number - 1
        index = (index + 1) & ((<uint64_t> 1 << (64 - table.shift)) - 1)
        slot = table.slots + index
    return _insert(table, low, high, text, row)


cdef inline uint64_t _cache_index(uint64_t word) noexcept nogil:
    """Return the index of the entry for a word in the direct-mapped cache of recent values."""
    return (word * ODD) >> (64 - RECENT_BITS)


cdef inline int64_t _find_cached(const HashTable* table, uint64_t word) noexcept nogil:
    """Return the code of a word from the cache of recent values, or -1 if the cache does not hold it."""
    # This fast path finds most values of typical columns, which have occurred recently.
    cdef const Recent* recent = table.recent + _cache_index(word)
    return recent.number - 1 if recent.word == word else -1


cdef inline int64_t _cache_code(HashTable* table, uint64_t word, int64_t code) noexcept nogil:
    """Write the code of a word to the cache of recent values unless it is an error code; return the code."""
    if code >= 0:
        table.recent[_cache_index(word)] = Recent(word, code + 1)
    return code


cdef inline int64_t _encode_word(HashTable* table, uint64_t word, int64_t row) noexcept nogil:
    """Return the code of an eight-byte word that occurs in `row`, after adding it if it is new; FULL or NO_MEMORY."""
    cdef Text text
    cdef int64_t code = _find_cached(table, word)
    if code >= 0:
        return code
    text.data, text.length, text.kind = NULL, 0, IDENTITY
    return _cache_code(table, word, _find_or_insert(table, word, 0, text, row))


cdef int64_t _encode_text(
    HashTable* table, const char* data, int64_t length, int64_t kind, const char* end, int64_t row
) noexcept nogil:
    """Return the code of a text of `length` bytes, after adding it if it is new; FULL or NO_MEMORY if that fails.

    Texts of different `kind` are different values. Memory is readable from `data` to `end`.
    """
    cdef uint64_t low = 0, high = 0
    cdef bint is_long = length > 8
    if data + 8 <= end:         # reads past the text so that no branch depends on its length
        low = _load_word(data) & FIRST_BYTES[8 if is_long else length]
        high = _load_word(data + (length - 8 if is_long else 0)) & (<uint64_t> 0 - <uint64_t> is_long)
    else:
        memcpy(&low, data, length)
    return _find_or_insert(table, low, high, Text(data, length, kind), row)


cdef inline int64_t _encode_short_text(
    HashTable* table, uint64_t word, Text text, const char* end, int64_t row
) noexcept nogil:
    """Return the code of a text of less than eight bytes, using the cache of recent values.

    `word` holds the text, with its extent in the remaining byte. Memory is readable up to `end`, and `row` is the row
    of the text.
    """
    cdef int64_t code = _find_cached(table, word)
    if code >= 0:
        return code
    return _cache_code(table, word, _encode_text(table, text.data, text.length, text.kind, end, row))


cdef int64_t _encode_missing(HashTable* table, int64_t row) noexcept nogil:
    """Return the code of the missing value, after adding it if it has not occurred before row `row`."""
    cdef Text text
    if table.missing < 0:
        text.data, text.length, text.kind = NULL, 0, IDENTITY
        table.missing = _append(table, text, row)
    return table.missing


cdef inline int64_t _encode_value(
    HashTable* table, const Source* source, Layout layout, int64_t index, int64_t row
) noexcept nogil:
    """Return the code of the value at `index` of `source`, after adding it if it is new; FULL or NO_MEMORY.

    `row` is the row of the value in the column.
    """
    cdef Text text
    cdef const char* end
    cdef uint64_t word
    if layout == WORDS:
        return _encode_word(table, _load_word(source.data + index * source.stride), row)
    text = text_at_index(source, layout, index)
    end = text.data + text.length
    if layout == TEXTS:         # the object header before the characters is readable memory
        if text.kind == IDENTITY:   # bypasses the recent words, because an address could equal the word of a text
            return _find_or_insert(table, <uint64_t> <size_t> text.data, 0, Text(NULL, 0, IDENTITY), row)
        if text.length < 8:
            word = _load_word(end - 8) & LAST_BYTES[text.length]
            return _encode_short_text(table, word | FIRST_BYTE * (4 * text.length + text.kind), text, end, row)
    elif layout != FIXED:
        end = source.end if layout != VIEWS else text.data + max(text.length, <int64_t> INLINE)
        if text.length < 8 and text.data + 8 <= end:
            word = _load_word(text.data) & FIRST_BYTES[text.length]
            return _encode_short_text(table, word | LAST_BYTE * (4 * text.length + text.kind), text, end, row)
    return _encode_text(table, text.data, text.length, text.kind, end, row)


cdef inline int64_t _encode_rows(
    HashTable* table, const Source* source, Layout layout, bint has_missing, int64_t n, int64_t row, number_t* out
) noexcept nogil:
    """Write the codes of the next `n` values of `source`, the first of which is in row `row` of the column, to `out`.

    Stops at the first value that exceeds the limit of distinct values. Returns the number of rows whose code was
    written, or NO_MEMORY. If `has_missing` is False, the validity bits of `source` are not read.
    """
    cdef int64_t i, index, code
    for i in range(n):
        index = source.first + i
        if has_missing and not is_valid(source.valid, index):
            code = _encode_missing(table, row + i)
        else:
            code = _encode_value(table, source, layout, index, row + i)
        if code < 0:
            return i if code == FULL else NO_MEMORY
        out[i] = <number_t> code
    return n


cdef int64_t _encode_rows_by_layout(
    HashTable* table, const Source* source, Layout layout, int64_t n, int64_t row, number_t* out
) noexcept nogil:
    """Call `_encode_rows` with literal arguments, which let the compiler specialise the loop for each layout."""
    if source.valid == NULL:
        if layout == WORDS:
            return _encode_rows(table, source, WORDS, False, n, row, out)
        if layout == FIXED:
            return _encode_rows(table, source, FIXED, False, n, row, out)
        if layout == TEXTS:
            return _encode_rows(table, source, TEXTS, False, n, row, out)
        if layout == OFFSETS_32:
            return _encode_rows(table, source, OFFSETS_32, False, n, row, out)
        if layout == OFFSETS_64:
            return _encode_rows(table, source, OFFSETS_64, False, n, row, out)
        return _encode_rows(table, source, VIEWS, False, n, row, out)
    if layout == OFFSETS_32:
        return _encode_rows(table, source, OFFSETS_32, True, n, row, out)
    if layout == OFFSETS_64:
        return _encode_rows(table, source, OFFSETS_64, True, n, row, out)
    return _encode_rows(table, source, VIEWS, True, n, row, out)


cdef class Distinct:
    """The distinct values of a column of `n_rows` rows, at most `max_distinct` of them, added chunk by chunk.

    Texts are not copied: their buffers must stay alive until `texts` has been called.
    """

    def __cinit__(self, int64_t n_rows, int64_t max_distinct):
        cdef uint8_t[::1] narrow = np.empty(n_rows, dtype=np.uint8)
        self.codes_, self.narrow = narrow.base, &narrow[0] if n_rows else NULL
        self.max_distinct = max_distinct
        self.table.max_distinct = min(max_distinct, <int64_t> NARROW)
        self.table.missing = -1
        if not _grow_slots(&self.table, FIRST_SLOTS):
            raise MemoryError

    def __dealloc__(self):
        free(self.table.slots)
        free(self.table.texts)
        free(self.table.rows)

    cdef bint add(self, Source* source, Layout layout, int64_t n) except -1 nogil:
        """Append the codes of the next `n` rows; return False if there are more than `max_distinct` distinct values."""
        cdef int64_t done = 0
        if not self.is_wide:
            done = _encode_rows_by_layout(&self.table, source, layout, n, self.n_done, self.narrow + self.n_done)
            if 0 <= done < n and self.max_distinct > NARROW:
                with gil:
                    self._widen_codes()
        if done >= 0:
            self.n_done += done
        if 0 <= done < n and self.is_wide:
            source.first += done
            n -= done
            done = _encode_rows_by_layout(&self.table, source, layout, n, self.n_done, self.wide + self.n_done)
            if done >= 0:
                self.n_done += done
        if done < 0:
            with gil:
                raise MemoryError
        return done == n

    cdef int _widen_codes(self) except -1:
        """Convert the codes from uint8 to uint32, and raise the limit of distinct values to `max_distinct`."""
        cdef uint32_t[::1] wide = self.codes_.astype(np.uint32)
        self.codes_, self.wide, self.is_wide = wide.base, &wide[0], True
        self.table.max_distinct = self.max_distinct
        return 0

    def add_words(self, const int64_t[:] words):
        """Append the codes of eight-byte words; return False if there are more than `max_distinct` distinct values."""
        cdef Source source = _strided_source(<const char*> &words[0], words.strides[0])
        cdef bint is_done
        with nogil:
            is_done = self.add(&source, WORDS, words.shape[0])
        return is_done

    def add_fixed(self, const uint8_t[:, :] texts):
        """Append the codes of texts of equal length, each of which is a row of bytes.

        Returns False if there are more than `max_distinct` distinct values.
        """
        cdef Source source = _strided_source(<const char*> &texts[0, 0], texts.strides[0])
        cdef bint is_done
        source.length = texts.shape[1]
        with nogil:
            is_done = self.add(&source, FIXED, texts.shape[0])
        return is_done

    @property
    def codes(self):
        """Code of each row's value, the index of the value in order of first appearance."""
        return self.codes_

    @property
    def rows(self):
        """First row of each distinct value."""
        if self.table.n_distinct == 0:
            return np.zeros(0, dtype=np.int64)
        return np.array(<int64_t[:self.table.n_distinct]> self.table.rows)

    def texts(self):
        """Return the distinct texts as a list indexed by code, with None for the missing value."""
        cdef int64_t i
        cdef list out = []
        for i in range(self.table.n_distinct):
            if i == self.table.missing:
                out.append(None)
            else:
                out.append(self.table.texts[i].data[:self.table.texts[i].length].decode("utf-8"))
        return out


cdef Source _strided_source(const char* data, int64_t stride) noexcept:
    """Return a Source without missing values whose values start at `data` and are `stride` bytes apart."""
    cdef Source source
    memset(&source, 0, sizeof(Source))
    source.data = data
    source.stride = stride
    return source


cdef extern from "Python.h" nogil:
    bint PyUnicode_CheckExact(PyObject* value)
    bint PyUnicode_IS_COMPACT(PyObject* text)
    int PyUnicode_KIND(PyObject* text)
    const char* PyUnicode_DATA(PyObject* text)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject* text)

cdef enum:
    BLOCK = 32          # texts per lookup batch: their objects are still in the L1 cache
    AHEAD = 32          # prefetch distance, in objects
    BLOCKS_PER_CHECK = 2048       # blocks between checks for Ctrl-C: about 20 ms


cdef inline Text _text_of_object(PyObject* value) noexcept nogil:
    """Return the characters of a Python string; for any other object, its address as a Text of kind IDENTITY."""
    cdef Text text
    if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT(value):     # the characters follow the object header
        text.kind = PyUnicode_KIND(value) >> 1      # for 1, 2 and 4 bytes per character
        text.length = PyUnicode_GET_LENGTH(value) * PyUnicode_KIND(value)
        text.data = <const char*> PyUnicode_DATA(value)
    else:
        text.data, text.length, text.kind = <const char*> value, 0, IDENTITY
    return text


def encode_objects(Distinct distinct, const int64_t[:] addresses):
    """Append the codes of Python objects; return False if there are too many distinct values.

    Strings are compared by their characters and other objects by identity. `addresses` holds the addresses of the
    objects in an array that keeps them alive, so it must not be modified meanwhile.
    """
    cdef Text[BLOCK] texts
    cdef Source source
    cdef Py_ssize_t first, block, i, n, n_rows = addresses.shape[0]
    cdef bint is_done = True
    memset(&source, 0, sizeof(Source))
    source.items = <const char*> texts
    with nogil:
        for block in range((n_rows + BLOCK - 1) // BLOCK):
            if block % BLOCKS_PER_CHECK == BLOCKS_PER_CHECK - 1:
                with gil:
                    PyErr_CheckSignals()
            first = block * BLOCK
            n = min(<Py_ssize_t> BLOCK, n_rows - first)
            for i in range(n):
                prefetch(<const void*> <size_t> addresses[min(first + i + AHEAD, n_rows - 1)])
                texts[i] = _text_of_object(<PyObject*> <size_t> addresses[first + i])
            source.first = 0
            is_done = distinct.add(&source, TEXTS, n)
            if not is_done:
                break
    return is_done
