"""Exact inference, against enumeration of the joint distribution."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest

from fastens.bayes.counts.counting import CodedRows, family_counts
from fastens.bayes.networks.inference import (
    Factor,
    draw,
    eliminate,
    elimination_order,
    expected_counts,
    explain,
    find_components,
    log_likelihoods,
    log_posteriors,
    marginal,
    missing_mask,
    query,
)
from fastens.bayes.networks.network_data import NetworkData
from fastens.bayes.networks.network_files import parse_bif
from reference import networks as plain
from reference.network_models import FOLDER, random_network

SEEDS = range(8)


def random_evidence(rng, network, n):
    chosen = rng.permutation(len(network.names))[:n]
    return {int(v): int(rng.integers(network.sizes[v])) for v in chosen}


def random_codes(rng, network, n_rows=24, share=0.35):
    codes = (draw(network, n_rows, {}, rng)[0] + 1).astype(np.uint8)
    codes[rng.random(codes.shape) < share] = 0
    codes[0, 0] = network.sizes[0] + 1  # not seen in fit
    return codes


@pytest.mark.parametrize("seed", SEEDS)
def test_queries(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    for n_evidence in range(4):
        evidence = random_evidence(rng, network, n_evidence)
        others = [v for v in rng.permutation(6).tolist() if v not in evidence]
        for n_asked in (0, 1, 3):
            table, log_total = query(network, others[:n_asked], evidence)
            expected, total = plain.query(network, others[:n_asked], evidence)
            np.testing.assert_allclose(table, expected, rtol=1e-12)
            assert np.exp(log_total) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_virtual_evidence(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    for n_evidence in range(3):
        evidence = random_evidence(rng, network, n_evidence)
        virtual = [v for v in rng.permutation(6).tolist() if v not in evidence][:2]
        evidence |= {v: rng.random(network.sizes[v]) for v in virtual}
        asked = [v for v in range(6) if not isinstance(evidence.get(v), int)][:3]
        table, log_total = query(network, asked, evidence)
        expected, total = plain.query(network, asked, evidence)
        np.testing.assert_allclose(table, expected, rtol=1e-12)
        assert np.exp(log_total) == pytest.approx(total, rel=1e-12)
        unknown = [v for v in range(6) if not isinstance(evidence.get(v), int)]
        everything, total = plain.query(network, unknown, evidence)
        best, _, log_best = explain(network, evidence)
        assert everything[tuple(best[v] for v in unknown)] == pytest.approx(everything.max())
        assert np.exp(log_best) == pytest.approx(everything.max() * total)
        drawn = draw(network, 4000, evidence, rng)[0][asked[0]]
        share = np.bincount(drawn, minlength=network.sizes[asked[0]]) / 4000
        marginal_of_first = expected.reshape(network.sizes[asked[0]], -1).sum(axis=1)
        np.testing.assert_allclose(share, marginal_of_first, atol=0.04)


@pytest.mark.parametrize("seed", SEEDS)
def test_interventions(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    for n_fixed in range(3):
        values = random_evidence(rng, network, n_fixed)
        found = network.intervene(values)
        found.check()
        np.testing.assert_allclose(plain.joint(found), plain.intervened(network, values), rtol=1e-12)
        others = [v for v in range(6) if v not in values][:2]
        expected = plain.intervened(network, values).sum(axis=tuple(v for v in range(6) if v not in others))
        np.testing.assert_allclose(query(found, others, {})[0], expected, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_with_missing_values(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    codes = random_codes(rng, network)
    found = log_likelihoods(network, codes)
    for row in range(codes.shape[1]):
        evidence = plain.row_evidence(network, codes[:, row])
        assert np.exp(found[row]) == pytest.approx(plain.query(network, [], evidence)[1], rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("share", [0, 0.35])
def test_posteriors_of_rows(seed, share):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    codes = random_codes(rng, network, share=share)
    for variable in range(6):
        scores = np.exp(log_posteriors(network, variable, codes))
        for row in range(codes.shape[1]):
            evidence = plain.row_evidence(network, codes[:, row])
            evidence.pop(variable, None)
            expected = plain.query(network, [variable], evidence)[0]
            np.testing.assert_allclose(scores[row] / scores[row].sum(), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("prune", [False, True])
def test_expected_counts(seed, prune, monkeypatch):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 5)
    codes = random_codes(rng, network)
    weights = rng.random(codes.shape[1])
    if prune:  # components whose joint table would be large are summed family by family
        monkeypatch.setattr("fastens.bayes.networks.inference.JOINT_CELLS", 2)
    components = find_components(network, missing_mask(network, codes), prune=False)
    hidden, value = expected_counts(network, components, codes, weights)
    known = family_counts(CodedRows(codes, network.sizes, weights), network.families)
    value += sum((k * np.log(table)).sum() for k, table in zip(known, network.tables, strict=True))
    expected, total = plain.expected_counts(network, codes, weights)
    for one, other, whole in zip(known, hidden, expected, strict=True):
        np.testing.assert_allclose(one + other, whole, rtol=1e-11, atol=1e-13)
    assert value == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_most_probable_explanation(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    evidence = random_evidence(rng, network, seed % 3)
    values, _, log_probability = explain(network, evidence)
    expected, probability = plain.best(network, evidence)
    assert values == expected
    assert np.exp(log_probability) == pytest.approx(probability, rel=1e-12)


@pytest.mark.parametrize("n_evidence", [0, 1, 2])
def test_draws_have_the_distribution(rng, n_evidence):
    network = random_network(rng, 5)
    evidence = random_evidence(rng, network, n_evidence)
    drawn, _ = draw(network, 40_000, evidence, rng)
    others = [v for v in range(5) if v not in evidence]
    shares = np.zeros([network.sizes[v] for v in others])
    np.add.at(shares, tuple(drawn[others]), 1 / drawn.shape[1])
    np.testing.assert_allclose(shares, plain.query(network, others, evidence)[0], atol=0.012)
    assert all((drawn[v] == position).all() for v, position in evidence.items())


def test_impossible_evidence():
    network = parse_bif((FOLDER / "asia.bif").read_text(encoding="utf-8"))
    either, lung = network.names.index("either"), network.names.index("lung")
    evidence = {either: 1, lung: 0}  # no disease, and lung cancer
    assert query(network, [], evidence)[1] == -np.inf
    codes = np.zeros((8, 1), np.uint8)
    codes[either], codes[lung] = 2, 1
    assert log_likelihoods(network, codes).tolist() == [-np.inf]
    assert (log_posteriors(network, 0, codes) == -np.inf).all()


def test_long_chains_do_not_underflow():
    n = 400
    asked = {"v0": (("a", "b"), (), [0.5, 0.5])}
    for i in range(1, n):
        asked[f"v{i}"] = (("a", "b"), (i - 1,), [[0.01, 0.99], [0.99, 0.01]])
    states, parents, tables = zip(*asked.values(), strict=True)
    network = NetworkData(tuple(asked), states, parents, tuple(np.array(table) for table in tables))
    log_total = query(network, [], dict.fromkeys(range(n), 0))[1]
    assert log_total == pytest.approx(np.log(0.5) + (n - 1) * np.log(0.01), rel=1e-12)
    codes = np.ones((n, 3), np.uint8)
    codes[1::2, 1] = 0
    codes[5:, 2] = 0
    two_steps = np.log(0.01**2 + 0.99**2)
    expected = np.log(0.5) + np.array([(n // 2 - 1) * two_steps, 4 * np.log(0.01)])
    np.testing.assert_allclose(log_likelihoods(network, codes)[1:], expected)


def test_min_fill_takes_the_cheapest_first():
    # A star: its rays cost no new edge, its middle six.
    scopes = [(0, ray) for ray in range(1, 5)]
    assert elimination_order(scopes, range(5), [2] * 5)[0] != 0
    # A circle of four: every one costs an edge; the one whose product is the smallest goes first.
    assert elimination_order([(0, 1), (1, 2), (2, 3), (3, 0)], range(4), [9, 2, 9, 2])[0] in (0, 2)


def test_too_dense_a_network():
    n, n_states = 5, 128
    factors = [Factor((a, b), np.ones((1, n_states, n_states))) for b in range(n) for a in range(b)]
    with pytest.raises(ValueError, match="too many variables depend"):
        marginal(factors, [], [n_states] * n)


def test_eliminating_a_long_chain_takes_no_square_of_it():
    n = 4000
    factors = [Factor((k, k + 1), np.ones((1, 2, 2))) for k in range(n)]
    start = process_time()
    order = elimination_order([factor.scope for factor in factors], range(1, n + 1), [2] * (n + 1))
    found = eliminate(factors, range(1, n + 1), [2] * (n + 1))
    assert process_time() - start < 1.0
    assert [variable for variable, _ in found.steps] == order
    (left,) = found.factors
    np.testing.assert_allclose(np.log(left.values) + found.log_scale, np.full((1, 2), n * np.log(2)))


def test_one_variable_among_thousands_that_depend_on_it():
    n = 1300
    factors = [Factor((0, k), np.full((1, 2, 2), 0.5)) for k in range(1, n)]
    start = process_time()
    found = eliminate(factors, range(n), [2] * n)
    assert process_time() - start < 3.0
    np.testing.assert_allclose(found.log_scale, np.log(2))


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_elimination_matches_costs_counted_anew(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 12))
    scopes = [tuple(sorted(rng.permutation(n)[: rng.integers(1, 4)].tolist())) for _ in range(2 * n)]
    sizes, remove = rng.integers(2, 5, n).tolist(), rng.permutation(n)[1:].tolist()
    near = {v: {w for scope in scopes if v in scope for w in scope} - {v} for v in range(n)}

    def cost(v):
        missing = sum(b not in near[a] for a in near[v] for b in near[v] if a < b)
        return missing, np.prod([sizes[w] for w in near[v]]) * sizes[v], v

    expected = []
    while len(expected) < len(remove):
        best = min((v for v in remove if v not in expected), key=cost)
        around = near.pop(best)
        for v in around:
            near[v] = (near[v] | around) - {v, best}
        expected.append(best)
    assert elimination_order(scopes, remove, sizes) == expected
