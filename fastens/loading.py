"""Loading of saved models of any class."""

from __future__ import annotations

import os
from typing import Any

import fastens
from fastens.modelfile.storage import Storable, load_model, pickles_allowed


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Any:
    """Load a model that was written by its `save` method.

    Loading does not run code from the file unless pickles are allowed.

    Parameters
    ----------
    path : str or path
        File to read.
    allow_pickle : bool, default=False
        If True, pickled members of a composed model, which come from other libraries, are loaded. Loading a pickle can
        run arbitrary code, so allow it only for files that you trust.

    Returns
    -------
    estimator
        The fitted estimator.

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a fastens model, was written by a later version of fastens, or contains pickles
        that are not allowed.

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
    with pickles_allowed(allow_pickle):
        return load_model(path, _saved_class, "the estimators of this version of fastens")


def _saved_class(name: str) -> type[Storable] | None:
    """Return the public class with this name, or None if there is none or model files cannot hold it."""
    candidate = getattr(fastens, name) if name in vars(fastens)["__all__"] else None
    return candidate if hasattr(candidate, "_from_state") else None
