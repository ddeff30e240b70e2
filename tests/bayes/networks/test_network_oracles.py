"""Values that others published for networks, to the digits they gave."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fastens import BayesianNetwork
from reference.network_models import FOLDER


@pytest.fixture
def asia():
    return BayesianNetwork.read_bif(FOLDER / "asia.bif")


@pytest.fixture
def burglary():
    # Russell & Norvig, "Artificial intelligence: a modern approach", figure 14.2
    answers = ["yes", "no"]
    return BayesianNetwork.from_tables(
        dict.fromkeys(["burglary", "earthquake", "alarm", "john", "mary"], answers),
        {"alarm": ["burglary", "earthquake"], "john": ["alarm"], "mary": ["alarm"]},
        {
            "burglary": [0.001, 0.999],
            "earthquake": [0.002, 0.998],
            "alarm": [[[0.95, 0.05], [0.94, 0.06]], [[0.29, 0.71], [0.001, 0.999]]],
            "john": [[0.90, 0.10], [0.05, 0.95]],
            "mary": [[0.70, 0.30], [0.01, 0.99]],
        },
    )


def test_burglary(burglary):
    calls = {"john": "yes", "mary": "yes"}
    assert burglary.query("burglary", calls)["yes"] == pytest.approx(0.2841718354, abs=5e-11)
    assert np.exp(burglary.log_probability(calls)) == pytest.approx(0.002084100239, abs=5e-13)
    everything = {**calls, "alarm": "yes", "burglary": "no", "earthquake": "no"}
    assert np.exp(burglary.log_probability(everything)) == pytest.approx(0.0006281113, abs=5e-11)


ASIA = [
    ({}, {"tub": 0.0104, "lung": 0.055, "bronc": 0.45, "either": 0.064828, "xray": 0.11029004, "dysp": 0.4359706}),
    ({"dysp": "yes"}, {"tub": 0.01884531, "lung": 0.10275922, "bronc": 0.83396734, "either": 0.12053583}),
    (
        {"asia": "yes", "dysp": "yes"},
        {"tub": 0.08775096, "lung": 0.09952515, "bronc": 0.81140207, "either": 0.18229985},
    ),
    (
        {"asia": "yes", "dysp": "yes", "smoke": "no"},
        {"tub": 0.11283498, "lung": 0.02256700, "bronc": 0.71794225},
    ),
    (
        {"asia": "yes", "dysp": "yes", "xray": "yes"},
        {"tub": 0.39171172, "lung": 0.44427051, "bronc": 0.62882178, "either": 0.81376870},
    ),
    (
        {"asia": "yes", "dysp": "no", "xray": "yes"},
        {"tub": 0.22239116, "lung": 0.21603713, "bronc": 0.19696206, "either": 0.42762643},
    ),
]


@pytest.mark.parametrize(("evidence", "expected"), ASIA)
def test_asia(asia, evidence, expected):
    # Lauritzen & Spiegelhalter (1988)
    for variable, probability in expected.items():
        assert asia.query(variable, evidence)["yes"] == pytest.approx(probability, abs=5.1e-9)


@pytest.mark.parametrize(("evidence", "expected"), ASIA)
def test_asia_row_by_row(asia, evidence, expected):
    row = np.full((1, 8), None, dtype=object)
    for variable, value in evidence.items():
        row[0, asia.node_names_.index(variable)] = value

    rows = pd.DataFrame(row, columns=asia.node_names_)
    for variable, probability in expected.items():
        assert asia.posterior(variable, rows)[0, 0] == pytest.approx(probability, abs=5.1e-9)


def test_probability_of_evidence_in_asia(asia):
    probability = np.exp(asia.log_probability({"asia": "yes", "dysp": "yes"}))
    assert probability == pytest.approx(0.0045013750, abs=5e-11)


@pytest.fixture
def car(load_table):
    table = load_table("car")
    return table.drop(columns="class"), table["class"].astype(str)


def test_naive_bayes_of_car(car):
    # The tests of R's bnclassify: naive Bayes as a network
    X, y = car
    model = BayesianNetwork(dict.fromkeys(X.columns, "class"), smoothing="none").fit(X, y)
    assert model.log_likelihood(X, y) == pytest.approx(-13503.6883427047687, rel=1e-14)
    assert model.n_parameters_ == 63
    assert -model.aic(X, y) / 2 == pytest.approx(-13566.6883427047687, rel=1e-14)
    assert -model.bic(X, y) / 2 == pytest.approx(-13738.5120211097346, rel=1e-14)
    assert model.history_.tolist() == pytest.approx([-13503.6883427047687], rel=1e-14)
    X = X[["buying"]]
    model = BayesianNetwork({"buying": "class"}, smoothing="none").fit(X, y)
    assert model.log_likelihood(X, y) == pytest.approx(-3724.18038821656273, rel=1e-14)
    assert -model.aic(X, y) / 2 == pytest.approx(-3739.18038821654636, rel=1e-13)
    assert -model.bic(X, y) / 2 == pytest.approx(-3780.09078783677614, rel=1e-13)


def test_tree_with_the_class_of_car(car):
    X, y = car
    model = BayesianNetwork("tan").fit(X, y)
    beside = {frozenset(edge) for edge in model.edges_ if "class" not in edge}
    expected = ["buying maint", "persons safety", "lug_boot safety", "buying safety", "doors lug_boot"]
    assert beside == {frozenset(pair.split()) for pair in expected}
    assert model.parents_["safety"] == ["class"]  # it tells most of the class, and is the root


def test_cherry_and_lime_candies():
    # The lecture's example: the shares of a flavour and of the wrappers given it are the likelihood's maximum
    flavours = ["cherry"] * 7 + ["lime"] * 3
    wrappers = ["red"] * 5 + ["green"] * 2 + ["red"] + ["green"] * 2

    X = pd.DataFrame({"flavour": flavours, "wrapper": wrappers})
    model = BayesianNetwork({"wrapper": "flavour"}, smoothing="none").fit(X)
    assert model.query("flavour")["cherry"] == pytest.approx(7 / 10)
    assert model.query("wrapper", {"flavour": "cherry"})["red"] == pytest.approx(5 / 7)
    assert model.query("wrapper", {"flavour": "lime"})["red"] == pytest.approx(1 / 3)
    laplace = BayesianNetwork({"wrapper": "flavour"}).fit(X)
    assert laplace.query("flavour")["cherry"] == pytest.approx(8 / 12)


@pytest.fixture
def alarm(read_published):
    model = read_published("alarm")
    return model, pd.DataFrame(model.sample(10_000, random_state=0), columns=model.node_names_)


def undirected(edges):
    return {frozenset(edge) for edge in edges}


def test_tree_of_alarm(alarm):
    # Beinlich et al. (1989): the best tree has 36 edges, nearly all among the 46 of the network
    model, rows = alarm
    tree = BayesianNetwork("chow-liu").fit(rows)
    assert len(tree.edges_) == 36
    assert len(undirected(tree.edges_) & undirected(model.edges_)) >= 30


@pytest.mark.slow
def test_search_for_alarm(alarm):
    model, rows = alarm
    found = BayesianNetwork(tabu=10).fit(rows)
    assert len(undirected(found.edges_) & undirected(model.edges_)) >= 38
    true = BayesianNetwork(model.structure).fit(rows)
    assert found.bic(rows) < 1.02 * true.bic(rows)
    assert true.n_parameters_ == 509
