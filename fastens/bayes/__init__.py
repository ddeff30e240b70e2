"""Bayesian classifiers and learners."""

from fastens.public_names import public_names

__all__, __getattr__, __dir__ = public_names(__name__, __file__)
