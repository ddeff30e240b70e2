"""Sets of parameters: gradient boosting as in lecture notes (Friedman 2001), and by how much time it is worth."""

from __future__ import annotations

from typing import Any

from fastens.options import Categories, EarlyStopping, Goss, Growth
from fastens.parameters import NONE, one_of, real

# Gradient boosting without what was added to it since: every split that helps, nothing that shrinks or smooths.
PLAIN: dict[str, Any] = {
    "max_bins": 65_535,
    "max_leaf_nodes": None,
    "max_depth": 3,
    "min_samples_leaf": 1,
    "max_features": 1.0,
    "growth": Growth(split_criterion="squared_error", min_child_weight=0.0, rows_per_threshold=None),
    "l2_regularization": 0.0,
    "split_penalty": 0.0,
    "categories": Categories(encoding="partition", smoothing=0.0, l2=0.0),
}

# By quality, the parameters that are not the defaults.
QUALITIES: dict[str, dict[str, Any]] = {
    "fast": {"n_estimators": 40, "learning_rate": 0.2},
    "default": {},
    "best": {
        "n_estimators": 10_000,
        "learning_rate": 0.05,
        "subsample": 0.8,
        "max_features": 1.0,
        "max_features_per_tree": 0.7,
        "n_iter_no_change": 100,
    },
}
N_FOLDS = 8
_QUALITY = one_of(*QUALITIES)
_SECONDS = real(0, open_low=True) | NONE


def plain(cls: Any, **parameters: Any) -> Any:
    """Make an estimator of gradient boosting in its plain form, that of lecture notes (Friedman 2001).

    It starts at the mean of y, or at the log odds, and leaves are means of the residuals, or sum(r) / sum(p (1 - p))
    over their rows. Trees are fitted to the residuals by least squares, with every split that lowers the squared error,
    down to `max_depth`, and shrunk by `learning_rate`.

    Columns of at most 65 535 distinct values have a bin for each, so every split of the training rows is considered. A
    threshold stands at the boundary of bins nearest to the middle between the values of the node's rows; where
    neighbouring values of the table are far apart, new values between them may therefore go another way than with
    thresholds exactly in the middle.

    Parameters
    ----------
    **parameters
        Any parameters of the class, in place of those that make it plain (`PLAIN`), such as ``max_depth=3``. A record
        (`growth`, `categories`) takes the place of the whole one; ``set_params(growth__max_delta_step=1.0)`` changes a
        single option.

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


def with_quality(cls: Any, quality: str, time_limit: float | None = None, **parameters: Any) -> Any:
    """Make an estimator by how much time its quality is worth.

    Parameters
    ----------
    quality : {"fast", "default", "best"}
        "fast": 40 rounds at a rate of 0.2. "default": the defaults. "best": as many rounds at a low rate as are best
        for the rows of a fold that are held out, on each of 8 folds; the model is the mean of the folds' models. These
        are trained with two degrees of pruning, of which the rows held out choose.
    time_limit : float or None, default=None
        For "best": seconds of `fit`, which has a model by then whatever they are.
    **parameters
        Any parameters of the class, in place of those of the quality. An `early_stopping` has its own time limit.

    Returns
    -------
    An estimator, not fitted.

    Raises
    ------
    ValueError
        For another quality, and for a time_limit that is not positive, not of "best", or beside an `early_stopping`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import GradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor.with_quality("best", time_limit=5.0, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > GradientBoostingRegressor().fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    True
    """
    _QUALITY.check("quality", quality)
    _SECONDS.check("time_limit", time_limit)
    preset = dict(QUALITIES[quality])
    if isinstance(sampling := parameters.get("sampling"), Goss) or sampling == "goss":
        preset.pop("subsample", None)  # it has rates of its own
    if parameters.get("early_stopping") is False:
        preset.pop("n_iter_no_change", None)
    if time_limit is not None and "early_stopping" in parameters:
        raise ValueError("time_limit must be None with early_stopping, which has one of its own.")
    if quality == "best":
        stopping = EarlyStopping(folds=N_FOLDS, choose_pruning=True, time_limit=time_limit)
        parameters = {"early_stopping": stopping} | parameters
    elif time_limit is not None:
        raise ValueError(f"time_limit must be None with quality={quality!r}, which is not bounded by time.")
    return cls(**(preset | parameters))
