"""The members of a version space, one after another, against going through all conjunctions; and their posterior."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastens import ANY, Conjunction, VersionSpaceClassifier
from fastens.bayes.concepts.conjunctions import NOTHING, all_conjunctions, brute_force_map
from fastens.bayes.concepts.spaces import all_hitting_sets
from reference import spaces as naive


def in_words(h):
    return NOTHING if h == () else Conjunction(tuple(ANY if value is None else value for value in h))


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_members_and_posterior_against_enumeration(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    sizes = data.draw(st.lists(st.integers(2, 3), min_size=1, max_size=4))
    prior, base = data.draw(st.sampled_from([("uniform", 1.0), ("length", 0.5)]))
    noise = data.draw(st.sampled_from([0.0, 0.2]))
    concept = tuple(rng.choice([*range(size), None]) for size in sizes)
    n = data.draw(st.integers(1, 8))
    X = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    y = np.array([naive.covers(concept, x) for x in X])
    model = VersionSpaceClassifier(prior, noise=noise, categories=[list(range(size)) for size in sizes])
    model.partial_fit(X, y, classes=[False, True])
    found, posterior, _ = naive.posterior(X, y, sizes, base=base, noise=noise)
    expected = {in_words(h): p for h, p in zip(found, posterior, strict=True) if p > 0}
    members = list(model.members())
    assert len(members) == len(expected) == model.n_hypotheses_
    assert set(members) == set(expected)
    np.testing.assert_allclose(model.posterior_, [expected[h] for h in members])
    for h in all_conjunctions([range(size) for size in sizes]):
        np.testing.assert_allclose(model.posterior_of(h), expected.get(h, 0.0))
    if y.any() and noise == 0:
        assert members[0] == model.specific_boundary_[0]
        assert set(model.general_boundary_) <= set(members)


def test_brute_force_gives_the_same_posterior():
    X, y = [["sun", "warm"], ["rain", "warm"], ["sun", "cold"]], [1, 0, 1]
    model = VersionSpaceClassifier().fit(X, y)
    space = list(all_conjunctions([["rain", "sun"], ["cold", "warm"]]))
    posterior = brute_force_map(space, X, y).posterior
    np.testing.assert_allclose([model.posterior_of(h) for h in space], posterior)
    assert [space[i] for i in np.flatnonzero(posterior)] == list(model.members())


@pytest.mark.slow
def test_a_space_of_any_size_is_listed_lazily():
    """2^200 members: the first come at once, and each has its probability; the array of all of them does not exist."""
    model = VersionSpaceClassifier().fit([["a"] * 200, ["b"] * 199 + ["a"]], [1, 0])
    first = list(itertools.islice(model.members(), 5))
    assert len(set(first)) == 5
    assert all(h in model for h in first)
    assert model.posterior_of(first[0]) == 1 / (2**200 - 2)
    assert model.posterior_of(Conjunction((ANY,) * 200)) == 0
    assert not hasattr(model, "posterior_")
    with pytest.raises(AttributeError, match="posterior_of"):
        model.posterior_  # noqa: B018


def test_values_that_no_attribute_has():
    for options in ({}, {"noise": 0.1}):
        model = VersionSpaceClassifier(**options).fit([["a", "x"], ["b", "x"]], [1, 0])
        assert model.posterior_of(Conjunction(("c", ANY))) == 0
        assert (model.posterior_of(NOTHING) > 0) == bool(options)


def test_negatives_set_aside_do_not_count():
    with pytest.warns(UserWarning, match=r"distinct negative instances are ignored\. If labels may be wrong, set"):
        model = VersionSpaceClassifier().fit([["a", "x"], ["a", "x"], ["b", "x"]], [1, 0, 0])
    assert [*model.members()] == [Conjunction(("a", "x")), Conjunction(("a", ANY))]
    assert model.posterior_.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("hypothesis", ["x", ("a", "x"), None, 3])
def test_invalid_hypotheses_raise(hypothesis):
    model = VersionSpaceClassifier().fit([["a", "x"], ["b", "x"]], [1, 0])
    with pytest.raises(ValueError, match="the hypothesis must be a Conjunction; got"):
        model.posterior_of(hypothesis)
    with pytest.raises(ValueError, match="the hypothesis must be a Conjunction; got"):
        _ = hypothesis in model
    with pytest.raises(ValueError, match="the hypothesis must have 2 values"):
        model.posterior_of(Conjunction(("a",)))


@pytest.mark.parametrize("categories", ["ab", ["ab", "xy"], [["a", "a", "b"], ["x"]], [["a", None], ["x"]], 3, [["a"]]])
def test_categories(categories):
    with pytest.raises(ValueError, match="categories"):
        VersionSpaceClassifier(categories=categories).fit([["a", "x"], ["b", "x"]], [1, 0])


@given(st.lists(st.integers(1, 63), max_size=5))
def test_hitting_sets(clauses):
    found = list(all_hitting_sets(clauses, 6))
    assert sorted(found) == [s for s in range(64) if all(s & clause for clause in clauses)]
    assert found[0] == 63
