"""Fits whose rows are spread over the workers of a cluster."""

from fastens.distributed.dask_table import DaskTable, FitProgress
from fastens.distributed.planning import Counting, Plan, measured_counting, measured_network, plan
from fastens.distributed.simulation import Network, simulate

__all__ = [
    "Counting",
    "DaskTable",
    "FitProgress",
    "Network",
    "Plan",
    "measured_counting",
    "measured_network",
    "plan",
    "simulate",
]
