"""Structures of classifiers."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import BayesianNetwork
from reference.dependence import limited_dependence


@pytest.mark.parametrize(("max_parents", "min_information"), [(1, 0.0), (2, 0.0), (3, 0.0), (3, 0.3), (4, 0.5)])
def test_limited_dependence(rng, max_parents, min_information):
    y = rng.integers(0, 3, 400)
    X = [rng.integers(0, 2, 400) + y]
    for _ in range(5):
        X.append((X[rng.integers(len(X))] + rng.integers(0, 3, 400) * (rng.random(400) < 0.5) + y) % 4)
    X = np.column_stack(X)[:, rng.permutation(6)]

    model = BayesianNetwork("kdb", max_parents=max_parents, min_information=min_information).fit(X, y)
    expected = limited_dependence(X, y, max_parents - 1, min_information)
    found = [model.parents_[f"x{column}"] for column in range(6)]
    assert all("class" in parents for parents in found)
    assert [{int(name[1:]) for name in parents if name != "class"} for parents in found] == expected
    assert model.parents_["class"] == []
    if min_information:
        assert sum(map(len, expected)) < sum(min(place, max_parents - 1) for place in range(6))
