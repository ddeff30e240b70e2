"""A table for tests of boosting, and a target that follows from it."""

from __future__ import annotations

import pytest

from reference.models import make_target


@pytest.fixture
def X(rng):
    return rng.standard_normal((400, 4))


@pytest.fixture
def y(X, rng):
    return make_target("squared_error", X, rng)
