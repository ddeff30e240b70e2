"""What is no structure, no evidence, no table, no number: errors that name the parameter, the rule and the value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from fastens import BayesianNetwork

X = pd.DataFrame({"a": ["x", "y"] * 10, "b": ["u", "u", "v", "v"] * 5})
Y = ["no", "yes"] * 10
STATES = {"r": ["n", "y"], "w": ["n", "y"]}
PARENTS = {"w": ["r"]}
TABLES = {"r": [0.8, 0.2], "w": [[0.9, 0.1], [0.2, 0.8]]}


@pytest.fixture(scope="module")
def network():
    return BayesianNetwork("tan").fit(X, Y)


@pytest.mark.parametrize("variables", [3, None, {"a": 1}, "q", ["q"], [["a"]], [None]])
def test_variables(network, variables):
    with pytest.raises(ValueError, match="variables must "):
        network.query(variables)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ("a", "evidence must be None or a dict that maps variables to values; got 'a'"),
        ([("a", "x")], "evidence must be None or a dict"),
        ({"q": 1}, r"evidence must name variables of the network, \['a', 'b', 'class'\]; got 'q'"),
        ({("a",): 1}, "evidence must name variables"),
        ({1: "x"}, "evidence must name variables"),
        ({"a": "z"}, "must be one of its values.*got 'z'"),
        ({"a": None}, "evidence for 'a' must be .*; got None"),
        ({"a": float("nan")}, "must be one of its values.*got nan"),
        ({"a": pd.NA}, "must be one of its values.*got <NA>"),
        ({"a": np.array(["x", "y"])}, "must be one of its values.*got array"),
        ({"a": ["x"]}, r"must be one of its values.*got \['x'\]"),
        ({"class": True}, "evidence for 'class' must be .*; got True"),
    ],
)
def test_evidence(network, evidence, message):
    for ask in (
        lambda: network.query("b", evidence),
        lambda: network.log_probability(evidence),
        lambda: network.most_probable(evidence),
        lambda: network.sample(2, evidence),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), pd.NA, [1.0], np.arange(2), 1j, "5"])
def test_evidence_of_a_column_in_bins(value):
    model = BayesianNetwork("tan", max_bins=4).fit(X.assign(n=range(20)), Y)
    assert model.query("a", {"n": 18}) == model.query("a", {"n": model.states_["n"][-1]})
    with pytest.raises(ValueError, match="must be one of its values"):
        model.query("a", {"n": value})


@pytest.mark.parametrize("variable", ["q", 3, None, ["a"]])
def test_variable_of_a_posterior(network, variable):
    with pytest.raises(ValueError, match="variable must name variables of the network"):
        network.posterior(variable, X)


def test_random_states(network):
    for wrong in (-1, "a", 1.5):
        with pytest.raises(ValueError, match="random_state must be"):
            network.sample(2, random_state=wrong)


@pytest.mark.parametrize(
    "structure", ["x", 3, None, [3], ["ab"], {"a": None}, {"a": [["b"]]}, {"a": 7}, [("a", 1.5)], [("a", "b", "class")]]
)
def test_structures(structure):
    with pytest.raises(ValueError, match="structure must "):
        BayesianNetwork(structure).fit(X, Y)


@pytest.mark.parametrize("hidden", [["h"], {"h": 1}, {"h": True}, {"h": 10**9}, {3: 2}])
def test_hidden_variables(hidden):
    with pytest.raises(ValueError, match="hidden must be None or a dict that maps names to numbers of values"):
        BayesianNetwork({"a": "h"}, hidden=hidden).fit(X)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((3, PARENTS, TABLES), "states must be a dict with the variables as keys; got 3"),
        ((STATES, None, TABLES), "parents must be a dict with the variables as keys; got None"),
        ((STATES, PARENTS, [0.5]), "tables must be a dict with the variables as keys"),
        (({**STATES, "r": 3}, PARENTS, TABLES), r"states\['r'\] must be a list of distinct .*; got 3"),
        (({**STATES, "r": "ny"}, PARENTS, TABLES), r"states\['r'\] must be a list of distinct .*; got 'ny'"),
        (({**STATES, "r": ["n", None]}, PARENTS, TABLES), r"states\['r'\] must be"),
        (({**STATES, "r": [["n"], ["y"]]}, PARENTS, TABLES), r"states\['r'\] must be"),
        ((STATES, PARENTS, {**TABLES, "r": "ab"}), r"tables\['r'\] must hold numbers"),
        ((STATES, PARENTS, {**TABLES, "r": [np.nan, 0.2]}), "the table of 'r' must hold probabilities; it holds nan"),
    ],
)
def test_given_tables(parts, message):
    with pytest.raises(ValueError, match=message):
        BayesianNetwork.from_tables(*parts)


@pytest.mark.parametrize("name", ["node_names_", "states_", "parents_", "edges_", "tables_", "n_parameters_"])
def test_attributes_before_a_fit(name):
    assert not hasattr(BayesianNetwork(), name)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        getattr(BayesianNetwork(), name)


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"smoothing": "none"}])
def test_no_evidence_without_pseudo_counts(options):
    model = BayesianNetwork("tan", **options).fit(X, Y)
    with pytest.raises(AttributeError, match="log_evidence_ is only available if the network was fitted"):
        _ = model.log_evidence_
