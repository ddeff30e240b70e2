"""Bags of candies: the textbook's figures, and the laws of probability."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fastens
from fastens import FiniteHypothesisLearner

mpl.use("Agg")

LIME = [0, 0.25, 0.5, 0.75, 1]
PRIOR = [0.1, 0.2, 0.4, 0.2, 0.1]

# Russell & Norvig's bags: number of limes -> posterior, probability of another lime.
TEXTBOOK = {
    0: ([0.1, 0.2, 0.4, 0.2, 0.1], 0.5),
    1: ([0, 0.1, 0.4, 0.3, 0.2], 0.65),
    2: ([0, 0.038462, 0.307692, 0.346154, 0.307692], 0.730769),
    3: ([0, 0.013158, 0.210526, 0.355263, 0.421053], 0.796053),
    4: ([0, 0.004132, 0.132231, 0.334711, 0.528926], 0.847107),
    5: ([0, 0.001220, 0.078049, 0.296341, 0.624390], 0.885976),
    10: ([0, 0.000002, 0.003499, 0.100872, 0.895628], 0.973031),
}


def bags(**options):
    options = {"prior": PRIOR, "outcomes": ["cherry", "lime"], **options}
    return FiniteHypothesisLearner([[1 - p, p] for p in LIME], **options)


@pytest.mark.parametrize("n", TEXTBOOK)
def test_textbook(n):
    model = bags().fit(["lime"] * n)
    posterior, lime = TEXTBOOK[n]
    np.testing.assert_allclose(model.posterior_, posterior, atol=5.1e-7)
    np.testing.assert_allclose(model.predict_proba()[1], lime, atol=5.1e-7)
    np.testing.assert_allclose(model.log_evidence_, np.log(np.dot(PRIOR, np.power(LIME, n))), atol=1e-14)


def test_two_limes_and_a_cherry():
    model = bags().fit(["lime", "lime", "cherry"])
    np.testing.assert_allclose(model.posterior_, [0, 0.107143, 0.571429, 0.321429, 0], atol=5.1e-7)
    np.testing.assert_allclose(model.predict_proba()[1], 0.553571, atol=5.1e-7)


def test_modes_differ_and_converge():
    """After three limes MAP is certain of a lime, the Bayesian says 0.8; with more of them all three meet."""
    model = bags().fit(["lime"] * 40)
    lime = {mode: model.predictions(mode)[:, 1] for mode in ("bayes", "map", "ml")}
    assert lime["map"][:4].tolist() == [0.5, 0.5, 0.75, 1.0]
    assert lime["ml"][1:].tolist() == [1.0] * 40
    assert (np.diff(lime["bayes"]) > 0).all()
    assert max(abs(lime["bayes"][-1] - lime[mode][-1]) for mode in ("map", "ml")) < 1e-5
    assert model.map_estimator_.name == model.ml_estimator_.name == "h5"
    assert model.predict("map") == "lime"


def test_gibbs_draws_by_the_posterior():
    model = bags(random_state=0).fit(["lime"] * 2)
    drawn = np.bincount([h.index for h in model.sample_posterior(20_000)], minlength=5) / 20_000
    np.testing.assert_allclose(drawn, model.posterior_, atol=0.015)
    assert drawn[0] == 0
    np.testing.assert_array_equal(model.predict_proba("gibbs"), model.predict_proba("gibbs"))


@pytest.mark.slow
@given(arrays(float, (4, 3), elements=st.floats(0.01, 1)), st.lists(st.integers(0, 2), max_size=12), st.data())
def test_pieces_and_order_do_not_matter(table, outcomes, data):
    table = table / table.sum(axis=1, keepdims=True)
    whole = FiniteHypothesisLearner(table).fit(outcomes)
    cut = data.draw(st.integers(0, len(outcomes)))
    parts = FiniteHypothesisLearner(table).partial_fit(outcomes[:cut]).partial_fit(outcomes[cut:])
    np.testing.assert_array_equal(whole.posteriors_, parts.posteriors_)
    shuffled = FiniteHypothesisLearner(table).fit(data.draw(st.permutations(outcomes)))
    np.testing.assert_allclose(shuffled.posterior_, whole.posterior_)
    likelihood = np.prod(table[:, outcomes], axis=1) if outcomes else np.ones(4)
    np.testing.assert_allclose(whole.posterior_, likelihood / likelihood.sum())
    np.testing.assert_allclose(whole.log_evidence_, np.log(likelihood.mean()), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "outcomes", "message"),
    [
        ({"prior": [1, 2]}, [], "prior must have one probability for each of the 5 hypotheses"),
        ({"prior": [1, 2, -3, 1, 1]}, [], "prior must hold finite, non-negative numbers that are not all zero"),
        ({"outcomes": ["a", "a"]}, [], "outcomes must be 2 distinct labels"),
        ({"outcomes": np.array(3)}, [], r"outcomes must be 2 distinct labels; got array\(3\)"),
        ({"hypotheses": ["a"]}, [], "hypotheses must be 5 distinct labels"),
        ({}, ["lemon"], "outcomes must be among .*'lemon'"),
        (
            {"prior": [1, 0, 0, 0, 1]},
            ["lime", "cherry"],
            "outcome 2, 'cherry', ruled out the last one",
        ),
    ],
)
def test_errors(options, outcomes, message):
    with pytest.raises(ValueError, match=message):
        bags(**options).fit(outcomes)


@pytest.mark.parametrize("share", [0.1, 0.35])
def test_the_first_of_equals_in_any_order(share):
    """Hypotheses that mirror each other, and as many outcomes of both kinds: only rounding tells them apart."""
    for outcomes in itertools.product([0, 1], repeat=6):
        model = FiniteHypothesisLearner([[share, 1 - share], [1 - share, share]]).fit(outcomes)
        best = int(sum(outcomes) < 3)
        assert model.map_estimator_.index == model.ml_estimator_.index == best
        assert model.predict() == int(sum(outcomes) > 3)
        for mode in ("map", "ml"):
            assert model.predictions(mode)[-1].tolist() == model.likelihoods[best]


def test_likelihoods_are_probabilities():
    with pytest.raises(ValueError, match=r"likelihoods must have rows .* \[0.5, 0.6\] in row 1"):
        FiniteHypothesisLearner([[1, 0], [0.5, 0.6]]).fit([])


def test_saving(tmp_path):
    model = bags(random_state=1).fit(["lime", "cherry"])
    model.save(tmp_path / "bags")
    found = fastens.load(tmp_path / "bags")
    np.testing.assert_array_equal(found.posteriors_, model.posteriors_)
    np.testing.assert_array_equal(found.fit(["lime"]).posterior_, model.fit(["lime"]).posterior_)


@pytest.mark.parametrize("labels", [["none", ("a", "b")], [("a", 1), ("b", 2)], [("a", ("b", 1)), "z"]], ids=str)
def test_labels_that_are_tuples(labels, tmp_path):
    model = FiniteHypothesisLearner([[0.5, 0.5], [0.2, 0.8]], outcomes=labels).fit([labels[1], labels[1]])
    model.save(tmp_path / "tuples")
    found = fastens.load(tmp_path / "tuples")
    assert model.predict() == found.predict() == labels[1]
    assert found.classes_.tolist() == labels


def test_labels_in_a_column_of_arrow(tmp_path):
    labels = pa.array(["cherry", "lime"])
    model = FiniteHypothesisLearner([[0.5, 0.5], [0.2, 0.8]], outcomes=labels, hypotheses=labels).fit(labels)
    assert model.classes_.tolist() == ["cherry", "lime"]
    assert model.ml_estimator_.name == "cherry"
    model.save(tmp_path / "arrow")
    found = fastens.load(tmp_path / "arrow").partial_fit(labels)
    np.testing.assert_array_equal(found.posteriors_, model.partial_fit(labels).posteriors_)


def test_plots():
    model = bags().fit(["lime"] * 10)
    assert len(model.plot_posterior().lines) == 5
    lines = model.plot_predictions("lime").lines
    assert [line.get_label() for line in lines] == ["bayes", "map", "ml"]
    np.testing.assert_array_equal(lines[0].get_ydata(), model.predictions()[:, 1])


def test_likelihoods_are_public():
    """The ten limes of the textbook: P(d | h) = p^10, and P(D) their average by the prior."""
    model = bags().fit(["lime"] * 10)
    np.testing.assert_allclose(model.likelihood_, np.power(LIME, 10.0))
    np.testing.assert_allclose(model.likelihoods_, np.power(np.array(LIME), np.arange(11.0)[:, None]))
    np.testing.assert_allclose(model.likelihoods_, np.exp(model.log_likelihoods_), rtol=1e-15)
    np.testing.assert_allclose(model.evidence_, np.dot(PRIOR, model.likelihood_))
    np.testing.assert_allclose(model.likelihood_ * PRIOR / model.evidence_, model.posterior_)


NO_OUTCOMES = [
    ["lemon"],
    ["lime", 1],
    [None],
    [float("nan")],
    [["lime"]],
    "lime",
    None,
    np.ma.array(["lime", "lime"], mask=[0, 1]),
]


@pytest.mark.parametrize("outcomes", NO_OUTCOMES)
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_failed_fit_changes_nothing(learn, outcomes):
    model = bags().fit(["lime"] * 3)
    before = model.posteriors_, model.predict_proba()
    with pytest.raises(ValueError, match="outcomes must be "):
        getattr(model, learn)(outcomes)
    np.testing.assert_array_equal(model.posteriors_, before[0])
    np.testing.assert_array_equal(model.predict_proba(), before[1])
    fresh = bags()
    with pytest.raises(ValueError, match="outcomes must be "):
        getattr(fresh, learn)(outcomes)
    assert not hasattr(fresh, "posterior_")


def test_numbers_are_not_taken_for_their_text():
    model = FiniteHypothesisLearner([[0.5, 0.5]], outcomes=["1", 1]).fit([1, "1"])
    assert model.classes_.tolist() == ["1", 1]
    with pytest.raises(ValueError, match=r"outcomes must be among \['0', '1'\]; got 0"):
        FiniteHypothesisLearner([[0.5, 0.5]], outcomes=["0", "1"]).fit([0, "1"])


@pytest.mark.parametrize("n", [-1, 1.5, "a", None, True])
def test_number_of_draws(n):
    with pytest.raises(ValueError, match=f"n must be a whole number of at least 0; got {n!r}"):
        bags().fit([]).sample_posterior(n)
