"""What the OpenMP runtime says about threads."""


def has_openmp() -> bool:
    """Whether this build can run threads of its own."""
    return FASTENS_HAS_OPENMP


def max_threads() -> int:
    """The runtime's limit now: OMP_NUM_THREADS, threadpoolctl and omp_set_num_threads all move it. 1 without OpenMP."""
    return omp_get_max_threads()
