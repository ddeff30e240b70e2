"""Fits whose rows are spread over the workers of a cluster."""

from fastens.distributed.dask_table import DaskTable
from fastens.distributed.ray_table import RayTable
from fastens.distributed.spread_table import FitProgress

__all__ = ["DaskTable", "FitProgress", "RayTable"]
