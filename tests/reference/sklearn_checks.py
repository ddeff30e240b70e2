"""scikit-learn's checks of estimators, as tests."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

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


def parametrize_with_checks(estimators: Iterable[Any], *, quick: Container[str] = ()) -> pytest.MarkDecorator:
    """As scikit-learn's function of that name, which writes each estimator out anew for each of its checks.

    Checks of a class alone are of its defaults. Those of the classes named in `quick` are not marked as slow.
    """
    cases = []
    for estimator in estimators:
        marks = [] if type(estimator).__name__ in quick else [pytest.mark.slow]
        text = re.sub(r"\s", "", repr(estimator))
        is_default = text.endswith("()")
        for checked, check in estimator_checks_generator(estimator):
            if check.func.__name__ in OF_CLASSES and not is_default:
                continue
            options = ",".join(f"{name}={value}" for name, value in check.keywords.items())
            name = check.func.__name__ + (f"({options})" if options else "")
            cases.append(pytest.param(checked, check, marks=marks, id=f"{text}-{name}"))
    return pytest.mark.parametrize(("estimator", "check"), cases)
