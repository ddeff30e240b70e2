cdef enum:
    # A pass over so few rows takes some microseconds. To give up the interpreter's lock for it, and to wait until other
    # threads give it back, would take longer.
    FEW_ROWS = 1 << 12
