"""Fast ensembles of trees on tables."""

from __future__ import annotations

import os
from typing import Any

from fastens.ensemble.boosting import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.inspection.bias_variance import bias_variance_decomposition, plot_bias_variance
from fastens.storage import ModelFileError, load_model

__version__ = "0.1.0"
__all__ = [
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "ModelFileError",
    "bias_variance_decomposition",
    "load",
    "plot_bias_variance",
]

_SAVED = {name: globals()[name] for name in __all__ if hasattr(globals().get(name), "_from_state")}


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that its `save` wrote; runs no code from the file.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    A fitted estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or from a later version of fastens.

    Examples
    --------
    >>> import tempfile, os, fastens
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = fastens.GradientBoostingClassifier(n_estimators=5).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.fastens")
    ...     model.save(path)
    ...     same = fastens.load(path)
    >>> bool((same.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    return load_model(path, _SAVED)
