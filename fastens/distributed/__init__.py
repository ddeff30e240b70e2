"""Fits whose rows are spread over the workers of a cluster."""

from fastens.distributed.dask_table import DaskTable, FitProgress

__all__ = ["DaskTable", "FitProgress"]
