"""Fits whose rows are spread over the workers of a cluster."""

from fastens.distributed.dask_table import DaskTable

__all__ = ["DaskTable"]
