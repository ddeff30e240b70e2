"""Rules for parameters: what they accept, and the words of their errors."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import fastens
from fastens.params.rules import FLAG, NONE, instance, one_of, real, whole
from reference.public_estimators import CLASSES, REQUIRED, make, table_for


@pytest.mark.parametrize(
    ("rule", "good", "bad", "text"),
    [
        (whole(1), [1, 10**9, np.int32(3)], [0, 1.0, True, None, "1"], "a whole number of at least 1"),
        (whole(2, 65535), [2, 65535], [1, 65536], "a whole number from 2 to 65535"),
        (real(0), [0, 1.5, np.float32(2)], [-1e-9, np.nan, np.inf, False, "0"], "a number at least 0"),
        (real(0, 1, open_low=True), [1e-9, 1], [0, 1.1], "a number greater than 0 and at most 1"),
        (real(0, 1, open_low=True, open_high=True), [0.5], [0, 1], "a number greater than 0 and less than 1"),
        (one_of("gain", "split"), ["gain"], ["Gain", None, 1], "'gain' or 'split'"),
        (one_of("a", "b", "c"), ["c"], ["d"], "one of 'a', 'b', 'c'"),
        (whole(1) | NONE, [None, 4], [0], "a whole number of at least 1 or None"),
        (FLAG, [True, np.bool_(False)], [0, 1, "True", None], "True or False"),
        (instance(dict, "a dict"), [{}], [[]], "a dict"),
    ],
)
def test_rules(rule, good, bad, text):
    assert rule.text == text
    for value in good:
        rule.check("depth", value)
    for value in bad:
        with pytest.raises(ValueError, match=r"^depth must be ") as error:
            rule.check("depth", value)
        assert str(error.value) == f"depth must be {text}; got {value!r}."


ESTIMATORS = [
    found
    for name in fastens.__all__
    if isinstance(found := getattr(fastens, name), type) and issubclass(found, BaseEstimator)
]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CLASSES if name not in REQUIRED])
def test_arrays_are_not_parameter_values(name):
    """Where a parameter has no use for one, its rule says so; nothing asks an array whether it is true."""
    wrong = np.array([1, 0])
    for parameter in make(name).get_params(deep=False):
        if parameter not in ("estimator", "estimators"):
            said = ""
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    make(name, **{parameter: wrong}).fit(*table_for(name))
                except ValueError as error:
                    said = str(error)
            assert "ambiguous" not in said, parameter


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_defaults_break_no_rule(kind):
    """Estimators rely on it: they check what is not the default."""
    for name, parameter in inspect.signature(kind).parameters.items():
        if name in kind._parameter_rules and parameter.default is not inspect.Parameter.empty:
            kind._parameter_rules[name].check(name, parameter.default)


def derived(kind, **values):
    """A class of a user, whose constructor has few parameters and gives the others values of its own."""

    class Own(kind):
        def __init__(self, threshold=0.5):
            super().__init__(**values)
            self.threshold = threshold

    return Own


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("AdaBoostClassifier", {"n_estimators": 3, "criterion": "entropy", "max_depth": 2}),
        ("AdaBoostRegressor", {"n_estimators": 3}),
        ("BaggingClassifier", {"n_estimators": 2}),
        ("ExtraTreesRegressor", {"n_estimators": 3, "criterion": "absolute_error", "max_depth": 2}),
        ("GradientBoostingClassifier", {"n_estimators": 3, "max_depth": 2}),
        ("GradientBoostingRegressor", {"n_estimators": 3, "early_stopping": True, "validation_fraction": 0.2}),
        ("RandomForestClassifier", {"n_estimators": 3, "criterion": "entropy", "max_depth": 2}),
    ],
)
def test_derived_classes_may_have_fewer_parameters(kind, values):
    X, y = table_for(kind)
    theirs, ours = derived(CLASSES[kind], random_state=0, **values)().fit(X, y), make(kind, random_state=0, **values)
    assert theirs.get_params() == {"threshold": 0.5}
    np.testing.assert_array_equal(clone(theirs).fit(X, y).predict(X), ours.fit(X, y).predict(X))
    if hasattr(ours, "estimators_"):
        assert repr(theirs.estimators_[0]) == repr(ours.estimators_[0])


def test_derived_classes_raise_for_unused_parameters():
    wrong = derived(fastens.GradientBoostingRegressor, validation_fraction=0.2)()
    with pytest.raises(ValueError, match="validation_fraction must be"):
        wrong.fit(*table_for("GradientBoostingRegressor"))


def _methods_with_a_target():
    for name, kind in CLASSES.items():
        for method in filter(callable, (getattr(kind, each) for each in dir(kind) if not each.startswith("_"))):
            if isinstance(method, type):
                continue
            arguments = inspect.signature(method).parameters.values()
            positional = [each.name for each in arguments if each.kind is each.POSITIONAL_OR_KEYWORD]
            if "y" in positional:
                yield pytest.param(method, positional, id=f"{name}.{method.__name__}")


@pytest.mark.parametrize(("method", "positional"), _methods_with_a_target())
def test_arguments_after_the_target_are_given_by_name(method, positional):
    """Other libraries put queries, validation tables and more after y, which must not be taken for weights."""
    after = positional[positional.index("y") + 1 :]
    allowed = ["classes", "sample_weight"] if method.__name__ == "partial_fit" else ["sample_weight"]
    assert after in ([], allowed, allowed[-1:])
