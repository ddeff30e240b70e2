from fastens.engine.histograms.cells cimport Histogram
from fastens.engine.structs cimport int32_t
from fastens.engine.splits.workspace cimport Task, Workspace


cdef void count_task(Workspace* ws, const Task* task, int32_t thread, int32_t n_threads) noexcept nogil
cdef void run_task(Workspace* ws, const Task* task, int32_t thread, int32_t n_threads) noexcept nogil
cdef void search_task(
    Workspace* ws, const Task* task, int32_t thread, int32_t n_threads, int32_t n_partials
) noexcept nogil
cdef Histogram counted_histogram(const Workspace* ws, const Task* task, int32_t thread, int32_t output) noexcept nogil
cdef void merge_partials(Workspace* ws, const Task* task, int32_t n_threads) noexcept nogil
cdef int32_t threads_of_task(const Workspace* ws, const Task* task) noexcept nogil
