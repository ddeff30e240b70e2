"""The default final estimators of stacking: logistic and ridge regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, logit

from fastens.base import BaseClassifier, BaseFastens, BaseRegressor
from fastens.combining.responses import added
from fastens.engine.elementary import exp, expit, log, softmax
from fastens.engine.grow.growth import weight_unit
from fastens.engine.parts import dense_blocks
from fastens.modelfile.saving import Arrays, Saved, SavedParts
from fastens.params.rules import real

Array = NDArray[np.float64]

# Probabilities are clipped to this distance from 0 and 1.
_MIN_PROBABILITY = 1e-7
# Tolerance for sums of probabilities, which may have been rounded to float32.
_SUM_TOLERANCE = 1e-4
# Infinite values are replaced by this number, whose square is finite.
_LARGEST = 1e100
# Newton's method is used up to this number of coefficients.
_MAX_FOR_NEWTON = 300


class _Columns(BaseFastens):
    """Base class that scales columns: probabilities to log-odds, others to mean 0 and deviation 1, missing to 0."""

    # True if columns with values between 0 and 1 are class probabilities.
    _has_probabilities: ClassVar[bool] = True
    _compares_weights = True
    # True if all columns are probabilities of three or more classes, member by member; their logarithms are then used.
    is_of_members_ = False

    def _learn_columns(self, X: Array, weight: Array | None) -> Array:
        """Learn each column's center, scale and whether it holds probabilities; return the standardised columns."""
        inside = np.fmin.reduce(X) >= 0, np.fmax.reduce(X) <= 1
        has_middle = np.any((X > 0) & (X < 1), axis=0)
        self.is_probability_ = inside[0] & inside[1] & has_middle & self._has_probabilities
        Z = self._log_odds(X)
        has_value = ~np.isnan(Z)
        # Dividing by a power of two is exact.
        of_rows = has_value * (1.0 if weight is None else np.ldexp(weight, -np.frexp(weight.max())[1])[:, None])
        total = np.maximum(of_rows.sum(axis=0), np.finfo(float).tiny)
        self.center_ = (np.where(has_value, Z, 0) * of_rows).sum(axis=0) / total
        spread = np.sqrt((np.where(has_value, Z - self.center_, 0) ** 2 * of_rows).sum(axis=0) / total)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.center_[self.is_probability_] = 0.0
        self.scale_[self.is_probability_] = 1.0
        return self._columns(X)

    def _log_odds(self, X: NDArray[np.floating]) -> Array:
        """Return X with its probabilities replaced by log-odds, or by logarithms if members give all classes."""
        Z = X.astype(np.float64)
        np.clip(Z, -_LARGEST, _LARGEST, out=Z)
        share = Z[:, self.is_probability_]
        clipped = np.clip(share, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
        Z[:, self.is_probability_] = log(clipped) if self.is_of_members_ else logit(clipped)
        return Z

    def _columns(self, X: NDArray[np.floating]) -> Array:
        """Return X with log-odds for probabilities, standardised, and with missing values replaced by the mean 0."""
        return np.nan_to_num((self._log_odds(X) - self.center_) / self.scale_, nan=0.0)

    def _sums(self, X: Any, coefficients: Array) -> Array:
        """Return columns times coefficients, (n_rows, n_outputs), summed in an order independent of other rows."""

        def of_rows(block: NDArray[np.floating]) -> Array:
            columns = zip(self._columns(block).T, coefficients.T, strict=True)
            return added(column[:, None] * of_outputs for column, of_outputs in columns) + self.intercept_

        return np.concatenate([of_rows(block) for _, block in dense_blocks(self._check_table(X))])

    def _dense(self, X: Any) -> Array:
        """Return the table as a dense array."""
        return np.concatenate([block for _, block in dense_blocks(X)])

    def _outputs(self) -> tuple[int, ...]:
        """Return the leading shape of the coefficients, (n_outputs,); empty if they are a vector."""
        raise NotImplementedError

    def _check_shapes(self, arrays: Arrays) -> None:
        """Raise ValueError if restored scales, coefficients and intercepts do not match the columns and outputs."""
        of_columns = (self.is_probability_, self.center_, self.scale_)
        if (
            any(np.shape(values) != (self.n_features_in_,) for values in of_columns)
            or self.is_probability_.dtype != bool
        ):
            raise ValueError("the column scales and the columns do not match")
        outputs, shapes = self._outputs(), (np.shape(self.coef_), np.shape(self.intercept_))
        if shapes != ((*outputs, self.n_features_in_), outputs or (1,)):
            raise ValueError("the coefficients, the columns and the outputs do not match")

    _saved: ClassVar[SavedParts] = (
        "is_probability_",
        "center_",
        "scale_",
        "coef_",
        "intercept_",
        Saved(finish=_check_shapes),
    )


class LogisticStacker(BaseClassifier, _Columns):
    """Logistic regression that reads predicted probabilities as log-odds.

    A well-calibrated member therefore gets the coefficient 1, which logistic regression on probabilities cannot
    express. With three or more classes, and only probabilities to combine, each member has a single coefficient for the
    log-probabilities of all classes, because one coefficient for each class and each probability would overfit.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the penalty on the squared coefficients; larger values regularise less. It is divided by the mean
        weight if that mean is below 1.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_outputs, n_columns) and (n_outputs,)
        One output for two classes; otherwise, one output for each class.

    References
    ----------
    Genest & Zidek (1986), "Combining probability distributions", section 3.2: the logarithmic opinion pool;
    Wolpert (1992), "Stacked generalization"; Ting & Witten (1999), "Issues in stacked generalization".

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.combining.stackers import LogisticStacker
    >>> share = np.array([[0.9, 0.6], [0.8, 0.3], [0.2, 0.6], [0.1, 0.4]])
    >>> LogisticStacker().fit(share, [1, 1, 0, 0]).predict(share)
    array([1, 1, 0, 0])
    """

    _parameter_rules: ClassVar = {"C": real(0, open_low=True)}

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> LogisticStacker:
        """Fit the logistic regression."""
        from sklearn.linear_model import LogisticRegression

        data = self._start_fit(X, y, sample_weight)
        columns, weight = self._dense(data.X), _weights_for_penalties(data.sample_weight)
        self.is_of_members_ = _has_member_probabilities(columns, len(self.classes_))
        Z = self._learn_columns(columns, weight)
        if self.is_of_members_:
            self.coef_, self.intercept_ = _pool(Z, data.y.astype(np.intp), weight, self.C)
            return self
        if len(self.classes_) == 1:
            self.coef_, self.intercept_ = np.zeros((1, Z.shape[1])), np.zeros(1)
            return self
        n_outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        solver = "newton-cholesky" if n_outputs * (Z.shape[1] + 1) <= _MAX_FOR_NEWTON else "lbfgs"
        model = LogisticRegression(C=self.C, solver=solver, tol=1e-6, max_iter=1000)
        model.fit(Z, data.y, sample_weight=weight)
        self.coef_, self.intercept_ = model.coef_, model.intercept_
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Return log-odds of the second class, (n_samples,), or a score for each class, (n_samples, n_classes)."""
        raw = self._sums(X, self.coef_)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, shape (n_samples, n_classes)."""
        raw = self._sums(X, self.coef_)
        if len(self.classes_) != 2:
            return softmax(raw, axis=1)  # 1 for a single class
        return np.hstack([expit(-raw), expit(raw)])

    _saved: ClassVar[SavedParts] = ("is_of_members_",)

    def _outputs(self) -> tuple[int, ...]:
        """Return the leading shape of the coefficients: (1,) for two classes, else (n_classes,)."""
        return (1 if len(self.classes_) == 2 else len(self.classes_),)


def _weights_for_penalties(weight: Array | None) -> Array | None:
    """Return weights for a penalised loss: divided by their mean if it is below 1; None remains None."""
    return None if weight is None else weight / weight_unit(weight)


def _has_member_probabilities(X: Array, n_classes: int) -> bool:
    """Return True if X has the probabilities of three or more classes, member by member, which sum to 1."""
    if n_classes < 3 or X.shape[1] % n_classes:
        return False
    sums = X.reshape(len(X), -1, n_classes).sum(axis=2)
    return bool(np.nanmin(X) >= 0 and np.all(np.isnan(sums) | (np.abs(sums - 1) < _SUM_TOLERANCE)))


def _pool(Z: Array, codes: NDArray[np.intp], weight: Array | None, C: float) -> tuple[Array, Array]:
    """Return the coefficients (n_classes, n_columns) and intercepts of the most likely logarithmic opinion pool.

    `Z` holds the log probabilities by member, then class; `codes` the classes. `C` is the inverse penalty strength.
    """
    n_classes = int(codes.max()) + 1
    predicted = Z.reshape(len(Z), -1, n_classes)
    n_members, of_rows = predicted.shape[1], np.ones(len(Z)) if weight is None else weight
    truth = np.eye(n_classes)[codes]

    def loss(parameters: Array) -> tuple[float, Array]:
        pull, intercept = parameters[:n_members], parameters[n_members:]
        share = log_softmax(np.einsum("nmk,m->nk", predicted, pull) + intercept, axis=1)
        miss = (exp(share) - truth) * of_rows[:, None]
        value = pull @ pull / (2 * C) - of_rows @ share[np.arange(len(Z)), codes]
        return float(value), np.append(np.einsum("nmk,nk->m", predicted, miss) + pull / C, miss.sum(axis=0))

    start = np.append(np.full(n_members, 1 / n_members), np.zeros(n_classes))
    solution = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "gtol": 1e-6}).x
    return np.kron(solution[:n_members], np.eye(n_classes)), solution[n_members:]


class RidgeStacker(BaseRegressor, _Columns):
    """Ridge regression on standardised columns, for one or several targets.

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty on the squared coefficients; larger values regularise more. It is multiplied by the mean weight if that
        mean is below 1.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_columns,) and (1,), or (n_targets, n_columns) and (n_targets,)

    References
    ----------
    Breiman (1996), "Stacked regressions".

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.combining.stackers import RidgeStacker
    >>> predicted = np.array([[1.0, 9.0], [2.0, 7.0], [3.0, 8.0]])
    >>> RidgeStacker(alpha=0.001).fit(predicted, [10, 20, 30]).predict(predicted).round(1)
    array([10., 20., 30.])
    """

    _parameter_rules: ClassVar = {"alpha": real(0)}
    # Predictions between 0 and 1 are treated like all other numbers.
    _has_probabilities: ClassVar = False
    _takes_several_targets = True

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> RidgeStacker:
        """Fit the ridge regression."""
        data = self._start_fit(X, y, sample_weight)
        weight = _weights_for_penalties(data.sample_weight)
        Z = self._learn_columns(self._dense(data.X), weight)
        weight = np.ones(len(data.y)) if weight is None else weight
        center, root = np.average(Z, axis=0, weights=weight), np.sqrt(weight)
        rows = np.vstack([(Z - center) * root[:, None], np.sqrt(self.alpha) * np.eye(Z.shape[1])])
        targets = np.atleast_2d(data.y.T)
        means = [np.average(target, weights=weight) for target in targets]
        pulled = [(target - mean) * root for target, mean in zip(targets, means, strict=True)]
        columns = np.vstack([np.column_stack(pulled), np.zeros((Z.shape[1], len(targets)))])
        slopes = np.ascontiguousarray(np.linalg.lstsq(rows, columns, rcond=None)[0].T)
        self.coef_ = slopes[0] if data.y.ndim == 1 else slopes
        self.intercept_ = np.array(
            [mean - center @ target_slopes for mean, target_slopes in zip(means, slopes, strict=True)]
        )
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return the predicted mean of each row, shape (n_samples,) or (n_samples, n_targets)."""
        predicted = self._sums(X, np.atleast_2d(self.coef_))
        return predicted[:, 0] if self.coef_.ndim == 1 else predicted

    def _outputs(self) -> tuple[int, ...]:
        """Return the leading shape of the coefficients: (n_targets,), or () for a single target."""
        shape = np.shape(self.coef_)[:-1]
        return (2,) if shape == (1,) else shape  # the coefficients of a single target are a vector
