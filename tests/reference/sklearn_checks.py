"""scikit-learn's checks of estimators, as tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator


def parametrize_with_checks(estimators: Iterable[Any], *, slow: bool = True) -> pytest.MarkDecorator:
    """As scikit-learn's function of that name, which writes each estimator out anew for each of its checks."""
    cases, marks = [], [pytest.mark.slow] if slow else []
    for estimator in estimators:
        text = re.sub(r"\s", "", repr(estimator))
        for checked, check in estimator_checks_generator(estimator):
            options = ",".join(f"{name}={value}" for name, value in check.keywords.items())
            name = check.func.__name__ + (f"({options})" if options else "")
            cases.append(pytest.param(checked, check, marks=marks, id=f"{text}-{name}"))
    return pytest.mark.parametrize(("estimator", "check"), cases)
