# Scalar exp and log for kernels, bit-identical on every machine; elementary.pyx has the array versions.

cdef extern from "engine/elementary.h" nogil:
    double exp "exact_exp" (double x) noexcept
    double log "exact_log" (double x) noexcept
    double log1p "exact_log1p" (double x) noexcept
    double log2 "exact_log2" (double x) noexcept
    double lgamma "exact_lgamma" (double x) noexcept
