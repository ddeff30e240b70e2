"""Warnings that blame the caller's own line."""

from __future__ import annotations

import os
import sys
import warnings

import sklearn

# Frames of these folders are passed over: a user who fits through a pipeline or a search is still the caller.
_INSIDE = tuple(os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in (__file__, sklearn.__file__))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn; the line named is the innermost one outside fastens and scikit-learn."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
