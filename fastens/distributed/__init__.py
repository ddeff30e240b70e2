"""Fits whose rows are spread over the workers of a cluster."""

from fastens.distributed.dask_table import DaskTable
from fastens.distributed.planning import Counting, Plan, measured_counting, measured_network, plan
from fastens.distributed.ray_table import RayTable
from fastens.distributed.simulation import Network, simulate
from fastens.distributed.spread_table import FitProgress

__all__ = [
    "Counting",
    "DaskTable",
    "FitProgress",
    "Network",
    "Plan",
    "RayTable",
    "measured_counting",
    "measured_network",
    "plan",
    "simulate",
]
