"""Version spaces: the textbook's figures, and every count, vote and boundary against going through all hypotheses."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import fastens
from fastens import ANY, Conjunction, VersionSpaceClassifier, estimate_errors
from fastens.bayes.concepts.conjunctions import (
    NOTHING,
    all_conjunctions,
    brute_force_map,
    sample_complexity,
    space_sizes,
)
from reference import spaces as naive

# Mitchell (1997), table 2.1, and the four instances of table 2.6.
ENJOY_SPORT = [
    (["Sunny", "Warm", "Normal", "Strong", "Warm", "Same"], 1),
    (["Sunny", "Warm", "High", "Strong", "Warm", "Same"], 1),
    (["Rainy", "Cold", "High", "Strong", "Warm", "Change"], 0),
    (["Sunny", "Warm", "High", "Strong", "Cool", "Change"], 1),
]
QUERIES = [
    ["Sunny", "Warm", "Normal", "Strong", "Cool", "Change"],
    ["Rainy", "Cold", "Normal", "Light", "Warm", "Same"],
    ["Sunny", "Warm", "Normal", "Light", "Warm", "Same"],
    ["Sunny", "Cold", "Normal", "Strong", "Warm", "Same"],
]
SKY = [
    ["Sunny", "Cloudy", "Rainy"],
    ["Warm", "Cold"],
    ["Normal", "High"],
    ["Strong", "Light"],
    ["Warm", "Cool"],
    ["Same", "Change"],
]


def conjunction(text):
    return Conjunction(tuple(ANY if word == "?" else word for word in text.split()))


def after(n, **options):
    model = VersionSpaceClassifier(categories=SKY, **options)
    for x, y in ENJOY_SPORT[:n]:
        model.partial_fit([x], [y], classes=[0, 1])
    return model


# The textbook --------------------------------------------------


def test_sizes():
    assert space_sizes([3, 2, 2, 2, 2, 2]) == (96, 5120, 973)
    assert sum(1 for _ in all_conjunctions(SKY)) == 973
    assert sample_complexity(3**10, 0.1, 0.05) == 140


@pytest.mark.parametrize(("n", "size"), [(1, 64), (2, 32), (3, 28), (4, 6)])
def test_size_after_each_example(n, size):
    model = after(n)
    assert model.n_hypotheses_ == size
    assert model.is_exact_
    np.testing.assert_allclose(model.log_evidence_, np.log(size / 973))


def test_boundaries():
    model = after(4)
    assert model.specific_boundary_ == [conjunction("Sunny Warm ? Strong ? ?")]
    assert set(model.general_boundary_) == {conjunction("Sunny ? ? ? ? ?"), conjunction("? Warm ? ? ? ?")}
    assert set(after(3).general_boundary_) == {
        conjunction("Sunny ? ? ? ? ?"),
        conjunction("? Warm ? ? ? ?"),
        conjunction("? ? ? ? ? Same"),
    }
    assert after(2).general_boundary_ == [conjunction("? ? ? ? ? ?")]
    assert str(model.specific_boundary_[0]) == "<Sunny, Warm, ?, Strong, ?, ?>"


def test_votes():
    model = after(4)
    np.testing.assert_allclose(model.predict_proba(QUERIES)[:, 1] * 6, [6, 0, 3, 2], atol=1e-12)
    X, y = zip(*ENJOY_SPORT, strict=True)
    at_once = VersionSpaceClassifier(categories=SKY).fit(list(X), y)
    np.testing.assert_array_equal(at_once.predict_proba(QUERIES), model.predict_proba(QUERIES))
    assert model.sample_complexity(0.1, 0.05) == sample_complexity(973, 0.1, 0.05)


def test_membership():
    model = after(4)
    members = [h for h in all_conjunctions(SKY) if h in model]
    assert len(members) == 6
    X, y = zip(*ENJOY_SPORT, strict=True)
    assert members == [h for h in all_conjunctions(SKY) if h.is_consistent(list(X), y)]
    specific, (g1, g2) = model.specific_boundary_[0], model.general_boundary_
    assert all(h >= specific and (g1 >= h or g2 >= h) for h in members)
    assert NOTHING not in model
    assert conjunction("Snowy ? ? ? ? ?") not in model


def test_brute_force():
    space = list(all_conjunctions(SKY))
    X, y = zip(*ENJOY_SPORT, strict=True)
    found = brute_force_map(space, list(X), y)
    assert found.n_consistent == 6
    assert space[found.map_index] in after(4)
    np.testing.assert_allclose(found.posterior[found.posterior > 0], 1 / 6)
    np.testing.assert_allclose(found.log_evidence, np.log(6 / 973))
    noisy = brute_force_map(space, list(X), [1, 1, 0, 0], noise=0.1)
    np.testing.assert_allclose(noisy.posterior.sum(), 1)
    with pytest.raises(ValueError, match="no hypothesis of the space agrees"):
        brute_force_map(space, [X[0], X[0]], [1, 0])


@pytest.mark.slow
def test_before_the_first_positive():
    model = VersionSpaceClassifier(categories=SKY).partial_fit([ENJOY_SPORT[2][0]], [0], classes=[0, 1])
    members = [h for h in all_conjunctions(SKY) if not h.covers([ENJOY_SPORT[2][0]])[0]]
    assert model.n_hypotheses_ == len(members)
    assert model.specific_boundary_ == [NOTHING]
    maximal = [h for h in members if not any(g > h for g in members)]
    assert set(model.general_boundary_) == set(maximal)
    assert all(h in model for h in members)


# Against all hypotheses --------------------------------------------------


def random_examples(rng, n, sizes, concept, missing=0.0):
    X = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    X[rng.random(X.shape) < missing] = -1
    return X, np.array([naive.covers(concept, x) for x in X])


def as_table(X):
    return np.where(X < 0, np.nan, X.astype(float))


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_every_answer_against_enumeration(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    sizes = data.draw(st.lists(st.integers(2, 3), min_size=1, max_size=4))
    prior, base = data.draw(st.sampled_from([("uniform", 1.0), ("length", 0.5)]))
    concept = tuple(rng.choice([*range(size), None]) for size in sizes)
    X, y = random_examples(rng, data.draw(st.integers(0, 9)), sizes, concept, missing=0.1)
    first = np.array([0 if value is None else value for value in concept])
    X, y = np.vstack([first, X]), np.append(True, y)
    model = VersionSpaceClassifier(prior, categories=[list(range(size)) for size in sizes])
    model.partial_fit(as_table(X), y, classes=[False, True])
    found, posterior, log_evidence = naive.posterior(X, y, sizes, base=base)
    members = [h for h, p in zip(found, posterior, strict=True) if p > 0]
    assert model.n_hypotheses_ == len(members)
    np.testing.assert_allclose(model.log_evidence_, log_evidence)
    queries = np.array(list(itertools.product(*([-1, *range(size)] for size in sizes))))
    votes = [sum(p for h, p in zip(found, posterior, strict=True) if naive.covers(h, x)) for x in queries]
    np.testing.assert_allclose(model.predict_proba(as_table(queries))[:, 1], votes, atol=1e-12)
    as_hypothesis = {Conjunction(tuple(ANY if v is None else v for v in h)) for h in members}
    assert set(model.sample_posterior(50, 0)) <= as_hypothesis
    assert model.map_estimator_ in as_hypothesis
    fewest = min(len(h) for h in as_hypothesis)
    assert prior == "uniform" or len(model.map_estimator_) == fewest
    specific, general = naive.boundaries(members, sizes)
    to_code = {h: tuple(None if v is ANY else v for v in h.values) for h in as_hypothesis}
    assert {to_code[h] for h in model.specific_boundary_} == specific
    assert {to_code[h] for h in model.general_boundary_} == general


@pytest.mark.parametrize(("prior", "base"), [("uniform", 1.0), ("length", 0.5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_noise_against_enumeration(prior, base, weighted, rng):
    sizes = [2, 3, 2]
    X, y = random_examples(rng, 20, sizes, (1, None, 0), missing=0.1)
    y ^= rng.random(20) < 0.2
    weight = rng.integers(1, 4, 20) if weighted else None
    model = VersionSpaceClassifier(prior, noise=0.15).fit(as_table(X), y, weight)
    found, posterior, log_evidence = naive.posterior(X, y, sizes, base=base, noise=0.15, weight=weight)
    votes = np.array([sum(p for h, p in zip(found, posterior, strict=True) if naive.covers(h, x)) for x in X])
    np.testing.assert_allclose(model.predict_proba(as_table(X))[:, 1], 0.15 + 0.7 * votes)
    np.testing.assert_allclose(model.log_evidence_, log_evidence)
    best = found[int(posterior.argmax())]
    assert model.map_estimator_ == Conjunction(tuple(ANY if v is None else v for v in best))
    space = list(all_conjunctions([range(size) for size in sizes]))
    if not weighted:
        prior_of = [base ** naive.n_constraints(h, 3) for h in naive.conjunctions(sizes)]
        brute = brute_force_map(space, as_table(X), y, prior_of, noise=0.15)
        assert space[brute.map_index] == model.map_estimator_
    with pytest.raises(AttributeError, match="noise must be 0 for the boundaries; with noise, every conjunction has"):
        model.general_boundary_  # noqa: B018


# Contradictions --------------------------------------------------

CONTRADICTION = ([["a", "x"], ["a", "y"], ["b", "x"], ["a", "x"]], [1, 1, 0, 0])


def test_set_aside():
    with pytest.warns(UserWarning, match=r"distinct negative instances are ignored\. If labels may be wrong, set"):
        model = VersionSpaceClassifier().fit(*CONTRADICTION)
    assert model.n_set_aside_ == 1
    assert model.n_hypotheses_ == 1
    assert model.map_estimator_ == conjunction("a ?")
    assert model.map_estimator_ in model


def test_collapse_raises():
    with pytest.raises(ValueError, match=r"version space is empty: 1 negative instance"):
        VersionSpaceClassifier(on_collapse="raise").fit(*CONTRADICTION)


def test_further_examples_raise_as_all_together_do():
    X, y = CONTRADICTION
    model = VersionSpaceClassifier(on_collapse="raise", categories=[["a", "b"], ["x", "y"]])
    model.partial_fit(X[:3], y[:3])
    with pytest.raises(ValueError, match=r"version space is empty: 1 negative instance"):
        model.partial_fit(X[3:], y[3:])
    with pytest.raises(ValueError, match=r"Column 1 holds 'z', which is not in categories\[1\]"):
        model.partial_fit([["a", "z"]], [1])
    assert model.map_estimator_ == conjunction("a ?")
    assert model.n_hypotheses_ == 1


def test_collapse_to_the_most_consistent():
    X, y = CONTRADICTION
    model = VersionSpaceClassifier(on_collapse="max-consistent").fit(X, y)
    space = list(all_conjunctions([["a", "b"], ["x", "y"]]))
    wrong = [int((h.covers(X) != np.array(y, dtype=bool)).sum()) for h in space]
    best = [h for h, e in zip(space, wrong, strict=True) if e == min(wrong)]
    assert model.n_hypotheses_ == len(best)
    queries = list(itertools.product("ab", "xy"))
    votes = np.mean([h.covers(queries) for h in best], axis=0)
    np.testing.assert_allclose(model.predict_proba(queries)[:, 1], votes)


def test_ties_of_fractional_weights():
    """Hypotheses with as many errors vote together, whatever rounding made of sums of weights."""
    X = [["a", "n"], ["b", "m"], ["c", "n"], ["a", "m"], ["c", "m"]]
    y, weight = [0, 1, 1, 1, 1], np.array([2, 1, 2, 2, 3])
    whole = VersionSpaceClassifier(on_collapse="max-consistent").fit(X, y, weight)
    for factor in (0.7, 0.1, 0.3, 1.1):
        model = VersionSpaceClassifier(on_collapse="max-consistent").fit(X, y, factor * weight)
        assert (model.n_hypotheses_, model.ml_estimator_) == (whole.n_hypotheses_, whole.ml_estimator_)


def test_collapse_to_noise():
    X, y = CONTRADICTION
    model = VersionSpaceClassifier(on_collapse="noise").fit(X, y)
    same = VersionSpaceClassifier(noise=0.25).fit(X, y)  # one error of four at best
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X))


@pytest.mark.parametrize("n_empty", [63, 2000])
def test_any_number_of_attributes_may_have_no_values(n_empty):
    X, y = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 3), [0, 0, 1, 1] * 3
    expected = VersionSpaceClassifier(noise=0.1).fit(X, y)
    many = np.hstack([X[:, :1], np.full((len(X), n_empty), np.nan), X[:, 1:]])
    model = VersionSpaceClassifier(noise=0.1).fit(many, y)
    np.testing.assert_allclose(model.predict_proba(many), expected.predict_proba(X), rtol=1e-12)
    assert model.log_evidence_ == pytest.approx(expected.log_evidence_)


# Large spaces --------------------------------------------------


def test_bit_arrays_branches_and_samples_agree(rng):
    from fastens.bayes.concepts import hitting_sets as module

    clauses = rng.random((25, 12)) < 0.3
    clauses = clauses[clauses.any(axis=1)]
    exact = module.build_family(clauses, 0.5, rng)
    rows = rng.random((40, 12)) < 0.8
    tree = module._compile(module.minimal_clauses(clauses), list(range(12)), module._Budget(1 << 30), 3)
    assert isinstance(tree, module._Branch | module._Both)
    branched = module.ExactFamily(tree, 12, 0.5)
    assert branched.n_sets == exact.n_sets
    np.testing.assert_allclose(branched.vote(rows), exact.vote(rows))
    sampled = module.SampledFamily(module.minimal_clauses(clauses), 0.5, rng)
    low, high = sampled.bounds()
    assert low <= exact.n_sets <= high
    np.testing.assert_allclose(sampled.vote(rows), exact.vote(rows), atol=0.03)
    for family in (exact, branched, sampled):
        drawn = family.draw(3000, np.random.default_rng(0))
        assert (drawn.astype(int) @ clauses.T.astype(int) > 0).all()
        np.testing.assert_allclose(drawn.mean(axis=0), exact.draw(3000, rng).mean(axis=0), atol=0.05)
        smallest = family.smallest_set()
        assert (clauses & smallest).any(axis=1).all()


@pytest.mark.slow
def test_bounds_hold(rng):
    """The sampled count's interval covers the truth: at 99 % each, 40 of 40 but for bad luck."""
    from fastens.bayes.concepts import hitting_sets as module

    missed = 0
    for _ in range(40):
        clauses = rng.random((8, 9)) < 0.4
        clauses = module.minimal_clauses(clauses[clauses.any(axis=1)])
        low, high = module.SampledFamily(clauses, 0.5, rng).bounds()
        missed += not low <= module.build_family(clauses, 0.5, rng).n_sets <= high
    assert missed <= 2


def test_an_estimated_number_does_not_depend_on_the_prior(rng, monkeypatch):
    from fastens.bayes.concepts import hitting_sets as module

    monkeypatch.setattr(module.SampledFamily, "n_draws", 5000)
    monkeypatch.setattr(module.SampledFamily, "pool_size", 100)
    clauses = rng.random((6, 14)) < 0.3
    clauses = module.minimal_clauses(clauses[clauses.any(axis=1)])
    exact, sampled = module.build_family(clauses, 1 / 3, rng), module.SampledFamily(clauses, 1 / 3, rng)
    low, high = sampled.bounds()
    assert low <= exact.n_sets <= high
    assert sampled.n_sets == pytest.approx(exact.n_sets, rel=0.1)
    assert sampled.mass == pytest.approx(exact.mass, rel=0.2)


@pytest.mark.slow
def test_sixty_attributes(rng):
    """Too many to count: estimated within bounds, and the votes add up."""
    X = rng.integers(0, 2, (100, 60))
    X[0] = 1
    y = np.arange(100) == 0
    model = VersionSpaceClassifier(random_state=0).fit(X, y)
    low, high = model.n_hypotheses_bounds_
    assert not model.is_exact_
    assert 0 < low <= model.n_hypotheses_ <= high <= 2**60
    assert low > 0.99 * high
    assert model.predict_proba(X[:1])[0, 1] == 1
    again = VersionSpaceClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
def test_many_attributes_that_fall_apart(rng):
    """Wide but separable: exact by parts."""
    X = np.ones((21, 60), dtype=int)
    for i in range(20):
        X[i + 1, 3 * i : 3 * i + 3] = 0
    model = VersionSpaceClassifier(max_boundary=300).fit(X, np.arange(21) == 0)
    assert model.is_exact_
    assert model.n_hypotheses_ == 7**20
    assert len(VersionSpaceClassifier("length").fit(X, np.arange(21) == 0).map_estimator_) == 20
    with pytest.raises(ValueError, match="max_boundary=300"):
        model.general_boundary_  # noqa: B018


# Use --------------------------------------------------


def test_questions_halve_the_space():
    concept = conjunction("Sunny ? ? Strong ? ?")
    model = after(1)
    for _ in range(12):
        if model.n_hypotheses_ == 1:
            break
        before = model.n_hypotheses_
        question = model.best_question()
        model.partial_fit([question.instance], concept.covers([question.instance]).astype(int))
        assert model.n_hypotheses_ <= 0.75 * before
    assert model.specific_boundary_ == model.general_boundary_ == [concept]
    chosen = after(3).best_question(QUERIES)
    assert list(chosen.instance) in QUERIES


@pytest.mark.parametrize("noise", [0, 0.1])
def test_question_next_to_an_attribute_without_values(noise):
    X = pd.DataFrame({"a": ["u", "v", "u"], "empty": [None, None, None]})
    question = VersionSpaceClassifier(noise=noise, random_state=0).fit(X, [1, 0, 1]).best_question()
    assert question.instance[1] is None
    assert 0 < question.probability <= 1


def test_question_under_noise():
    X, y = zip(*ENJOY_SPORT, strict=True)
    model = VersionSpaceClassifier(noise=0.1).fit(list(X), y)
    question = model.best_question()
    np.testing.assert_allclose(model._vote_share([question.instance])[0, 1], question.probability)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_gibbs_errs_at_most_twice_as_often(noise, rng):
    """Targets from the prior, as the theorem asks: mean errors over many of them, Haussler, Kearns & Schapire."""
    sizes, errors = [2, 2, 2, 2], []
    instances = np.array(list(itertools.product(*map(range, sizes))))
    hypotheses = naive.conjunctions(sizes)
    for _ in range(50):
        target = hypotheses[rng.integers(len(hypotheses))]
        truth = np.array([naive.covers(target, x) for x in instances])
        rows = rng.integers(0, len(instances), 6)
        y = truth[rows] ^ (rng.random(6) < noise)
        model = VersionSpaceClassifier(noise=noise, categories=[[0, 1]] * 4)
        model.partial_fit(instances[rows], y, classes=[False, True])
        errors.append(estimate_errors(model, instances, truth))
        expected = estimate_errors(model, instances)
        assert expected.gibbs <= 2 * expected.bayes + 1e-12
    bayes, gibbs = np.mean(errors, axis=0)
    assert 0 < bayes < gibbs <= 2 * bayes


@pytest.mark.slow
def test_gibbs_and_other_modes():
    model = after(4, random_state=0)
    drawn = np.mean([model.predict(QUERIES, mode="gibbs", random_state=i) for i in range(400)], axis=0)
    np.testing.assert_allclose(drawn, model.predict_proba(QUERIES)[:, 1], atol=0.08)
    assert model.predict(QUERIES, mode="map").tolist() == [1, 0, 0, 0]
    assert model.predict(QUERIES, mode="ml").tolist() == [1, 0, 0, 0]
    with pytest.raises(ValueError, match="mode must be one of 'bayes', 'map', 'ml', 'gibbs'; got 'vote'"):
        model.predict(QUERIES, mode="vote")


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, np.array, list], ids=["pandas", "polars", "numpy", "list"]
)
def test_tables(make):
    X, y = map(list, zip(*ENJOY_SPORT, strict=True))
    names = list("abcdef")
    options = {"schema": names, "orient": "row"} if make is pl.DataFrame else {}
    options = {"columns": names} if make is pd.DataFrame else options
    model = VersionSpaceClassifier(positive="no").fit(make(X, **options), ["no" if label else "yes" for label in y])
    np.testing.assert_allclose(model.predict_proba(make(QUERIES, **options))[:, 0] * 6, [6, 0, 3, 2], atol=1e-12)
    assert model.classes_.tolist() == ["no", "yes"]


def test_enjoy_sport_from_the_table(load_table):
    table = load_table("enjoysport")
    model = VersionSpaceClassifier().fit(table.iloc[:, :-1], table.iloc[:, -1])
    assert model.n_hypotheses_ == 6


@pytest.mark.slow
def test_mushrooms(load_table):
    """Real data has no consistent conjunction; the boundary set still says which mushrooms surely are not poisonous."""
    table = load_table("mushroom")
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
    with pytest.warns(UserWarning, match=r"distinct negative instances are ignored\. If labels may be wrong, set"):
        model = VersionSpaceClassifier().fit(X, y)
    assert model.n_set_aside_ > 0
    again = VersionSpaceClassifier()
    for rows in np.array_split(np.arange(len(X)), 3):
        again.partial_fit(X.iloc[rows], y.iloc[rows], classes=model.classes_)
    with pytest.warns(UserWarning, match=r"distinct negative instances are ignored\. If labels may be wrong, set"):
        found = again.predict_proba(X)
    np.testing.assert_allclose(found, model.predict_proba(X))


@pytest.mark.parametrize("options", [{}, {"noise": 0.1}, {"prior": "length", "positive": 0}])
def test_saving(options, tmp_path):
    X, y = map(list, zip(*ENJOY_SPORT, strict=True))
    model = VersionSpaceClassifier(**options).fit(X, y)
    model.save(tmp_path / "model")
    for found in (fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(found.predict_proba(QUERIES), model.predict_proba(QUERIES))
        assert found.map_estimator_ == model.map_estimator_
        found.partial_fit([QUERIES[2]], [1])
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "flat"}, "prior must be 'uniform' or 'length'; got 'flat'"),
        ({"noise": 0.5}, "noise must be a number at least 0 and less than 0.5; got 0.5"),
        ({"on_collapse": "ignore"}, "on_collapse must be one of"),
        ({"positive": "maybe"}, r"positive must be one of the classes \[0, 1\]; got 'maybe'"),
        ({"categories": [["a"]]}, "categories must list the values of all 6 columns; got 1 lists"),
        ({"categories": [["Sunny"], *SKY[1:]]}, r"Column 0 holds 'Rainy', which is not in categories\[0\]"),
    ],
)
def test_errors(options, message):
    X, y = zip(*ENJOY_SPORT, strict=True)
    with pytest.raises(ValueError, match=message):
        VersionSpaceClassifier(**options).fit(list(X), y)


def test_three_classes():
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        VersionSpaceClassifier().fit([[0], [1], [2]], [0, 1, 2])


def test_too_many_conjunctions(rng):
    X = rng.integers(0, 5, (50, 20))
    with pytest.raises(ValueError, match="conjunctions of attribute values"):
        VersionSpaceClassifier(noise=0.1).fit(X, np.arange(50) % 2)


def test_order_of_hypotheses():
    sizes = [2, 2]
    for h, g in itertools.product(naive.conjunctions(sizes), repeat=2):
        mine, its = (NOTHING if c == () else Conjunction(tuple(ANY if v is None else v for v in c)) for c in (h, g))
        assert (mine >= its) == naive.more_general(h, g, sizes)
        assert (mine > its) == (mine >= its and mine != its)
        assert (its <= mine) == (mine >= its)


@pytest.mark.parametrize("method", ["partial_fit", "best_question"])
@pytest.mark.parametrize("opened", [fastens.TableSource, lambda table: pl.from_pandas(table).lazy()])
def test_examples_and_questions_come_from_tables_in_memory(method, opened):
    X = pd.DataFrame({"sky": ["sunny", "rainy"], "air": ["warm", "cold"]})
    for model in (VersionSpaceClassifier(), VersionSpaceClassifier().fit(X, [1, 0])):
        with pytest.raises(ValueError, match="X must be a table in memory for VersionSpaceClassifier"):
            model.partial_fit(opened(X), [1, 0]) if method == "partial_fit" else model.best_question(opened(X))
