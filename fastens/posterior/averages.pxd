from fastens.engine.exact cimport exp, log
from fastens.engine.structs cimport float64_t


cdef enum:
    CERTAIN = 800  # nats; the exponential of a number below -CERTAIN is 0


cdef inline float64_t add_logs(float64_t log_stop, float64_t log_split, float64_t* fraction) noexcept nogil:
    """Return log(exp(log_stop) + exp(log_split)), and write the fraction of the second term to `fraction`."""
    cdef float64_t ratio
    if abs(log_split - log_stop) > CERTAIN:
        fraction[0] = log_split > log_stop
        return max(log_stop, log_split)
    ratio = exp(-abs(log_split - log_stop))
    fraction[0] = (1.0 if log_split > log_stop else ratio) / (1.0 + ratio)
    return max(log_stop, log_split) + log(1.0 + ratio)
