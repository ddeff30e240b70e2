"""Fast tree ensembles for tabular data."""

from fastens.public_names import public_names

__version__ = "0.1.0"
__all__, __getattr__, __dir__ = public_names(__name__, __file__)
