"""Values that no row has: what a column's type lists, or the user, gets a probability by smoothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fastens
from fastens import (
    AODEClassifier,
    BaggingClassifier,
    BayesianNetwork,
    CategoricalNB,
    DecisionTreeClassifier,
    MixedNB,
    TANClassifier,
    VersionSpaceClassifier,
)
from fastens.bayes.counts.attributes import specified_values
from fastens.engine.comm import shared_work
from fastens.table.encoder import InputEncoder

FLAVOURS = ["lime", "cherry"]
LIMES = ["lime"] * 5


def in_pandas(values, known=FLAVOURS):
    return pd.DataFrame({"flavour": pd.Series(values, dtype=pd.CategoricalDtype(known))})


def in_polars(values, known=FLAVOURS):
    return pl.DataFrame({"flavour": pl.Series(values, dtype=pl.Enum(known))})


FRAMES = pytest.mark.parametrize("frame", [in_pandas, in_polars])


@FRAMES
def test_five_limes_leave_cherry_a_seventh(frame):
    network = BayesianNetwork().fit(frame(LIMES))
    assert network.query("flavour") == pytest.approx({"cherry": 1 / 7, "lime": 6 / 7}, abs=1e-15)
    model = CategoricalNB().fit(frame(LIMES * 2), ["a"] * 5 + ["b"] * 5)
    np.testing.assert_allclose(np.exp(model.feature_log_prob_[0]), [[1 / 7, 6 / 7]] * 2)
    assert model.n_categories_.tolist() == [2]


@pytest.mark.parametrize(
    ("states", "table", "name"),
    [
        ({"flavour": FLAVOURS}, pd.DataFrame({"flavour": LIMES}), "flavour"),
        ({"x0": FLAVOURS}, np.array([[value] for value in LIMES], dtype=object), "x0"),
        ({"x0": [1, 0]}, np.ones((5, 1), dtype=int), "x0"),
        ({"x0": np.array([1, 0])}, np.ones((5, 1)), "x0"),
        ({"flavour": FLAVOURS}, in_pandas(LIMES, ["lime", "lemon"]), "flavour"),
    ],
)
def test_values_are_declared_for_networks(states, table, name, tmp_path):
    network = BayesianNetwork(states=states).fit(table)
    values = list(states[name])
    assert network.states_[name] == values
    np.testing.assert_allclose(list(network.query(name).values()), [6 / 7, 1 / 7])
    network.save(tmp_path / "limes")
    found = fastens.load(tmp_path / "limes")
    assert found.query(name) == network.query(name)
    assert found.fit(table).states_ == network.states_


@pytest.mark.parametrize("max_bins", [None, 3])
def test_rows_of_no_weight_take_no_declared_value_away(max_bins):
    weight = [1, 1, 1, 1, 0]
    network = BayesianNetwork(max_bins=max_bins).fit(in_pandas(["lime"] * 4 + ["cherry"]), sample_weight=weight)
    assert network.query("flavour")["cherry"] == pytest.approx(1 / 6)


@FRAMES
def test_declared_values_keep_the_codes_of_the_others(frame):
    """As if a row of weight 0 had them; among them the first, the last and one in the middle, and missing values."""
    known = ["a", "b", "c", "d", "e"]
    rows, y = frame(["b", "d", None, "d", "b", "b"], known), np.array([0, 1, 0, 1, 1, 0])
    found = CategoricalNB().fit(rows, y)
    counts = np.array([[0, 2, 0, 0, 0], [0, 1, 0, 2, 0]])
    np.testing.assert_array_equal(found.category_count_[0], counts)
    network = BayesianNetwork({"flavour": "class"}).fit(rows[:2], y[:2])
    np.testing.assert_allclose(network.tables_["flavour"], (np.eye(5)[[1, 3]] + 1) / 6)
    assert network.states_["flavour"] == known


def test_many_declared_values_need_wider_codes():
    known = [f"v{i:03}" for i in range(400)]
    network = BayesianNetwork().fit(in_pandas(["v399", "v000", None, "v399"], known))
    np.testing.assert_allclose(network.query("flavour")["v399"], 3 / 403, rtol=1e-4)
    np.testing.assert_allclose(network.query("flavour")["v001"], 1 / 403, rtol=1e-4)


@FRAMES
@pytest.mark.parametrize("model", [MixedNB, TANClassifier, AODEClassifier, CategoricalNB])
def test_all_models_of_categories(model, frame):
    """Declared values are as values that rows of other batches have."""
    rows, y = frame(["lime", "lime", "cherry", "lime"]), [0, 1, 0, 1]
    parts = model().partial_fit(frame(["lime"]), [0], classes=[0, 1])
    np.testing.assert_allclose(parts.predict_proba(frame(["cherry"]))[0].sum(), 1)
    if model is not MixedNB:
        assert parts.n_categories_.tolist() == [2]
    for first in (1, 2, 3):
        parts.partial_fit(rows[first : first + 1], y[first : first + 1])
    np.testing.assert_allclose(parts.predict_proba(rows), model().fit(rows, y).predict_proba(rows))


def test_values_that_a_later_part_declares():
    model = CategoricalNB().partial_fit(in_pandas(["lime"]), [0], classes=[0, 1])
    model.partial_fit(in_pandas(["lime"], ["lime", "lemon"]), [1])
    assert model.n_categories_.tolist() == [3]


@FRAMES
def test_version_spaces(frame):
    known = ["sun", "rain", "hail"]
    model = VersionSpaceClassifier().fit(frame(["sun", "rain"], known), [1, 0])
    # Of nothing, three values and any, the one that covers the sun alone is left.
    assert model.log_evidence_ == pytest.approx(np.log(1 / 5))
    parts = VersionSpaceClassifier().partial_fit(frame(["sun"], known), [1], classes=[0, 1])
    assert parts.partial_fit(frame(["rain"], known), [0]).log_evidence_ == pytest.approx(np.log(1 / 5))


@FRAMES
def test_members_of_an_ensemble_know_them_too(frame):
    rows, y = frame(["lime", "lemon"] * 10, [*FLAVOURS, "lemon"]), [0, 0, 1, 1] * 5
    bag = BaggingClassifier(CategoricalNB(), n_estimators=5, random_state=0).fit(rows, y)
    assert [member.n_categories_.tolist() for member in bag.estimators_] == [[3]] * 5


def test_models_that_share_a_table_keep_their_own_view_of_unseen_categories():
    """What naive Bayes takes for an unseen category is none of the tree's business."""
    X, y = pd.DataFrame({"a": list("xyxyzz") * 5}), [0, 1, 0, 1, 1, 1] * 5
    with shared_work():
        CategoricalNB().fit(X, y)
        tree = DecisionTreeClassifier(categorical_features="from_dtype").fit(X, y)
    assert np.isnan(tree._encoder.unseen)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"q": [1]}, r"states must name columns of X, \['a', 'n'\]; got 'q'"),
        ({"class": ["no", "yes"]}, "states must name columns of X"),
        ({"a": ["x"]}, r"Column 'a' must hold values of states\['a'\], \['x'\]; it holds 'y'"),
        ({"a": "xy"}, r"states\['a'\] must be a list of distinct .*; got 'xy'"),
        ({"a": ["x", "x", "y"]}, r"states\['a'\] must be a list of distinct "),
        ({"a": ["x", "y", None]}, r"states\['a'\] must be a list of distinct "),
        ({"a": []}, r"states\['a'\] must be a list"),
        ({"a": 3}, r"states\['a'\] must be a list"),
        ({"n": [1, 2]}, "states must name categorical columns"),
        (3, "states must be None or a dict that maps columns to lists of values; got 3"),
    ],
)
def test_errors(states, message):
    X = pd.DataFrame({"a": ["x", "y"] * 5, "n": np.linspace(0, 1, 10)})
    with pytest.raises(ValueError, match=message):
        BayesianNetwork(states=states, max_bins=3).fit(X, [0, 1] * 5)


def test_many_states_are_not_compared_with_each_other():
    compared = 0

    class Word(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    words = [Word(f"w{k}") for k in range(300)]
    encoder = InputEncoder(["a"], [[Word(word) for word in words]])
    assert specified_values({"a": words[::-1]}, encoder, ["a"]) == [words[::-1]]
    assert compared < 5 * len(words)


def test_further_values_that_are_not_categories_are_named():
    X = pd.DataFrame({"a": ["x", "y"] * 3})
    model = VersionSpaceClassifier(noise=0.1).fit(X, [0, 1] * 3)
    with pytest.raises(TypeError, match=r"Column 'a' must hold categories: .* row 1 holds \[1\] of type list"):
        model.partial_fit(pd.DataFrame({"a": ["x", [1]]}), [0, 1])
