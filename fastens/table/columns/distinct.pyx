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


cdef inline uint64_t _word_at(const char* p) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, p, 8)
    return word


cdef inline uint64_t _slot_of(const Seen* seen, uint64_t low, uint64_t high) noexcept nogil:
    return ((low + high * OTHER) * ODD) >> seen.shift


cdef bint _grow_slots(Seen* seen, int n_bits) noexcept nogil:
    cdef Slot* old = seen.slots
    cdef int64_t n_old = (<int64_t> 1 << (64 - seen.shift)) if old != NULL else 0
    cdef uint64_t mask = (<uint64_t> 1 << n_bits) - 1
    cdef uint64_t place
    cdef int64_t i
    cdef Slot* slots = <Slot*> calloc(<size_t> 1 << n_bits, sizeof(Slot))
    if slots == NULL:
        return False
    seen.slots = slots
    seen.shift = 64 - n_bits
    for i in range(n_old):
        if old[i].number:
            place = _slot_of(seen, old[i].low, old[i].high)
            while slots[place].number:
                place = (place + 1) & mask
            slots[place] = old[i]
    free(old)
    return True


cdef bint _make_room(Seen* seen) noexcept nogil:
    cdef int64_t room = max(<int64_t> 16, 2 * seen.room)
    cdef void* texts = realloc(seen.texts, room * sizeof(Text))
    if texts != NULL:
        seen.texts = <Text*> texts
    cdef void* rows = realloc(seen.rows, room * sizeof(int64_t))
    if rows != NULL:
        seen.rows = <int64_t*> rows
    if texts == NULL or rows == NULL:
        return False
    seen.room = room
    return True


cdef int64_t _append(Seen* seen, Text text, int64_t row) noexcept nogil:
    if seen.n_distinct >= seen.most:
        return FULL
    if seen.n_distinct == seen.room and not _make_room(seen):
        return NO_MEMORY
    seen.texts[seen.n_distinct] = text
    seen.rows[seen.n_distinct] = row
    seen.n_distinct += 1
    return seen.n_distinct - 1


cdef int64_t _insert(Seen* seen, uint64_t low, uint64_t high, Text text, int64_t row) noexcept nogil:
    cdef int64_t number
    cdef uint64_t place
    if (seen.n_distinct + 1) * 2 > (<int64_t> 1 << (64 - seen.shift)):
        if not _grow_slots(seen, 64 - seen.shift + 2):
            return NO_MEMORY
    number = _append(seen, text, row)
    if number >= 0:
        place = _slot_of(seen, low, high)
        while seen.slots[place].number:
            place = (place + 1) & ((<uint64_t> 1 << (64 - seen.shift)) - 1)
        seen.slots[place] = Slot(low, high, 4 * text.length + text.kind, number + 1)
    return number


cdef inline int64_t _find(Seen* seen, uint64_t low, uint64_t high, Text text, int64_t row) noexcept nogil:
    cdef uint64_t place = _slot_of(seen, low, high)
    cdef const Slot* slot = seen.slots + place
    while slot.number:
        if slot.low == low and slot.high == high and slot.extent == 4 * text.length + text.kind:
            if text.length <= SHORT or memcmp(seen.texts[slot.number - 1].data, text.data, text.length) == 0:
                return slot.number - 1
        place = (place + 1) & ((<uint64_t> 1 << (64 - seen.shift)) - 1)
        slot = seen.slots + place
    return _insert(seen, low, high, text, row)


cdef inline uint64_t _place_of(uint64_t word) noexcept nogil:
    return (word * ODD) >> (64 - RECENT_BITS)


cdef inline int64_t _find_recent(const Seen* seen, uint64_t word) noexcept nogil:
    # Fast path for recently seen values, which are most values of typical columns; returns -1 for others.
    cdef const Recent* recent = seen.recent + _place_of(word)
    return recent.number - 1 if recent.word == word else -1


cdef inline int64_t _keep(Seen* seen, uint64_t word, int64_t number) noexcept nogil:
    if number >= 0:
        seen.recent[_place_of(word)] = Recent(word, number + 1)
    return number


cdef inline int64_t _find_word(Seen* seen, uint64_t word, int64_t row) noexcept nogil:
    cdef Text text
    cdef int64_t number = _find_recent(seen, word)
    if number >= 0:
        return number
    text.data, text.length, text.kind = NULL, 0, IDENTITY
    return _keep(seen, word, _find(seen, word, 0, text, row))


cdef int64_t _find_text(
    Seen* seen, const char* data, int64_t length, int64_t kind, const char* end, int64_t row
) noexcept nogil:
    cdef uint64_t low = 0, high = 0
    cdef bint is_long = length > 8
    if data + 8 <= end:         # reads past the text so that no branch depends on its length
        low = _word_at(data) & FIRST_BYTES[8 if is_long else length]
        high = _word_at(data + (length - 8 if is_long else 0)) & (<uint64_t> 0 - <uint64_t> is_long)
    else:
        memcpy(&low, data, length)
    return _find(seen, low, high, Text(data, length, kind), row)


cdef inline int64_t _find_short_text(
    Seen* seen, uint64_t word, Text text, const char* end, int64_t row
) noexcept nogil:
    # For texts of less than eight bytes. `word` holds the text, with its extent in the remaining byte.
    cdef int64_t number = _find_recent(seen, word)
    if number >= 0:
        return number
    return _keep(seen, word, _find_text(seen, text.data, text.length, text.kind, end, row))


cdef int64_t _find_missing(Seen* seen, int64_t row) noexcept nogil:
    cdef Text text
    if seen.missing < 0:
        text.data, text.length, text.kind = NULL, 0, IDENTITY
        seen.missing = _append(seen, text, row)
    return seen.missing


cdef inline int64_t _find_in(
    Seen* seen, const Source* source, Layout layout, int64_t place, int64_t row
) noexcept nogil:
    cdef Text text
    cdef const char* end
    cdef uint64_t word
    if layout == WORDS:
        return _find_word(seen, _word_at(source.data + place * source.stride), row)
    text = text_at(source, layout, place)
    end = text.data + text.length
    if layout == TEXTS:         # the object header before the characters is readable memory
        if text.kind == IDENTITY:   # bypasses the recent words, because an address could equal the word of a text
            return _find(seen, <uint64_t> <size_t> text.data, 0, Text(NULL, 0, IDENTITY), row)
        if text.length < 8:
            word = _word_at(end - 8) & LAST_BYTES[text.length]
            return _find_short_text(seen, word | FIRST_BYTE * (4 * text.length + text.kind), text, end, row)
    elif layout != FIXED:
        end = source.end if layout != VIEWS else text.data + max(text.length, <int64_t> INLINE)
        if text.length < 8 and text.data + 8 <= end:
            word = _word_at(text.data) & FIRST_BYTES[text.length]
            return _find_short_text(seen, word | LAST_BYTE * (4 * text.length + text.kind), text, end, row)
    return _find_text(seen, text.data, text.length, text.kind, end, row)


cdef inline int64_t _number_rows(
    Seen* seen, const Source* source, Layout layout, bint has_missing, int64_t n, int64_t row, number_t* out
) noexcept nogil:
    # Returns the number of rows numbered, or NO_MEMORY.
    cdef int64_t i, place, number
    for i in range(n):
        place = source.first + i
        if has_missing and not is_valid(source.valid, place):
            number = _find_missing(seen, row + i)
        else:
            number = _find_in(seen, source, layout, place, row + i)
        if number < 0:
            return i if number == FULL else NO_MEMORY
        out[i] = <number_t> number
    return n


cdef int64_t _number(
    Seen* seen, const Source* source, Layout layout, int64_t n, int64_t row, number_t* out
) noexcept nogil:
    # Literal arguments let the compiler generate a specialised loop for each call.
    if source.valid == NULL:
        if layout == WORDS:
            return _number_rows(seen, source, WORDS, False, n, row, out)
        if layout == FIXED:
            return _number_rows(seen, source, FIXED, False, n, row, out)
        if layout == TEXTS:
            return _number_rows(seen, source, TEXTS, False, n, row, out)
        if layout == OFFSETS_32:
            return _number_rows(seen, source, OFFSETS_32, False, n, row, out)
        if layout == OFFSETS_64:
            return _number_rows(seen, source, OFFSETS_64, False, n, row, out)
        return _number_rows(seen, source, VIEWS, False, n, row, out)
    if layout == OFFSETS_32:
        return _number_rows(seen, source, OFFSETS_32, True, n, row, out)
    if layout == OFFSETS_64:
        return _number_rows(seen, source, OFFSETS_64, True, n, row, out)
    return _number_rows(seen, source, VIEWS, True, n, row, out)


cdef class Distinct:
    """The distinct values of a column of `n_rows` rows, at most `most` of them, added chunk by chunk.

    Texts are not copied: their buffers must stay alive until `texts` has been called.
    """

    def __cinit__(self, int64_t n_rows, int64_t most):
        cdef uint8_t[::1] narrow = np.empty(n_rows, dtype=np.uint8)
        self.codes_, self.narrow = narrow.base, &narrow[0] if n_rows else NULL
        self.most = most
        self.seen.most = min(most, <int64_t> NARROW)
        self.seen.missing = -1
        if not _grow_slots(&self.seen, FIRST_SLOTS):
            raise MemoryError

    def __dealloc__(self):
        free(self.seen.slots)
        free(self.seen.texts)
        free(self.seen.rows)

    cdef bint add(self, Source* source, Layout layout, int64_t n) except -1 nogil:
        """Number the next rows; return False if there are too many distinct values."""
        cdef int64_t done = 0
        if not self.is_wide:
            done = _number(&self.seen, source, layout, n, self.n_done, self.narrow + self.n_done)
            if 0 <= done < n and self.most > NARROW:
                with gil:
                    self._widen()
        if done >= 0:
            self.n_done += done
        if 0 <= done < n and self.is_wide:
            source.first += done
            n -= done
            done = _number(&self.seen, source, layout, n, self.n_done, self.wide + self.n_done)
            if done >= 0:
                self.n_done += done
        if done < 0:
            with gil:
                raise MemoryError
        return done == n

    cdef int _widen(self) except -1:
        cdef uint32_t[::1] wide = self.codes_.astype(np.uint32)
        self.codes_, self.wide, self.is_wide = wide.base, &wide[0], True
        self.seen.most = self.most
        return 0

    def add_words(self, const int64_t[:] words):
        """Number the values of an array of eight-byte words."""
        cdef Source source = _source_of(<const char*> &words[0], words.strides[0])
        cdef bint is_done
        with nogil:
            is_done = self.add(&source, WORDS, words.shape[0])
        return is_done

    def add_fixed(self, const uint8_t[:, :] texts):
        """Number texts of fixed length, one row of bytes each."""
        cdef Source source = _source_of(<const char*> &texts[0, 0], texts.strides[0])
        cdef bint is_done
        source.length = texts.shape[1]
        with nogil:
            is_done = self.add(&source, FIXED, texts.shape[0])
        return is_done

    @property
    def codes(self):
        """Number of each row's value."""
        return self.codes_

    @property
    def rows(self):
        """First row of each distinct value."""
        if self.seen.n_distinct == 0:
            return np.zeros(0, dtype=np.int64)
        return np.array(<int64_t[:self.seen.n_distinct]> self.seen.rows)

    def texts(self):
        """Return the text of each number, None for the missing value."""
        cdef int64_t i
        cdef list out = []
        for i in range(self.seen.n_distinct):
            if i == self.seen.missing:
                out.append(None)
            else:
                out.append(self.seen.texts[i].data[:self.seen.texts[i].length].decode("utf-8"))
        return out


cdef Source _source_of(const char* data, int64_t stride) noexcept:
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
    UNSEEN = 2048       # blocks between checks for Ctrl-C: about 20 ms


cdef inline Text _text_of(PyObject* value) noexcept nogil:
    cdef Text text
    if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT(value):     # the characters follow the object header
        text.kind = PyUnicode_KIND(value) >> 1      # for 1, 2 and 4 bytes per character
        text.length = PyUnicode_GET_LENGTH(value) * PyUnicode_KIND(value)
        text.data = <const char*> PyUnicode_DATA(value)
    else:
        text.data, text.length, text.kind = <const char*> value, 0, IDENTITY
    return text


def number_strings(Distinct distinct, const int64_t[:] pointers):
    """Number Python objects: strings by their characters, others by identity. Return False if there are too many.

    `pointers` holds the objects' addresses. Their array keeps the objects alive, so it must not be modified meanwhile.
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
