"""The command line: train, predict and evaluate for someone who has a table and no script."""

from fastens.cli.entry import main

__all__ = ["main"]
