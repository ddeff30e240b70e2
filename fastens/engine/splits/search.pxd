from fastens.engine.splits.workspace cimport Task, Workspace
from fastens.engine.structs cimport int64_t


cdef void run_tasks(Workspace* ws) noexcept nogil
cdef void count_task(Workspace* ws, const Task* task, int64_t** cells) noexcept nogil
cdef void search_counted(Workspace* ws, const Task* task) noexcept nogil
