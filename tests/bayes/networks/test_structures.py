"""Structures of classifiers."""

from __future__ import annotations

import numpy as np
import pandas as pd
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


@pytest.mark.parametrize("criterion", ["bic", "aic", "bdeu", "k2"])
@pytest.mark.parametrize("tabu", [0, 5])
def test_columns_never_known_together_have_no_edge(rng, criterion, tabu):
    X = np.column_stack([rng.integers(0, 2, 200), rng.integers(0, 2, 200), rng.integers(0, 2, 200)]).astype(float)
    X[:100, 0] = X[100:, 1] = np.nan  # each is known where the other is not
    y = (rng.random(200) < np.where(X[:, 2] == 1, 0.9, 0.1)).astype(int)
    model, other = (BayesianNetwork(criterion=criterion, tabu=tabu, max_bins=4) for _ in range(2))
    model.fit(X, y)
    assert not {("x0", "x1"), ("x1", "x0")} & set(model.edges_)
    assert other.fit(np.column_stack([X, np.full(200, np.nan)]), y).edges_ == model.edges_


def test_missing_values_make_no_edges_between_independent_columns():
    random = np.random.default_rng(0)
    X = pd.DataFrame({f"v{place}": random.choice(list("xyz"), 1000, p=[0.6, 0.3, 0.1]) for place in range(6)})
    X["constant"] = "a"
    X = X.where(random.random(X.shape) >= 0.3)
    assert BayesianNetwork(tol=1e-2).fit(X).edges_ == []


def test_missing_values_leave_a_chain_its_edges():
    random = np.random.default_rng(0)
    columns = [random.integers(0, 3, 1000)]
    for _ in range(4):
        columns.append(np.where(random.random(1000) < 0.75, columns[-1], random.integers(0, 3, 1000)))
    X = pd.DataFrame({f"v{place}": np.array(list("xyz"))[codes] for place, codes in enumerate(columns)})
    X = X.where(random.random(X.shape) >= 0.3)
    found = {frozenset(edge) for edge in BayesianNetwork(tol=1e-2).fit(X).edges_}
    assert found == {frozenset((f"v{place}", f"v{place + 1}")) for place in range(4)}
