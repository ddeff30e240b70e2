"""One trial: an estimator is fitted to a table and asked for all it predicts; whatever is wrong is said in words.

A trial may crash the interpreter, hang, or take all memory: `properties.worker` runs it in a process of its own.
"""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import LinAlgWarning
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing

import fastens
from properties.tables import LABELS, TARGETS, WEIGHTS, make_table


@dataclass(frozen=True)
class Case:
    """What is tried; all of it by name, so that it can be printed and repeated."""

    estimator: str
    n_rows: int
    columns: tuple[str, ...]
    form: str
    target: str | None
    weights: str | None
    parameters: dict[str, Any] = field(default_factory=dict)
    seed: int = 0


# Words of errors that say nothing to a user: raised by code that expected something else.
FOREIGN = re.compile(
    r"argument must be a string or a real number|could not convert|could not be broadcast|zip\(\)|out of (range|bounds)"
    r"|NoneType|has no attribute|division by zero|subscriptable|unhashable|cannot unpack|ufunc|truth value"
    r"|setting an array"
    r"|NaN to integer|infinity to integer|too large to convert|not supported between|unsupported operand"
)
PREDICTIONS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "predict_joint_log_proba",
    "predict_set",
    "predict_interval",
    "predict_mean_interval",
    "predict_proba_interval",
    "predict_quantiles",
    "predict_std",
    "predict_variance",
    "predict_all",
    "predict_contributions",
    "predict_survival_function",
    "score_samples",
    "apply",
    "decision_path",
    "leaf_features",
    "transform",
)
# Minus infinity is the logarithm of 0.
LOGARITHMS = {"predict_log_proba", "predict_joint_log_proba", "score_samples"}
# May be without bounds, where few rows do not say how far numbers go.
UNBOUNDED = {"predict_interval", "predict_survival_function"}
# May hand on the columns of the table.
PASSED_THROUGH = {"transform"}


class FaultError(AssertionError):
    """What a user should not have met."""


def run(case: Case) -> bool:
    """Whether the estimator could be fitted; FaultError, or what was raised, where anything is wrong."""
    model, X, fit_arguments = prepare(case)
    X_new = make_table(case.columns, case.form, np.random.default_rng(case.seed + 1), 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", LinAlgWarning)  # of linear models that a final estimator is
        if not _succeeds(lambda: model.fit(X, **fit_arguments)):
            return False
        # Rows of weight 0 are not seen: they may be all that holds texts in a column.
        X_seen = _safe_indexing(X, np.flatnonzero(fit_arguments.get("sample_weight", np.ones(case.n_rows)))[:30])
        found = _predictions(model, X_seen)
        if "predict" not in found and hasattr(model, "predict"):
            raise FaultError("no prediction for the rows of fit")
        for answers in (found, _predictions(model, X_new)):
            for name, values in answers.items():
                _check_numbers(name, values)
            _check_answers(model, answers)
        _check_same(found, _predictions(pickle.loads(pickle.dumps(model)), X_seen), "from a pickle")
        if "n_jobs" in model.get_params(deep=False):
            again = clone(model).set_params(n_jobs=2).fit(X, **fit_arguments)
            _check_same(found, _predictions(again, X_seen), "with n_jobs=2")
    return True


def refuse(wrong: tuple[str, str, Any]) -> None:
    """FaultError unless `fit` says which parameter is wrong, what it must be, and what it is."""
    estimator, parameter, value = wrong
    model, X, arguments = prepare(Case(estimator, 40, ("normal", "counts"), "array", _plain_target(estimator), None))
    model.set_params(**{parameter: value})
    try:
        model.fit(X, **arguments)
    except (ValueError, TypeError) as error:
        if parameter not in str(error) or _is_foreign(error):
            raise FaultError(f"the error does not say what is wrong with {parameter}={value!r}: {error}") from error
    else:
        raise FaultError(f"{parameter}={value!r} was accepted")


def _plain_target(estimator: str) -> str:
    return "two classes" if is_classifier(getattr(fastens, estimator)()) else "positive"


def prepare(case: Case) -> tuple[Any, Any, dict[str, Any]]:
    """Return the estimator, its table, and what else its `fit` takes."""
    rng = np.random.default_rng(case.seed)
    X = make_table(case.columns, case.form, rng, case.n_rows)
    model = getattr(fastens, case.estimator)(**case.parameters)
    accepted = inspect.signature(model.fit).parameters
    arguments = {}
    if case.target is not None:
        arguments["y"] = _target(model, case.target, rng, case.n_rows)
    if case.weights is not None and "sample_weight" in accepted:
        arguments["sample_weight"] = WEIGHTS[case.weights](rng, case.n_rows)
    if "qid" in accepted:
        arguments["qid"] = np.sort(rng.integers(0, 5, size=case.n_rows))
    if "position" in accepted and case.seed % 2:
        arguments["position"] = rng.integers(0, 6, size=case.n_rows)
    return model, X, arguments


def _target(model: Any, kind: str, rng: np.random.Generator, n_rows: int) -> np.ndarray:
    if is_classifier(model):
        return LABELS[kind](rng, n_rows)
    y = TARGETS[kind](rng, n_rows)
    if isinstance(model, fastens.GradientBoostingSurvival):
        return np.rec.fromarrays([rng.random(n_rows) < 0.7, y], names="event,time")
    return y


def _is_foreign(error: Exception) -> bool:
    """Whether an error comes from code that expected something else, and nobody said what must be."""
    return FOREIGN.search(str(error)) is not None and " must " not in str(error)


def _succeeds(call: Any) -> bool:
    """Whether a call returns; an error must be one of the values given, in words of ours."""
    try:
        call()
    except (ValueError, TypeError) as error:
        if _is_foreign(error):
            raise FaultError(f"{type(error).__name__} that says nothing to a user: {error}") from error
        return False
    return True


def _predictions(model: Any, X: Any) -> dict[str, Any]:
    found = {}
    for name in PREDICTIONS:
        if not hasattr(model, name):
            continue
        try:
            found[name] = _as_array(getattr(model, name)(X))
        except (ValueError, TypeError, AttributeError, NotImplementedError) as error:
            if _is_foreign(error):
                raise FaultError(f"{name} raised {type(error).__name__}: {error}") from error
    return found


def _as_array(values: Any) -> np.ndarray:
    if hasattr(values, "toarray"):
        return values.toarray()
    if isinstance(values, list | tuple | Iterator):
        return np.concatenate([_as_array(each).ravel() for each in values])
    return np.asarray(values)


def _check_numbers(name: str, values: np.ndarray) -> None:
    if values.dtype.kind != "f" or name in PASSED_THROUGH:
        return
    if np.isnan(values).any():
        raise FaultError(f"{name} gave NaN")
    if name not in UNBOUNDED and (values == np.inf).any():
        raise FaultError(f"{name} gave infinity")
    if name not in UNBOUNDED | LOGARITHMS and (values == -np.inf).any():
        raise FaultError(f"{name} gave -infinity")


def _check_answers(model: Any, found: dict[str, np.ndarray]) -> None:
    """Answers of classifiers are classes they learned, and probabilities are some."""
    if not is_classifier(model) or "predict" not in found:
        return
    unknown = set(found["predict"].tolist()) - set(model.classes_.tolist())
    if unknown:
        raise FaultError(f"predict gave {unknown.pop()!r}, which is not in classes_")
    if "predict_proba" in found:
        shares = found["predict_proba"]
        need_not_add_up = getattr(model, "loss", None) == "one_vs_rest"
        if shares.min(initial=0) < 0 or not (need_not_add_up or np.allclose(shares.sum(axis=1), 1)):
            raise FaultError("predict_proba gave no probabilities")


def _check_same(found: dict[str, np.ndarray], others: dict[str, np.ndarray], where: str) -> None:
    for name, values in found.items():
        if not pd.Series(values.ravel()).equals(pd.Series(others[name].ravel())):  # missing values are equal
            raise FaultError(f"{name} {where} differs")
