# Which codes of a feature go left at a split: see goes_left.h.

from fastens.engine.structs cimport float64_t, int32_t, uint8_t, uint16_t, uint32_t


cdef extern from "engine/splits/goes_left.h" nogil:
    int32_t set_size(int32_t n_codes) noexcept
    bint set_has(const uint32_t* set, uint32_t code) noexcept
    void set_put(uint32_t* set, uint32_t code, bint is_member) noexcept
    void set_fill(uint32_t* set, int32_t n_codes, bint are_members) noexcept
    bint up_to_uint16_t(uint16_t code, uint16_t shift, uint16_t limit) noexcept
    int32_t middle_code(const float64_t* thresholds, int32_t low, int32_t high) noexcept
    bint code_goes_left(
        const uint32_t* words, int32_t first, uint32_t last, bint missing_left, uint32_t code
    ) noexcept
