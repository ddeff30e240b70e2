"""Fast ensembles of trees on tables."""

__version__ = "0.1.0"
