"""Reading models of any class."""

from __future__ import annotations

import os
from typing import Any

import fastens
from fastens.modelfile.storage import Storable, load_model, pickles_allowed


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Any:
    """Read a model that its `save` wrote; runs no code from the file, unless pickles are allowed.

    Parameters
    ----------
    path : str or path
        The file.
    allow_pickle : bool, default=False
        Whether to read members from other libraries that a composed model was saved with as pickles. Reading a pickle
        can run any code: only for files you trust.

    Returns
    -------
    A fitted estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or from a later version of fastens, or holds pickles that are not allowed.

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
    """The public class of a name, if files may hold one."""
    found = getattr(fastens, name) if name in vars(fastens)["__all__"] else None
    return found if hasattr(found, "_from_state") else None
