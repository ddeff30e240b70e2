"""The PC algorithm against independence tests of SciPy, d-separation, and enumeration of equivalent graphs."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fastens
from fastens import BayesianNetwork
from fastens.bayes.counts.counting import CodedRows
from fastens.bayes.networks import pc
from fastens.bayes.networks.structures import EdgeRules, ancestors, topological_order
from reference.network_models import FOLDER


@pytest.mark.parametrize("kind", ["g2", "chi2"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense_cells", [0, 1 << 16])
def test_p_values_are_sums_over_strata_of_scipys_tests(rng, kind, weighted, dense_cells, monkeypatch):
    monkeypatch.setattr(pc, "DENSE_CELLS", dense_cells)
    codes = rng.integers(0, 4, (4, 150)).astype(np.uint8)
    codes[1] = np.where(rng.random(150) < 0.4, codes[0], codes[1])
    codes[2] = np.minimum(codes[2], 2)
    weights = rng.integers(1, 4, 150).astype(float) if weighted else None
    rows = CodedRows(codes, np.array([3, 3, 2, 5]), weights)  # the last variable has two values without rows
    tests = [(0, 1, ()), (0, 1, (2,)), (0, 3, (2, 1)), (0, 3, (1, 2)), (1, 2, (3,)), (2, 3, (1, 0))]
    expected = []
    for one, other, condition in tests:
        statistic = freedom = 0
        known = (codes[[one, other, *condition]] > 0).all(axis=0)
        for stratum in set(map(tuple, codes[list(condition)][:, known].T)) or {()}:
            own = known & (stratum == codes[list(condition)].T).all(axis=1)
            table = np.zeros((5, 5))
            np.add.at(table, (codes[one][own], codes[other][own]), 1 if weights is None else weights[own])
            table = table[table.any(axis=1)][:, table.any(axis=0)]
            if min(table.shape) > 1:
                found = stats.chi2_contingency(table, correction=False, lambda_={"g2": 0, "chi2": 1}[kind])
                statistic, freedom = statistic + found.statistic, freedom + found.dof
        expected.append(stats.chi2.sf(statistic, freedom) if freedom else 1.0)
    assert min(expected) < 0.01
    np.testing.assert_allclose(pc.p_values(rows, tests, kind), expected, rtol=1e-9)


def test_a_constant_variable_is_independent():
    rows = CodedRows(np.array([[1, 1, 1, 1], [1, 2, 1, 2]], dtype=np.uint8), np.array([1, 2]), None)
    assert pc.p_values(rows, [(0, 1, ())], "g2") == [1.0]


def random_parents(rng, n_nodes):
    order = rng.permutation(n_nodes)
    parents = [()] * n_nodes
    for place, node in enumerate(order):
        parents[node] = tuple(int(v) for v in sorted(order[:place]) if rng.random() < 0.4)
    return tuple(parents)


def pattern(parents):
    """Edges without directions, and colliders whose parents are not adjacent: the equivalence class of a graph."""
    edges = {frozenset((parent, child)) for child, found in enumerate(parents) for parent in found}
    return edges, {
        (child, frozenset(pair))
        for child, found in enumerate(parents)
        for pair in combinations(found, 2)
        if frozenset(pair) not in edges
    }


def equivalents(parents):
    """All acyclic graphs with the pattern of a graph."""
    edges = [(parent, child) for child, found in enumerate(parents) for parent in found]
    for turns in product([False, True], repeat=len(edges)):
        turned = [edge[::-1] if turn else edge for edge, turn in zip(edges, turns, strict=True)]
        other = tuple(tuple(sorted(p for p, c in turned if c == node)) for node in range(len(parents)))
        try:
            topological_order(other)
        except ValueError:
            continue
        if pattern(other) == pattern(parents):
            yield other


def is_separated(parents, one, other, condition):
    """d-separation: no path in the moral graph of the ancestors once the condition is removed."""
    among = ancestors(parents, {one, other, *condition})
    linked = {v: set() for v in among}
    for node in among:
        for a, b in combinations((*parents[node], node), 2):
            linked[a].add(b)
            linked[b].add(a)
    reached, waiting = {one}, [one]
    while waiting:
        new = linked[waiting.pop()] - reached - set(condition)
        reached |= new
        waiting += new
    return other not in reached


@pytest.mark.parametrize("seed", range(30))
def test_compelled_edges_are_common_to_all_equivalent_graphs(seed):
    parents = random_parents(np.random.default_rng(seed), 5)
    same = [{(p, c) for c, found in enumerate(other) for p in found} for other in equivalents(parents)]
    assert sorted(pc.compelled_edges(parents)) == sorted(set.intersection(*same))


@pytest.fixture
def oracle(monkeypatch):
    """Replace the tests by d-separation in a graph whose variables are listed in the order of their names."""

    def use(parents):
        def found(rows, tests, kind):
            return [float(is_separated(parents, *test)) for test in tests]

        monkeypatch.setattr(pc, "p_values", found)

    return use


def run(parents, required=None, forbidden=None):
    n = len(parents)
    rows = CodedRows(np.ones((n, 1), dtype=np.uint8), np.full(n, 2), None)
    rules = EdgeRules(required or ((),) * n, forbidden or ((),) * n, n)
    return pc.pc(rows, [f"x{node}" for node in range(n)], rules, "g2", 0.05)


@pytest.mark.parametrize("seed", range(40))
def test_true_independences_give_the_true_equivalence_class(seed, oracle):
    parents = random_parents(np.random.default_rng(seed), 7)
    oracle(parents)
    assert pattern(run(parents)) == pattern(parents)


@pytest.mark.parametrize("seed", range(40))
def test_true_knowledge_directs_edges_within_the_class(seed, oracle):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, 6)
    required = tuple(tuple(p for p in found if rng.random() < 0.3) for found in parents)
    absent = [[v for v in range(6) if v != child and v not in found] for child, found in enumerate(parents)]
    forbidden = tuple(tuple(v for v in found if rng.random() < 0.4) for found in absent)
    oracle(parents)
    found = run(parents, required, forbidden)
    assert pattern(found) == pattern(parents)
    for child in range(6):
        assert set(required[child]) <= set(found[child])
        assert not set(forbidden[child]) & set(found[child])


def test_knowledge_that_contradicts_the_data_is_obeyed():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 2, 2000), "b": rng.integers(0, 2, 2000)})
    table["c"] = np.where(rng.random(2000) < 0.8, table.a | table.b, rng.integers(0, 2, 2000))
    assert set(BayesianNetwork("pc").fit(table).edges_) == {("a", "c"), ("b", "c")}
    model = BayesianNetwork("pc", required_edges=[("c", "a")]).fit(table)
    assert ("c", "a") in model.edges_
    assert ("a", "b") in BayesianNetwork("pc", required_edges={"b": "a"}).fit(table).edges_
    model = BayesianNetwork("pc", forbidden_edges=[("a", "c"), ("c", "a")]).fit(table)
    assert [set(edge) for edge in model.edges_] == [{"b", "c"}]
    cycle = [("a", "b"), ("b", "c"), ("c", "a")]
    table["b"] = table["a"] ^ (rng.random(2000) < 0.3)
    table["c"] = table["a"] + table["b"] + (rng.random(2000) < 0.3)
    with pytest.warns(UserWarning, match="closes a cycle"):
        assert len(BayesianNetwork("pc", forbidden_edges=cycle).fit(table).edges_) == 2


@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_the_columns_does_not_matter(weighted):
    rng = np.random.default_rng(1)
    columns = {"a": rng.integers(0, 3, 600)}
    for name in "bcdefg":
        near = columns[rng.choice(list(columns))] + columns[rng.choice(list(columns))]
        columns[name] = np.where(rng.random(600) < 0.6, near % 3, rng.integers(0, 3, 600))
    table = pd.DataFrame(columns).astype(object)
    table = table.mask(rng.random(table.shape) < 0.05)
    weight = rng.integers(1, 4, 600) if weighted else None
    first = BayesianNetwork("pc", significance_level=0.2, max_iter=3, tol=1).fit(table, sample_weight=weight)
    assert first.edges_
    for _ in range(4):
        other = BayesianNetwork("pc", significance_level=0.2, max_iter=3, tol=1)
        other.fit(table[rng.permutation(list(table))], sample_weight=weight)
        assert set(other.edges_) == set(first.edges_)
    if weighted:
        repeated = table.loc[table.index.repeat(weight)]
        assert BayesianNetwork("pc", significance_level=0.2, max_iter=3, tol=1).fit(repeated).edges_ == first.edges_


def test_samples_of_a_published_network_recover_it(tmp_path):
    true = BayesianNetwork.read_bif(FOLDER / "asia.bif")
    table = pd.DataFrame(true.sample(20_000, random_state=0), columns=true.node_names_)
    X, y = table.drop(columns="lung"), table["lung"]
    model = BayesianNetwork("pc", class_name="lung").fit(X, y)
    found, expected = ({frozenset(edge) for edge in net.edges_} for net in (model, true))
    assert found <= expected  # "either" is a function of its parents, which hides some of its edges
    assert {frozenset(edge) for edge in [("smoke", "lung"), ("smoke", "bronc"), ("bronc", "dysp")]} <= found
    assert model.score(X, y) >= max(y.value_counts()) / len(y)
    model.save(tmp_path / "model")
    assert fastens.load(tmp_path / "model").compelled_edges_ == model.compelled_edges_
    assert set(model.compelled_edges_) <= set(model.edges_)
    assert set(true.compelled_edges_) == {
        ("tub", "either"), ("lung", "either"), ("either", "xray"), ("either", "dysp"), ("bronc", "dysp"),
    }  # fmt: skip


def test_parameters_of_pc():
    with pytest.raises(ValueError, match="significance_level must be a number greater than 0 and less than 1"):
        BayesianNetwork("pc", significance_level=1).fit([[0], [1]])
    with pytest.raises(ValueError, match="independence_test must be"):
        BayesianNetwork("pc", independence_test="t").fit([[0], [1]])
    with pytest.raises(ValueError, match="structure must list the edges if there are hidden variables"):
        BayesianNetwork("pc", hidden={"z": 2}).fit([[0], [1]])
