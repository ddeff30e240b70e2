"""Grow trees that have a value for each of several outputs in every leaf."""

from cython cimport final
from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free, malloc

from fastens.engine.grow.frontier cimport threads_for_rows
from fastens.engine.grow.grow cimport Grower
from fastens.engine.splits.joint_search cimport Joint, JointRoom, Output, run_joint_tasks
from fastens.engine.grow.leaves cimport dispersion, node_sums, sums_of_output
from fastens.engine.histograms.quantise cimport quantise
from fastens.engine.histograms.cells cimport Histogram, Sums
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint64_t

import numpy as np


@final
cdef class JointGrower(Grower):
    """A Grower of such trees. The matrix has room for a payload of each output in its records.

    Arguments are trusted; fastens.engine.grow.growth is the door.
    """

    cdef Joint joint
    cdef readonly object hessians   # of the nodes of the tree just grown, (n_nodes, n_outputs)

    def __init__(self, matrix, rules, weights, bint constant_hessian, int n_threads, int n_outputs):
        self.joint.n_outputs = n_outputs
        Grower.__init__(self, matrix, rules, weights, constant_hessian, n_threads)
        self._set_outputs()

    def __dealloc__(self):
        cdef int32_t i
        if self.joint.outputs != NULL:
            for i in range(self.joint.n_outputs):
                free(self.joint.outputs[i].quantised.wide)
        if self.joint.rooms != NULL:
            for i in range(self.ws.n_rooms):
                free(self.joint.rooms[i].hessians)
                free(self.joint.rooms[i].left)
                free(self.joint.rooms[i].pooled)
        free(self.joint.outputs)
        free(self.joint.rooms)
        free(self.joint.histograms)
        free(self.joint.totals)
        free(self.joint.cells)
        free(self.joint.zeros)

    cdef _set_outputs(self):
        cdef Joint* joint = &self.joint
        cdef Output* out
        cdef int32_t i, k = joint.n_outputs, widest = self.matrix.n_codes.max()
        self.ws.n_outputs = k
        # From now on, slots have room for the cells of all outputs.
        joint.n_cells = self.ws.table.n_cells
        self.ws.table.n_cells *= k
        joint.outputs = <Output*>calloc(k, sizeof(Output))
        joint.rooms = <JointRoom*>calloc(self.ws.n_rooms, sizeof(JointRoom))
        joint.histograms = <Histogram*>malloc(2 * k * sizeof(Histogram))
        joint.totals = <Sums*>malloc(2 * k * sizeof(Sums))
        joint.cells = <int64_t*>malloc(4 * k * joint.n_cells * sizeof(int64_t))
        joint.zeros = <uint64_t*>calloc(k * joint.n_cells, sizeof(uint64_t))
        ready = (
            joint.outputs and joint.rooms and joint.histograms and joint.totals and joint.cells and joint.zeros
        )
        if ready:
            for i in range(self.ws.n_rooms):
                joint.rooms[i].hessians = <float64_t*>malloc(widest * sizeof(float64_t))
                joint.rooms[i].left = <Sums*>malloc(k * sizeof(Sums))
                joint.rooms[i].pooled = <Sums*>malloc(k * sizeof(Sums))
                ready = ready and joint.rooms[i].hessians and joint.rooms[i].left and joint.rooms[i].pooled
        if not ready:
            raise MemoryError(f"no memory for growing trees of {k} outputs")
        for i in range(k):
            out = &joint.outputs[i]
            out.table = self.ws.table
            out.table.payloads += 4 * i
            out.quantised.payload = self.ws.quantised.payload
            out.quantised.payload.first += 4 * i
            out.quantised.words = self.ws.quantised.words
        joint.min_hessian = self.rules.min_child_weight
        joint.min_gain = self.rules.min_gain_to_split

    cdef void _limit_root(self) noexcept nogil:
        # Values are bound when the tree is grown; its splits are those of free values.
        self.ws.nodes[0].limits.lower, self.ws.nodes[0].limits.upper = -INFINITY, INFINITY
        self.ws.nodes[0].limits.is_free = True

    def grow_jointly(self, const float32_t[:, ::1] gradients, const float32_t[:, ::1] hessians, rows, uint64_t seed):
        """Grow one tree.

        Parameters
        ----------
        gradients, hessians : float32 arrays of shape (n_outputs, n_rows)
            Unweighted.
        rows : uint32 array or None
            The rows to use, ascending; None for all.
        seed : int
            Of the features' subsets.

        Returns
        -------
        dict of the arrays of a Tree
        """
        cdef Output* out
        cdef int32_t i
        for i in range(self.joint.n_outputs):
            out = &self.joint.outputs[i]
            out.source = self.source
            out.source.gradients, out.source.hessians = &gradients[i, 0], &hessians[i, 0]
        self.ws.seed = seed
        self._set_rows(rows)
        return self._grow_tree()

    cdef bint _quantise(self) noexcept nogil:
        cdef Output* out
        cdef int32_t i
        for i in range(self.joint.n_outputs):
            out = &self.joint.outputs[i]
            if not quantise(&out.source, self.need_weights, &out.quantised, self.ws.n_threads):
                return False
            out.rules = self._scaled(&out.quantised)
            out.gain_unit = out.quantised.scales.hessian / out.quantised.scales.gradient ** 2
            out.hessian_unit = 1.0 / (out.quantised.scales.hessian * self.joint.n_outputs)
        # The rules that do not depend on an output's units; hessians are looked at together.
        self.ws.rules = self.joint.outputs[0].rules
        self.ws.rules.min_hessian = 0
        return True

    cdef bint _run_tasks(self) noexcept nogil:
        run_joint_tasks(&self.ws, &self.joint)
        return True

    cdef float64_t _gain_unit(self):
        return 1.0

    cdef void _sum_up(self) noexcept nogil:
        cdef Output* out
        cdef int32_t i, n_threads = threads_for_rows(&self.ws, self.ws.nodes[0].end)
        for i in range(self.joint.n_outputs):
            out = &self.joint.outputs[i]
            node_sums(&self.ws, &out.source, &out.quantised.scales, n_threads, i)

    cdef float64_t _dispersion(self):
        cdef int32_t i
        cdef float64_t total = 0.0
        for i in range(self.joint.n_outputs):
            total += dispersion(&self.ws, sums_of_output(&self.ws, i), &self.joint.outputs[i].quantised.scales)
        return total

    cdef _values(self, weight):
        """Newton steps of every node, (n_nodes, n_outputs); its weight becomes the mean hessian."""
        cdef int32_t i
        values = np.empty((len(weight), self.joint.n_outputs))
        hessians = np.empty_like(values)
        for i in range(self.joint.n_outputs):
            self._newton_steps(&self.joint.outputs[i].quantised.scales, i, values, hessians)
        weight[:] = hessians.mean(axis=1)
        self.hessians = hessians
        return values
