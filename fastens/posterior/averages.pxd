from fastens.engine.exact cimport exp, log
from fastens.engine.structs cimport float64_t


cdef enum:
    CERTAIN = 800  # nats: exp(-CERTAIN) is 0 in double precision


cdef inline float64_t weigh(float64_t ends, float64_t goes_on, float64_t* split) noexcept nogil:
    """Return the log of the sum of two probabilities, given as logs, and write the share of the second."""
    cdef float64_t ratio
    if abs(goes_on - ends) > CERTAIN:
        split[0] = goes_on > ends
        return max(ends, goes_on)
    ratio = exp(-abs(goes_on - ends))
    split[0] = (1.0 if goes_on > ends else ratio) / (1.0 + ratio)
    return max(ends, goes_on) + log(1.0 + ratio)
