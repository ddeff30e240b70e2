"""EM and gradient ascent as the user sets them: initial tables, steps, and the path of the log likelihood."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fastens import BayesianNetwork

CANDIES = pd.DataFrame({"flavour": ["cherry"] * 3 + ["lime"] * 7})


def ascent(theta, learning_rate, n_steps, c=3, n=10):
    """Theta and the log likelihood by step, the logit moved along the gradient divided by n: c / n - theta."""
    path, logit = [], np.log(theta) - np.log1p(-theta)
    for _ in range(n_steps + 1):
        theta = 1 / (1 + np.exp(-logit))
        path.append(c * np.log(theta) + (n - c) * np.log1p(-theta))
        # Both logs move, by +d and by -d: their difference by twice as much.
        logit += 2 * learning_rate * (c / n - theta)
    return np.array(path)


@pytest.mark.parametrize("learning_rate", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("theta", [0.9, 0.01])
def test_gradient_ascent_of_one_parameter(learning_rate, theta):
    model = BayesianNetwork(
        missing="gradient",
        learning_rate=learning_rate,
        start={"flavour": [theta, 1 - theta]},
        smoothing="none",
        tol=1e-14,
        max_iter=5000,
    ).fit(CANDIES)
    np.testing.assert_allclose(model.tables_["flavour"], [0.3, 0.7], atol=1e-5)
    np.testing.assert_allclose(model.history_, ascent(theta, learning_rate, model.n_iter_), rtol=1e-10)
    assert (np.diff(model.history_) >= 0).all()


@pytest.mark.parametrize("theta", [0.9, 0.2])
def test_gradient_ascent_of_theta_itself(theta):
    model = BayesianNetwork(
        missing="theta-gradient",
        learning_rate=0.02,
        start={"flavour": [theta, 1 - theta]},
        smoothing="none",
        tol=1e-9,
        max_iter=5000,
    ).fit(CANDIES)
    path = [theta]
    while len(path) < 2 or abs(path[-1] - path[-2]) > 1e-9:
        slope = (3 / path[-1] - 7 / (1 - path[-1])) / 10  # half of it, because P(cherry) and P(lime) move apart equally
        path.append(path[-1] + 0.02 * slope / 2)
    found = model.theta_path_["flavour"]
    assert found.shape == (model.n_iter_ + 1, 2)
    np.testing.assert_allclose(found[:, 0], path, rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(found[-1], model.tables_["flavour"])
    np.testing.assert_allclose(found[-1], [0.3, 0.7], atol=1e-6)


@pytest.mark.parametrize("learning_rate", [None, 0.5, 1.0])
def test_long_steps_of_theta_are_shortened(learning_rate):
    options = {"missing": "theta-gradient", "learning_rate": learning_rate, "smoothing": "none", "max_iter": 3000}
    model = BayesianNetwork(start={"flavour": [1e-4, 1 - 1e-4]}, **options).fit(CANDIES.assign(gap=["x", None] * 5))
    assert (np.diff(model.history_) >= 0).all()
    np.testing.assert_allclose(model.tables_["flavour"], [0.3, 0.7], atol=1e-4)
    assert (model.theta_path_["flavour"] > 0).all()
    assert not hasattr(model.set_params(missing="em", learning_rate=None).fit(CANDIES), "theta_path_")


@pytest.fixture(scope="module")
def gaps():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.choice(["x", "y"], 200), "b": rng.choice(["u", "v", "w"], 200)})
    table.loc[rng.random(200) < 0.3, "a"] = None
    return table


@pytest.mark.parametrize(
    "options",
    [
        {"missing": "gradient"},
        {"missing": "gradient", "learning_rate": 0.9},
        {"missing": "gradient", "learning_rate": 0.1, "start": "random"},
        {"missing": "theta-gradient"},
        {"missing": "theta-gradient", "learning_rate": 0.3, "start": "random"},
        {"start": "random"},
        {"start": {"a": [0.01, 0.99]}},
    ],
)
def test_all_ways_lead_to_the_top(gaps, options):
    fit = {"structure": {"b": ["a"]}, "tol": 1e-11, "max_iter": 20_000, "random_state": 1}
    top = BayesianNetwork(**fit).fit(gaps)
    found = BayesianNetwork(**fit, **options).fit(gaps)
    assert found.history_[0] < top.history_[-1] - 1e-6
    np.testing.assert_allclose(found.history_[-1], top.history_[-1], atol=1e-4)
    assert (np.diff(found.history_) >= -1e-9).all()


def test_a_row_of_most_weight():
    """Probabilities that differ from 1 by less than rounding, times weights of 1e30."""
    rows = pd.DataFrame({"a": ["x", "y"], "b": ["x", None], "c": [None, "y"]})
    model = BayesianNetwork(smoothing="bdeu", alpha=1e-300).fit(rows, ["x", "y"], sample_weight=[1e300, 1.0])
    assert len(model.history_) > 1
    assert model.predict(rows.assign(a=None))[0] == "x"


def test_a_random_start_follows_the_seed(gaps):
    paths = [BayesianNetwork({"b": "a"}, start="random", random_state=seed).fit(gaps).history_[0] for seed in (1, 1, 2)]
    assert paths[0] == paths[1] != paths[2]


def test_a_start_for_hidden_variables(gaps):
    options = {"hidden": {"h": 2}, "structure": {"a": "h", "b": "h"}, "max_iter": 1000}
    start = {"h": [0.5, 0.5], "b": [[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]], "a": [[0.7, 0.3], [0.3, 0.7]]}
    one, other = (BayesianNetwork(**options, start=start, random_state=seed).fit(gaps) for seed in (0, 1))
    np.testing.assert_array_equal(one.history_, other.history_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"learning_rate": 0.5, "missing": "em"},
            r"learning_rate must be None unless missing='gradient' or 'theta-gradient', because.*got 0\.5",
        ),
        ({"learning_rate": 0}, "learning_rate must be a number greater than 0 and at most 1 or None; got 0"),
        ({"learning_rate": 1.5}, "learning_rate must be"),
        ({"start": "guess"}, "start must be 'counts' or 'random' or a dict that maps variables to tables; got 'guess'"),
        ({"start": {"q": [0.5, 0.5]}}, r"start must name variables of the network, \['flavour'\]; got 'q'"),
        ({"start": {"flavour": [0.5]}}, r"start must hold tables .*'flavour' must have the shape \(2,\).*got \(1,\)"),
        ({"start": {"flavour": [0.5, 0.6]}}, "start must hold tables .*must each sum to 1; one sums to 1.1"),
        ({"start": {"flavour": [0, 1]}}, r"start\['flavour'\] must hold probabilities greater than 0"),
        ({"start": {"flavour": "half"}}, r"start\['flavour'\] must hold numbers"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        BayesianNetwork(**{"missing": "gradient", "learning_rate": 0.5, **options}).fit(CANDIES)


def test_a_start_is_checked_where_counts_give_the_maximum(gaps):
    rows = gaps.dropna()
    plain = BayesianNetwork({"b": "a"}).fit(rows)
    same = BayesianNetwork({"b": "a"}, start={"a": [0.3, 0.7]}).fit(rows)
    np.testing.assert_array_equal(same.history_, plain.history_)
    with pytest.raises(ValueError, match="start must name variables of the network"):
        BayesianNetwork({"b": "a"}, start={"q": [0.3, 0.7]}).fit(rows)
