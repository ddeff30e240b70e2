"""TAN, AODE and A2DE against their naive twins; missing values, weights, parts, files, bins, categories never seen."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fastens
from fastens import AODEClassifier, TANClassifier
from reference import dependence as plain

SMOOTHINGS = [("laplace", "alpha", 0.7), ("m", "m", 2.0), ("kt", "m", 1.0), ("bdeu", "ess", 3.0), ("none", "m", 1.0)]
A2DEClassifier = partial(AODEClassifier, order=2)
KINDS = [TANClassifier, AODEClassifier, A2DEClassifier]
SIZES = [3, 2, 4, 3, 2]


def make_rows(rng, n_rows=120, missing=0.1):
    """Positions with the class in the last column; -1 where missing."""
    X = (rng.random((n_rows, 5)) * SIZES).astype(int)
    X[: max(SIZES)] = np.arange(max(SIZES))[:, None] % SIZES
    X[:, 4] = np.where(rng.random(n_rows) < 0.5, (X[:, 0] + X[:, 1]) % 2, X[:, 4])
    X[:, :4][rng.random((n_rows, 4)) < missing] = -1
    return X


def as_frame(X):
    """Columns of strings, whose order is that of the positions."""
    columns = {f"c{j}": [None if v < 0 else f"v{v}" for v in X[:, j].tolist()] for j in range(X.shape[1] - 1)}
    return pd.DataFrame(columns, dtype=object)


def same_model(one, other, X):
    np.testing.assert_array_equal(one.predict_joint_log_proba(X), other.predict_joint_log_proba(X))


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("smoothing", "name", "value"), SMOOTHINGS)
def test_joints_match_the_reference(rng, smoothing, name, value, weighted):
    rows = make_rows(rng)
    X, y = as_frame(rows), rows[:, 4]
    weights = rng.integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    table = (rows, weights, SIZES)
    new = make_rows(rng, 40, missing=0.3)
    given = {"smoothing": smoothing, name: value}
    tree = TANClassifier(**given).fit(X, y, weights)
    expected = [plain.tree_joint(row, tree.parents_, table, smoothing, value) for row in new]
    np.testing.assert_allclose(np.exp(tree.predict_joint_log_proba(as_frame(new))), expected, rtol=1e-11)
    for order, min_count in [(1, 0), (1, 30), (1, 1e9), (2, 0), (2, 1), (2, 15), (2, 40)]:
        model = AODEClassifier(order=order, min_count=min_count, **given).fit(X, y, weights)
        expected = [plain.averaged_joint(row, table, smoothing, value, min_count, order) for row in new]
        np.testing.assert_allclose(np.exp(model.predict_joint_log_proba(as_frame(new))), expected, rtol=1e-11)


def test_the_tree_matches_the_information(rng):
    rows = make_rows(rng, 400)
    y = rows[:, 4]
    information = np.array(
        [[plain.mutual_information(rows[:, i], rows[:, j], y, np.ones(400)) for i in range(4)] for j in range(4)]
    )
    best = max(plain.spanning_trees(4), key=lambda tree: plain.tree_weight(tree, information))
    for root in ("c2", 2):
        model = TANClassifier(root=root).fit(as_frame(rows), y)
        assert plain.rooted_edges(model.parents_) == plain.rooted_edges(best)
        assert model.parents_[2] == -1
    with pytest.raises(ValueError, match="root must be a column"):
        TANClassifier(root="other").fit(as_frame(rows), y)
    with pytest.raises(ValueError, match="root must be a column"):
        TANClassifier(root=4).fit(as_frame(rows), y)


def test_a_tree_is_found_again(rng):
    # x0 -> x1 -> x2 -> x3 -> x4 given the class: each a noisy copy of the one before, turned by the class
    y = rng.integers(0, 2, 4000)
    X = np.empty((4000, 5), dtype=int)
    X[:, 0] = rng.integers(0, 3, 4000)
    for j in range(1, 5):
        X[:, j] = np.where(rng.random(4000) < 0.8, (X[:, j - 1] + y) % 3, rng.integers(0, 3, 4000))
    model = TANClassifier(root=0).fit(X[:, [3, 0, 4, 2, 1]], y)
    model_again = TANClassifier(root=1).fit(X[:, [3, 0, 4, 2, 1]], y)
    edges = {frozenset(edge) for edge in [(1, 4), (4, 3), (3, 0), (0, 2)]}
    assert plain.rooted_edges(model.parents_) == plain.rooted_edges(model_again.parents_) == edges
    assert model.score(X[:, [3, 0, 4, 2, 1]], y) > fastens.CategoricalNB().fit(X, y).score(X, y) + 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_copies(rng, kind):
    rows = make_rows(rng)
    X, y = as_frame(rows), rows[:, 4]
    weights = rng.integers(0, 4, len(y))
    copies = np.repeat(np.arange(len(y)), weights)
    weighted = kind().fit(X, y, weights)
    same_model(weighted, kind().fit(X.iloc[copies], y[copies]), X)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_make_the_whole(rng, kind):
    rows = make_rows(rng)
    rows = rows[np.argsort(rows[:, 2], kind="stable")]  # categories, and a class, that come later
    X, y = as_frame(rows), np.array(["no", "yes"])[rows[:, 4]]
    whole = kind().fit(X, y)
    model = kind()
    for part in np.array_split(np.arange(len(y)), 3):
        model.partial_fit(X.iloc[part], y[part], classes=["no", "yes"])
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-12)
    one, other = kind().fit(X[:60], y[:60]), kind().fit(X[60:], y[60:])
    np.testing.assert_allclose(one.merge(other).predict_proba(X), whole.predict_proba(X), rtol=1e-12)
    other = kind().fit(X[60:], np.array(["new", "yes"])[rows[60:, 4]])
    labels = np.concatenate([y[:60], np.array(["new", "yes"])[rows[60:, 4]]])
    same_model(one.merge(other), kind().fit(X, labels), X)
    first = X.copy()
    first["c0"] = np.arange(len(y)) / 7.0
    with pytest.raises(ValueError, match="same bins"):
        kind().fit(first[:60], y[:60]).merge(kind().fit(first[60:], y[60:]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [{}, {"unseen": "smooth", "smoothing": "m"}, {"max_bins": 3}])
def test_files(rng, kind, given, tmp_path):
    rows = make_rows(rng)
    X, y = as_frame(rows), rows[:, 4]
    X["number"] = rng.normal(size=len(y))
    X["constant"] = 1.5
    X["nothing"] = np.nan
    model = kind(**given).fit(X, y)
    model.save(tmp_path / "model.fastens")
    again = fastens.load(tmp_path / "model.fastens")
    same_model(model, again, X)
    assert again.bin_limits_[0] is None
    np.testing.assert_array_equal(again.bin_limits_[4], model.bin_limits_[4])
    again.partial_fit(X, y)
    same_model(again, kind(**given).fit(pd.concat([X, X]), np.tile(y, 2)), X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("limits", lambda values: values[::-1]),
        ("limits", lambda values: values[:-1]),
        ("n_limits", lambda values: values[:-1]),
        ("n_limits", np.abs),
        ("likelihood0.counts", lambda values: values[:, 1:]),
        ("likelihood0.counts", lambda values: -values),
    ],
)
def test_files_that_do_not_fit_are_refused(rng, kind, name, change):
    rows = make_rows(rng)
    X = as_frame(rows)
    X["number"] = rng.normal(size=len(X))
    arrays, meta = kind().fit(X, rows[:, 4])._to_state()
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    with pytest.raises(ValueError, match="malformed"):
        type(kind())._from_state(arrays, meta)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("parents", lambda values: values + 4),
        ("parents", lambda values: values[1:]),
        ("log_prob", lambda values: values[1:]),
        ("log_prob", lambda values: values + 1e3),
    ],
)
def test_trees_that_do_not_fit_are_refused(rng, name, change):
    rows = make_rows(rng)
    arrays, meta = TANClassifier().fit(as_frame(rows), rows[:, 4])._to_state()
    arrays[f"likelihood0.{name}"] = change(arrays[f"likelihood0.{name}"])
    with pytest.raises(ValueError, match="malformed"):
        TANClassifier._from_state(arrays, meta)


@pytest.mark.parametrize("change", [lambda values: values[:, 1:], lambda values: -values, lambda values: values / 0.0])
def test_triples_that_do_not_fit_are_refused(rng, change):
    rows = make_rows(rng)
    arrays, meta = AODEClassifier(order=2).fit(as_frame(rows), rows[:, 4])._to_state()
    with np.errstate(divide="ignore", invalid="ignore"):
        arrays["likelihood0.triples"] = np.ascontiguousarray(change(arrays["likelihood0.triples"]))
    with pytest.raises(ValueError, match="malformed"):
        AODEClassifier._from_state(arrays, meta)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_nothing(rng, kind):
    rows = make_rows(rng, 30_000)
    X, y = np.where(rows[:, :4] < 0, np.nan, rows[:, :4]), rows[:, 4]
    weights = rng.random(len(y))
    same_model(kind(n_jobs=1).fit(X, y, weights), kind(n_jobs=4).fit(X, y, weights), X)
    one = kind(n_jobs=1).fit(X, y)
    same_model(one, kind(n_jobs=4).fit(X, y), X)
    np.testing.assert_array_equal(one.predict_proba(X), one.set_params(n_jobs=4).predict_proba(X))


@pytest.mark.parametrize("kind", KINDS)
def test_categories_never_seen(rng, kind):
    rows = make_rows(rng)
    X, y = as_frame(rows), rows[:, 4]
    new, unknown = X[:5].copy(), X[:5].copy()
    new["c1"], unknown["c1"] = "new", None
    ignoring = kind().fit(X, y)
    np.testing.assert_array_equal(ignoring.predict_proba(new), ignoring.predict_proba(unknown))
    with pytest.raises(ValueError, match=r"Column 'c1' must hold categories seen in fit; row 0 holds 'new'"):
        kind(unseen="error").fit(X, y).predict(new)
    smooth = kind(unseen="smooth").fit(X, y)
    assert not np.allclose(smooth.predict_proba(new), ignoring.predict_proba(new))
    np.testing.assert_array_equal(smooth.predict_proba(unknown), ignoring.predict_proba(unknown))


def test_probability_of_a_category_never_seen():
    X = pd.DataFrame({"a": ["x", "x", "y", "y"] * 2, "b": ["u", "v", "u", "u"] * 2})
    y = ["k"] * 4 + ["l"] * 4
    new = pd.DataFrame({"a": ["x"], "b": ["w"]})
    model = TANClassifier(unseen="smooth", root="a").fit(X, y)
    # b, given k and a = x: as of one of its two categories that never came, 1 / (2 + 2)
    assert np.exp(model.predict_joint_log_proba(new))[0, 0] == pytest.approx(1 / 2 * 3 / 6 * 1 / 4)
    model = AODEClassifier(unseen="smooth").fit(X, y)
    assert np.exp(model.predict_joint_log_proba(new))[0, 0] == pytest.approx(3 / 12 * 1 / 4)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_cut_into_bins(rng, kind):
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 5, 400), np.full(400, 2.0)])
    y = (X[:, 0] > 0) ^ (X[:, 1] > 2)
    model = kind(max_bins=6).fit(X, y)
    assert model.n_categories_.tolist() == [6, 5, 1]
    assert model.score(X, y) > 0.9
    np.testing.assert_array_equal(model.bin_limits_[1], [0.5, 1.5, 2.5, 3.5])
    same_model(model, kind(max_bins=6).fit(sparse.csr_matrix(X), y), X)
    as_categories = kind(categorical_features="all").fit(X, y)
    assert as_categories.n_categories_.tolist() == [400, 5, 1]
    same_model(kind().fit(X[:, 1:].astype(int), y), kind().fit(X[:, 1:], y), X[:, 1:])
    large = 2**50 + X[:, 1:].astype(int)  # more than float32 tells apart
    same_model(kind().fit(large, y), kind().fit(large.astype(float), y), large)
    assert kind().fit(large, y).n_categories_.tolist() == [5, 1]
    whole = rng.integers(0, 30, (400, 2))
    assert kind().fit(whole, y).n_categories_.tolist() == [8, 8]
    assert kind(categorical_features=[1]).fit(whole, y).n_categories_.tolist() == [8, 30]
    assert kind(categorical_features="all").fit(whole, y).predict(whole).shape == (400,)


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_pairs_are_refused(kind):
    X = np.arange(20_000).astype(str).astype(object)[:, None]
    with pytest.raises(ValueError, match="X must have at most"):
        kind().fit(X, np.arange(20_000) % 2)


def test_too_many_triples_are_refused(rng):
    X = pd.DataFrame({"name": np.arange(3000).astype(str), "size": rng.normal(size=3000), "town": ["x", "y"] * 1500})
    with pytest.raises(
        ValueError, match=r"order must be 1 for more than .* are 'name' \(3000\), 'size' \(8\), 'town' \(2\)"
    ):
        AODEClassifier(order=2).fit(X, np.arange(3000) % 5)
    with pytest.raises(ValueError, match="order must be"):
        AODEClassifier(order=3).fit(X, np.arange(3000) % 5)


def test_rows_counted_with_another_order(rng):
    rows = make_rows(rng)
    X, y = as_frame(rows), rows[:, 4]
    single, pairs = AODEClassifier().fit(X, y), AODEClassifier(order=2).fit(X, y)
    with pytest.raises(ValueError, match="order must be 2 in every call of partial_fit and in models that are"):
        pairs.merge(single)
    with pytest.raises(ValueError, match="order must be 2 in every call of partial_fit and in models that are"):
        single.set_params(order=2).partial_fit(X, y)


def test_two_parents_tell_what_one_cannot(rng):
    # The parity of three columns: any two of them, and the class, say nothing of each other
    X = rng.integers(0, 2, (2000, 5))
    y = X[:, :3].sum(axis=1) % 2
    assert AODEClassifier().fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) < 0.6
    assert AODEClassifier(order=2).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) == 1
    alike = AODEClassifier(order=2, alpha=[0.5] * 5).fit(X, y)
    same_model(alike, AODEClassifier(order=2, alpha=0.5).fit(X, y), X)


def test_evidence_matches_the_columns_one_after_another(rng):
    # Rows one by one, each predicted from those before, with the tree that the whole table has
    rows = make_rows(rng, 25, missing=0)
    model = TANClassifier(alpha=0.5).fit(as_frame(rows), rows[:, 4])
    total = 0.0
    for i in range(len(rows)):
        table = (rows[:i], np.ones(i), SIZES)
        for column, parent in enumerate(model.parents_):
            given = [(4, rows[i, 4])] + ([(parent, rows[i, parent])] if parent >= 0 else [])
            total += np.log(plain.conditional(rows[i], column, given, table, 0.5))
    assert model.log_evidence_ == pytest.approx(total, rel=1e-12)
    assert model.n_parameters_ == 1 + sum(
        2 * (SIZES[j] - 1) * (SIZES[p] if p >= 0 else 1) for j, p in enumerate(model.parents_)
    )
    with pytest.raises(AttributeError):
        TANClassifier(smoothing="none").fit(as_frame(rows), rows[:, 4]).log_evidence_  # noqa: B018


@pytest.mark.slow
def test_the_posterior_of_a_tree(rng):
    rows = make_rows(rng, 400, missing=0)
    X, y = as_frame(rows), rows[:, 4]
    model = TANClassifier().fit(X, y)
    likelihoods = [found.log_likelihood(X, y) for found in (model.ml_estimator_, model.map_estimator_, model)]
    assert likelihoods == sorted(likelihoods, reverse=True)
    same_model(model.map_estimator_, model.ml_estimator_, X)  # pseudo-counts of 1: a flat prior
    draws = [draw.predict_proba(X) for draw in model.sample_posterior(300, random_state=0)]
    np.testing.assert_allclose(np.mean(draws, axis=0), model.predict_proba(X), atol=0.03)
    assert (model.predict(X, mode="ml") == model.ml_estimator_.predict(X)).all()
