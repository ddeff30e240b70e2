from fastens.engine.splits.gain cimport SplitRules
from fastens.engine.histograms.histogram cimport Table
from fastens.engine.histograms.quantise cimport Quantised, RowGradients
from fastens.engine.histograms.cells cimport Histogram, Sums
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t
from fastens.engine.splits.workspace cimport Workspace


cdef struct Output:
    # One of several raw predictions that a tree has values for.
    Table table                     # the rows with this output's payload
    RowGradients source
    Quantised quantised
    SplitRules rules                # in the units of its sums
    float64_t gain_unit             # gain in units of the loss = gain of the sums * gain_unit
    float64_t hessian_unit          # likewise, the mean over the outputs


cdef struct JointRoom:
    # For one thread to search a feature's splits with, beside the ScanRoom.
    float64_t* hessians             # one for each code: the sum over the outputs
    Sums* left                      # n_outputs
    Sums* pooled                    # n_outputs


cdef struct Joint:
    # The outputs. Their histograms lie one after another in what the workspace has room for.
    Output* outputs
    int32_t n_outputs
    Py_ssize_t n_cells              # of one output
    float64_t min_hessian
    float64_t min_gain
    int64_t* cells                  # of a node that is not kept
    uint64_t* zeros                 # n_cells for each output, always left at 0
    # of the two nodes of the task at hand, n_outputs each
    Histogram* histograms
    Sums* totals
    JointRoom* rooms


cdef void run_joint_tasks(Workspace* ws, Joint* joint) noexcept nogil
