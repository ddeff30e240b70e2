"""Distributed training on tables whose rows are spread over the workers of a cluster."""

from fastens.distributed.dask_table import DaskTable
from fastens.distributed.rank_fit import FitProgress
from fastens.distributed.ray_table import RayTable

__all__ = ["DaskTable", "FitProgress", "RayTable"]
