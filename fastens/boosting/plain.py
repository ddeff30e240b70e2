"""Gradient boosting in its plain form, as in lecture notes (Friedman 2001)."""

from __future__ import annotations

from typing import Any

from fastens.options import Categories, Growth

# Gradient boosting without what was added to it since: every split that helps, nothing that shrinks or smooths.
PLAIN: dict[str, Any] = {
    "max_leaf_nodes": None,
    "max_depth": 3,
    "min_samples_leaf": 1,
    "growth": Growth(split_criterion="squared_error", min_child_weight=0.0),
    "l2_regularization": 0.0,
    "split_penalty": 0.0,
    "categories": Categories(encoding="partition", smoothing=0.0, l2=0.0),
}


def plain(cls: Any, **parameters: Any) -> Any:
    """Make an estimator of gradient boosting in its plain form, that of lecture notes (Friedman 2001).

    It starts at the mean of y, or at the log odds, and leaves are means of the residuals, or sum(r) / sum(p (1 - p))
    over their rows. Trees are fitted to the residuals by least squares, with every split that lowers the squared error,
    down to `max_depth`, and shrunk by `learning_rate`.

    Parameters
    ----------
    **parameters
        Any parameters of the class, in place of those that make it plain (`PLAIN`), such as ``max_depth=3``.

    Returns
    -------
    An estimator, not fitted.

    Examples
    --------
    >>> from fastens import GradientBoostingClassifier, GradientBoostingRegressor
    >>> X = [[1.0], [2.0], [3.0], [4.0]]
    >>> model = GradientBoostingRegressor.plain(n_estimators=2, learning_rate=0.5, max_depth=1)
    >>> model.fit(X, [1.0, 1.0, 3.0, 3.0]).predict([[1.0], [4.0]])
    array([1.25, 2.75])
    >>> model = GradientBoostingClassifier.plain(n_estimators=1, learning_rate=0.5, max_depth=1)
    >>> model.fit(X, [0, 0, 1, 1]).decision_function([[1.0], [4.0]])
    array([-1.,  1.])
    """
    return cls(**(PLAIN | parameters))
