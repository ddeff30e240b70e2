# Stand-ins for a build without OpenMP. Every call to the OpenMP runtime goes through this file.

cdef extern from *:
    """
    #ifdef _OPENMP
        #include <omp.h>
        #define FASTENS_HAS_OPENMP 1
    #else
        #define FASTENS_HAS_OPENMP 0
        #define omp_get_max_threads() 1
    #endif
    """
    bint FASTENS_HAS_OPENMP
    int omp_get_max_threads() noexcept nogil
