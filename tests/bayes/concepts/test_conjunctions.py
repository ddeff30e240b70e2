"""Hypotheses as users write them: what is printed, compared and covered, and the brute-force learner's wrong inputs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fastens import ANY, Conjunction, sample_complexity
from fastens.bayes.concepts.conjunctions import all_conjunctions, brute_force_map, space_sizes

SUNNY = Conjunction(("sun", ANY))
X = [["sun", "warm"], ["rain", "cold"]]
SPACE = list(all_conjunctions([["sun", "rain"], ["warm", "cold"]]))
NOT_TRUTH = [
    (["yes", "no"], r"hold booleans \(True and False, or 1 and 0\).*got 'yes'"),
    (["True", "False"], "got 'True'"),
    ([1, 2], "got 2"),
    ([1.0, np.nan], "got nan"),
    ([True, None], "got None"),
    (pd.Series([True, None], dtype="boolean"), "got <NA>"),
    (np.ma.array([1, 0], mask=[0, 1]), "got None"),
    ([True], r"have one boolean for each of the.*got shape \(1,\)"),
    ([True, False, True], r"got shape \(3,\)"),
    ([[True], [False]], r"got shape \(2, 1\)"),
    ("yes", r"got shape \(\)"),
]


@pytest.mark.parametrize(("labels", "message"), NOT_TRUTH)
def test_labels_are_not_truth_values(labels, message):
    with pytest.raises(ValueError, match=f"is_positive must .*{message}"):
        SUNNY.is_consistent(X, labels)
    with pytest.raises(ValueError, match=f"is_positive must .*{message}"):
        brute_force_map(SPACE, X, labels)


@pytest.mark.parametrize("truth", [[1, 0], [True, False], [1.0, 0.0], np.array([True, False]), pd.Series([1, 0])])
def test_truth_values(truth):
    assert SUNNY.is_consistent(X, truth)
    assert not SUNNY.is_consistent(X, [not value for value in truth])
    found = brute_force_map(SPACE, X, truth)
    assert found.n_consistent == 3
    np.testing.assert_array_equal(np.exp(found.log_likelihoods), [h.is_consistent(X, truth) for h in SPACE])
    np.testing.assert_allclose(found.posterior.sum(), 1)


def test_any_differs_from_the_question_mark():
    literal = Conjunction(("sun", "?"))
    assert repr(literal) == "<sun, '?'>" != repr(SUNNY) == "<sun, ?>"
    assert literal != SUNNY
    assert literal.covers([["sun", "?"], ["sun", "warm"]]).tolist() == [True, False]
    assert SUNNY.covers([["sun", "?"], ["sun", "warm"]]).tolist() == [True, True]


def test_different_hypotheses_print_differently():
    values = ["1", 1, "True", True, "a, b", "", "x", " x", "1e3", ANY, "?"]
    assert len({repr(Conjunction((value,))) for value in values}) == len(values)


@pytest.mark.parametrize("values", ["sun", 3, ("sun", None), ("sun", float("nan")), ("sun", ["warm"]), (pd.NA,)])
def test_values_of_a_hypothesis(values):
    with pytest.raises(ValueError, match="values must "):
        Conjunction(values)
    assert Conjunction(["sun", ANY]) == SUNNY


def test_frames_without_texts_as_names():
    for names in ([0, 1], pd.MultiIndex.from_product([["a"], [0, 1]])):
        assert SUNNY.covers(pd.DataFrame(X).set_axis(names, axis=1)).tolist() == [True, False]


def test_missing_values_satisfy_no_constraint():
    rows = np.array([["sun", None], [None, "warm"], [pd.NA, float("nan")]], dtype=object)
    assert SUNNY.covers(rows).tolist() == [True, False, False]
    masked = np.ma.array([["sun", "warm"], ["sun", "warm"]], mask=[[0, 1], [1, 0]])
    assert SUNNY.covers(masked).tolist() == [True, False]


def test_hypotheses_of_other_lengths_are_not_compared():
    for compare in (SUNNY.__ge__, SUNNY.__gt__, SUNNY.__le__, SUNNY.__lt__):
        with pytest.raises(ValueError, match="hypotheses must have the same number of attributes to be compared"):
            compare(Conjunction(("a",)))
    with pytest.raises(TypeError, match="not supported between"):
        _ = SUNNY >= ("sun", ANY)


@pytest.mark.parametrize("rows", ["sun", 3, [["sun", "warm"], ["rain"]], np.zeros((1, 1, 2)), [["sun"]], []])
def test_rows_that_make_no_table(rows):
    with pytest.raises(ValueError, match="X must "):
        SUNNY.covers(rows)


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        ([], {}, r"hypotheses must be a list of at least one Conjunction; got \[\]"),
        (SUNNY, {}, "hypotheses must be a list"),
        (["sun"], {}, r"hypotheses must be Conjunctions or objects with covers\(X\).*got 'sun' at index 0"),
        (SPACE, {"prior": [1]}, "prior must have one probability for each of the 10 hypotheses"),
        (SPACE, {"prior": [np.nan] * 10}, "prior must hold finite, non-negative numbers"),
        (SPACE, {"prior": [-1] * 10}, "prior must hold finite, non-negative numbers that are not all zero"),
        (SPACE, {"noise": "a"}, "noise must be a number at least 0 and less than 0.5; got 'a'"),
        (SPACE, {"noise": 0.5}, "noise must be"),
    ],
)
def test_brute_force_errors(space, options, message):
    with pytest.raises(ValueError, match=message):
        brute_force_map(space, X, [1, 0], **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: space_sizes([3, 2.5]), "each of n_values must be a whole number of at least 1; got 2.5"),
        (lambda: space_sizes(3), "n_values must be a list with the number of values of each attribute"),
        (
            lambda: all_conjunctions(["ab"]),
            "categories must have a list of distinct values for each attribute.*got 'ab' at index 0",
        ),
        (lambda: all_conjunctions([["a", "a"]]), "categories must have a list of distinct values for each attribute"),
        (lambda: all_conjunctions(3), "categories must be a list with one list of values for each attribute.*got 3"),
        (lambda: sample_complexity(float("nan"), 0.1, 0.1), "n_hypotheses must be a whole number"),
        (lambda: sample_complexity(10, "a", 0.1), "epsilon must be .*; got 'a'"),
        (lambda: sample_complexity(10, 0.1, 1), "delta must be .*; got 1"),
    ],
)
def test_sizes_and_spaces_are_checked_at_once(call, message):
    with pytest.raises(ValueError, match=message):
        call()
