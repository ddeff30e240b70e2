"""Values that others published, to the digits they gave, and enumeration where that is feasible."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

from fastens import BayesianNetwork, CategoricalNB


@pytest.fixture
def car(load_table):
    table = load_table("car")
    return table.drop(columns="class"), table["class"].astype(str)


def laplace_prior(y):
    counts = np.unique(y, return_counts=True)[1]
    return (counts + 1) / (counts.sum() + len(counts))


def test_play_tennis(load_table):
    # Mitchell (1997), section 6.9.1; 5 and 9 rows
    table = load_table("playtennis")
    X, y = table.drop(columns="PlayTennis"), table["PlayTennis"].astype(str)
    new = pd.DataFrame([dict(zip(X.columns, ["Sunny", "Cool", "High", "Strong"], strict=True))])
    model = CategoricalNB(smoothing="none").fit(X, y)
    no, yes = np.exp(model.predict_joint_log_proba(new))[0]
    assert yes == pytest.approx(0.0052910, abs=5e-8)
    assert no == pytest.approx(0.0205714, abs=5e-8)
    assert model.predict_proba(new)[0, 0] == pytest.approx(0.795417, abs=5e-7)
    assert CategoricalNB().fit(X, y).predict_proba(new)[0, 0] == pytest.approx(0.720067, abs=5e-7)


def test_likelihood_and_criteria_of_car(car):
    # The tests of R's bnclassify
    X, y = car
    model = CategoricalNB(smoothing="none").fit(X, y)
    assert model.log_likelihood(X, y) == pytest.approx(-13503.6883427047687, rel=1e-14)
    assert model.n_parameters_ == 63
    assert -model.aic(X, y) / 2 == pytest.approx(-13566.6883427047687, rel=1e-14)
    assert -model.bic(X, y) / 2 == pytest.approx(-13738.5120211097346, rel=1e-14)
    X = X[["buying"]]
    model = CategoricalNB(smoothing="none").fit(X, y)
    assert model.log_likelihood(X, y) == pytest.approx(-3724.18038821656273, rel=1e-14)
    assert -model.aic(X, y) / 2 == pytest.approx(-3739.18038821654636, rel=1e-13)
    assert -model.bic(X, y) / 2 == pytest.approx(-3780.09078783677614, rel=1e-13)


def test_accuracy_on_car(car):
    X, y = car
    model = CategoricalNB(class_prior=laplace_prior(y)).fit(X, y)
    assert model.score(X, y) == pytest.approx(0.870949, abs=5e-7)


@pytest.mark.parametrize(
    ("prior", "doors", "lug_boot"),
    [(0.5, 2.6294701543e-05, 0.999999999814), (0.1, 2.92170179e-06, None), (1e-5, 2.62956559e-10, 0.999981436586)],
)
def test_which_columns_of_car_depend_on_the_class(car, prior, doors, lug_boot):
    # Wei's implementation of Dash & Cooper (2004), in bnclassify's tests
    X, y = car
    posterior = CategoricalNB(feature_prior=prior).fit(X, y).feature_posterior_
    columns = list(X.columns)
    assert posterior[columns.index("doors")] == pytest.approx(doors, rel=5e-9)
    if lug_boot is not None:
        assert posterior[columns.index("lug_boot")] == pytest.approx(lug_boot, abs=1e-12)
    others = [index for index, name in enumerate(columns) if name not in ("doors", "lug_boot")]
    np.testing.assert_allclose(posterior[others], 1, atol=1e-9)


def test_averages_over_columns_of_car(car):
    X, y = car
    model = CategoricalNB(feature_prior=0.5, class_prior=laplace_prior(y)).fit(X, y)
    assert model.predict_proba(X.iloc[[11, 1645, 1727]])[:, 0] == pytest.approx(
        [0.301507, 0.307484, 0.209418], abs=5e-7
    )
    model = CategoricalNB(feature_prior=1e-5, class_prior=laplace_prior(y)).fit(X, y)
    assert model.predict_proba(X.iloc[[11, 17]])[:, 0] == pytest.approx([0.301510, 0.418681], abs=5e-7)


def log_dirichlet(counts, pseudo):
    counts = np.asarray(counts, dtype=float)
    total = pseudo * len(counts)
    return gammaln(total) - gammaln(total + counts.sum()) + (gammaln(pseudo + counts) - gammaln(pseudo)).sum()


@pytest.mark.parametrize(("smoothing", "pseudo"), [("laplace", 0.7), ("kt", 0.5), ("m", 2 / 3), ("bdeu", 3 / 6)])
def test_average_over_all_subsets_by_enumeration(rng, smoothing, pseudo):
    X, y = rng.integers(0, 3, (30, 4)), rng.integers(0, 2, 30)
    X[:, 0] = np.where(rng.random(30) < 0.7, y, X[:, 0])
    X[:3] = [[0] * 4, [1] * 4, [2] * 4]
    prior = 0.3
    model = CategoricalNB(feature_prior=prior, smoothing=smoothing, alpha=0.7, m=2, ess=3).fit(X, y)
    new = np.array(list(product(range(3), repeat=4)))
    log_weights, joints = [], []
    for subset in product([False, True], repeat=4):
        log_weight, joint = 0.0, np.tile(np.bincount(y) / 30, (len(new), 1))
        for column, depends in enumerate(subset):
            rows = [y == 0, y == 1] if depends else [y >= 0]
            counts = [np.bincount(X[chosen, column], minlength=3) for chosen in rows]
            a = pseudo if depends or smoothing != "bdeu" else 2 * pseudo  # ess rows in all, not in each class
            log_weight += np.log(prior if depends else 1 - prior) + sum(log_dirichlet(c, a) for c in counts)
            probabilities = [(c + a) / (c.sum() + 3 * a) for c in counts]
            joint *= np.stack([probabilities[0], probabilities[-1]], axis=1)[new[:, column]]
        log_weights.append(log_weight)
        joints.append(joint)
    evidence = np.logaddexp.reduce(log_weights)
    expected = np.tensordot(np.exp(np.array(log_weights) - evidence), np.array(joints), axes=1)
    np.testing.assert_allclose(np.exp(model.predict_joint_log_proba(new)), expected, rtol=1e-10)
    assert model.log_evidence_ == pytest.approx(evidence, rel=1e-12)


@pytest.mark.parametrize("smoothing", ["laplace", "kt", "m", "bdeu"])
def test_columns_depend_on_the_class_as_much_as_networks_say(rng, smoothing):
    X = pd.DataFrame({"a": rng.choice(list("xyz"), 60), "b": rng.choice(list("uv"), 60)})
    y, prior = rng.choice(["p", "q", "r"], 60), {"smoothing": smoothing, "m": 2, "ess": 4}
    whole, without_a, without_b = (
        BayesianNetwork(structure, **prior).fit(X, y).log_evidence_
        for structure in ({"a": ["class"], "b": ["class"]}, {"b": ["class"]}, {"a": ["class"]})
    )
    expected = 1 / (1 + np.exp([without_a - whole, without_b - whole]))
    posterior = CategoricalNB(feature_prior=0.5, **prior).fit(X, y).feature_posterior_
    np.testing.assert_allclose(posterior, expected, rtol=1e-9)


@pytest.mark.parametrize(("smoothing", "pseudo"), [("laplace", 0.7), ("kt", 0.5), ("m", 2 / 3), ("bdeu", 3 / 6)])
def test_evidence_is_the_product_of_predictions(rng, smoothing, pseudo):
    X, y = rng.integers(0, 3, (20, 1)), np.repeat([0, 1], 10)
    X[0] = 2
    log_evidence = 0.0
    for label in (0, 1):
        seen = np.full(3, pseudo)
        for value in X[y == label, 0]:
            log_evidence += np.log(seen[value] / seen.sum())
            seen[value] += 1
    model = CategoricalNB(smoothing=smoothing, alpha=0.7, m=2, ess=3).fit(X, y)
    assert model.log_evidence_ == pytest.approx(log_evidence, rel=1e-12)
