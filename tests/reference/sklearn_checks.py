"""scikit-learn's checks of estimators, as tests."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator


def parametrize_with_checks(estimators: Iterable[Any], *, quick: Container[str] = ()) -> pytest.MarkDecorator:
    """As scikit-learn's function of that name, which writes each estimator out anew for each of its checks.

    Those of the classes named in `quick` are not marked as slow.
    """
    cases = []
    for estimator in estimators:
        marks = [] if type(estimator).__name__ in quick else [pytest.mark.slow]
        text = re.sub(r"\s", "", repr(estimator))
        for checked, check in estimator_checks_generator(estimator):
            options = ",".join(f"{name}={value}" for name, value in check.keywords.items())
            name = check.func.__name__ + (f"({options})" if options else "")
            cases.append(pytest.param(checked, check, marks=marks, id=f"{text}-{name}"))
    return pytest.mark.parametrize(("estimator", "check"), cases)
