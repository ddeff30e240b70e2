"""Command line interface for training, prediction and evaluation on tables without writing a script."""

from fastens.cli.entry import main

__all__ = ["main"]
