"""scikit-learn's checks of estimators, as tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any
from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

# What holds for a class whatever its parameters: how it is made, and what it refuses before they matter. SciPy's
# matrices go the way of its arrays.
OF_CLASSES = {
    "check_all_zero_sample_weights_error",
    "check_complex_data",
    "check_estimator_sparse_matrix",
    "check_estimator_tags_renamed",
    "check_estimators_empty_data_messages",
    "check_estimators_partial_fit_n_features",
    "check_estimators_unfitted",
    "check_fit1d",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_positive_only_tag_during_fit",
    "check_requires_y_none",
    "check_sample_weights_shape",
    "check_set_params",
    "check_supervised_y_no_nan",
    "check_valid_tag_types",
}

FEW_ROUNDS = 10


def parametrize_with_checks(
    estimators: Iterable[Any], *, quick: Container[str] = (), leave_out: Callable[[Any, str], bool] | None = None
) -> pytest.MarkDecorator:
    """All of scikit-learn's checks of an estimator as one test: as many tests would cost more than what they do.

    Checks of a class alone are of its defaults. Estimators have `FEW_ROUNDS` trees at most, which takes a third of the
    time, except classes named in `quick`, which stay as they are and are not marked as slow. `leave_out` returns True
    for an estimator and a check that does not apply to it.
    """
    cases = []
    for estimator in estimators:
        is_quick = type(estimator).__name__ in quick
        text = re.sub(r"\s", "", repr(estimator))
        if not is_quick and getattr(estimator, "n_estimators", 0) > FEW_ROUNDS:
            estimator.set_params(n_estimators=FEW_ROUNDS)
        checks = []
        for checked, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            if name in OF_CLASSES and not text.endswith("()"):
                continue
            if leave_out is None or not leave_out(estimator, name):
                checks.append(partial(check, checked))
        cases.append(pytest.param(partial(_run, checks), marks=[] if is_quick else [pytest.mark.slow], id=text))
    return pytest.mark.parametrize("check", cases)


def _run(checks: list[partial]) -> None:
    """Run all checks, also after some that fail; those that find nothing to check are passed over."""
    failures = []
    for check in checks:
        try:
            check()
        except (SkipTest, pytest.skip.Exception):
            continue
        except Exception as failure:
            options = ", ".join(f"{name}={value}" for name, value in check.keywords.items())
            failure.add_note(f"in {check.func.__name__}({options})")
            failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(checks)} checks failed", failures)
