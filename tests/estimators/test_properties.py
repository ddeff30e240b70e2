"""Every public estimator, with columns, targets, weights and parameters of any kind: a model, or an error that helps.

No crash, no hang, no memory beyond 2 GiB, no NaN or infinity out of finite targets, no answer that is no class, the
same predictions from a pickle and with two threads. How many tables each estimator meets: FASTENS_EXAMPLES (default
6; where it is set they are drawn anew in each run).
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier

import fastens
from properties.parameters import TABLES, quick_parameters, values_for, wrong_values_for
from properties.tables import FORMS, LABELS, NUMBERS, OTHERS, TARGETS, WEIGHTS
from properties.trial import Case, refuse, run

N_EXAMPLES = int(os.environ.get("FASTENS_EXAMPLES", "6"))
EXAMPLES = settings(
    max_examples=N_EXAMPLES,
    derandomize="FASTENS_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)


def parameters(estimator: str) -> st.SearchStrategy[dict[str, Any]]:
    """Up to three parameters that are not the default, each valid by itself."""
    values = values_for(estimator)
    one = st.sampled_from(sorted(values)).flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(values[name])))
    return st.lists(one, max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda pairs: quick_parameters(estimator) | dict(pairs)
    )


def targets(estimator: str) -> st.SearchStrategy[str | None]:
    model = getattr(fastens, estimator)()
    if is_classifier(model):
        return st.sampled_from(sorted(LABELS))
    return st.sampled_from(sorted(TARGETS))


def cases(estimator: str) -> st.SearchStrategy[Case]:
    plain = st.sampled_from(["normal", "counts", "two values"])
    return st.builds(
        Case,
        estimator=st.just(estimator),
        n_rows=st.sampled_from([40, 1, 2, 3, 10, 100, 500]),
        columns=st.lists(plain | st.sampled_from([*NUMBERS, *OTHERS]), min_size=1, max_size=4).map(tuple),
        form=st.sampled_from(FORMS),
        target=targets(estimator),
        weights=st.none() | st.sampled_from(sorted(WEIGHTS)),
        parameters=parameters(estimator),
        seed=st.integers(0, 1000),
    )


@pytest.mark.slow
@pytest.mark.parametrize("estimator", TABLES)
def test_a_model_or_an_error_that_helps(estimator, worker):
    @EXAMPLES
    @given(case=cases(estimator))
    def check(case):
        worker.call(run, case)

    check()


WRONG_VALUES = [(name, parameter, values) for name in TABLES for parameter, values in wrong_values_for(name).items()]


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "parameter", "values"), WRONG_VALUES, ids=lambda value: str(value)[:30])
def test_wrong_parameters_are_named(estimator, parameter, values, worker):
    for value in values:
        worker.call(refuse, (estimator, parameter, value))
